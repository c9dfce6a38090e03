//! Reloads of the configuration at run time: applied changes, changes that need a restart, and live
//! connections.

use std::fs;
use std::process::Command;

use end_to_end::curl::{Answer, curl, publish};
use end_to_end::event_stream::EventStream;
use end_to_end::native::{Frame, Item, Native};
use end_to_end::network::Cable;
use end_to_end::process::{Ended, Process};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::ApiKey;
use end_to_end::tools::crore;
use serde_json::Value;

/// Sends SIGHUP and waits for the result in the log; returns the log lines before it.
fn hang_up(server: &mut Server) -> Vec<String> {
    server.process.skip_lines();
    server.process.signal("HUP");
    let mut reported = Vec::new();
    loop {
        let line = server.process.wait_for("the end of the reload", |line| Some(line.to_owned()));
        if line.contains("was reloaded. reason=SIGHUP") {
            return reported;
        }
        reported.push(line);
    }
}

fn post(server: &Server) -> Answer {
    let json = "Content-Type: application/json";
    curl(&["-X", "POST", "-H", json, &server.operators_url("/api/v1/reload")])
}

/// The changes in an answer: the key, and whether it is in force.
fn changes(answer: &Value) -> Vec<(String, bool)> {
    let all = answer["changes"].as_array().expect("changes").iter();
    all.map(|change| {
        let key = change["key"].as_str().expect("a key").to_owned();
        (key, change["applied"] == "now")
    })
    .collect()
}

fn subscribe(native: &mut Native, subscription: u64, filter: &str) -> Frame {
    native.subscribe(&[Item { subscription, filter, fail_on_gap: false }]);
    native.next_frame()
}

fn payload(frame: Frame) -> String {
    match frame {
        Frame::Message { payload, .. } => payload,
        other => panic!("a message was expected: {other:?}"),
    }
}

#[test]
fn a_reload_keeps_connections_and_takes_effect_at_once() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure("[[rule]]\nfilter = \"prices/#\"\n");
    let mut server = place.start();
    let url = server.url("/topics/prices/a");
    let (mut native, _) = Native::connect(&server.clients, None);
    assert!(matches!(subscribe(&mut native, 1, "prices/a"), Frame::Subscribed { .. }));
    let mut events = EventStream::open(&url, 1, None);
    publish(&url, "one");
    assert_eq!(payload(native.next_frame()), "one");
    assert_eq!(events.next_message().data, "one");

    place.configure(
        "[limits]\nsubscriptions_per_session_max = 1\n[[rule]]\nfilter = \"prices/#\"\nmessage_bytes_max = 3\n\
         history_messages_max = 1\n[[rule]]\nfilter = \"closed/#\"\npublishers = \"none\"\n",
    );
    let reported = hang_up(&mut server).join("\n");
    for part in [
        "An option has changed. key=limits.subscriptions_per_session_max old=10000 new=1",
        "message_bytes_max",
        "closed/#",
    ] {
        assert!(reported.contains(part), "{part}\n{reported}");
    }
    assert!(!reported.contains("restart"), "{reported}");

    curl(&["-d", "four", &url]).expect_problem(413, "message_too_large");
    curl(&["-d", "x", &server.url("/topics/closed/a")]).expect_problem(403, "forbidden");
    publish(&url, "two");
    assert_eq!(payload(native.next_frame()), "two");
    assert_eq!(events.next_message().data, "two");
    assert!(matches!(subscribe(&mut native, 2, "prices/b"), Frame::Error { .. }));
    let history = curl(&[&url]).expect(200).json();
    let messages = history["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 1, "{history}");

    // The change is reverted.
    place.configure("");
    let answer = post(&server).expect(200).json();
    let keys: Vec<(String, bool)> = changes(&answer);
    let expected =
        ["limits.subscriptions_per_session_max", "rule \"prices/#\"", "rule \"closed/#\""];
    assert_eq!(keys, expected.map(|key| (key.to_owned(), true)), "{answer}");
    publish(&url, "three, and longer");
    assert_eq!(payload(native.next_frame()), "three, and longer");
    assert_eq!(events.next_message().data, "three, and longer");
    assert!(matches!(subscribe(&mut native, 2, "prices/b"), Frame::Subscribed { .. }));
    assert_eq!(changes(&post(&server).expect(200).json()), []);
}

