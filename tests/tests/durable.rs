//! A log on disk: acknowledged messages are present after any end of the process, and no client
//! receives a gap.

use std::fs;
use std::path::Path;
use std::time::Instant;

use end_to_end::PATIENCE;
use end_to_end::curl::{Answer, curl, publish, stream};
use end_to_end::event_stream::EventStream;
use end_to_end::process::Ended;
use end_to_end::server::{Place, Server};
use end_to_end::small_disk::SmallDisk;
use end_to_end::tools;

const JSON: &str = "Content-Type: application/json";

/// Little memory, so that most reads come from the disk.
fn configuration(place: &Place) -> String {
    configuration_with(&place.path("data"))
}

fn configuration_with(data_dir: &Path) -> String {
    format!(
        "[node]\ndata_dir = \"{}\"\n[[log]]\nname = \"kept\"\ndurability = \"disk\"\npartitions_count = 4\n\
         bytes_max = \"1GiB\"\nage_max = \"1d\"\ncache_bytes = \"64KiB\"\n",
        data_dir.display()
    )
}

/// Payloads of a topic after a position, page by page; panics at a gap.
fn read_all(server: &Server, topic: &str, since: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut since = since.to_owned();
    loop {
        let url = server.url(&format!("/topics/{topic}?since={since}"));
        let page = curl(&[&url]).expect(200).json();
        assert!(page["gap"].is_null(), "{page}");
        let messages = page["messages"].as_array().expect("a list");
        for message in messages {
            found.push(message["data"].as_str().expect("text").to_owned());
            since = format!("{}:{}", page["epoch"].as_str().expect("text"), message["offset"]);
        }
        if page["more"] != true {
            return found;
        }
    }
}

fn position_of(answer: &serde_json::Value) -> String {
    format!("{}:{}", answer["epoch"].as_str().unwrap(), answer["offset"])
}

/// Publishes messages of a kilobyte, in batches; returns the position of the first.
fn publish_many(place: &Place, server: &Server, topic: &str, from: usize, count: usize) -> String {
    let mut first = None;
    for start in (from..from + count).step_by(100) {
        let batch: Vec<serde_json::Value> = (start..(start + 100).min(from + count))
            .map(|number| serde_json::json!({"topic": topic, "data": payload(number)}))
            .collect();
        let path = place.path("batch.json");
        fs::write(&path, serde_json::json!({ "batch": batch }).to_string()).unwrap();
        let answer = curl(&[
            "--data-binary",
            &format!("@{}", path.display()),
            "--header",
            "content-type: application/json",
            &server.url("/publish"),
        ]);
        let answer = answer.expect(200).json();
        let results = answer["results"].as_array().unwrap();
        assert!(results.iter().all(|result| result["error"].is_null()), "{answer}");
        first.get_or_insert(position_of(&results[0]));
    }
    first.unwrap()
}

fn payload(number: usize) -> String {
    format!("{number:01024}")
}

fn payloads(count: usize) -> Vec<String> {
    (0..count).map(payload).collect()
}

#[test]
fn nothing_is_lost_by_any_end() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&configuration(&place));
    let mut count = 0; // stays below a rule's history limit
    let mut first = String::new();
    for signal in ["KILL", "TERM", "KILL", "INT"] {
        let server = place.start();
        let position = publish_many(&place, &server, "a/b", count, 240);
        if count == 0 {
            first = position;
        }
        count += 240;
        assert_eq!(read_all(&server, "a/b", &first), payloads(count)[1..]);
        server.process.signal(signal);
        let _ = server.end();
    }
    let server = place.start();
    assert_eq!(read_all(&server, "a/b", &first), payloads(count)[1..]);
    let resumed = server.url(&format!("/topics/a/b?since={first}&limit=1"));
    let page = curl(&[&resumed]).expect(200).json();
    let epoch = first.split_once(':').unwrap().0;
    assert_eq!(page["epoch"], epoch, "no end is a reason for a new epoch");
    let metrics = curl(&[&server.operators_url("/metrics")]).expect(200).body;
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in\n{metrics}"))
    };
    assert!(value("crore_disk_reads_total ") > 0.0);
    assert!(value("crore_disk_log_bytes ") > 960_000.0);
    assert_eq!(value("crore_disk_logs_unavailable "), 0.0);
}

/// Flips a bit of the only file below a directory that contains these bytes.
fn damage(directory: &Path, bytes: &[u8]) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            damage(&path, bytes);
            continue;
        }
        let mut content = fs::read(&path).unwrap();
        let found = content.windows(bytes.len()).position(|part| part == bytes);
        if let Some(place) = found {
            content[place] ^= 1;
            fs::write(&path, content).unwrap();
        }
    }
}

