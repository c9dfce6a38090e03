//! Well-behaved clients while others misbehave: a publisher and a subscriber on separate
//! connections, and the latency of each message.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::raw::Raw;
use crate::server::Server;

/// Time between two messages.
const PACE: Duration = Duration::from_millis(10);

/// Both clients, until the end.
#[derive(Debug)]
pub struct Served {
    stops: Arc<AtomicBool>,
    reader: thread::JoinHandle<Latencies>,
}

/// The time from a publication to its event, of all messages.
#[derive(Debug)]
pub struct Latencies {
    /// The time of each event, and its latency; in order.
    of_messages: Vec<(Instant, Duration)>,
}

impl Served {
    /// Connects both; their connections begin with these bytes, and their requests have these
    /// fields, each with its line end.
    pub fn begin(server: &Server, before: &[u8], fields: &str) -> Served {
        let connect = || {
            let mut raw = Raw::connect(&server.clients);
            raw.send(before);
            raw
        };
        let mut events = connect();
        let accept = "Accept: text/event-stream\r\n";
        let request =
            format!("GET /topics/served HTTP/1.1\r\nHost: localhost\r\n{fields}{accept}\r\n");
        events.send(request.as_bytes());
        events.read_until(b"crore.start");
        events.read_until(b"\n\n");
        let mut publisher = connect();
        let stops = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stops);
        let head =
            format!("POST /topics/served HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: ");
        let (first, is_first_there) = mpsc::channel();
        let reader = thread::spawn(move || {
            let mut of_messages: Vec<(Instant, Duration)> = Vec::new();
            while !stop.load(Ordering::Acquire) || of_messages.is_empty() {
                let number = of_messages.len().to_string();
                let begin = Instant::now();
                let length = number.len();
                publisher.send(format!("{head}{length}\r\n\r\n{number}").as_bytes());
                // A heartbeat may come first.
                events.read_until(b"data: ");
                let data = events.read_until(b"\n\n");
                assert_eq!(data.trim_end(), number, "another message than the next one");
                let end = Instant::now();
                of_messages.push((end, end - begin));
                let (status, body) = publisher.read_answer();
                assert_eq!(status, 200, "{body}");
                let _ = first.send(());
                thread::sleep(PACE);
            }
            Latencies { of_messages }
        });
        // From here on the node counts both connections.
        is_first_there.recv().expect("the first message comes");
        Served { stops, reader }
    }

    /// Stops both. Panics unless all messages arrived, in order.
    pub fn end(self) -> Latencies {
        self.stops.store(true, Ordering::Release);
        self.reader.join().expect("all messages came, in order")
    }
}

impl Latencies {
    /// The latencies of messages that arrived in this period.
    pub fn between(&self, from: Instant, until: Instant) -> Latencies {
        let of_messages = self.of_messages.iter().copied();
        let is_in = |(at, _): &(Instant, Duration)| (from..until).contains(at);
        Latencies { of_messages: of_messages.filter(is_in).collect() }
    }

    /// The number of messages.
    pub fn count(&self) -> usize {
        self.of_messages.len()
    }

    /// The median.
    pub fn median(&self) -> Duration {
        self.part(50)
    }

    /// The latency that this percentage of messages did not exceed.
    pub fn part(&self, hundredths: usize) -> Duration {
        let mut sorted: Vec<Duration> = self.of_messages.iter().map(|(_, took)| *took).collect();
        sorted.sort_unstable();
        let at = (sorted.len() * hundredths / 100).min(sorted.len().saturating_sub(1));
        *sorted.get(at).expect("at least one message")
    }

    /// The maximum.
    pub fn slowest(&self) -> Duration {
        self.part(100)
    }
}
