//! The page on backups and restores is correct: its commands run in order, and print the shown
//! output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use end_to_end::curl::{curl, publish};
use end_to_end::server::{Place, Server};
use end_to_end::tools;

/// A part of the page: a heading, commands, or their output.
#[derive(Debug)]
enum Part {
    Heading(String),
    Commands(String),
    Output(String),
}

fn parts_of(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut block: Option<(&str, String)> = None;
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(language)) => block = Some((language, String::new())),
            (Some((language, text)), Some(_)) => {
                let text = std::mem::take(text);
                match *language {
                    "sh" => parts.push(Part::Commands(text)),
                    "text" => parts.push(Part::Output(text)),
                    other => panic!("a block of {other}"),
                }
                block = None;
            }
            (Some((_, text)), None) => *text += &format!("{line}\n"),
            (None, None) => {
                let heading = line.strip_prefix("## ");
                parts.extend(heading.map(|heading| Part::Heading(heading.to_owned())));
            }
        }
    }
    parts
}

/// Whether a line matches the page; `…` stands for any text.
fn is_like(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    let mut pieces = pattern.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(behind) = rest.strip_prefix(first) else {
        return false;
    };
    rest = behind;
    for piece in pieces {
        match rest.find(piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return false,
        }
    }
    rest.is_empty() || pattern.ends_with('…')
}

/// The machine of the page: a node with its data, and a `systemctl` that lets the test stop and
/// start it.
struct Machine {
    place: Place,
    server: Option<Server>,
}

impl Machine {
    fn new() -> Machine {
        let place = Place::new("127.0.0.1:0");
        place.configure(&format!(
            "[node]\ndata_dir = \"{}\"\n[[log]]\nname = \"kept\"\ndurability = \"disk\"\npartitions_count = 1\nage_max = \"1d\"\n",
            place.path("data").display()
        ));
        let mut machine = Machine { place, server: None };
        machine.start();
        machine
    }

    fn start(&mut self) {
        assert!(self.server.is_none(), "it runs");
        self.server = Some(self.place.start());
    }

    fn stop(&mut self) {
        let server = self.server.take().expect("it runs");
        server.process.signal("TERM");
        server.end().assert_success();
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// Publishes a message; returns its position.
    fn publish(&self, payload: &str) -> String {
        let answer = publish(&self.server().url("/topics/t"), payload);
        format!("{}:{}", answer["epoch"].as_str().unwrap(), answer["offset"])
    }

    /// The messages for a returning client: offsets, and the reason of the gap before them.
    fn since(&self, position: &str) -> (Vec<u64>, Option<String>) {
        let url = self.server().url(&format!("/topics/t?since={position}"));
        let page = curl(&[&url]).expect(200).json();
        let messages = page["messages"].as_array().unwrap();
        let offsets = messages.iter().map(|it| it["offset"].as_u64().unwrap());
        let reason = page["gap"]["reason"].as_str().map(str::to_owned);
        (offsets.collect(), reason)
    }

    /// Runs commands of the page, line by line, and returns their output.
    fn run(&mut self, commands: &str) -> Vec<String> {
        let mut printed = Vec::new();
        for line in commands.lines() {
            match line {
                "systemctl stop crore" => self.stop(),
                "systemctl start crore" => self.start(),
                _ => printed.extend(self.shell(line)),
            }
        }
        printed
    }

    fn shell(&self, line: &str) -> Vec<String> {
        let directory = self.place.path("");
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", line]);
        command.current_dir(&directory);
        command.env("PATH", path_with(&tools::crore(), &directory));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.lines().map(str::to_owned).collect()
    }
}

/// A search path with the binary under test as `crore`.
fn path_with(crore: &Command, directory: &Path) -> String {
    let bin = directory.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let script = format!("#!/bin/sh\nexec {:?} \"$@\"\n", crore.get_program());
    fs::write(bin.join("crore"), script).unwrap();
    fs::set_permissions(bin.join("crore"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_page_on_backups_is_correct() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/backups.md");
    let page = fs::read_to_string(page).unwrap();
    let mut machine = Machine::new();
    let oldest = machine.publish("one");
    let mut seen = oldest.clone();
    (0..2).for_each(|_| seen = machine.publish("more"));
    let (mut heading, mut printed, mut checked) = (String::new(), Vec::new(), Vec::new());
    for part in parts_of(&page) {
        match part {
            Part::Heading(text) => {
                // Before each loss clients receive more than the remaining messages.
                if text.starts_with("Restoring") || text == "A lost segment" {
                    seen = machine.publish("seen and lost");
                }
                heading = text;
            }
            Part::Commands(commands) => {
                printed = machine.run(&commands);
                if machine.server.is_some() && heading.starts_with("Restoring") {
                    let (offsets, reason) = machine.since(&seen);
                    let is_told = reason.as_deref() == Some("unknown_epoch");
                    assert!(is_told, "{heading}: {offsets:?} {reason:?}");
                    let now = machine.publish("new");
                    assert_ne!(now.split(':').next(), seen.split(':').next());
                }
                checked.push(heading.clone());
            }
            Part::Output(expected) => {
                let expected: Vec<&str> = expected.lines().collect();
                let alike = printed.iter().zip(&expected).all(|(line, it)| is_like(line, it));
                assert!(
                    alike && printed.len() == expected.len(),
                    "{heading}: printed {printed:#?}, the page has {expected:#?}"
                );
            }
        }
    }
    let sections = [
        "A backup of a stopped node",
        "Restoring one log",
        "Restoring everything",
        "A damaged file",
        "A lost segment",
    ];
    for section in sections {
        assert!(checked.iter().any(|it| it == section), "{section}: {checked:?}");
    }
}
