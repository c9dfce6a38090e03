//! Answers to commands: refusals, and frames that only the native protocol has.
//!
//! Step 3 of the path.

use crate::admission::{Detail, NotAdmitted};
use crate::edge::Edge;
use crate::edge::outbox::Origin;
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::notice::{Notice, Refusal};
use crate::protocol::flag;
use wire::native::{ErrorCode, Reference, ServerFrame};
use wire::websocket::frame::{Opcode, encode_header};

impl Edge {
    /// Queues a frame that answers a command.
    pub(crate) fn send_native(&mut self, index: ConnIndex, frame: &ServerFrame<'_>) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let mut body = std::mem::take(&mut self.work.scratch);
        body.clear();
        frame.encode(&mut body);
        if !self.send_packed(index, &body) {
            let header = encode_header(true, Opcode::Binary, body.len(), None);
            let place = self.enter_bytes(&[header.as_bytes(), &body], Origin::Private);
            self.push_place(index, place);
        }
        self.work.scratch = body;
        if let ServerFrame::Error(error) = frame {
            self.count_error(index, error);
        }
    }

    /// Refuses a command.
    pub(crate) fn refuse(&mut self, index: ConnIndex, reference: Reference, refusal: Refusal) {
        self.notify(index, &Notice::Failed { reference, refusal, message: None });
    }

    /// Refuses a command with a code and nothing more.
    pub(crate) fn native_refuse(
        &mut self,
        index: ConnIndex,
        reference: Reference,
        code: ErrorCode,
    ) {
        self.refuse(index, reference, Refusal::of(code));
    }

    /// Refuses an action on a topic or filter. Where a permission is missing, the message names
    /// both.
    #[cold]
    pub(crate) fn refuse_act(
        &mut self,
        index: ConnIndex,
        reference: Reference,
        (action, wanted): (Action, &str),
        code: ErrorCode,
    ) {
        let text;
        let message = match code {
            ErrorCode::Forbidden => {
                text = action.refusal(wanted);
                Some(&*text)
            }
            _ => None,
        };
        let refusal = Refusal::of(code);
        self.notify(index, &Notice::Failed { reference, refusal, message });
    }

    /// Refuses a publication.
    #[cold]
    pub(crate) fn refuse_publication(
        &mut self,
        index: ConnIndex,
        reference: Reference,
        NotAdmitted { code, detail }: NotAdmitted<'_>,
    ) {
        let limit = match detail {
            Detail::Topic(topic) => {
                return self.refuse_act(index, reference, (Action::Publish, topic), code);
            }
            Detail::Message(_, bytes_max) | Detail::Request(_, bytes_max) => Some(bytes_max.into()),
            Detail::Attributes(bytes_max) => Some(bytes_max as u64),
            Detail::Rate(too_fast) => Some(too_fast.limit),
            Detail::None | Detail::Name(_) => None,
        };
        self.refuse(index, reference, Refusal { limit, ..Refusal::of(code) });
    }
}
