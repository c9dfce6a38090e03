//! TLS for clients without TLS: a port that forwards bytes by `openssl s_client`, one process for
//! each connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

/// Opens such a port to the server at `target`, whose certificate for `localhost` is in this file;
/// returns its `127.0.0.1:PORT`. It serves until the test ends.
pub fn tunnel(target: &str, certificate: &str, flags: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let mut words = vec!["s_client", "-quiet", "-connect", target];
    words.extend(["-servername", "localhost", "-CAfile", certificate]);
    words.push("-verify_return_error");
    words.extend(flags);
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            pass_on(client, &words);
        }
    });
    address
}

/// Copies in both directions, in separate threads, until the server or the client closes.
fn pass_on(client: TcpStream, words: &[String]) {
    let (Ok(mut from_client), Ok(mut to_client)) = (client.try_clone(), client.try_clone()) else {
        return;
    };
    let words = words.to_vec();
    thread::spawn(move || {
        let child = Command::new("openssl")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.expect("openssl is installed");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let is_done = thread::spawn(move || {
            // An error counts as an end.
            let _ = output.map(|mut output| copy(&mut output, &mut to_client));
            let _ = client.shutdown(Shutdown::Both);
        });
        let _ = input.map(|mut input| copy(&mut from_client, &mut input));
        // Its input has ended, but it would wait for the server's end.
        let _ = child.kill();
        let _ = child.wait();
        let _ = is_done.join();
    });
}

/// Copies like `io::copy`, without the system's shortcuts, which may delay small pieces.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            count => to.write_all(&bytes[..count])?,
        }
        to.flush()?;
    }
}
