//! Operators' queries in a script, and the answers as text.

use broker::inspect::{
    Answer, Connection, ConnectionsWanted, Question, Topic, TopicsWanted, Transport,
};
use broker::mail::{PageLimits, PartitionId, Publication};
use log::RecordView;
use stdx::chunk::Slice;

/// Entries of one page, so that lists have several.
const LEN_MAX: u32 = 2;

/// A list from this place on.
pub fn list_of(words: &[&str], from: u32, now_ms: u64) -> Question {
    let len_max = LEN_MAX;
    match words {
        ["connections", wanted @ ..] => {
            let mut all = ConnectionsWanted::default();
            for word in wanted {
                match word.split_once('=') {
                    Some(("subject", subject)) => all.subject = Some(subject.into()),
                    Some(("in", network)) => {
                        all.network = Some(stdx::networks::Network::parse(network).unwrap());
                    }
                    _ if *word == "lagging" => all.lagging = true,
                    _ => all.spoken = Some(Transport::of(word).unwrap()),
                }
            }
            let wanted = all;
            Question::Connections { from, wanted, len_max }
        }
        ["topics", wanted @ ..] => {
            let text = wanted.first().copied().unwrap_or_default();
            let is_filter = text.contains(['+', '#']);
            let wanted = TopicsWanted {
                prefix: if is_filter { "" } else { text }.into(),
                filter: if is_filter { text } else { "" }.into(),
            };
            Question::Topics { from, wanted, len_max, now_ms }
        }
        _ => panic!("operators ask no such thing: {words:?}"),
    }
}

/// Any other question.
pub fn question_of(words: &[&str], now_ms: u64) -> Question {
    match words {
        ["topic", name] => {
            Question::Topic { partition: PartitionId(0), name: (*name).into(), now_ms }
        }
        ["history", topic] => Question::History {
            topic: (*topic).into(),
            beyond: None,
            reverse: false,
            limits: PageLimits { records_max: 10, bytes_max: 1_000 },
        },
        ["publish", topic, payload, options @ ..] => Question::Publish(Publication {
            topic: Slice::copy_of(topic.as_bytes()),
            payload: Slice::copy_of(payload.as_bytes()),
            retain: options.contains(&"retain"),
            ..Publication::default()
        }),
        _ => panic!("operators ask no such thing: {words:?}"),
    }
}

/// The answer, line by line, and the start of the list's next part.
pub fn told(answer: Answer) -> (Vec<String>, Option<u32>) {
    let one = |text: String| (vec![text], None);
    match answer {
        Answer::Connections(found, next) => (found.iter().map(connection).collect(), next),
        Answer::Topics(found, next) => (found.iter().map(topic).collect(), next),
        Answer::Topic(None) | Answer::Connection(None) | Answer::Subscriptions(None) => {
            one("nothing".into())
        }
        Answer::Connection(Some(found)) => one(connection(&found)),
        Answer::Subscriptions(Some((found, more))) => {
            let mut lines: Vec<String> = found
                .iter()
                .map(|found| {
                    let to = match (&found.filter, found.topic) {
                        (Some(filter), _) => filter.to_string(),
                        (None, Some((home, index))) => format!("index {}.{index}", home.0),
                        (None, None) => "?".into(),
                    };
                    let position = found.position.map(|at| format!(" {}:{}", at.epoch, at.offset));
                    let position = position.unwrap_or_default();
                    format!("{} {to} {}{position} {:?}", found.number, found.stage, found.policy)
                })
                .collect();
            lines.extend(more.then(|| "more".into()));
            (lines, None)
        }
        Answer::Topic(Some(detail)) => one(format!(
            "{} records {} oldest {:?} all {}",
            topic(&detail.topic),
            detail.records,
            detail.oldest.map(|at| at.offset),
            detail.is_all,
        )),
        Answer::Subscribers(found) => one(format!("{found:?}")),
        Answer::Names(names) => {
            let named = names.iter().map(|name| match &**name {
                "" => "nobody",
                name => name,
            });
            one(named.collect::<Vec<_>>().join(" "))
        }
        Answer::Disconnected(is_there) => one(format!("disconnected {is_there}")),
        Answer::Published(Ok(appended)) => one(format!("published {}", appended.position.offset)),
        Answer::Published(Err(refusal)) => one(format!("refused {}", refusal.code.name())),
        Answer::History(Err(code)) => one(format!("refused {}", code.name())),
        Answer::History(Ok(page)) => {
            let records = page.records.iter().map(|record| {
                let record = RecordView::parse(record).unwrap();
                let payload = String::from_utf8_lossy(record.payload());
                format!("{} {payload}", record.offset())
            });
            (records.collect(), None)
        }
        Answer::NotHere => one("not here".into()),
    }
}

fn connection(found: &Connection) -> String {
    let mut text =
        format!("{} {} subscriptions {}", found.id, found.spoken.word(), found.subscriptions);
    if let Some(address) = found.address {
        text += &format!(" from {address}");
    }
    if let Some(subject) = &found.subject {
        text += &format!(" subject {subject}");
    }
    if found.outbox_len > 0 || found.outbox_bytes > 0 {
        text += &format!(" waiting {} of {} bytes", found.outbox_len, found.outbox_bytes);
    }
    for (is_so, word) in [
        (found.is_lagging, " lagging"),
        (found.is_blocked, " blocked"),
        (found.is_closing, " closing"),
    ] {
        text += if is_so { word } else { "" };
    }
    text
}

fn topic(found: &Topic) -> String {
    let head = found.head.map(|at| format!(" head {}", at.offset));
    let retained = found.retained_bytes.map(|bytes| format!(" retained {bytes}"));
    let recent =
        found.recent.map(|recent| format!(" recent {} in {} ms", recent.messages, recent.span_ms));
    format!(
        "{}{}{}{} edges {:?}",
        found.name,
        head.unwrap_or_default(),
        retained.unwrap_or_default(),
        recent.unwrap_or_default(),
        found.edges
    )
}
