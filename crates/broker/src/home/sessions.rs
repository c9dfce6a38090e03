//! Sessions of MQTT in the log: what lets them outlive the node.
//!
//! Beside the path. A session is the retained message of the topic `$mqtt/s/NAME`, in the log that
//! the rules choose for it; only a log on disk keeps sessions. It is written when the session goes
//! to sleep, and while it lasts whenever its client is to know something that the log has to know
//! first (`edge::flow::mqtt::record`); a start finds it among the retained messages. So a session
//! takes no more than its record, and there is no second store.
//!
//! Invariant: clients neither publish nor subscribe below `$mqtt`.

use super::Home;
use super::turn::Turn;
use super::work::Caller;
use crate::mail::{
    Appended, EdgeId, Publication, Publish, Reply, RequestClass, SleepingSession, ToEdge,
};
use crate::position::Position;
use crate::settings::Durability;
use crate::sys;
use crate::topic::NAME_BYTES_MAX;
use log::RecordView;
use stdx::chunk::Slice;
use stdx::handing::{Hand, Input};
use stdx::key::Key;

/// The form of the records; a start ignores records of another form.
const FORM: u8 = 4;

/// The connection that waits until the log has its session, if it does.
type Asker = Option<(EdgeId, Key)>;

fn reply_to(connection: Key) -> Reply {
    Reply { connection, request: Reply::SESSION_KEPT }
}

/// Nothing is to be written: the log has what it should have.
pub(super) fn session_kept(asker: Asker, turn: &mut Turn<'_>) {
    if let Some((edge, connection)) = asker {
        let position = Position { epoch: 0, offset: 0 };
        let result = Ok(Appended { position, duplicate: true, is_unheard: false });
        turn.out.post(edge, ToEdge::Published { reply: reply_to(connection), result });
    }
}

impl Home {
    /// Writes a session, or its end, where its log is on disk. The asker gets an answer when the
    /// log has it. An asker may repeat the end of a session, because the log may refuse it.
    pub(super) fn keep_session(
        &mut self,
        name: &[u8],
        session: Option<&SleepingSession>,
        asker: Asker,
        turn: &mut Turn<'_>,
    ) {
        let topic = sys::session_topic(name);
        let (rule, partition) = self.settings.locate(&topic);
        let is_on_disk = self.settings.log_of(partition).durability == Durability::Disk;
        let is_too_long = topic.len() > NAME_BYTES_MAX; // its escapes have made it so
        let is_needed = match (session, asker) {
            (None, Some(_)) => self.clients.is_kept(name),
            (Some(_), _) | (None, None) => self.clients.note_kept(name, session.is_some()),
        };
        if !is_on_disk || is_too_long || !is_needed {
            return session_kept(asker, turn);
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
        let edge = asker.map_or(EdgeId(0), |(edge, _)| edge);
        let from = Caller {
            edge,
            cost: 0,
            class: RequestClass::Memory,
            is_consumed: true,
            has_waited: false,
        };
        let reply = asker.map(|(_, connection)| reply_to(connection));
        self.publish(from, &Publish { partition, rule, reply, publication }, turn);
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
