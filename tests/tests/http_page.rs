//! `docs/http.md`: its commands run unchanged, their answers are the shown ones, and it names
//! everything in the OpenAPI document.

use std::collections::BTreeSet;
use std::process::Command;

use end_to_end::server::Server;
use serde_json::Value;

const PAGE: &str = include_str!("../../docs/http.md");
const DOCUMENT: &str = include_str!("../../spec/openapi.json");

/// The address in the page's commands.
const ADDRESS: &str = "127.0.0.1:8800";
/// The time limit of the streams in the commands of the page.
const PAGES_TIME: &str = "--max-time 1";
/// The minimum of the longest time limit of a command here.
const PATIENCE_S: u64 = 60;
/// curl's exit code when `--max-time` is over: streams do not end by themselves.
const TIMED_OUT: i32 = 28;

/// The code blocks of the page: their language and their text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts: Vec<&str> = PAGE.split("```").collect();
    let blocks = parts.iter().skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').expect("a language and a text")).collect()
}

/// A text with all its numbers replaced by one.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character.is_ascii_digit() {
            true if out.ends_with('0') => {}
            true => out.push('0'),
            false => out.push(character),
        }
    }
    out
}

/// Whether the output of a command is the shown one; the error is the actual output.
fn answers(script: &str, (language, expected): (&str, &str)) -> Result<(), String> {
    let output = Command::new("sh").args(["-ec", script]).output();
    let output = output.expect("a shell is installed");
    let code = output.status.code();
    let may_time_out = script.contains("--max-time");
    if code != Some(0) && !(may_time_out && code == Some(TIMED_OUT)) {
        return Err(format!("{script}: {output:?}"));
    }
    let found = without_numbers(&String::from_utf8_lossy(&output.stdout));
    if language == "json" {
        let is_shown = found.ends_with(&without_numbers(expected.trim_end()));
        return is_shown.then_some(()).ok_or_else(|| format!("{script}: {found}"));
    }
    let mut rest = found.lines();
    for line in expected.lines().filter(|line| !line.is_empty()) {
        let line = without_numbers(line);
        if !rest.any(|found| found == line) {
            return Err(format!("{script}: no {line} in {found}"));
        }
    }
    Ok(())
}

#[test]
fn commands_of_the_page_work() {
    let server = Server::start();
    let url = server.url("");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let blocks = blocks();
    let mut compared = 0;
    for (place, (_, script)) in blocks.iter().enumerate().filter(|(_, block)| block.0 == "sh") {
        let script = script.replace(ADDRESS, address);
        let expected = match blocks.get(place + 1).copied() {
            Some(expected @ ("json" | "text", _)) => expected,
            _ => panic!("the page does not show what this answers: {script}"),
        };
        // A stream is read for the time on the page, and on a busy machine for longer.
        let mut patience_s = 1;
        loop {
            let script = script.replace(PAGES_TIME, &format!("--max-time {patience_s}"));
            match answers(&script, expected) {
                Ok(()) => break,
                Err(fault) => {
                    let may_wait = script.contains("--max-time") && patience_s < PATIENCE_S;
                    assert!(may_wait, "{fault}");
                }
            }
            patience_s *= 4;
        }
        compared += 1;
    }
    assert!(compared >= 10, "{compared} commands were compared");
}

#[test]
fn the_page_names_the_whole_api() {
    let document: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    let mut wanted = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("an object") {
        for (method, operation) in item.as_object().expect("an object") {
            let tags = operation["tags"].as_array();
            if !tags.is_some_and(|tags| tags.iter().any(|tag| tag == "clients")) {
                continue;
            }
            if method != "options" {
                let path = path.replace("{name}", "NAME");
                wanted.insert(format!("{} {path}", method.to_uppercase()));
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let parameter = match parameter["$ref"].as_str() {
                    Some(reference) => {
                        document.pointer(reference.trim_start_matches('#')).expect("a parameter")
                    }
                    None => parameter,
                };
                if parameter["in"] != "path" {
                    wanted.insert(format!("`{}`", parameter["name"].as_str().expect("text")));
                }
            }
            for status in operation["responses"].as_object().expect("an object").keys() {
                wanted.insert(format!("| {status}"));
            }
        }
    }
    assert!(wanted.len() > 30, "{wanted:?}");
    let statuses: BTreeSet<&str> = PAGE
        .rsplit("| status |")
        .next()
        .expect("a table")
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|line| line.split(" |").next())
        .flat_map(|cell| cell.split(", "))
        .collect();
    let is_there = |wanted: &str| match wanted.strip_prefix("| ") {
        Some(status) => statuses.contains(status),
        None if wanted.starts_with('`') => PAGE.contains(wanted),
        // A path with the topic in the query is described beside its sibling.
        None => PAGE.contains(wanted) || PAGE.contains(&format!("{wanted}/NAME")),
    };
    let missing: Vec<&String> = wanted.iter().filter(|it| !is_there(it)).collect();
    assert!(missing.is_empty(), "docs/http.md does not name {missing:?}");
}