/// Damage removes the newest message of a topic, and later ones of another topic remain: a client
/// with an earlier position receives the gap, by every protocol.
#[test]
fn damage_behind_a_position_is_a_gap() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&configuration(&place).replace("count = 4", "count = 1"));
    let server = place.start();
    let first = publish(&server.url("/topics/t"), "the first of t");
    let since = position_of(&first);
    let second = publish(&server.url("/topics/t"), "the second of t");
    for text in ["x", "y"] {
        publish(&server.url("/topics/u"), text);
    }
    server.process.signal("KILL");
    let _ = server.end();
    damage(&place.path("data"), b"the second of t");

    // The second start finds in the index the damage that the first has found in the bytes.
    for signal in ["TERM", "KILL"] {
        let server = place.start();
        let reported = |query: &str| {
            let url = server.url(&format!("/topics/t?since={since}{query}"));
            let page = curl(&[&url]).expect(200).json();
            assert_eq!(page["messages"], serde_json::json!([]), "{page}");
            let gap = &page["gap"];
            let places = (&gap["from"], &gap["to"]);
            assert_eq!(places, (&first["offset"], &second["offset"]), "{page}");
            assert_eq!(gap["reason"], "damaged", "{page}");
        };
        reported("");
        reported("&wait=10s");
        let events = server.url(&format!("/topics/t?since={since}"));
        let mut events = stream(&["-H", "Accept: text/event-stream", &events]);
        let start =
            events.wait_for("the start", |line| line.strip_prefix("data: ").map(str::to_owned));
        assert!(start.contains("\"complete\":false"), "{start}");
        drop(events);
        server.process.signal(signal);
        let _ = server.end();
    }
}

#[test]
fn an_unsuitable_log_refuses_the_start() {
    let mut place = Place::new("127.0.0.1:0");
    let configuration = configuration(&place);
    place.configure(&configuration);
    let server = place.start();
    publish(&server.url("/topics/a"), "x");

    // Another process uses the log; it listens elsewhere.
    let other = Place::new("127.0.0.1:0");
    other.configure(&configuration);
    let ended = other.launch().end();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let says = |ended: &Ended, text: &str| ended.lines.iter().any(|line| line.contains(text));
    assert!(says(&ended, "another process"), "{ended:?}");
    server.process.signal("TERM");
    let _ = server.end();

    // The log has another number of partitions.
    other.configure(&configuration.replace("partitions_count = 4", "partitions_count = 8"));
    let ended = other.launch().end();
    assert_eq!(ended.status.code(), Some(78), "{ended:?}");
    assert!(says(&ended, "log.partitions_count") && says(&ended, "crore.toml:6"), "{ended:?}");
}

/// Publishes one message by `crore pub`, with a producer's number; returns the answer.
fn publish_as_producer(server: &Server, sequence: &str, text: &str) -> serde_json::Value {
    let url = server.ws_url("");
    let mut command = tools::crore();
    command.args(["pub", "--json", "--url", &url, "--producer", "p"]);
    command.args(["--sequence", sequence, "once/b", text]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn publish_with_key(server: &Server, key: &str) -> serde_json::Value {
    let header = format!("Idempotency-Key: \"{key}\"");
    let url = server.url("/topics/once/a");
    let answer = curl(&["--data-binary", "text", "--header", &header, &url]);
    answer.expect(200).json()
}

/// Deduplication survives any end of the process, with many more messages in between than fit into
/// memory.
#[test]
fn deduplication_survives_any_end() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&configuration(&place));
    let server = place.start();
    let first_key = publish_with_key(&server, "first");
    let first = publish_as_producer(&server, "7", "one");
    let second = publish_as_producer(&server, "9", "two");
    assert_eq!(first["duplicate"], false);
    publish_many(&place, &server, "a/b", 0, 240);
    let mut server = server;
    for (round, signal) in ["KILL", "TERM", "KILL", "INT"].into_iter().enumerate() {
        server.process.signal(signal);
        let _ = server.end();
        server = place.start();
        let again = |mut before: serde_json::Value| {
            before["duplicate"] = true.into();
            before
        };
        let repeated = publish_with_key(&server, "first");
        assert_eq!(repeated, again(first_key.clone()), "after {signal}");
        let repeated = publish_as_producer(&server, "7", "one");
        assert_eq!(repeated, again(first.clone()), "after {signal}");
        let repeated = publish_as_producer(&server, "9", "two");
        assert_eq!(repeated, again(second.clone()), "after {signal}");
        // A number in between was never used, but is too late.
        let envelope = r#"{"topic":"once/b","data":1,"producer":{"id":"p","sequence":8}}"#;
        let url = server.url("/publish");
        curl(&["--data-binary", envelope, "-H", JSON, &url]).expect_problem(409, "out_of_order");
        publish_many(&place, &server, "a/b", 240 * (round + 1), 240);
    }
}

