//! A link that a test can cut: a proxy for one server, between it and a client.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy on a port of its own. It serves until the test ends.
#[derive(Debug)]
pub struct Proxy {
    /// `127.0.0.1:PORT` to connect to instead of the server.
    pub address: String,
    link: Arc<Link>,
}

#[derive(Debug, Default)]
struct Link {
    is_cut: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy to `target`, an `address:port`.
    pub fn to(target: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let link = Arc::new(Link::default());
        let (target, for_thread) = (target.to_owned(), Arc::clone(&link));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // While it is cut, whoever connects is closed at once.
                if !for_thread.is_cut.load(Ordering::SeqCst)
                    && let Ok(server) = TcpStream::connect(&target)
                {
                    for_thread.join(&client, &server);
                }
            }
        });
        Proxy { address, link }
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        self.link.is_cut.store(true, Ordering::SeqCst);
        for stream in self
            .link
            .streams
            .lock()
            .expect("no holder panics")
            .drain(..)
        {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    pub fn mend(&self) {
        self.link.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Link {
    /// Copies both ways, in threads of their own, until either side closes.
    fn join(&self, client: &TcpStream, server: &TcpStream) {
        for (source, target) in [(client, server), (server, client)] {
            let (Ok(mut reader), Ok(mut writer)) = (source.try_clone(), target.try_clone()) else {
                return;
            };
            if let Ok(stream) = source.try_clone() {
                self.streams.lock().expect("no holder panics").push(stream);
            }
            thread::spawn(move || {
                // An error is an end as any other.
                let _ = io::copy(&mut reader, &mut writer);
                let _ = writer.shutdown(Shutdown::Both);
                let _ = reader.shutdown(Shutdown::Both);
            });
        }
    }
}
