//! `/metrics` of a server, read over one connection while the server keeps it open: that works even
//! without descriptors for another one.

use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::network::Host;
use crate::raw::Raw;
use crate::server::Server;

/// The maximum pause on the connection. The server closes a silent one after 10 s.
const SILENT_FOR_MAX: Duration = Duration::from_secs(5);

/// A reader of metrics.
#[derive(Debug)]
pub struct Metrics<'a> {
    from: From<'a>,
}

#[derive(Debug)]
enum From<'a> {
    /// One connection for all requests, until the server closes it because of silence.
    Here { operators: String, raw: Raw, asked: Instant },
    /// One request each time, from another host.
    There(&'a Host, String),
}

/// The metrics at one moment.
#[derive(Clone, Debug)]
pub struct Scrape(String);

impl Metrics<'_> {
    /// Connects to the operators' `address:port`.
    pub fn of(operators: &str) -> Metrics<'static> {
        Metrics {
            from: From::Here {
                operators: operators.to_owned(),
                raw: Raw::connect(operators),
                asked: Instant::now(),
            },
        }
    }

    /// Reads the metrics of a server on a host of the test.
    pub fn on<'a>(host: &'a Host, server: &Server) -> Metrics<'a> {
        Metrics { from: From::There(host, server.operators_url("/metrics")) }
    }

    /// Reads the metrics now.
    pub fn scrape(&mut self) -> Scrape {
        let raw = match &mut self.from {
            From::Here { operators, raw, asked } => {
                if asked.elapsed() > SILENT_FOR_MAX {
                    *raw = Raw::connect(operators);
                }
                *asked = Instant::now();
                raw
            }
            From::There(host, url) => return Scrape(host.curl(&[url]).expect(200).body),
        };
        raw.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let head = raw.read_until(b"\r\n\r\n").to_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.parse().ok())
            .unwrap_or_else(|| panic!("no length in {head}"));
        let body = raw.take(length);
        Scrape(String::from_utf8(body).expect("the metrics are UTF-8"))
    }

    /// Waits until `is_so` holds for this metric, named with its labels as printed, and returns all
    /// metrics.
    pub fn wait_for(&mut self, name: &str, is_so: impl Fn(u64) -> bool) -> Scrape {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(1);
        loop {
            let scrape = self.scrape();
            let number = scrape.number(name);
            if is_so(number) {
                return scrape;
            }
            assert!(Instant::now() < deadline, "{name} stays at {number}");
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(50));
        }
    }
}

impl Scrape {
    /// The text itself.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// A metric that may have a fraction, or be absent.
    pub fn value(&self, name: &str) -> Option<f64> {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.parse().ok()
    }

    /// The number of a metric, named with its labels as printed.
    pub fn number(&self, name: &str) -> u64 {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no number {name} in\n{}", self.0))
    }
}
