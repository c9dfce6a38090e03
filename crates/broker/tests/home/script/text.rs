//! A home's letters as the lines of a transcript.

use crate::support::EPOCH;
use broker::disk::{DiskQuery, DiskRequest};
use broker::mail::*;
use broker::position::Position;
use log::RecordView;
use stdx::chunk::Slice;

fn record(record: &Slice) -> String {
    let record = RecordView::parse(record).unwrap();
    let payload = match std::str::from_utf8(record.payload()).unwrap() {
        "" => "empty".into(),
        long if long.len() > 20 => format!("{} bytes", long.len()),
        short => short.to_string(),
    };
    let retained = if record.flags().has(log::Flags::RETAINED) { "!" } else { "" };
    format!("{}<{}{retained} {payload}", record.offset(), record.prev())
}

fn records(all: &[Slice]) -> String {
    let texts: Vec<String> = all.iter().map(record).collect();
    format!("[{}]", texts.join(", "))
}

fn gap(gap: &Option<Gap>) -> String {
    gap.map_or(String::new(), |gap| format!(" gap {}..{} {:?}", gap.from, gap.to, gap.reason))
}

fn flag(is: bool, name: &str) -> String {
    if is { format!(" {name}") } else { String::new() }
}

fn granted(grant: &Grant) -> String {
    let Grant { subscription, index, generation, position, replaying, gap: lost, retained, .. } =
        grant;
    let Position { epoch, offset: through } = *position;
    let epoch = if epoch == EPOCH { String::new() } else { format!(" epoch {epoch}") };
    let retained = retained.as_ref().map_or(String::new(), |r| format!(" retained {}", record(r)));
    let replaying = if *replaying { "replaying" } else { "live" };
    let lost = gap(lost);
    format!(
        "granted s{} i{index} g{generation} {replaying} through {through}{epoch}{lost}{retained}",
        subscription.index
    )
}

fn page(page: &Page) -> String {
    let skipped = page.skipped.map_or(String::new(), |to| format!(" skipped through {to}"));
    format!(
        "page s{}{}{skipped} {} through {}{}",
        page.subscription.index,
        gap(&page.gap),
        records(&page.records),
        page.through,
        flag(page.caught_up, "caught-up")
    )
}

fn filter_page(page: &FilterPage) -> String {
    let FilterPage { subscription, partition, after, records, skipped, through, .. } = page;
    let skip = |skip: &Skip| format!(" skipped {}..{}", skip.from, skip.through);
    let skipped: String = skipped.iter().map(skip).collect();
    let named = |(name, message): &(Slice, Slice)| {
        let name = std::str::from_utf8(name).unwrap();
        format!("{name} {}", record(message))
    };
    let records: Vec<String> = records.iter().map(named).collect();
    format!(
        "page s{} p{} after {after}{} [{}]{skipped} through {through}{}",
        subscription.index,
        partition.0,
        gap(&page.gap),
        records.join(", "),
        flag(page.caught_up, "caught-up")
    )
}

fn group_text(letter: &GroupLetter) -> String {
    match letter {
        GroupLetter::Joined(joined) => {
            let through = joined.through.iter().map(|(_, offset)| offset.to_string());
            let through: Vec<String> = through.collect();
            format!("joined m{} through {}", joined.member.number, through.join(" "))
        }
        GroupLetter::Message(message) => format!(
            "to m{} {} through {}",
            message.member.number,
            record(&message.record),
            message.through
        ),
        GroupLetter::Ended { .. } | GroupLetter::Asleep(_) => format!("{letter:?}"),
    }
}