/// Repeats the readiness request until it has this status.
fn await_readiness(server: &Server, status: u16, mut between: impl FnMut()) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = curl(&[&server.operators_url("/readyz")]);
        if answer.status == status {
            return answer;
        }
        assert!(Instant::now() < deadline, "not {status}: {answer:?}");
        between();
    }
}

/// The size of the longest segment.
fn segment_bytes(place: &Place) -> u64 {
    let segments = fs::read_dir(place.path("data/kept")).unwrap();
    let segments = segments.map(|entry| entry.unwrap());
    let segments = segments.filter(|entry| entry.path().extension().is_some_and(|it| it == "log"));
    let lengths = segments.map(|entry| entry.metadata().unwrap().len());
    lengths.max().expect("a segment")
}

/// The retained message of a log on disk survives every end of the server, and a message without a
/// payload removes it permanently.
#[test]
fn retained_messages_outlive_the_server() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&configuration(&place));
    let mut server = place.start();
    let publish_one = |server: &Server, topic: &str, payload: &str| {
        let url = server.url(&format!("/topics/{topic}?retain=true"));
        curl(&["-H", "Content-Type: text/plain", "-d", payload, &url]).expect(200)
    };
    let retained =
        |server: &Server, topic: &str| curl(&[&server.url(&format!("/retained/{topic}"))]);
    for signal in ["KILL", "TERM", "KILL"] {
        publish_one(&server, "a/kept", "old");
        publish_one(&server, "a/kept", signal);
        publish_one(&server, "a/removed", "old");
        publish_one(&server, "a/removed", "");
        publish_many(&place, &server, "a/kept", 0, 10);
        server.process.signal(signal);
        let _ = server.end();
        server = place.start();
        assert_eq!(retained(&server, "a/kept").expect(200).body, signal);
        assert_eq!(retained(&server, "a/removed").status, 404);
        let answer = curl(&[&server.url("/topics/a/kept?limit=1&reverse=true")]);
        let newest = &answer.expect(200).json()["messages"][0];
        assert_eq!(newest["data"], payload(9), "it is not a newer message");
    }
}

/// A disk that becomes full at run time: the server refuses publications, serves reads, and
/// recovers by itself.
#[test]
fn a_full_disk_refuses_until_there_is_room() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&configuration(&place));
    let mut server = place.start();
    let first = publish_many(&place, &server, "a/b", 0, 40);
    let mut count = 40;
    for signal in ["KILL", "TERM"] {
        let events = server.url("/topics/a/b");
        let mut stream = EventStream::open(&events, 1, None);

        // A little room is left: the end of the disk tears a batch, in the segment and again in a
        // new one.
        let refused = |payload: &str| {
            let path = place.path("refused");
            fs::write(&path, payload).unwrap();
            let data = format!("@{}", path.display());
            let answer = curl(&["--data-binary", &data, "-H", "Content-Type: text/plain", &events]);
            answer.expect_problem(503, "log_unavailable");
        };
        let room = segment_bytes(&place) + 16;
        server.process.limit_file_bytes(Some(room));
        refused(&"x".repeat(2 * room as usize));

        // Now no segment can begin.
        server.process.limit_file_bytes(Some(64));
        let unready = await_readiness(&server, 503, || refused("x"));
        let reason = "a log on disk accepts no publications";
        assert!(unready.body.contains(reason), "{unready:?}");
        refused("x");
        curl(&[&server.operators_url("/livez")]).expect(200);
        let metrics = curl(&[&server.operators_url("/metrics")]).expect(200).body;
        let unavailable = "crore_disk_logs_unavailable 1";
        assert!(metrics.lines().any(|line| line == unavailable), "{metrics}");

        // Acknowledged messages are served, to requests and to subscribers.
        assert_eq!(read_all(&server, "a/b", &first), payloads(count)[1..]);
        let mut replay = EventStream::open(&events, 1, Some(&first));
        for expected in &payloads(count)[1..] {
            assert_eq!(&replay.next_message().data, expected);
        }

        // There is room again. The server notices without a publication.
        server.process.limit_file_bytes(None);
        await_readiness(&server, 200, || {});
        publish_many(&place, &server, "a/b", count, 40);
        for stream in [&mut stream, &mut replay] {
            for expected in &payloads(count + 40)[count..] {
                assert_eq!(&stream.next_message().data, expected);
            }
        }
        count += 40;

        server.process.signal(signal);
        let _ = server.end();
        server = place.start();
        assert_eq!(read_all(&server, "a/b", &first), payloads(count)[1..]);
    }
}

