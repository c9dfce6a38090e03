//! Members of groups in scripts.
//!
//! `join e0 m1 g/# room 2 since 7:5` is a member of the group `g` with the filter `#`; `leave e0 m1
//! g/# until 60000` ends its connection, and its session sleeps so long (without: it ends, too);
//! `done e0 m1 5` acknowledges a message, and `return e0 m1 5` gives it back.

use super::START_MS;
use broker::mail::*;
use stdx::chunk::Slice;
use stdx::key::Key;

pub(super) fn request(words: &[&str]) -> GroupRequest {
    let number = |word: &str| word.trim_start_matches(char::is_alphabetic).parse().unwrap();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name);
        at.and_then(|at| words.get(at + 1)).copied()
    };
    let member = |word: &str| {
        let number: u64 = number(word);
        let connection = Key { index: number as u32, generation: 0 };
        Member { connection, number, client: number }
    };
    let partition = PartitionId(0);
    match *words {
        ["join", _, key, group, ..] => {
            let position = after("since").map(|position| position.parse().unwrap());
            let since = position.map(|position| PartitionCursor { partition, position });
            GroupRequest::Join(Box::new(JoinGroup {
                group: Slice::copy_of(group.as_bytes()),
                member: member(key),
                room: after("room").map_or(1, |room| room.parse().unwrap()),
                since: since.into_iter().collect(),
            }))
        }
        ["leave", _, key, group, ..] => GroupRequest::Leave(Box::new(LeaveGroup {
            group: Slice::copy_of(group.as_bytes()),
            member: member(key),
            until_ms: after("until").map_or(0, |ms| START_MS + ms.parse::<u64>().unwrap()),
            keeps_open: false,
        })),
        [how, _, key, offset] => GroupRequest::Done(GroupDone {
            number: number(key),
            partition,
            offset: offset.parse().unwrap(),
            is_returned: how == "return",
        }),
        _ => panic!("unknown: {words:?}"),
    }
}
