//! Event streams by `curl`, read event by event.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::curl::stream;
use crate::process::Process;

/// One open stream.
#[derive(Debug)]
pub struct EventStream {
    process: Process,
    /// Events before the last topic was subscribed.
    early: VecDeque<Event>,
}

/// One event, as a parser of the standard returns it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The name; empty for a message.
    pub name: String,
    /// The `id:` of the event.
    pub id: String,
    /// Its data; several lines are joined.
    pub data: String,
}

impl EventStream {
    /// Opens the stream and waits until its `topics_count` topics are subscribed.
    pub fn open(url: &str, topics_count: usize, last_event_id: Option<&str>) -> EventStream {
        let id = last_event_id.map(|id| format!("Last-Event-ID: {id}"));
        let mut arguments = vec!["--include", "-H", "Accept: text/event-stream"];
        if let Some(id) = &id {
            arguments.extend(["-H", id]);
        }
        arguments.push(url);
        let mut process = stream(&arguments);
        process
            .wait_for("an accepted request", |line| line.starts_with("HTTP/1.1 200").then_some(()));
        process.wait_for("the media type", |line| {
            line.to_ascii_lowercase().starts_with("content-type: text/event-stream").then_some(())
        });
        process.wait_for("the end of the head", |line| line.is_empty().then_some(()));
        process.wait_for("a time to reconnect", |line| line.starts_with("retry:").then_some(()));
        let mut stream = EventStream { process, early: VecDeque::new() };
        let mut early = VecDeque::new();
        let mut waiting = topics_count;
        while waiting > 0 {
            let event = stream.next_event();
            if event.name == "crore.start" {
                waiting -= 1;
            } else {
                early.push_back(event);
            }
        }
        stream.early = early;
        stream
    }

    /// The next event of any name.
    pub fn next_event(&mut self) -> Event {
        if let Some(event) = self.early.pop_front() {
            return event;
        }
        let mut event = Event::default();
        loop {
            let line = self.process.wait_for("an event", |line| Some(line.to_owned()));
            if line.is_empty() && event != Event::default() {
                // An id alone moves the cursor and is not an event.
                if event.name.is_empty() && event.data.is_empty() {
                    event = Event::default();
                    continue;
                }
                return event;
            }
            let Some((field, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => event.name = value.to_owned(),
                "id" => event.id = value.to_owned(),
                "data" if event.data.is_empty() => event.data = value.to_owned(),
                "data" => event.data = format!("{}\n{value}", event.data),
                _ => {}
            }
        }
    }

    /// The next message. The end of a replay is skipped; any other event is a failure.
    pub fn next_message(&mut self) -> Event {
        loop {
            let event = self.next_event();
            match event.name.as_str() {
                "" => return event,
                "crore.caught_up" => {}
                _ => panic!("a message was expected: {event:?}"),
            }
        }
    }

    /// The next message of a stream in envelopes: its JSON.
    pub fn next_envelope(&mut self) -> Value {
        let event = self.next_message();
        serde_json::from_str(&event.data).unwrap_or_else(|error| panic!("{error} in {event:?}"))
    }

    /// Waits until a drain ends the stream with a reconnect delay, and returns the delay.
    pub fn led_away_for(mut self) -> Duration {
        let retry_ms = self
            .process
            .wait_for("a time to return", |line| line.strip_prefix("retry:")?.trim().parse().ok());
        self.process.end();
        Duration::from_millis(retry_ms)
    }

    /// Asserts that no message arrives for some time. Comments and the end of a replay may.
    pub fn assert_quiet(&mut self, duration: Duration) {
        self.process
            .assert_no_line(duration, |line| line.starts_with("data:") && line != "data: {}");
    }
}
