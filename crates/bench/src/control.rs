//! The control interface of `bench echo`: clients are added and removed over HTTP while it runs.
//!
//! Place: a thread beside the report loop, for an operator or a script; one connection at a time,
//! bounded requests, no keep-alive. `POST /clients` takes `ws=URL&count=N` as a form or as JSON,
//! `DELETE /clients` all or `?count=N`; `GET /stats` returns JSON and `GET /metrics` Prometheus
//! text.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use wire::Step;
use wire::http::{BodyFraming, HeadLimits, HeadScan, Request, ResponseWriter, Target};

use crate::engine::Tally;

/// Maximum size of a request's body, in bytes.
const BODY_BYTES_MAX: u64 = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

/// A request to change the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Add this number of clients, at these addresses (none: those of the command line).
    Add {
        /// The number of clients.
        count: u64,
        /// The addresses.
        urls: Vec<String>,
    },
    /// Remove this number of clients, or all.
    Remove {
        /// The number of clients; all without it.
        count: Option<u64>,
    },
}

type Answer = Result<u64, String>;

/// The report loop's end of the interface.
pub struct Control {
    orders: Receiver<Order>,
    answers: SyncSender<Answer>,
    figures: Arc<Mutex<Texts>>,
    address: std::net::SocketAddr,
}

#[derive(Default)]
struct Texts {
    stats: String,
    metrics: String,
}

impl Control {
    /// Listens and starts the thread.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(address: &str) -> anyhow::Result<Control> {
        let listener =
            TcpListener::bind(address).with_context(|| format!("--control {address}"))?;
        let address = listener.local_addr()?;
        let (order_sender, orders) = sync_channel(1);
        let (answers, answer_receiver) = sync_channel(1);
        let figures = Arc::new(Mutex::new(Texts::default()));
        let shared = figures.clone();
        std::thread::Builder::new().name("bench-control".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                // A misbehaving client only loses its answer.
                let _ = serve(stream, &order_sender, &answer_receiver, &shared);
            }
        })?;
        Ok(Control { orders, answers, figures, address })
    }

    /// The address of the interface.
    pub fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// The next request; it must be answered.
    pub fn take(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// Answers the last request: the new number of clients, or the reason of a failure.
    pub fn answer(&self, answer: Answer) {
        let _ = self.answers.try_send(answer);
    }

    /// Updates the figures of the interface.
    pub fn publish(&self, total: &Tally, clients: u64) {
        let latency = total.latency.digest();
        let stats = serde_json::json!({
            "clients": clients,
            "connections": total.connections,
            "connects": total.connects,
            "connects_failed": total.connects_failed,
            "disconnects": total.disconnects,
            "connect_time": total.connect_time.digest(),
            "connecting_s": total.connecting.seconds(),
            "clients_with_data": total.clients_with_data,
            "clients_faulty": total.clients_faulty,
            "sent": total.sent,
            "received": total.received,
            "latency": latency,
            "faults": total.faults,
        });
        let mut metrics = String::new();
        for (name, kind, help, value) in [
            ("connections", "gauge", "Open connections.", total.connections as f64),
            ("clients", "gauge", "Requested number of clients.", clients as f64),
            ("connects_total", "counter", "Connections established.", total.connects as f64),
            ("connects_failed_total", "counter", "Failed connects.", total.connects_failed as f64),
            ("disconnects_total", "counter", "Connections lost.", total.disconnects as f64),
            ("pings_total", "counter", "Pings sent.", total.sent as f64),
            ("pongs_total", "counter", "Pongs received.", total.received as f64),
            ("lost_total", "counter", "Pongs that never came.", total.faults.lost as f64),
        ] {
            metrics.push_str(&format!(
                "# HELP crore_bench_{name} {help}\n# TYPE crore_bench_{name} {kind}\ncrore_bench_{name} {value}\n"
            ));
        }
        metrics.push_str(
            "# HELP crore_bench_round_trip_seconds Time of a ping and its pong.\n\
             # TYPE crore_bench_round_trip_seconds summary\n",
        );
        for (quantile, micros) in [
            ("0.5", latency.p50_us),
            ("0.95", latency.p95_us),
            ("0.99", latency.p99_us),
            ("0.999", latency.p999_us),
        ] {
            metrics.push_str(&format!(
                "crore_bench_round_trip_seconds{{quantile=\"{quantile}\"}} {}\n",
                micros / 1e6
            ));
        }
        metrics.push_str(&format!(
            "crore_bench_round_trip_seconds_sum {}\ncrore_bench_round_trip_seconds_count {}\n",
            latency.mean_us * latency.count as f64 / 1e6,
            latency.count
        ));
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.stats = stats.to_string();
        figures.metrics = metrics;
    }
}

