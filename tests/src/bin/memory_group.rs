//! The slow tier: a node in a memory cgroup, and clients that publish much more than fits, as fast
//! as possible. The node sheds load in order, is not killed, and recovers when its log has evicted
//! messages.
//!
//! Needs root. The last line is `N passed, N failed`; `docs/reliability.md` quotes the lines before
//! it.

#![forbid(unsafe_code)]

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::curl::{curl, publish};
use end_to_end::memory_group::MemoryGroup;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};

/// The limit of the group.
const LIMIT_BYTES: u64 = 256 << 20;
/// Publishers, each as fast as it is answered.
const PUBLISHERS: usize = 4;
/// Readers that read nothing: the kernel's buffers for them count for the group, too.
const STANDING: usize = 50;
/// The duration of the flood.
const FLOOD: Duration = Duration::from_secs(12);
/// The log may have four times the group's memory.
const CONFIGURATION: &str =
    "[node]\nio_threads = 2\n[[log]]\nbytes_max = \"1GiB\"\nage_max = \"5s\"\n";

fn main() -> ExitCode {
    let mut failed = 0;
    let cases: [(&str, usize); 3] = [
        ("messages of 64 KiB", 64 << 10),
        ("messages of 1 MiB", 1 << 20),
        ("messages of 512 bytes", 512),
    ];
    for (name, bytes) in cases {
        let start = Instant::now();
        let verdict = catch_unwind(|| withstands(name, bytes)).map_or("FAILED", |()| "ok");
        failed += usize::from(verdict != "ok");
        println!("{name} ... {verdict} in {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("{} passed, {failed} failed", cases.len() - failed);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn withstands(name: &str, bytes: usize) {
    let group = MemoryGroup::new(LIMIT_BYTES);
    let mut place = Place::new("127.0.0.1:0");
    place.configure(CONFIGURATION);
    let process = place.launch_by(&group.words());
    let server = place.started(process);
    let mut metrics = Metrics::of(&server.operators);
    let ceiling = metrics.scrape().number("crore_memory_ceiling_bytes");
    assert!(ceiling < LIMIT_BYTES, "{ceiling}");
    let (mut subscriber, _) = Native::connect(&server.clients, None);
    assert!(matches!(subscriber.subscribe_one(1, "live"), Frame::Subscribed { .. }));
    let standing: Vec<Raw> = (0..STANDING).map(|_| standing_reader(&server)).collect();

    let ends = Arc::new(AtomicBool::new(false));
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let publishers: Vec<_> =
        (0..PUBLISHERS).map(|_| publisher(&server, bytes, &ends, &counts)).collect();
    let mut live = Publisher::new(&server, "live", 4);
    let (mut sent, mut most, mut levels) = (0, 0, [0_u64; 4]);
    let began = Instant::now();
    while began.elapsed() < FLOOD {
        let scrape = metrics.scrape();
        let level = scrape.number("crore_memory_pressure");
        levels[level as usize] += 1;
        most = most.max(scrape.number("crore_memory_used_bytes"));
        sent += u64::from(live.publish());
        thread::sleep(Duration::from_millis(20));
    }
    ends.store(true, Ordering::Release);
    for publisher in publishers {
        publisher.join().expect("a publisher is answered");
    }
    assert_eq!(group.killed_count(), 0, "the kernel's killer came");
    for _ in 0..sent {
        let frame = subscriber.next_frame();
        assert!(matches!(&frame, Frame::Message { payload, .. } if payload == "xxxx"), "{frame:?}");
    }
    drop(standing);
    metrics.wait_for("crore_memory_pressure", |pressure| pressure == 0);
    let url = server.url("/topics/afterwards");
    publish(&url, "again");
    curl(&[&url]).expect(200);
    let [taken, refused] = [0, 1].map(|at| counts[at].load(Ordering::Relaxed));
    println!(
        "{name}: {taken} taken, {refused} refused with memory_full, {sent} live messages, all there; looks at each level {levels:?}; \
         most {} MiB of a ceiling of {} MiB, of the group {} of {} MiB, nobody killed",
        most >> 20,
        ceiling >> 20,
        group.most_bytes() >> 20,
        LIMIT_BYTES >> 20
    );
    server.process.signal("TERM");
    server.end().assert_success();
}

/// Subscribes to the flooded topics, and never reads.
fn standing_reader(server: &Server) -> Raw {
    let mut raw = Raw::connect(&server.clients);
    raw.send(
        b"GET /events?topic=flood HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
    );
    raw.read_until(b"\r\n\r\n");
    raw
}

/// Publishes messages one by one, until the end.
fn publisher(
    server: &Server,
    bytes: usize,
    ends: &Arc<AtomicBool>,
    counts: &Arc<[AtomicU64; 2]>,
) -> thread::JoinHandle<()> {
    let mut publisher = Publisher::new(server, "flood", bytes);
    let (ends, counts) = (Arc::clone(ends), Arc::clone(counts));
    thread::spawn(move || {
        while !ends.load(Ordering::Acquire) {
            let is_taken = publisher.publish();
            counts[usize::from(!is_taken)].fetch_add(1, Ordering::Relaxed);
            if !is_taken {
                // Sooner than Retry-After requires: an obedient client would be no test.
                thread::sleep(Duration::from_millis(10));
            }
        }
    })
}

/// A publisher that reconnects after a refusal.
struct Publisher {
    address: String,
    request: Vec<u8>,
    raw: Option<Raw>,
}

impl Publisher {
    fn new(server: &Server, topic: &str, bytes: usize) -> Publisher {
        let head = format!(
            "POST /topics/{topic} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n"
        );
        Publisher {
            address: server.clients.clone(),
            request: [head.as_bytes(), &vec![b'x'; bytes]].concat(),
            raw: None,
        }
    }

    /// Publishes a message; returns whether it was accepted. A refusal has an error code, or ends
    /// the connection if the body is not read.
    fn publish(&mut self) -> bool {
        let connect = || Raw::connect(&self.address);
        let raw = self.raw.get_or_insert_with(connect);
        raw.send(&self.request);
        match raw.answer_or_end() {
            Some((200, _)) => true,
            None => {
                self.raw = None;
                false
            }
            Some((503, body)) if body.contains("memory_full") => {
                self.raw = None;
                false
            }
            other => panic!("{other:?}"),
        }
    }
}
