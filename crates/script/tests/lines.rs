//! The program `crore-script` and its lines, with a client of a few lines at the other end.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Plays one scenario; `reply` is the adapter. Returns the lines and the exit code.
fn run(scenario: &Value, mode: &str, mut reply: impl FnMut(&Value) -> Value) -> (Vec<Value>, i32) {
    let name = scenario["name"].as_str().unwrap().replace(' ', "-");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let text = json!({"about": "a test", "scenarios": [scenario]}).to_string();
    std::fs::write(&file, text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_crore-script"))
        .args(["--mode", mode])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["do"] != "end" {
            writeln!(input, "{}", reply(&line)).unwrap();
        }
        lines.push(line);
    }
    (lines, child.wait().unwrap().code().unwrap())
}

fn scenario(name: &str, steps: Value) -> Value {
    json!({"name": name, "rules": ["C2"], "modes": ["core", "wire"], "steps": steps})
}

/// A core that connects, greets with `hello`, and answers nothing.
fn greet<'a>(hello: &'a str) -> impl FnMut(&Value) -> Value + 'a {
    move |command| match command["do"].as_str().unwrap() {
        "hello" => json!({"needs": []}),
        "start" => json!({"effects": [{"connect": command["options"]["urls"][0]}], "timer": null}),
        "opened" => json!({"effects": [{"send": hello}], "timer": null}),
        _ => json!({"effects": [], "timer": null}),
    }
}

fn result(lines: &[Value]) -> &Value {
    lines.iter().find(|line| line["do"] == "result").unwrap()
}

#[test]
fn what_a_client_should_do_passes() {
    let steps =
        json!([{"connect": "a"}, {"client": {"type": "hello"}}, {"server": {"type": "welcome"}}]);
    let (lines, code) = run(&scenario("a short scenario", steps), "core", greet("01000100"));
    assert_eq!(result(&lines)["result"], "passed", "{lines:?}");
    assert_eq!(
        *lines.last().unwrap(),
        json!({"do": "end", "passed": 1, "failed": 0, "skipped": 0})
    );
    assert_eq!(code, 0);
}

#[test]
fn frames_in_the_handshake_come_first() {
    let steps =
        json!([{"connect": "a"}, {"client": {"type": "hello"}}, {"client": {"type": "ping"}}]);
    let reply = |command: &Value| match command["do"].as_str().unwrap() {
        "start" => {
            let url = &command["options"]["urls"][0];
            json!({"effects": [{"connect": url, "early": ["01000100"]}], "timer": null})
        }
        "opened" => json!({"effects": [{"send": "070007"}], "timer": null}),
        _ => json!({"effects": [], "timer": null, "needs": []}),
    };
    let (lines, code) = run(&scenario("early frames", steps), "core", reply);
    assert_eq!((&result(&lines)["result"], code), (&json!("passed"), 0), "{lines:?}");
}

#[test]
fn what_it_should_not_do_fails_with_the_step() {
    let check = |name: &str, hello: &str, step: u64, why: &str| {
        let steps = json!([{"connect": "a"}, {"client": {"type": "hello", "name": null}}]);
        let (lines, code) = run(&scenario(name, steps), "core", greet(hello));
        let result = result(&lines);
        assert_eq!(
            (&result["result"], &result["step"]),
            (&json!("failed"), &json!(step)),
            "{result}"
        );
        assert!(result["why"].as_str().unwrap().contains(why), "{result}");
        assert_eq!(code, 1);
    };
    check("another frame than expected", "0700 07".replace(' ', "").as_str(), 1, "ping");
    check("a field that is not expected", "0180010001060161", 1, ".name");
    check("bytes that are no frame", "01", 0, "the client sent 01");
}

#[test]
fn in_wire_mode_it_names_its_port_and_misses_a_client_that_does_not_come() {
    let name = "nobody comes";
    let mut port = None;
    let (lines, code) = run(&scenario(name, json!([{"connect": "a"}])), "wire", |command| {
        port = port.or(command["port"].as_u64());
        json!({"effects": []})
    });
    assert!(port.is_some_and(|port| port > 0));
    assert_eq!(result(&lines)["result"], "failed");
    assert_eq!(code, 1);
}

#[test]
fn a_feature_that_the_client_does_not_have_is_skipped() {
    let mut scenario = scenario("a feature", json!([{"connect": "a"}]));
    scenario["needs"] = json!(["buffer"]);
    let (lines, code) = run(&scenario, "core", greet("01000100"));
    assert_eq!(
        (&result(&lines)["result"], &result(&lines)["why"]),
        (&json!("skipped"), &json!("buffer"))
    );
    assert_eq!(code, 0);
}

#[test]
fn a_client_that_does_nothing_fails_a_random_run() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_crore-script"))
        .args(["--mode", "core", "--random", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["do"] != "end" {
            writeln!(input, "{}", json!({"effects": [], "timer": null})).unwrap();
        }
        lines.push(line);
    }
    assert_eq!(result(&lines)["why"], "the client does not settle");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
