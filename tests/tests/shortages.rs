//! What a node does when something runs out that connections need: who waits, who is refused, what
//! the operator is told, what it costs meanwhile, and that it goes on.

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

/// Somebody lowers the limit under a running node: whoever comes waits in the listeners' queues and
/// costs next to nothing, and is served when there are descriptors again.
#[test]
fn without_descriptors_clients_wait_and_the_node_rests() {
    for private_tables in [true, false] {
        let mut server = Server::with_configuration(&format!(
            "[node]\nio_threads = 2\nprivate_tables = {private_tables}\n"
        ));
        let mut metrics = Metrics::of(&server.operators);
        let mut inside = Raw::connect(&server.clients);
        assert_served(&mut inside);
        // Both connections have been taken, or they would wait with the others.
        metrics.scrape();
        server.process.limit_descriptors(Some(8));
        let mut waiting: Vec<Raw> = (0..20).map(|_| Raw::connect(&server.clients)).collect();
        let line = logged(&mut server.process, "warn", "a descriptor table is full");
        assert!(line.contains(" of 8 in a descriptor table"), "{line}");
        assert!(line.contains("crore doctor"), "{line}");

        // Forty further attempts take two seconds of two threads that retry twenty times a second
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

/// The machine's own shortages cannot be made without hurting others on it, so the kernel's answers
/// are put in its mouth: to the first forty accepts of each thread, which is two seconds of one
/// that rests between them.
#[test]
fn what_the_machine_lacks_has_a_name_and_passes() {
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

/// A small limit from the beginning, and nothing beside the tables: two threads share what there
/// is, so that nobody is refused while either has room, and then everybody is told.
#[test]
fn a_full_node_refuses_by_name_and_lets_others_in_when_some_leave() {
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
