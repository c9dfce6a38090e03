//! The start of a subscription, by the user property `crore-start` of SUBSCRIBE, and the wish for
//! positions.

use crate::command::Begin;
use crate::ids::PartitionId;
use crate::mail::{PartitionCursor, Start};
use wire::mqtt::Properties;

/// The user property.
const START: &str = "crore-start";
/// The user property of CONNECT by which a client asks for positions.
const POSITIONS: (&str, &str) = ("crore-positions", "1");

/// Whether a CONNECT asks for positions.
pub(crate) fn wants_positions(properties: &Properties<'_>) -> bool {
    properties.user().any(|user| (user.name, user.value) == POSITIONS)
}

/// The start of all filters of a SUBSCRIBE packet; the last property counts. Live without one.
///
/// # Errors
/// The value is none of the known ones.
pub(crate) fn start_of(properties: &Properties<'_>) -> Result<Begin, ()> {
    let asked = properties.user().filter(|user| user.name == START).last();
    asked.map_or(Ok(Begin::At(Start::Live)), |user| parse(user.value).ok_or(()))
}

/// `live`, `snapshot`, `last:N`, `since:E:O`, or `since_each:P=E:O,P=E:O`.
fn parse(text: &str) -> Option<Begin> {
    let start = match text.split_once(':') {
        None if text == "live" => Start::Live,
        None if text == "snapshot" => Start::Snapshot,
        Some(("last", count)) => Start::Last(count.parse().ok()?),
        Some(("since", position)) => Start::Since(position.parse().ok()?),
        Some(("since_each", list)) => {
            let cursors: Option<Vec<PartitionCursor>> = list.split(',').map(cursor).collect();
            return cursors.map(Begin::After);
        }
        _ => return None,
    };
    Some(Begin::At(start))
}

fn cursor(text: &str) -> Option<PartitionCursor> {
    let (partition, position) = text.split_once('=')?;
    let partition = PartitionId(partition.parse().ok()?);
    Some(PartitionCursor { partition, position: position.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Position;

    #[test]
    fn starts() {
        let at = |epoch, offset| Position { epoch, offset };
        for (text, expected) in [
            ("live", Some(Start::Live)),
            ("snapshot", Some(Start::Snapshot)),
            ("last:7", Some(Start::Last(7))),
            ("since:7:3", Some(Start::Since(at(7, 3)))),
            ("", None),
            ("last", None),
            ("last:", None),
            ("last:-1", None),
            ("since:7", None),
            ("since:7:3:1", None),
            ("earliest", None),
            ("since_each:", None),
            ("since_each:1=7:3,", None),
            ("since_each:1", None),
        ] {
            let begin = parse(text);
            let start = match &begin {
                Some(Begin::At(start)) => Some(*start),
                Some(Begin::After(_)) | None => None,
            };
            assert_eq!((start, begin.is_some()), (expected, expected.is_some()), "{text}");
        }
        let Some(Begin::After(cursors)) = parse("since_each:0=7:3,12=8:0") else {
            panic!("a list");
        };
        let expected = [(PartitionId(0), at(7, 3)), (PartitionId(12), at(8, 0))];
        let found: Vec<_> = cursors.iter().map(|it| (it.partition, it.position)).collect();
        assert_eq!(found, expected);
    }
}