#[test]
fn faults_change_nothing_and_are_all_reported() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure("[limits]\nsubscriptions_per_session_max = 1\n");
    let mut server = place.start();
    place.configure(
        "[limits]\nsubscriptions_per_session_max = 2\ntopic_max = 5\npage_records_max = 0\n",
    );
    let problem = post(&server).expect_problem(422, "configuration_faults").json();
    let faults = problem["faults"].as_array().expect("faults");
    assert_eq!(faults.len(), 2, "{problem}");
    assert_eq!(faults[0]["key"], "limits.page_records_max", "{problem}");
    assert!(
        faults[1]["problem"].as_str().is_some_and(|text| text.contains("topics_max")),
        "{problem}"
    );

    server.process.skip_lines();
    server.process.signal("HUP");
    server.process.wait_for("the refusal", |line| {
        let is_it = line.contains("nothing has changed") && line.contains("crore.toml:3");
        is_it.then_some(())
    });
    let (mut native, _) = Native::connect(&server.clients, None);
    subscribe(&mut native, 1, "a");
    assert!(matches!(subscribe(&mut native, 2, "b"), Frame::Error { .. }));

    // A contradiction to a value that only a restart would change is a fault, too.
    place.configure("[limits]\nmessage_bytes_max = \"5MiB\"\nring_bytes = \"64MiB\"\noutbox_bytes_max = \"64MiB\"\n[websocket]\nframe_bytes_max = \"64MiB\"\n[[log]]\nsegment_bytes = \"64MiB\"\nbytes_max = \"1GiB\"\n");
    let problem = post(&server).expect_problem(422, "configuration_faults");
    assert!(problem.body.contains("until a restart"), "{problem:?}");

    fs::remove_file(place.path("crore.toml")).expect("the file is ours");
    let problem = post(&server).expect_problem(422, "configuration_faults");
    assert!(problem.body.contains("cannot read"), "{problem:?}");
    let metrics = curl(&[&server.operators_url("/metrics")]).expect(200).body;
    for line in [
        "crore_reloads_total{result=\"taken\"} 0",
        "crore_reloads_total{result=\"refused\"} 4",
        "crore_configuration_changes_waiting 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    place.configure("[limits]\nsubscriptions_per_session_max = 2\n");
    post(&server).expect(200);
    assert!(matches!(subscribe(&mut native, 2, "b"), Frame::Subscribed { .. }));
}

#[test]
fn changes_that_need_a_restart_are_named() {
    let mut place = Place::new("127.0.0.1:0");
    let mut server = place.start();
    let logs = "[[log]]\nname = \"memory\"\n[[log]]\nname = \"other\"\n";
    place.configure(&format!(
        "[node]\nname = \"x\"\n[limits]\ntopics_max = 9\n{logs}[[rule]]\nfilter = \"a\"\nlog = \"other\"\n[[rule]]\nfilter = \"b\"\n"
    ));
    for _ in 0..2 {
        // The change is named as long as it is requested.
        let answer = post(&server).expect(200).json();
        let needs = &answer["needs_restart"];
        assert_eq!(
            *needs,
            serde_json::json!(["node.name", "log \"other\"", "rule \"a\""]),
            "{answer}"
        );
    }
    let metrics = curl(&[&server.operators_url("/metrics")]).expect(200).body;
    assert!(metrics.contains("crore_configuration_changes_waiting 3"), "{metrics}");
    place.configure(&format!(
        "[node]\nname = \"x\"\n{logs}[[rule]]\nfilter = \"a\"\nlog = \"other\"\n"
    ));
    let reported = hang_up(&mut server).join("\n");
    let waits = "An option has changed, and takes effect after a restart. key=node.name old=\"\\\"crore\\\"\" new=\"\\\"x\\\"\"";
    assert!(reported.contains(waits), "{reported}");
    publish(&server.url("/topics/a"), "kept where it was");
    drop(server);

    let server = place.start();
    assert_eq!(changes(&post(&server).expect(200).json()), []);
    curl(&[&server.operators_url("/healthz")]).expect(200);
}

