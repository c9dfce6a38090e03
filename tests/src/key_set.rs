//! An issuer's key set: a tiny HTTP server that returns the test's answers, and counts its
//! requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::PATIENCE;
use crate::tokens::Issuer;

/// The server, on its own port. It serves until the test ends.
#[derive(Debug)]
pub struct KeySet {
    /// The URL of the set.
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Debug, Default)]
struct State {
    answer: Vec<u8>,
    answered_count: u64,
    answered_at: Option<Instant>,
}

/// The set of these issuers' keys.
pub fn document(issuers: &[&Issuer]) -> Value {
    let keys: Vec<Value> = issuers.iter().map(|issuer| issuer.jwk()).collect();
    json!({ "keys": keys })
}

impl KeySet {
    /// Serves the keys of these issuers.
    pub fn of(issuers: &[&Issuer]) -> KeySet {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an open socket");
        let shared = Arc::new(Shared::default());
        let key_set =
            KeySet { url: format!("http://{address}/keys?set=1"), shared: Arc::clone(&shared) };
        key_set.publish(issuers);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.answer(stream);
            }
        });
        key_set
    }

    /// Replaces the keys by those of these issuers.
    pub fn publish(&self, issuers: &[&Issuer]) {
        self.answer("200 OK", document(issuers).to_string().as_bytes());
    }

    /// Replaces the answer: the status with its text, further fields behind it, and a body.
    pub fn answer(&self, status: &str, body: &[u8]) {
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        self.shared.lock().answer = [head.as_bytes(), body].concat();
    }

    /// The number of answered requests.
    pub fn answered_count(&self) -> u64 {
        self.shared.lock().answered_count
    }

    /// Waits until this number of requests was answered.
    pub fn wait_for(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.shared.lock();
        while state.answered_count < count {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(left > Duration::ZERO, "asked {} times", state.answered_count);
            let waited = self.shared.asked.wait_timeout(state, left);
            state = waited.expect("nobody panics with the lock").0;
        }
    }

    /// Waits until no request has arrived for this time.
    pub fn rests_for(&self, duration: Duration) {
        let since = |at: Option<Instant>| at.map_or(duration, |at| at.elapsed());
        loop {
            let left = duration.saturating_sub(since(self.shared.lock().answered_at));
            if left.is_zero() {
                return;
            }
            thread::sleep(left);
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the lock")
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut request = Vec::new();
        let mut bytes = [0; 4_096];
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read(&mut bytes) {
                Ok(count) if count > 0 => request.extend_from_slice(&bytes[..count]),
                _ => return,
            }
        }
        // Counted before it is sent, so that the count includes every received answer.
        let answer = {
            let mut state = self.lock();
            state.answered_count += 1;
            state.answered_at = Some(Instant::now());
            state.answer.clone()
        };
        self.asked.notify_all();
        // The client may not read all of it.
        let _ = stream.write_all(&answer);
    }
}
