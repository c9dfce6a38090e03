//! Lines to commands.

use crate::command::{Begin, Publish, Subscribe};
use crate::mail::Start;
use wire::native::Attributes;

/// One line of a client.
pub(crate) enum Input<'a> {
    Subscribe(Subscribe<'a>),
    Publish(Publish<'a>),
    /// A line that is not a command.
    Malformed,
}

/// The first line of the input and its length with its end; none while the end is not there.
pub(crate) fn decode(input: &[u8]) -> Option<(Input<'_>, usize)> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    let line = std::str::from_utf8(&input[..end]).ok();
    Some((line.and_then(command).unwrap_or(Input::Malformed), end + 1))
}

fn command(line: &str) -> Option<Input<'_>> {
    let (command, rest) = line.split_once(' ')?;
    match command {
        "sub" => {
            let (topic, start) = match rest.split_once(' ') {
                Some((topic, position)) => (topic, Start::Since(position.parse().ok()?)),
                None => (rest, Start::Live),
            };
            // It has no words for filters.
            if topic.contains(['#', '+']) {
                return None;
            }
            Some(Input::Subscribe(Subscribe {
                filter: topic,
                begin: Begin::At(start),
                fail_on_gap: false,
                policy: None,
                replay_credit: None,
            }))
        }
        "pub" => {
            let (topic, text) = rest.split_once(' ')?;
            Some(Input::Publish(Publish {
                request: 1, // 0 is answered only by a refusal
                topic,
                attributes: Attributes::default(),
                payload: text.as_bytes(),
                retain: false,
                once: None,
                expected_epoch: None,
                mqtt: None,
            }))
        }
        _ => None,
    }
}