#[test]
fn requests_of_web_pages_are_refused() {
    let server = Server::start();
    let url = server.operators_url("/api/v1/reload");
    curl(&["-X", "POST", &url]).expect_problem(415, "unsupported_media_type");
    curl(&["-d", "{}", &url]).expect_problem(415, "unsupported_media_type");
    curl(&[&url]).expect(405);
    let json = "Content-Type: application/json";
    curl(&["-X", "POST", "-H", json, "-H", "Host: evil.example", &url]).expect(421);
    // The browser would send a preflight first.
    let origin = "Origin: https://evil.example";
    let preflight =
        curl(&["-X", "OPTIONS", "-H", origin, "-H", "Access-Control-Request-Method: POST", &url]);
    assert_eq!(preflight.status, 405);
    assert_eq!(preflight.header("access-control-allow-origin"), None);
}

/// From another host: only with an operator's API key, and then it applies to clients there at
/// once.
#[test]
fn an_operator_with_a_key_reloads_from_another_host() {
    let cable = Cable::new();
    let operator = ApiKey::new("operator", "operate = true");
    let other = ApiKey::new("other", "publish = [\"#\"]");
    let configuration = |message_bytes_max: u32| {
        format!(
            "[entitlement]\nmode = \"tokens\"\nanonymous_publish = [\"#\"]\n{}{}\
             [[rule]]\nfilter = \"prices/#\"\nmessage_bytes_max = {message_bytes_max}\n",
            operator.table, other.table
        )
    };
    let place = Place::new("10.77.0.1:0");
    place.configure(&configuration(4));
    let more = "exec \"$0\" \"$@\" --admin-listen 10.77.0.1:0";
    let shell = ["sh", "-c", more].map(str::to_owned);
    let mut process = place.launch_by(&[cable.near.words(), shell.to_vec()].concat());
    let mut address = |prefix: &str| {
        process.wait_for(prefix, |line| {
            let url = line.strip_prefix(prefix)?.trim_end_matches('/');
            url.contains("//10.77.0.1:").then(|| url.to_owned())
        })
    };
    // In addition to the listener on loopback of every server in these tests.
    let (clients, operators) = (address("listening clients "), address("listening operators "));
    process.wait_for("readiness", |line| (line == "ready").then_some(()));
    let reload = |key: Option<&str>| {
        let url = format!("{operators}/api/v1/reload");
        let json = "Content-Type: application/json";
        let bearer = key.map(|key| format!("Authorization: Bearer {key}"));
        let field = bearer.as_deref().unwrap_or("X-Nothing: 1");
        cable.far.curl(&["-X", "POST", "-H", json, "-H", field, &url])
    };
    let send = |data: &str| {
        let url = format!("{clients}/topics/prices/a");
        cable.far.curl(&["-d", data, &url])
    };
    send("four").expect(200);
    place.configure(&configuration(3));
    for key in [None, Some("crore_x"), Some(&*other.key)] {
        reload(key).expect_problem(401, "unauthorized");
        send("four").expect(200);
    }
    let answer = reload(Some(&operator.key)).expect(200).json();
    let key = "rule \"prices/#\".message_bytes_max".to_owned();
    assert_eq!(changes(&answer), [(key, true)], "{answer}");
    send("four").expect_problem(413, "message_too_large");
    send("old").expect(200);
}

#[test]
fn levels_of_the_log_change() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure("[logging]\nlevel = \"error\"\n");
    let mut server = place.start();
    place.configure("[logging]\nlevel = \"info\"\n");
    let reported = hang_up(&mut server).join("\n");
    assert!(reported.contains("key=logging.level"), "{reported}");
    place.configure("[logging]\nlevel = \"error\"\n");
    let answer = post(&server).expect(200).json();
    assert_eq!(changes(&answer), [("logging.level".to_owned(), true)]);
}

