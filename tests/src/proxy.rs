//! A link that a test can cut: a proxy between one server and a client.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// A proxy on its own port. It serves until the test ends.
#[derive(Debug)]
pub struct Proxy {
    /// `127.0.0.1:PORT`, the address for clients.
    pub address: String,
    link: Arc<Link>,
}

#[derive(Debug, Default)]
struct Link {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_cut: bool,
    /// Both ends of all connections.
    streams: Vec<TcpStream>,
}

impl Proxy {
    /// Creates a proxy to `target`, an `address:port`.
    pub fn to(target: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let link = Arc::new(Link::default());
        let (target, for_thread) = (target.to_owned(), Arc::clone(&link));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(server) = TcpStream::connect(&target) {
                    for_thread.join(&client, &server);
                }
            }
        });
        Proxy { address, link }
    }

    /// Creates a proxy that forwards its first client over an existing connection.
    pub fn over(server: TcpStream) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let link = Arc::new(Link::default());
        let for_thread = Arc::clone(&link);
        thread::spawn(move || {
            if let Ok((client, _)) = listener.accept() {
                for_thread.join(&client, &server);
            }
        });
        Proxy { address, link }
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        let mut state = self.link.lock();
        state.is_cut = true;
        for stream in state.streams.drain(..) {
            // It may already be closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    pub fn mend(&self) {
        self.link.lock().is_cut = false;
    }
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Copies in both directions, in separate threads, until either side closes. While the link is
    /// cut, new connections are closed at once; earlier ones are cut with the others.
    fn join(&self, client: &TcpStream, server: &TcpStream) {
        let mut state = self.lock();
        if state.is_cut {
            return;
        }
        for (source, target) in [(client, server), (server, client)] {
            let (Ok(mut reader), Ok(mut writer)) = (source.try_clone(), target.try_clone()) else {
                return;
            };
            if let Ok(stream) = source.try_clone() {
                state.streams.push(stream);
            }
            thread::spawn(move || {
                // An error counts as an end.
                let _ = io::copy(&mut reader, &mut writer);
                let _ = writer.shutdown(Shutdown::Both);
                let _ = reader.shutdown(Shutdown::Both);
            });
        }
    }
}
