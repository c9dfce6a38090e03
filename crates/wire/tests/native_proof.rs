//! The proof of completeness as in `spec/protocol.md`, over the sequences of
//! `spec/vectors/proof.json`.
//!
//! This implementation follows the text of the specification line by line; clients have their own
//! and pass the same file.

mod native_json;

use native_json::{big, field, files, text};
use serde_json::{Value, json};
use wire::native::{Beginning, Position, ServerFrame};

/// The client's state for one plain topic.
#[derive(Default)]
struct Cursor {
    position: Option<Position>,
    /// SUBSCRIBED does not continue behind this offset, and no GAP has announced that yet.
    unannounced: Option<u64>,
    is_new_epoch: bool,
}

impl Cursor {
    fn handle(&mut self, frame: &ServerFrame<'_>) -> Vec<Value> {
        match frame {
            ServerFrame::Subscribed(frame) => {
                self.subscribed(frame.topic().unwrap().beginning);
                vec![]
            }
            ServerFrame::Message(frame) => self.message(frame.offset, frame.prev),
            ServerFrame::CaughtUp(frame) => {
                let through = self.position.unwrap().offset;
                let lost = self.unannounced.take();
                let to = through.max(frame.through);
                self.position.as_mut().unwrap().offset = to;
                lost.map(|from| event("lost", from, to)).into_iter().collect()
            }
            ServerFrame::Gap(frame) => {
                let from = self.unannounced.take().unwrap_or(self.position.unwrap().offset);
                self.position = Some(Position { epoch: frame.epoch, offset: frame.to });
                vec![with_reason(
                    event("gap", from, frame.to),
                    frame.reason.number(),
                    &["evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"],
                )]
            }
            ServerFrame::Skipped(frame) => {
                let through = self.position.unwrap().offset;
                let mut events = vec![];
                if frame.from > through {
                    events.push(event("lost", through, frame.from));
                }
                self.position.as_mut().unwrap().offset = through.max(frame.through);
                events.push(with_reason(
                    event("skipped", frame.from, frame.through),
                    frame.reason.number(),
                    &["other", "conflated", "other", "dropped"],
                ));
                events
            }
            other => panic!("no such frame in a proof: {other:?}"),
        }
    }

    fn subscribed(&mut self, beginning: Beginning) {
        let through = beginning.through;
        let Some(own) = self.position else {
            self.position = Some(through);
            return;
        };
        self.is_new_epoch = own.epoch != through.epoch;
        if beginning.continued && through.offset <= own.offset {
            self.position = Some(Position { epoch: through.epoch, offset: own.offset });
            return;
        }
        self.unannounced = Some(own.offset);
        if self.is_new_epoch {
            self.position = Some(through);
        }
    }

    fn message(&mut self, offset: u64, prev: u64) -> Vec<Value> {
        let through = self.position.unwrap().offset;
        if offset <= through {
            return vec![json!({ "event": "repeated", "offset": offset.to_string() })];
        }
        let mut events = vec![];
        match self.unannounced.take() {
            Some(from) if self.is_new_epoch => events.push(event("lost", from, prev.max(through))),
            _ if prev > through => events.push(event("lost", through, prev)),
            _ => {}
        }
        self.position.as_mut().unwrap().offset = offset;
        events.push(json!({ "event": "message", "offset": offset.to_string() }));
        events
    }
}

#[test]
fn clients_report_exactly_the_missing_messages() {
    for case in files::list("proof.json", "cases") {
        let mut cursor = Cursor::default();
        let start = field(&case, "start");
        if text(field(start, "kind")) == "since" {
            cursor.position =
                Some(Position { epoch: big(start, "epoch"), offset: big(start, "offset") });
        }
        for step in field(&case, "steps").as_array().unwrap() {
            let bytes = files::bytes(field(step, "hex"));
            let frame = ServerFrame::decode(&bytes).unwrap();
            let events = Value::Array(cursor.handle(&frame));
            assert_eq!(events, *field(step, "events"), "{case}: {frame:?}");
        }
        let end = field(&case, "end");
        let expected = Position { epoch: big(end, "epoch"), offset: big(end, "through") };
        assert_eq!(cursor.position, Some(expected), "{case}");
    }
}

fn event(kind: &str, from: u64, to: u64) -> Value {
    json!({ "event": kind, "from": from.to_string(), "to": to.to_string() })
}

fn with_reason(mut event: Value, number: u8, names: &[&str]) -> Value {
    event["reason"] = json!(names[usize::from(number)]);
    event
}
