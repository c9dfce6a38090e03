//! Requests by `curl`, the client that users try first.

use std::process::Command;

use serde_json::Value;

use crate::PATIENCE;
use crate::process::Process;

/// A server's answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    headers: Vec<(String, String)>,
    /// The body as UTF-8, with replacement characters if it is invalid.
    pub body: String,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Asserts the status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Asserts an error: its status, a problem body by RFC 9457, and the error code in it.
    #[track_caller]
    pub fn expect_problem(self, status: u16, code: &str) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{self:?}");
        assert_eq!(problem["code"], code, "{self:?}");
        self
    }
}

/// Sends one request, described by curl's own arguments.
#[track_caller]
pub fn curl(arguments: &[&str]) -> Answer {
    curl_by(Command::new("curl"), arguments)
}

/// Sends a request with a curl that `command` starts.
#[track_caller]
pub fn curl_by(mut command: Command, arguments: &[&str]) -> Answer {
    command
        .args(["--silent", "--show-error", "--include", "--max-time"])
        .arg((2 * PATIENCE).as_secs().to_string())
        .args(arguments);
    let output = command.output().expect("curl is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {arguments:?}: {} {errors}", output.status);
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Sends a request with a streaming answer: its lines, without the head. It ends with the server's
/// stream, or with the test.
pub fn stream(arguments: &[&str]) -> Process {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--no-buffer"]).args(arguments);
    Process::start(&mut command)
}

/// Publishes a text and returns the answer's JSON.
#[track_caller]
pub fn publish(url: &str, payload: &str) -> Value {
    curl(&["--data-binary", payload, "-H", "Content-Type: text/plain", url]).expect(200).json()
}

fn parse(text: &str) -> Answer {
    let mut rest = text;
    loop {
        let (head, body) = rest.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status: u16 = status.and_then(|code| code.parse().ok()).expect("a status line");
        if status < 200 {
            rest = body;
            continue;
        }
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.filter_map(header).collect();
        return Answer { status, headers, body: body.to_owned() };
    }
}
