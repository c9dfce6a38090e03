//! One message under way to the subscribers of this edge, and its frames so far.

use super::compression::Packed;
use super::outbox::{FrameNumber, Origin};
use crate::ids::TopicIndex;
use crate::mail::HomeId;
use crate::protocol::Form;
use log::RecordView;
use stdx::chunk::Slice;

/// The frames of a message in one form; `None`: no client has needed it so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Entered {
    pub plain: Option<FrameNumber>,
    pub packed: Option<Packed>,
}

/// One message under way to the subscribers of this edge, and its frames so far.
pub(crate) struct Delivery<'a> {
    pub record: &'a Slice,
    pub view: RecordView<'a>,
    pub home: HomeId,
    pub topic: TopicIndex,
    /// The delivery answers a question of one connection, and the log may not bring it again.
    pub is_answer: bool,
    /// The record is read from the log for one subscription, not for all.
    pub is_private: bool,
    /// The native frames, by form.
    pub native: [Entered; Form::ALL.len()],
    pub raw: Option<FrameNumber>,
    /// The packets of MQTT, by transport, version and RETAIN.
    pub mqtt: [Option<FrameNumber>; 8],
}

impl<'a> Delivery<'a> {
    pub fn new(record: &'a Slice, home: HomeId, topic: TopicIndex) -> Option<Delivery<'a>> {
        let view = RecordView::parse(record)?;
        Some(Delivery {
            record,
            view,
            home,
            topic,
            is_answer: false,
            is_private: false,
            native: [Entered::default(); Form::ALL.len()],
            raw: None,
            mqtt: [None; 8],
        })
    }

    /// A record of a page for subscriptions to filters, which need no index.
    pub fn of_page(record: &'a Slice) -> Option<Delivery<'a>> {
        Delivery::new(record, HomeId(0), TopicIndex(0))
    }

    pub fn origin(&self) -> Origin {
        if self.is_answer {
            return Origin::Private;
        }
        Origin::Plain {
            home: self.home,
            index: self.topic,
            prev: self.view.prev(),
            offset: self.view.offset(),
        }
    }
}
