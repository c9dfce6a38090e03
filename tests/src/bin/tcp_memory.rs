//! The slow tier: clients that do not read use up the machine's memory for TCP
//! (`net.ipv4.tcp_mem`). The server reports it, idles, and all clients receive every message after
//! the shortage.
//!
//! `tcp_memory [--group FOLDER]`. The limit is that of the machine: all other TCP on it stops too,
//! for some seconds. A separate process restores it at the end, even if this one is killed. Needs
//! root. With `--group` the limit is that of a memory cgroup (version 1), in which this program was
//! started and which already has some limit; other programs are not affected. The last line is `N
//! passed, N failed`.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::panic::catch_unwind;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use end_to_end::bench::Bench;
use end_to_end::metrics::Metrics;
use end_to_end::server::{Place, Server};

const MACHINE: &str = "/proc/sys/net/ipv4/tcp_mem";
/// The pages that TCP may use beyond the present ones: 4 MiB of 4 KiB each.
const ROOM_PAGES: u64 = 1_024;
/// The number of clients with messages of 4 KiB each: 160 MB that only fit into the server's log.
const CLIENTS: u64 = 100;
const MESSAGES: u64 = 400;

fn main() -> ExitCode {
    let start = Instant::now();
    let is_good = catch_unwind(memory_runs_out).is_ok();
    let verdict = if is_good { "ok" } else { "FAILED" };
    println!("no memory for TCP ... {verdict} in {:.1} s", start.elapsed().as_secs_f64());
    println!("{} passed, {} failed", u8::from(is_good), u8::from(!is_good));
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn memory_runs_out() {
    let mut place = Place::new("127.0.0.1:0");
    // Sockets that would hold all of it, if there were memory.
    place.configure("[node]\nio_threads = 2\n[listen]\nsocket_send_bytes = \"1MiB\"\n");
    let mut server = place.start();
    let ledger = place.path("ledger").display().to_string();
    let url = server.ws_url("/crore");
    let readers = |more: &[&str]| {
        let arguments = [
            "sub",
            "--url",
            &url,
            "--topics",
            "m/{1..100}",
            "--threads",
            "1",
            "--clients",
            "100",
            "--verify",
            "--ledger",
            &ledger,
        ];
        let mut readers = Bench::start(&[&arguments, more].concat());
        readers
            .wait_for("live clients", |figures| figures["clients_live"].as_u64() == Some(CLIENTS));
        readers
    };
    let mut readers = [readers(&["--stall-after", "3s", "--stall-for", "15s"]), readers(&[])];

    let limited = Limited::set();
    let publisher = start_publisher(&url, &ledger);
    let line = server.process.wait_for("a word of the shortage", |line| {
        line.contains("the system has no memory for TCP").then(|| line.to_owned())
    });
    println!("{line}");
    assert!(line.contains(" warn ") && line.contains("TCP memory: "), "{line}");
    rests(&server, &mut readers[0]);
    drop(limited);

    let line = server.process.wait_for("a word of the end", |line| {
        line.contains("TCP memory is available again").then(|| line.to_owned())
    });
    println!("{line}");
    let scrape = Metrics::of(&server.operators).scrape();
    assert!(scrape.number("crore_writes_without_memory_total") > 0);
    let sent = publisher.end_within(Duration::from_secs(60));
    assert_eq!((sent.code, sent.number(&["refused"])), (Some(0), 0), "{:?}", sent.figures);
    for readers in readers {
        let received = readers.end_within(Duration::from_secs(60));
        let streams = received.number(&["audit", "streams"]);
        println!(
            "{} acknowledged, {} received in {streams} streams",
            received.number(&["audit", "ledger_acknowledged"]),
            received.number(&["messages"]),
        );
        assert_eq!((received.code, streams), (Some(0), CLIENTS), "{:?}", received.figures);
        assert_eq!(received.number(&["audit", "complete"]), CLIENTS);
        assert_eq!(received.number(&["disconnects"]), 0);
    }
}

fn start_publisher(url: &str, ledger: &str) -> Bench {
    let count = (CLIENTS * MESSAGES).to_string();
    Bench::start(&[
        "pub",
        "--url",
        url,
        "--topics",
        "m/{1..100}",
        "--threads",
        "1",
        "--size",
        "4096",
        "--rate",
        "2000",
        "--count",
        &count,
        "--exactly-once",
        "--ledger",
        ledger,
    ])
}

/// Checks that the shortage costs hardly any processor time. The figures of the clients that do not
/// read, ten a second, measure its duration. They arrive over a pipe, while `/metrics` itself may
/// need memory for TCP; and these clients end last, after every message.
fn rests(server: &Server, readers: &mut Bench) {
    let (began, cpu) = (Instant::now(), server.process.cpu_time());
    for _ in 0..30 {
        readers.wait_for("figures", |_| true);
    }
    let (elapsed, cpu) = (began.elapsed(), server.process.cpu_time() - cpu);
    println!("{cpu:?} of CPU in {elapsed:?}");
    assert!(cpu * 2 < elapsed, "{cpu:?} of {elapsed:?} is a busy loop");
}

/// Keeps the limit low while it exists; the process that waits for its end restores the limit.
struct Limited {
    keeper: Child,
}

impl Limited {
    fn set() -> Limited {
        let arguments: Vec<String> = env::args().collect();
        let (path, low) = match &arguments[1..] {
            [] => {
                let max = used_pages() + ROOM_PAGES;
                (MACHINE.to_owned(), format!("{max} {max} {max}"))
            }
            [option, folder] if option == "--group" => (
                format!("{folder}/memory.kmem.tcp.limit_in_bytes"),
                (ROOM_PAGES * 4_096).to_string(),
            ),
            _ => panic!("usage: tcp_memory [--group FOLDER]"),
        };
        let before = fs::read_to_string(&path).expect("the limit can be read");
        let mut keeper = Command::new("sh");
        keeper.args(["-c", "read -r _; echo \"$0\" > \"$1\""]);
        keeper.args([before.trim(), &path]).stdin(Stdio::piped());
        let limited = Limited { keeper: keeper.spawn().expect("a shell") };
        fs::write(&path, low).expect("this needs root");
        limited
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // Its result does not matter.
        let _ = self.keeper.wait();
    }
}

fn used_pages() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").expect("sockets are counted");
    let words = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or("");
    let mut words = words.split_ascii_whitespace().skip_while(|word| *word != "mem");
    words.nth(1).and_then(|pages| pages.parse().ok()).expect("pages of TCP")
}
