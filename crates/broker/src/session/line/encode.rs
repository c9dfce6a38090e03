//! Notices and messages to lines.

use super::Line;
use crate::notice::{Encoded, Found, LeftOut, Notice, Settles, Then};
use crate::position::Position;
use crate::session::json::append;
use log::RecordView;

/// Appends the line of a notice; nothing where there are no words for it.
pub(in crate::session) fn notice(line: &Line, notice: &Notice<'_>, out: &mut Vec<u8>) -> Encoded {
    match *notice {
        Notice::Subscribed { client, grant, .. } => {
            let (topic, position) = (line.topic(client), grant.position);
            append(out, format_args!("subscribed {topic} {position}\n"));
        }
        Notice::Refused { client, refusal } => {
            let (topic, code) = (line.topic(client), refusal.code.name());
            append(out, format_args!("refused {topic} {code}\n"));
        }
        Notice::Failed { refusal, .. } => {
            append(out, format_args!("error {}\n", refusal.code.name()));
        }
        Notice::Gap { client, epoch, gap, found, .. } => {
            let (topic, from, to) = (line.topic(client), gap.from, gap.to);
            append(out, format_args!("gap {topic} {from} {to}\n"));
            if let Found::InPage = found {
                return mark(client, from, Position { epoch, offset: to });
            }
        }
        Notice::LeftOut { client, epoch, left_out: LeftOut { from, through, .. }, .. } => {
            let topic = line.topic(client);
            append(out, format_args!("skipped {topic} {from} {through}\n"));
            return mark(client, from, Position { epoch, offset: through });
        }
        Notice::CaughtUp { client, from, position, .. } => {
            append(out, format_args!("caught-up {} {position}\n", line.topic(client)));
            return mark(client, from, position);
        }
        Notice::Unsubscribed { client, code } => {
            append(out, format_args!("ended {} {}\n", line.topic(client), code.name()));
        }
        Notice::Published { result: Ok(appended), .. } => {
            append(out, format_args!("published {}\n", appended.position));
        }
        Notice::Published { result: Err(refusal), .. } => {
            append(out, format_args!("error {}\n", refusal.code.name()));
        }
        Notice::GoAway { return_after_ms, .. } => {
            append(out, format_args!("return {return_after_ms}\n"));
            return Encoded::ANSWER.then(Then::Close);
        }
        Notice::Started { .. }
        | Notice::RetainedSent { .. }
        | Notice::SubscribedFilter { .. }
        | Notice::FiltersStarted { .. }
        | Notice::FilterCaughtUp { .. }
        | Notice::History { .. }
        | Notice::TokenExpires { .. }
        | Notice::Welcome(_)
        | Notice::Ping { .. }
        | Notice::Pong { .. }
        | Notice::TicketIssued { .. }
        | Notice::Renewed { .. } => {}
    }
    Encoded::ANSWER
}

fn mark(client: u32, from: u64, position: Position) -> Encoded {
    Encoded::mark(Settles::Topic { client, from, position })
}

/// Appends the line of a message.
pub(in crate::session) fn message(
    line: &Line,
    client: u32,
    epoch: u64,
    view: &RecordView<'_>,
    out: &mut Vec<u8>,
) {
    let position = Position { epoch, offset: view.offset() };
    append(out, format_args!("message {} {position} ", line.topic(client)));
    // A line's end would begin another line.
    out.extend(view.payload().iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
    out.push(b'\n');
}