/// Runs `crore config` with a file, variables and arguments.
fn config(place: &Place, variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let mut command: Command = crore();
    command.arg("config").args(arguments);
    command.arg("--config").arg(place.path("crore.toml"));
    command.envs(variables.iter().copied());
    Process::start(&mut command).end()
}

#[test]
fn secrets_come_from_files_and_are_never_printed() {
    let place = Place::new("127.0.0.1:0");
    let secret = "c0ffee".repeat(10) + "beef";
    let file = place.path("keys");
    fs::write(&file, format!("{secret}\n")).expect("the folder is ours");
    let path = file.to_str().expect("a path of ours");
    let keys = [("CRORE_TICKETS_KEYS_FILE", path)];
    for arguments in [&["print"][..], &["print", "--json"]] {
        let ended = config(&place, &keys, arguments);
        ended.assert_success();
        let shown = ended.lines.join("\n");
        assert!(shown.contains("<secret ") && shown.contains("CRORE_TICKETS_KEYS_FILE"), "{shown}");
        assert!(!shown.contains("c0ffee"), "{shown}");
    }
    fs::write(&file, &secret[1..]).expect("the folder is ours");
    let ended = config(&place, &keys, &["check"]);
    assert_eq!(ended.status.code(), Some(78));
    let said = ended.lines.join("\n");
    assert!(said.contains(path) && !said.contains("0ffee"), "{said}");
    let missing = [("CRORE_TICKETS_KEYS_FILE", "/no/such/file")];
    let ended = config(&place, &missing, &["check"]);
    assert_eq!(ended.status.code(), Some(78));
    assert!(ended.lines.join("\n").contains("/no/such/file"), "{ended:?}");
    let both = [keys[0], ("CRORE_TICKETS_KEYS", "")];
    assert_eq!(config(&place, &both, &["check"]).status.code(), Some(78));
}

#[test]
fn flags_override_variables_and_variables_the_file() {
    let place = Place::new("127.0.0.1:0");
    place.configure("[limits]\ntopics_max = 1\nfilters_per_shard_max = 2\npage_records_max = 3\n");
    let variables =
        [("CRORE_LIMITS_FILTERS_PER_SHARD_MAX", "20"), ("CRORE_LIMITS_PAGE_RECORDS_MAX", "30")];
    let arguments = ["print", "--json", "--set", "limits.page_records_max=300"];
    let ended = config(&place, &variables, &arguments);
    ended.assert_success();
    let shown: Value = serde_json::from_str(&ended.lines.join("\n")).expect("JSON");
    let limits = &shown["limits"];
    for (name, value, origin) in [
        ("topics_max", 1, "crore.toml:2"),
        ("filters_per_shard_max", 20, "environment CRORE_LIMITS_FILTERS_PER_SHARD_MAX"),
        ("page_records_max", 300, "flag --set"),
        ("page_bytes", 0, "default"),
    ] {
        if value > 0 {
            assert_eq!(limits[name]["value"], value, "{shown}");
        }
        let found = limits[name]["origin"].as_str().expect("an origin");
        assert!(found.ends_with(origin), "{name}: {found}");
    }
}

#[test]
fn rules_and_options_are_explained() {
    let place = Place::new("127.0.0.1:0");
    place.configure("[[rule]]\nfilter = \"a/#\"\nhistory_messages_max = 5\n");
    let ended = config(&place, &[], &["explain", "a/b"]);
    ended.assert_success();
    let said = ended.lines.join("\n");
    assert!(said.contains("crore.toml:1") && said.contains("history_messages_max = 5"), "{said}");
    let run = |arguments: &[&str]| Process::start(crore().args(arguments)).end();
    let help = run(&["serve", "--help"]);
    help.assert_success();
    let help = help.lines.join("\n");
    assert!(help.contains("crore config doc") && help.contains("\n  limits "), "{help}");
    let doc = run(&["config", "doc", "limits.topics_max"]);
    doc.assert_success();
    assert!(doc.lines.join("\n").contains("CRORE_LIMITS_TOPICS_MAX"), "{doc:?}");
    assert_eq!(run(&["config", "doc", "limits.topic_max"]).status.code(), Some(2));
}
