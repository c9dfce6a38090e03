//! Sessions of MQTT in the log: what lets them outlive the node.
//!
//! Beside the path. A session is the retained message of the topic `$mqtt/s/NAME`, in the log that
//! the rules choose for it; only a log on disk keeps sessions. It is written when the session goes
//! to sleep, when its subscriptions change, and now and then while it lasts; a start finds it among
//! the retained messages. So what a session takes is its record, and there is no second store.
//!
//! Invariant: clients neither publish nor subscribe below `$mqtt`.

use super::Home;
use super::turn::Turn;
use super::work::Caller;
use crate::mail::{EdgeId, Publication, Publish, RequestClass, SleepingSession};
use crate::settings::Durability;
use crate::sys;
use crate::topic::NAME_BYTES_MAX;
use log::RecordView;
use stdx::chunk::Slice;
use stdx::handing::{Hand, Input};

/// The form of the records; a start ignores records of another form.
const FORM: u8 = 1;

impl Home {
    /// Writes a session, or that it is over, where its log is on disk.
    pub(super) fn keep_session(
        &mut self,
        name: &[u8],
        session: Option<&SleepingSession>,
        turn: &mut Turn<'_>,
    ) {
        let topic = sys::session_topic(name);
        let (rule, partition) = self.settings.locate(&topic);
        if self.settings.log_of(partition).durability != Durability::Disk {
            return;
        }
        let is_too_long = topic.len() > NAME_BYTES_MAX; // its escapes have made it so
        if is_too_long || !self.clients.note_kept(name, session.is_some()) {
            return;
        }
        let mut payload = Vec::new();
        if let Some(session) = session {
            payload.push(FORM);
            session.give(&mut payload);
        }
        let publication = Publication {
            topic: Slice::copy_of(topic.as_bytes()),
            payload: Slice::copy_of(&payload),
            retain: true,
            ..Publication::default()
        };
        let from =
            Caller { edge: EdgeId(0), cost: 0, class: RequestClass::Memory, is_consumed: true };
        self.publish(from, &Publish { partition, rule, reply: None, publication }, turn);
    }

    /// A start has found a retained message: perhaps it is a session.
    pub(super) fn restore_session(&mut self, topic: &[u8], record: &Slice) {
        let name = std::str::from_utf8(topic).ok().and_then(sys::name_of_session);
        let payload = RecordView::parse(record).map_or(&[][..], |view| view.payload());
        if let (Some(name), Some((&FORM, session))) = (name, payload.split_first())
            && let Some(session) = SleepingSession::take(&mut Input::new(session))
        {
            self.clients.restore(name.as_bytes(), session);
        }
    }
}