/// Serves one request on one connection.
fn serve(
    mut stream: TcpStream,
    orders: &SyncSender<Order>,
    answers: &Receiver<Answer>,
    figures: &Mutex<Texts>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut input = Vec::new();
    let mut chunk = [0; 4096];
    let mut out = Vec::new();
    loop {
        match answer(&input, orders, answers, figures, &mut out) {
            Progress::More => {}
            Progress::Done => return stream.write_all(&out),
        }
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            count => input.extend_from_slice(&chunk[..count]),
        }
    }
}

enum Progress {
    More,
    Done,
}

fn answer(
    input: &[u8],
    orders: &SyncSender<Order>,
    answers: &Receiver<Answer>,
    figures: &Mutex<Texts>,
    out: &mut Vec<u8>,
) -> Progress {
    let step = match Request::decode(input, &mut HeadScan::new(), &HeadLimits::default()) {
        Ok(step) => step,
        Err(error) => return reply(out, error.status(), "text/plain", &error.to_string()),
    };
    let Step::Done { value: request, consumed } = step else {
        return Progress::More;
    };
    let body_bytes = match request.body {
        BodyFraming::Length(bytes) if bytes > BODY_BYTES_MAX => {
            return reply(out, 413, "text/plain", "the body is too large");
        }
        BodyFraming::Length(bytes) => bytes as usize,
        BodyFraming::None => 0,
        _ => return reply(out, 411, "text/plain", "a Content-Length is required"),
    };
    let Some(body) = input.get(consumed..consumed + body_bytes) else {
        return Progress::More;
    };
    let path = request.target.split('?').next().unwrap_or_default();
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    match (request.method, path) {
        ("GET", "/stats") => {
            let text = figures.lock().unwrap_or_else(PoisonError::into_inner).stats.clone();
            reply(out, 200, "application/json", &text)
        }
        ("GET", "/metrics") => {
            let text = figures.lock().unwrap_or_else(PoisonError::into_inner).metrics.clone();
            reply(out, 200, "text/plain; version=0.0.4", &text)
        }
        ("POST", "/clients") => match parse_add(body, request.header_text("content-type")) {
            Ok(order) => carry_out(order, orders, answers, out),
            Err(why) => reply(out, 400, "text/plain", &why),
        },
        ("DELETE", "/clients") => match parse_count(query) {
            Ok(count) => carry_out(Order::Remove { count }, orders, answers, out),
            Err(why) => reply(out, 400, "text/plain", &why),
        },
        (_, "/stats" | "/metrics" | "/clients") => {
            reply(out, 405, "text/plain", "the resource does not support this method")
        }
        _ => reply(out, 404, "text/plain", "/clients, /stats, /metrics"),
    }
}

fn carry_out(
    order: Order,
    orders: &SyncSender<Order>,
    answers: &Receiver<Answer>,
    out: &mut Vec<u8>,
) -> Progress {
    // A late answer to an earlier request must not be taken for this one's.
    while answers.try_recv().is_ok() {}
    if orders.try_send(order).is_err() {
        return reply(out, 503, "text/plain", "an earlier request is still in progress");
    }
    match answers.recv_timeout(PATIENCE) {
        Ok(Ok(clients)) => {
            reply(out, 200, "application/json", &format!("{{\"clients\":{clients}}}"))
        }
        Ok(Err(why)) => reply(out, 400, "text/plain", &why),
        Err(_) => reply(out, 503, "text/plain", "the run is about to end"),
    }
}