pub fn text_of(letter: &ToEdge) -> String {
    match letter {
        ToEdge::Granted(grant) => granted(grant),
        ToEdge::Refused { subscription, code } => {
            format!("refused s{} {code:?}", subscription.index)
        }
        ToEdge::FilterGranted { subscription, result } => {
            let result = match result {
                Err(code) => format!(" {code:?}"),
                Ok(starts) => starts.iter().map(filter_start).collect(),
            };
            format!("filter s{}{result}", subscription.index)
        }
        ToEdge::FilterPage(page) => filter_page(page),
        ToEdge::Announce { index, topic, .. } => {
            format!("announce i{index} {}", std::str::from_utf8(topic).unwrap())
        }
        ToEdge::Message { index, record: message } => {
            format!("message i{index} {}", record(message))
        }
        ToEdge::Released { index } => format!("released i{index}"),
        ToEdge::Page(it) => page(it),
        ToEdge::Described(Description { names, positions, .. }) => {
            format!("described {:?} {positions:?}", String::from_utf8_lossy(names))
        }
        ToEdge::Positions { positions } => {
            let position = |at: &StreamPosition| {
                let StreamPosition { partition, through, oldest } = at;
                format!(" p{} through {through} of {oldest}..", partition.0)
            };
            format!("positions{}", positions.iter().map(position).collect::<String>())
        }
        ToEdge::Epoch { partition, epoch } => format!("epoch p{} {epoch}", partition.0),
        ToEdge::Restarted { partition, epoch } => format!("restarted p{} {epoch}", partition.0),
        ToEdge::StreamGap { from, to, .. } => format!("stream-gap {from}..{to}"),
        ToEdge::History { result: Ok(page), .. } => format!(
            "history head {}{} {}{}",
            page.head,
            gap(&page.gap),
            records(&page.records),
            flag(page.more, "more")
        ),
        ToEdge::History { result: Err(code), .. } => format!("history {code:?}"),
        ToEdge::Published { result: Ok(appended), .. } => {
            format!("published {}{}", appended.position, flag(appended.duplicate, "duplicate"))
        }
        ToEdge::Published { result: Err(refusal), .. } => format!(
            "published {:?}{}",
            refusal.code,
            refusal.present.map_or(String::new(), |present| format!(" present {present}"))
        ),
        ToEdge::Consumed { class, requests, .. } => match class {
            RequestClass::Memory => format!("consumed {requests}"),
            RequestClass::Disk(_) => format!("consumed {requests} of the log"),
            RequestClass::Pages(_) => format!("consumed {requests} pages"),
        },
        ToEdge::RetainedFound(found) => found_text(found),
        ToEdge::Group(letter) => group_text(letter),
        ToEdge::Claimed { .. }
        | ToEdge::TakenOver { .. }
        | ToEdge::WillLeft { .. }
        | ToEdge::RecordFound(_)
        | ToEdge::SessionsSleep(_) => format!("{letter:?}"),
        ToEdge::Stalled { is_stalled: true, .. } => "stalled".into(),
        ToEdge::Stalled { is_stalled: false, .. } => "goes on".into(),
    }
}

fn found_text(found: &RetainedFound) -> String {
    let of = |(name, record): &(Slice, Slice)| {
        let payload = RecordView::parse(record).map_or(&[][..], |view| view.payload());
        format!(" {} {}", String::from_utf8_lossy(name), String::from_utf8_lossy(payload))
    };
    format!("found{}", found.records.iter().map(of).collect::<String>())
}

pub fn disk_text(request: &DiskRequest) -> String {
    let text = |topic: &Slice| String::from_utf8(topic.to_vec()).unwrap();
    match request {
        DiskRequest::Append { generation, topic, record: appended, .. } => {
            format!("append g{generation} {} {}", text(topic), record(appended))
        }
        DiskRequest::Describe { from, .. } => format!("disk describe from {from}"),
        DiskRequest::Resume { generation, .. } => format!("disk resume g{generation}"),
        DiskRequest::Read { query, .. } => match query {
            DiskQuery::Page { topic, after, through, .. } => {
                format!("ask page {} {after}..{through}", text(topic))
            }
            DiskQuery::PageBack { topic, before, oldest, .. } => {
                format!("ask back {} before {before} from {oldest}", text(topic))
            }
            DiskQuery::Start { topic, through, count, after, .. } => {
                format!("ask start {} newest {count} through {through} after {after}", text(topic))
            }
            DiskQuery::Scan { after, through, .. } => format!("ask scan {after}..{through}"),
        },
    }
}

fn filter_start(start: &FilterStart) -> String {
    let resumed = start.resumed.map_or(String::new(), |resumed| {
        format!(" resumed after {}{}", resumed.after, gap(&resumed.gap))
    });
    format!(" p{} through {}:{}{resumed}", start.partition.0, start.epoch, start.through)
}
