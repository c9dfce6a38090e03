//! A node without a resource for connections: waiting and refused clients, log lines, processor
//! time meanwhile, and recovery.

use std::time::{Duration, Instant};

use end_to_end::curl::curl;
use end_to_end::metrics::Metrics;
use end_to_end::process::Process;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};

/// Waits for a line of the log and returns it.
fn logged(process: &mut Process, level: &str, sentence: &str) -> String {
    process.wait_for(sentence, |line| {
        let is_it = line.contains(&format!(" {level:5} ")) && line.contains(sentence);
        is_it.then(|| line.to_owned())
    })
}

fn assert_served(raw: &mut Raw) {
    raw.send(b"GET /topics/none HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = raw.read_until(b"\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 "), "{head}");
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    raw.take(length.expect("an answer has a length"));
}

/// The limit of a running node is lowered: new clients wait in the listeners' queues at hardly any
/// cost, and are served when descriptors are available again.
#[test]
fn clients_wait_for_descriptors_at_no_cost() {
    for private_tables in [true, false] {
        let mut server = Server::with_configuration(&format!(
            "[node]\nio_threads = 2\nprivate_tables = {private_tables}\n"
        ));
        let mut metrics = Metrics::of(&server.operators);
        let mut inside = Raw::connect(&server.clients);
        assert_served(&mut inside);
        // Both connections have been accepted, or they would wait with the others.
        metrics.scrape();
        server.process.limit_descriptors(Some(8));
        let mut waiting: Vec<Raw> = (0..20).map(|_| Raw::connect(&server.clients)).collect();
        let line = logged(&mut server.process, "warn", "a descriptor table is full");
        assert!(line.contains(" of 8 in a descriptor table"), "{line}");
        assert!(line.contains("crore doctor"), "{line}");

        // Forty further attempts take two seconds with two threads that retry twenty times a second
        // each.
        let errors = "crore_accept_errors_total{reason=\"descriptors\"}";
        let before = metrics.scrape().number(errors);
        let (began, cpu) = (Instant::now(), server.process.cpu_time());
        assert_served(&mut inside);
        let after = metrics.wait_for(errors, |count| count >= before + 40);
        let (elapsed, cpu) = (began.elapsed(), server.process.cpu_time() - cpu);
        assert!(cpu * 4 < elapsed, "{cpu:?} of {elapsed:?} is a busy loop");
        assert_eq!(after.number("crore_connections_refused_total"), 0);

        server.process.limit_descriptors(None);
        waiting.iter_mut().for_each(assert_served);
        logged(&mut server.process, "info", "File descriptors are available again");
        metrics.wait_for("crore_connections", |count| count == 21);
    }
}

/// Real shortages of the machine would affect other programs, so the kernel's errors are injected:
/// for the first forty accepts of each thread, which are two seconds of a thread that pauses
/// between them.
#[test]
fn shortages_of_the_machine_are_named_and_temporary() {
    for (error, begins, limit, ends) in [
        (
            "ENFILE",
            "the machine has reached its limit of open files",
            "(fs.file-max)",
            "Open files of the machine are available again",
        ),
        (
            "ENOBUFS",
            "the system has no memory for them",
            "memory: ",
            "Memory for connections is available again",
        ),
        (
            "ENOMEM",
            "the system has no memory for them",
            "memory: ",
            "Memory for connections is available again",
        ),
    ] {
        let inject = format!("inject=accept4:error={error}:when=1..40");
        let mut place = Place::new("127.0.0.1:0");
        place.configure("[node]\nio_threads = 1\n");
        let traced = place.launch_by(&[
            "strace",
            "-D",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=accept4",
            "-e",
            &inject,
        ]);
        let mut server = place.started(traced);
        let mut waiting: Vec<Raw> = (0..5).map(|_| Raw::connect(&server.clients)).collect();
        let line = logged(&mut server.process, "warn", begins);
        assert!(line.contains(limit), "{line}");
        let (began, cpu) = (Instant::now(), server.process.cpu_time());
        waiting.iter_mut().for_each(assert_served);
        let (elapsed, cpu) = (began.elapsed(), server.process.cpu_time() - cpu);
        assert!(cpu * 4 < elapsed, "{cpu:?} of {elapsed:?} is a busy loop");
        let line = logged(&mut server.process, "info", ends);
        assert!(line.contains("count=40"), "{line}");
    }
}

/// A small limit from the beginning, without sockets outside the tables: two threads share the
/// descriptors, so that no client is refused while either has room; then all are refused with a
/// code.
#[test]
fn a_full_node_refuses_until_clients_leave() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure("[node]\nio_threads = 2\nprivate_tables = false\nregistered_sockets = false\n");
    let limited = place.launch_by(&["sh", "-c", "ulimit -n 360 && exec \"$0\" \"$@\""]);
    let mut server = place.started(limited);
    let mut metrics = Metrics::of(&server.operators);
    let room = metrics.scrape().number("crore_connections_max");
    assert!((20..200).contains(&room), "{room}");

    let mut inside: Vec<Raw> = (0..room).map(|_| Raw::connect(&server.clients)).collect();
    inside.iter_mut().for_each(assert_served);
    let scrape = metrics.scrape();
    assert_eq!(scrape.number("crore_connections"), room);
    assert_eq!(scrape.number("crore_connections_refused_total"), 0);
    for refused in 1..=40 {
        let mut raw = Raw::connect(&server.clients);
        let answer = raw.read_to_close();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("Retry-After: "), "{answer}");
        assert!(answer.contains("\"code\":\"connections_full\""), "{answer}");
        if refused == 1 {
            let line = logged(&mut server.process, "warn", "there is no room for more");
            assert!(line.contains(&format!("connections: {room} of {room}")), "{line}");
        }
    }
    // One line for all of them.
    server
        .process
        .assert_no_line(Duration::from_secs(2), |line| line.contains("there is no room for more"));
    metrics.wait_for("crore_connections_refused_total", |count| count == 40);
    curl(&[&server.operators_url("/readyz")]).expect(503);
    inside.iter_mut().for_each(assert_served);

    inside.truncate(inside.len() - 5);
    metrics.wait_for("crore_connections", |count| count == room - 5);
    inside.extend((0..5).map(|_| Raw::connect(&server.clients)));
    inside.iter_mut().for_each(assert_served);
    inside.truncate(10);
    logged(&mut server.process, "info", "There is room for connections again");
    let scrape = metrics.wait_for("crore_connections", |count| count == 10);
    assert_eq!(scrape.number("crore_connections_refused_total"), 40);
    curl(&[&server.operators_url("/readyz")]).expect(200);
}