fn reply(out: &mut Vec<u8>, status: u16, media_type: &str, body: &str) -> Progress {
    ResponseWriter::new(out, status)
        .header("Content-Type", media_type)
        .keep_alive(false)
        .finish_with_body(body.as_bytes());
    Progress::Done
}

/// Parses `ws=…&count=…` or `{"ws": …, "count": …}`.
fn parse_add(body: &[u8], media_type: Option<&str>) -> Result<Order, String> {
    let is_json = media_type.is_some_and(|media_type| media_type.contains("json"))
        || body.trim_ascii_start().starts_with(b"{");
    let (count, urls) = if is_json {
        let value: serde_json::Value =
            serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
        let urls = match &value["ws"] {
            serde_json::Value::Null => Vec::new(),
            serde_json::Value::String(url) => vec![url.clone()],
            serde_json::Value::Array(urls) => urls
                .iter()
                .map(|url| url.as_str().map(str::to_owned).ok_or("`ws` is not a string"))
                .collect::<Result<_, _>>()?,
            _ => return Err("`ws` is not a string".to_owned()),
        };
        (value["count"].as_u64(), urls)
    } else {
        let text = std::str::from_utf8(body).map_err(|_| "the form is not UTF-8".to_owned())?;
        (parse_count(text)?, parameters(text, "ws")?)
    };
    match count {
        Some(count) if count > 0 => Ok(Order::Add { count, urls }),
        _ => Err("`count` must be a number of at least 1".to_owned()),
    }
}

fn parse_count(query: &str) -> Result<Option<u64>, String> {
    match parameters(query, "count")?.first() {
        None => Ok(None),
        Some(count) => count.parse().map(Some).map_err(|_| "`count` is not a number".to_owned()),
    }
}

fn parameters(query: &str, name: &str) -> Result<Vec<String>, String> {
    let target = format!("/?{}", query.trim());
    let target = Target::parse(&target).map_err(|error| error.to_string())?;
    target
        .query_pairs()
        .filter_map(|pair| match pair {
            Ok((key, value)) if key == name => Some(Ok(value.into_owned())),
            Ok(_) => None,
            Err(error) => Some(Err(error.to_string())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Counts;

    #[test]
    fn orders() {
        fn check(body: &str, media_type: Option<&str>, wanted: Option<(u64, &[&str])>) {
            let read = parse_add(body.as_bytes(), media_type).ok();
            let wanted = wanted.map(|(count, urls)| Order::Add {
                count,
                urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            });
            assert_eq!(read, wanted, "{body}");
        }
        check("count=5", None, Some((5, &[])));
        check("ws=ws%3A%2F%2Fa%3A1&count=5", None, Some((5, &["ws://a:1"])));
        check(r#"{"ws":"ws://a:1","count":5}"#, Some("application/json"), Some((5, &["ws://a:1"])));
        check(
            r#"{"ws":["ws://a:1","ws://b:2"],"count":5}"#,
            None,
            Some((5, &["ws://a:1", "ws://b:2"])),
        );
        for wrong in ["", "count=0", "count=x", "{}", "{", r#"{"count":5,"ws":7}"#] {
            check(wrong, None, None);
        }
    }

    #[test]
    fn requests() {
        let control = Control::start("127.0.0.1:0").unwrap();
        control.publish(
            &Tally { counts: Counts { sent: 3, ..Counts::default() }, ..Tally::default() },
            7,
        );
        let address = control.address();
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let stats = ask("GET /stats HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(stats.starts_with("HTTP/1.1 200") && stats.contains("\"clients\":7"), "{stats}");
        assert!(
            ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").contains("crore_bench_pings_total 3\n")
        );
        assert!(ask("GET /x HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("PUT /stats HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 4"));
        let asking = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = "POST /clients HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\ncount=5";
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let order = loop {
            match control.take() {
                Some(order) => break order,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(order, Order::Add { count: 5, urls: vec![] });
        control.answer(Ok(12));
        assert!(asking.join().unwrap().contains("{\"clients\":12}"));
    }
}
