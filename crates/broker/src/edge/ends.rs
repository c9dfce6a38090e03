//! Causes of the end of a connection: a close code and its side, or an end without a code. Each
//! connection is counted once, when its slot is freed.
//!
//! Invariants: the first cause counts; the numbers of all causes together are the connections that
//! have ended. The cause is in a byte of the slot that is otherwise unused, so it costs no memory.

use crate::edge::counts::Counts;
use std::borrow::Cow;
use stdx::handing::Hand;
use wire::native::CloseCode;

/// The cause of the end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End(u8);

/// Ends without a close frame: the side that caused them, and the cause.
const WITHOUT_CODE: [(&str, &str); 7] = [
    ("client", "lost"),
    ("client", "vanished"),
    ("client", "ended"),
    ("node", "finished"),
    ("node", "slow"),
    ("node", "unfinished_input"),
    ("node", "cut"),
];
/// Codes of RFC 6455 that the node closes with of itself.
const RFC_OF_NODE: [u16; 6] = [1002, 1003, 1007, 1008, 1009, 1011];
/// Codes that clients close with; 1005 stands for a close frame without one.
const RFC_OF_CLIENT: [u16; 13] =
    [1000, 1001, 1002, 1003, 1005, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014];
/// The other codes that clients may send are free for libraries and for applications.
const RANGES_OF_CLIENT: [&str; 2] = ["3000-3999", "4000-4999"];

const OWN: usize = WITHOUT_CODE.len() + RFC_OF_NODE.len();
const CLIENT: usize = OWN + CloseCode::ALL.len();
const RANGES: usize = CLIENT + RFC_OF_CLIENT.len();
/// The number of causes.
const ENDS_COUNT: usize = RANGES + RANGES_OF_CLIENT.len();
const _: () = assert!(ENDS_COUNT < 255);

impl End {
    /// The connection broke, or was reset.
    pub const LOST: End = End(0);
    /// The peer's host acknowledged nothing any more.
    pub const VANISHED: End = End(1);
    /// The client ended its direction.
    pub const ENDED: End = End(2);
    /// HTTP: an answer was the last, or no further request came.
    pub const FINISHED: End = End(3);
    /// The client did not read its output.
    pub const SLOW: End = End(4);
    /// Unfinished frames and requests of all connections were too much.
    pub const UNFINISHED_INPUT: End = End(5);
    /// The node had a reason to end it and could not send it.
    pub const CUT: End = End(6);

    /// The place of the cause among all.
    pub fn place(self) -> u8 {
        self.0
    }

    /// The cause at this place.
    pub fn at(place: u8) -> End {
        End(place)
    }

    /// The node sends this close code.
    pub fn of_node(code: u16) -> End {
        let rfc = RFC_OF_NODE.iter().position(|known| *known == code);
        let own = || CloseCode::ALL.iter().position(|own| own.number() == code);
        let place = rfc.map(|place| WITHOUT_CODE.len() + place);
        place.or_else(|| own().map(|place| OWN + place)).map_or(End::CUT, |place| End(place as u8))
    }

    /// The client has sent a close frame, with this code if it has one.
    pub fn of_client(code: Option<u16>) -> End {
        let code = code.unwrap_or(1005);
        let rfc = RFC_OF_CLIENT.iter().position(|known| *known == code);
        let place = rfc.map_or_else(|| RANGES + usize::from(code >= 4000), |place| CLIENT + place);
        End(place as u8)
    }
}

/// Ended connections, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Hand)]
pub struct EndCounts(Counts<ENDS_COUNT>);

impl EndCounts {
    /// Each cause: its side, the close code or the word for an end without one, and the number of
    /// connections.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Cow<'static, str>, u64)> {
        (0..ENDS_COUNT).zip(self.0.numbers()).map(|(place, count)| {
            let (by, code) = name_of(place);
            (by, code, count)
        })
    }

    /// Counts a connection that ends for this cause.
    pub(crate) fn count(&mut self, end: End) {
        self.0.count(usize::from(end.0));
    }

    /// Those that the node closed with a code.
    pub fn of_node(&self, code: u16) -> u64 {
        self.0.of(usize::from(End::of_node(code).0))
    }
}

impl std::ops::AddAssign for EndCounts {
    fn add_assign(&mut self, other: EndCounts) {
        self.0 += other.0;
    }
}

fn name_of(place: usize) -> (&'static str, Cow<'static, str>) {
    let number = |code: u16| Cow::Owned(code.to_string());
    match place {
        _ if place < WITHOUT_CODE.len() => {
            let (by, word) = WITHOUT_CODE[place];
            (by, Cow::Borrowed(word))
        }
        _ if place < OWN => ("node", number(RFC_OF_NODE[place - WITHOUT_CODE.len()])),
        _ if place < CLIENT => ("node", number(CloseCode::ALL[place - OWN].number())),
        _ if place < RANGES => ("client", number(RFC_OF_CLIENT[place - CLIENT])),
        _ => ("client", Cow::Borrowed(RANGES_OF_CLIENT[place - RANGES])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_name_of_its_own() {
        let counts = EndCounts::default();
        let names: std::collections::BTreeSet<_> =
            counts.iter().map(|(by, code, _)| (by, code)).collect();
        assert_eq!(names.len(), ENDS_COUNT);
    }

    #[test]
    fn codes_find_their_places() {
        let name = |end: End| {
            let (by, code) = name_of(usize::from(end.0));
            format!("{by} {code}")
        };
        for (end, expected) in [
            (End::LOST, "client lost"),
            (End::CUT, "node cut"),
            (End::of_node(1009), "node 1009"),
            (End::of_node(3000), "node 3000"),
            (End::of_node(4500), "node 4500"),
            (End::of_node(1), "node cut"),
            (End::of_client(None), "client 1005"),
            (End::of_client(Some(1000)), "client 1000"),
            (End::of_client(Some(3004)), "client 3000-3999"),
            (End::of_client(Some(4999)), "client 4000-4999"),
        ] {
            assert_eq!(name(end), expected);
        }
    }
}