/// A server killed on a full disk starts again: it serves acknowledged messages, refuses
/// publications, and recovers by itself.
#[test]
fn a_server_starts_on_a_full_disk() {
    let mut place = Place::new("127.0.0.1:0");
    let mount = place.path("disk");
    fs::create_dir(&mount).unwrap();
    let disk = SmallDisk::new(&mount, 4 << 20);
    place.configure(&configuration_with(&disk.path().join("data")));
    let mut server = place.start();
    let events = server.url("/topics/a/b");
    let publish_one = |number: usize| {
        let data = payload(number);
        curl(&["--data-binary", &data, "-H", "Content-Type: text/plain", &events])
    };
    let first = publish_many(&place, &server, "a/b", 0, 40);
    let mut count = 40;

    // Until the disk is full, and its end tears a batch.
    disk.fill();
    loop {
        let answer = publish_one(count);
        if answer.status != 200 {
            answer.expect_problem(507, "log_full");
            break;
        }
        count += 1;
    }
    for signal in ["KILL", "TERM", "KILL"] {
        server.process.signal(signal);
        let _ = server.end();
        disk.fill(); // the torn batch has left some room
        server = place.start();
        // A start without a write does not detect the full disk; the first publication does.
        let unready = await_readiness(&server, 503, || {
            let refused = publish_one(count);
            assert!([503, 507].contains(&refused.status), "{refused:?}");
        });
        let reason = "a log on disk accepts no publications";
        assert!(unready.body.contains(reason), "{unready:?}");
        curl(&[&server.operators_url("/livez")]).expect(200);
        let metrics = curl(&[&server.operators_url("/metrics")]).expect(200).body;
        let unavailable = "crore_disk_logs_unavailable 1";
        assert!(metrics.lines().any(|line| line == unavailable), "{metrics}");
        assert_eq!(read_all(&server, "a/b", &first), payloads(count)[1..]);
        publish_one(count).expect_problem(503, "log_unavailable");
    }
    let mut replay = EventStream::open(&events, 1, Some(&first));
    for expected in &payloads(count)[1..] {
        assert_eq!(&replay.next_message().data, expected);
    }

    // There is room again. The server notices without a publication.
    disk.make_room();
    await_readiness(&server, 200, || {});
    publish_many(&place, &server, "a/b", count, 40);
    for expected in &payloads(count + 40)[count..] {
        assert_eq!(&replay.next_message().data, expected);
    }
    count += 40;
    server.process.signal("KILL");
    let _ = server.end();
    let server = place.start();
    assert_eq!(read_all(&server, "a/b", &first), payloads(count)[1..]);
    let page = curl(&[&server.url(&format!("/topics/a/b?since={first}&limit=1"))]);
    let epoch = first.split_once(':').unwrap().0;
    assert_eq!(page.expect(200).json()["epoch"], epoch);
}

/// A start that cannot write reports the remedy, and removes nothing from the log.
#[test]
fn a_start_without_room_reports_the_remedy() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&configuration(&place));
    let directory = place.path("data/kept").display().to_string();
    let refuse = |place: &Place| {
        let ended = place.launch_without_room().end();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let error = ended.lines.iter().find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_else(|| panic!("{ended:?}"));
        for part in ["log \"kept\"", &directory, "File too large", "start again"] {
            assert!(error.contains(part), "no {part:?} in {error}");
        }
    };
    refuse(&place); // a new log
    let server = place.start();
    let first = publish_many(&place, &server, "a/b", 0, 40);
    server.process.signal("KILL");
    let _ = server.end();
    // As after a crash before the log's end was recorded.
    for note in ["data/kept/end", "data/.kept.end"] {
        fs::remove_file(place.path(note)).unwrap();
    }
    for _ in 0..2 {
        refuse(&place);
    }
    let server = place.start();
    assert_eq!(read_all(&server, "a/b", &first), payloads(40)[1..]);
    let page = curl(&[&server.url(&format!("/topics/a/b?since={first}&limit=1"))]);
    let epoch = first.split_once(':').unwrap().0;
    assert_eq!(page.expect(200).json()["epoch"], epoch);
}
