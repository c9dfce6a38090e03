//! Native frames to commands.
//!
//! Step 3 of the path. Values in, values out: no state, no limits, no permissions.

use crate::command::{Begin, Command, History, Malformed, Publish, Subscribe};
use crate::mail::{PartitionCursor, PartitionId, Start};
use crate::notice::Refusal;
use crate::position::Position;
use crate::session::native::encode::policy_of;
use std::collections::BTreeMap;
use wire::native::{
    self, ClientFrame, CloseCode, ErrorCode, FrameError, ItemError, List, Reference, SubscribeItem,
    SubscribeRequest,
};

/// One frame.
pub(crate) enum Frame<'a> {
    /// Begins the session.
    Hello(native::Hello<'a>),
    /// Items are taken one by one, spread over turns.
    Subscribe(List<'a, SubscribeItem<'a>>),
    Unsubscribe(List<'a, u32>),
    Command(Command<'a>),
}

/// A frame that breaks the protocol.
pub(crate) struct Violation {
    pub reference: Reference,
    pub refusal: Refusal,
    /// The code and reason with which the connection closes, if it does.
    pub close: Option<(CloseCode, &'static str)>,
}

/// Decodes one frame. `has_begun`: HELLO has been answered.
///
/// # Errors
/// The frame is malformed or unknown, HELLO is missing, or it is repeated.
#[inline]
pub(crate) fn decode(bytes: &[u8], has_begun: bool) -> Result<Frame<'_>, Violation> {
    let frame = ClientFrame::decode(bytes).map_err(|error| violation(&error))?;
    if let ClientFrame::Hello(hello) = frame {
        return if has_begun {
            Err(out_of_order(ErrorCode::HelloRepeated))
        } else {
            Ok(Frame::Hello(hello))
        };
    }
    if !has_begun {
        return Err(out_of_order(ErrorCode::HelloRequired));
    }
    Ok(match frame {
        ClientFrame::Hello(hello) => Frame::Hello(hello),
        ClientFrame::Subscribe(subscribe) => Frame::Subscribe(subscribe.items),
        ClientFrame::Unsubscribe(unsubscribe) => Frame::Unsubscribe(unsubscribe.subscriptions),
        ClientFrame::Publish(publish) => Frame::Command(Command::Publish(publish_of(publish))),
        ClientFrame::History(history) => Frame::Command(Command::History(history_of(history))),
        ClientFrame::Credit(credit) => Frame::Command(Command::Credit {
            client: credit.subscription,
            messages: credit.messages,
        }),
        ClientFrame::Ping(token) => Frame::Command(Command::Ping(token)),
        ClientFrame::Pong(_) => Frame::Command(Command::Pong),
        ClientFrame::Ticket(request) => Frame::Command(Command::Ticket { request }),
        ClientFrame::Renew(renew) => {
            Frame::Command(Command::Renew { request: renew.request, token: renew.token })
        }
    })
}

/// The command of one item of a SUBSCRIBE.
///
/// # Errors
/// The item is invalid, which affects only itself.
pub(crate) fn subscribe_of(
    request: Result<SubscribeRequest<'_>, ItemError>,
) -> Result<Subscribe<'_>, Malformed> {
    let request =
        request.map_err(|error| Malformed { code: error.code(), limit: error.limit() })?;
    Ok(Subscribe {
        filter: request.filter,
        begin: begin_of(request.start),
        fail_on_gap: request.fail_on_gap,
        policy: request.policy.map(policy_of),
        replay_credit: request.replay_credit,
    })
}

fn begin_of(start: native::Start<'_>) -> Begin {
    match start {
        native::Start::Live => Begin::At(Start::Live),
        native::Start::Since(position) => Begin::At(Start::Since(position_of(position))),
        native::Start::Last(count) => Begin::At(Start::Last(count)),
        native::Start::Snapshot => Begin::At(Start::Snapshot),
        // Of a partition that is listed twice the last position counts.
        native::Start::SinceEach(cursors) => {
            let each: BTreeMap<_, _> = cursors
                .iter()
                .map(|cursor| (PartitionId(cursor.partition), position_of(cursor.position)))
                .collect();
            let cursor_of = |(partition, position)| PartitionCursor { partition, position };
            Begin::After(each.into_iter().map(cursor_of).collect())
        }
    }
}

#[inline]
fn publish_of(publish: native::Publish<'_>) -> Publish<'_> {
    Publish {
        request: publish.request,
        topic: publish.topic,
        attributes: publish.attributes,
        payload: publish.payload,
        retain: publish.options.retain,
        once: publish.options.once,
        expected_epoch: publish.options.expected_epoch,
        mqtt: None,
    }
}

fn history_of(history: native::History<'_>) -> History<'_> {
    History {
        request: history.request,
        topic: history.topic,
        beyond: history.position.map(position_of),
        reverse: history.reverse,
        records_max: history.records_max,
        bytes_max: history.bytes_max,
    }
}

fn position_of(position: native::Position) -> Position {
    Position { epoch: position.epoch, offset: position.offset }
}

/// The answer to a frame that cannot be decoded.
pub(crate) fn violation(error: &FrameError) -> Violation {
    const CODES: [(ErrorCode, CloseCode); 3] = [
        (ErrorCode::UnsupportedVersion, CloseCode::UnsupportedVersion),
        (ErrorCode::UnsupportedFrame, CloseCode::UnsupportedFrame),
        (ErrorCode::UnsupportedOption, CloseCode::UnsupportedOption),
    ];
    let found = CODES.iter().find(|(of_error, _)| *of_error == error.code());
    let code = found.map_or(CloseCode::ProtocolError, |(_, close)| *close);
    Violation {
        reference: error.reference(),
        refusal: Refusal { limit: error.limit(), ..Refusal::of(error.code()) },
        close: error.closes().then_some((code, code.text())),
    }
}

fn out_of_order(code: ErrorCode) -> Violation {
    Violation {
        reference: Reference::Connection,
        refusal: Refusal::of(code),
        close: Some((CloseCode::HelloRequired, code.text())),
    }
}
