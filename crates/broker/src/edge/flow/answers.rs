//! Answers to commands: refusals.
//!
//! Step 3 of the path.

use crate::admission::{Detail, NotAdmitted};
use crate::edge::Edge;
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::notice::{Notice, Refusal};
use wire::native::{ErrorCode, Reference};

impl Edge {
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
        let text = (code == ErrorCode::Forbidden).then(|| action.refusal(wanted));
        let message = text.as_deref();
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
