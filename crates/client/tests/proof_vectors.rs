//! The shared test vectors of the proof of completeness and of the filters.

use client::proof::{Proof, Verdict};
use client::session::filter_matches;
use serde_json::{Value, json};
use wire::native::{GapReason, Position, ServerFrame, SkipReason};

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).expect("the vectors are JSON")
}

fn number(value: &Value) -> u64 {
    value.as_str().expect("numbers are texts").parse().expect("a number")
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn gap_name(reason: GapReason) -> &'static str {
    match reason {
        GapReason::Evicted => "evicted",
        GapReason::UnknownEpoch => "unknown_epoch",
        GapReason::BeyondHead => "beyond_head",
        GapReason::HistoryLimit => "history_limit",
        GapReason::Damaged => "damaged",
        GapReason::Other(_) => "other",
    }
}

fn skip_name(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Conflated => "conflated",
        SkipReason::Dropped => "dropped",
        SkipReason::Other(_) => "other",
    }
}

fn lost(from: u64, to: u64) -> Value {
    json!({"event": "lost", "from": from.to_string(), "to": to.to_string()})
}

/// The proof's report for one frame, in the terms of the vectors.
fn report(proof: &mut Proof, frame: &ServerFrame<'_>) -> Vec<Value> {
    match frame {
        ServerFrame::Subscribed(frame) => {
            let beginning = frame.topic().expect("a plain topic").beginning;
            proof.subscribed(beginning.through, beginning.continued);
            Vec::new()
        }
        ServerFrame::Message(frame) => {
            let offset = frame.offset.to_string();
            let message = json!({"event": "message", "offset": offset});
            match proof.message(frame.prev, frame.offset) {
                Verdict::Next => vec![message],
                Verdict::Hole { from, to } => vec![lost(from.offset, to), message],
                Verdict::Duplicate | Verdict::OutOfOrder => {
                    vec![json!({"event": "repeated", "offset": offset})]
                }
            }
        }
        ServerFrame::Gap(frame) => {
            let to = Position { epoch: frame.epoch, offset: frame.to };
            let from = proof.gap(to).map_or(0, |from| from.offset).to_string();
            let reason = gap_name(frame.reason);
            vec![
                json!({"event": "gap", "from": from, "to": frame.to.to_string(), "reason": reason}),
            ]
        }
        ServerFrame::Skipped(frame) => {
            let mut events = Vec::new();
            let mut from = proof.cursor().expect("subscribed").offset;
            if let Some((cursor, to)) = proof.skipped(frame.from, frame.through) {
                events.push(lost(cursor.offset, to));
                from = to;
            }
            let (from, to) = (from.to_string(), frame.through.to_string());
            let reason = skip_name(frame.reason);
            events.push(json!({"event": "skipped", "from": from, "to": to, "reason": reason}));
            events
        }
        ServerFrame::CaughtUp(frame) => proof
            .caught_up(frame.through)
            .map(|(from, to)| lost(from.offset, to))
            .into_iter()
            .collect(),
        frame => panic!("{frame:?} does not affect completeness"),
    }
}

#[test]
fn the_proof_agrees_with_the_vectors() {
    let all = vectors(include_str!("../../../spec/vectors/proof.json"));
    for case in all["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        let mut proof = match case["start"]["kind"].as_str() {
            Some("since") => Proof::resume_at(Position {
                epoch: number(&case["start"]["epoch"]),
                offset: number(&case["start"]["offset"]),
            }),
            _ => Proof::default(),
        };
        for (place, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
            let frame = bytes(step["hex"].as_str().expect("hex"));
            let events = report(&mut proof, &ServerFrame::decode(&frame).expect("a frame"));
            assert_eq!(json!(events), step["events"], "{name}, step {place}");
        }
        let end = proof.cursor().expect("a cursor");
        assert_eq!(end.epoch, number(&case["end"]["epoch"]), "{name}");
        assert_eq!(end.offset, number(&case["end"]["through"]), "{name}");
    }
}

#[test]
fn filters_agree_with_the_vectors() {
    let all = vectors(include_str!("../../../spec/vectors/topics.json"));
    for case in all["matching"].as_array().expect("matching") {
        let (filter, topic) = (case["filter"].as_str().unwrap(), case["topic"].as_str().unwrap());
        let matches = case["matches"].as_bool().unwrap();
        assert_eq!(filter_matches(filter, topic), matches, "{filter} {topic}");
    }
}
