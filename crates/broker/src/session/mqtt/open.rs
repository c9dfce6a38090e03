//! Messages with QoS 1 and 2 that a client has not acknowledged in full: their packet identifiers,
//! their places in the log, and the window that bounds them.
//!
//! Identifiers go round from 1 to 65,535 and pass over open ones, so that an identifier comes again
//! as late as possible: a late acknowledgement of another message would else be taken for that of
//! the new one.

use super::lean::Lean;
use crate::mail::{OpenDelivery, PartitionId};
use stdx::handing::Hand;

/// See the module.
#[derive(Hand)]
pub(crate) struct Opened {
    /// In the order in which they were sent.
    deliveries: Lean<OpenDelivery>,
    next_id: u16,
    /// The maximum number of open messages.
    window: u16,
    /// Bytes of the open messages that this connection has sent.
    bytes: u64,
    /// Identifiers that a connection before this one has opened, and whose messages the log brings
    /// again.
    resends: Lean<u16>,
}

/// The meaning of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acknowledged {
    /// The exchange continues.
    Continues,
    /// The exchange is over: the window has room for another message.
    Over,
    /// No such identifier is open.
    Unknown,
    /// The message of this identifier has another QoS, or its exchange another state.
    Violated,
}

impl Opened {
    /// Nothing open.
    pub fn new(window: u16) -> Opened {
        Opened {
            deliveries: Lean::default(),
            next_id: 1,
            window: window.max(1),
            bytes: 0,
            resends: Lean::default(),
        }
    }

    /// Takes over the open messages of a session. The window may be smaller than their number.
    pub fn wake(&mut self, deliveries: Vec<OpenDelivery>, next_id: u16) {
        let unreceived = deliveries.iter().filter(|open| !open.is_received);
        self.resends = unreceived.map(|open| open.id).collect::<Vec<u16>>().into();
        self.deliveries = deliveries.into();
        self.next_id = next_id.max(1);
    }

    /// The number of records that may be asked for: for new messages, and for those that are sent
    /// again.
    pub fn records_max(&self, bytes_max: u64) -> usize {
        let room = if self.bytes < bytes_max { self.room() } else { 0 };
        room + self.resends.len().min(self.resend_room())
    }

    /// The number of messages that may be sent again now: the window may be smaller than that of
    /// the connection that has opened them ([MQTT-3.3.4-9]).
    fn resend_room(&self) -> usize {
        if self.resends.is_empty() {
            return 0;
        }
        let is_sent = |open: &&OpenDelivery| !self.resends.contains(&open.id);
        let sent = self.deliveries.iter().filter(is_sent).count();
        usize::from(self.window).saturating_sub(sent)
    }

    /// Whether a message is to be sent again, and the client has no room for it now.
    pub fn lacks_room_to_resend(&self, partition: PartitionId, offset: u64) -> bool {
        let open = self.find(partition, offset);
        open.is_some_and(|open| self.resends.contains(&open.id)) && self.resend_room() == 0
    }

    /// Whether another message may be opened.
    pub fn has_room(&self, bytes_max: u64) -> bool {
        self.room() > 0 && self.bytes < bytes_max
    }

    /// The identifier of a message that is to be sent again; once.
    pub fn take_resend(&mut self, partition: PartitionId, offset: u64) -> Option<OpenDelivery> {
        let open = *self.find(partition, offset)?;
        let at = self.resends.iter().position(|id| *id == open.id)?;
        self.resends.swap_remove(at);
        Some(open)
    }

    /// The messages that are to be sent again: their identifiers and places.
    pub fn resends(&self) -> impl Iterator<Item = &OpenDelivery> {
        self.deliveries.iter().filter(|open| self.resends.contains(&open.id))
    }

    /// The log does not bring a message again. With QoS 1 it is not open any more. With QoS 2 the
    /// client may have it, and is released. True if it is to be.
    pub fn give_up_resend(&mut self, id: u16) -> bool {
        self.resends.retain(|resend| *resend != id);
        match self.deliveries.iter_mut().find(|open| open.id == id) {
            Some(open) if open.qos == 2 => {
                open.is_received = true;
                true
            }
            _ => {
                self.deliveries.retain(|open| open.id != id);
                false
            }
        }
    }

    /// The maximum number of open messages.
    pub fn window(&self) -> u16 {
        self.window
    }

    /// An open message is one of a group, for this member.
    pub fn note_member(&mut self, id: u16, member: u64) {
        if let Some(open) = self.deliveries.iter_mut().find(|open| open.id == id) {
            open.member = member;
        }
    }

    /// The open message of an identifier, if it is one of a group.
    pub fn of_member(&self, id: u16) -> Option<OpenDelivery> {
        self.deliveries.iter().find(|open| open.id == id && open.member != 0).copied()
    }

    /// The number of further messages that may be open.
    pub fn room(&self) -> usize {
        usize::from(self.window).saturating_sub(self.deliveries.len())
    }

    /// Gives back the memory of lists without elements.
    pub fn rest(&mut self) {
        self.deliveries.rest();
        self.resends.rest();
    }

    /// The identifier that is tried next.
    pub fn next_id(&self) -> u16 {
        self.next_id
    }

    /// The open messages, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &OpenDelivery> {
        self.deliveries.iter()
    }

    /// The open message at a place of the log, beside those of groups.
    pub fn find(&self, partition: PartitionId, offset: u64) -> Option<&OpenDelivery> {
        let is_it =
            |it: &&OpenDelivery| it.partition == partition && it.offset == offset && it.member == 0;
        self.deliveries.iter().find(is_it)
    }

    /// Opens an exchange, and gives its identifier. There is room.
    pub fn open(&mut self, qos: u8, (partition, offset): (PartitionId, u64), bytes: usize) -> u16 {
        let mut id = self.next_id.max(1);
        while self.deliveries.iter().any(|open| open.id == id) {
            id = following(id);
        }
        self.next_id = following(id);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let delivery =
            OpenDelivery { id, qos, is_received: false, partition, offset, bytes, member: 0 };
        self.bytes += u64::from(bytes);
        self.deliveries.push(delivery);
        id
    }

    /// Passes over an identifier: a message that has expired takes one as others do.
    pub fn pass_over(&mut self) {
        self.next_id = following(self.next_id.max(1));
    }

    /// PUBACK: the exchange of a message with QoS 1 is over.
    pub fn acknowledge(&mut self, id: u16) -> Acknowledged {
        self.end(id, |open| open.qos == 1)
    }

    /// PUBREC: the client has a message with QoS 2. A refusal ends the exchange.
    pub fn receive(&mut self, id: u16, is_refused: bool) -> Acknowledged {
        if is_refused {
            return self.end(id, |open| open.qos == 2);
        }
        match self.deliveries.iter_mut().find(|open| open.id == id) {
            Some(open) if open.qos == 2 => {
                open.is_received = true;
                Acknowledged::Continues
            }
            Some(_) => Acknowledged::Violated,
            None => Acknowledged::Unknown,
        }
    }

    /// PUBCOMP: the exchange of a message with QoS 2 is over.
    pub fn complete(&mut self, id: u16) -> Acknowledged {
        self.end(id, |open| open.qos == 2 && open.is_received)
    }

    fn end(&mut self, id: u16, is_due: impl Fn(&OpenDelivery) -> bool) -> Acknowledged {
        let Some(place) = self.deliveries.iter().position(|open| open.id == id) else {
            return Acknowledged::Unknown;
        };
        if !is_due(&self.deliveries[place]) {
            return Acknowledged::Violated;
        }
        let open = self.deliveries.remove(place);
        self.bytes = self.bytes.saturating_sub(open.bytes.into());
        self.resends.retain(|resend| *resend != open.id);
        Acknowledged::Over
    }
}

fn following(id: u16) -> u16 {
    id.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: PartitionId = PartitionId(3);

    #[test]
    fn identifiers_go_round_and_pass_over_open_ones() {
        let mut opened = Opened::new(4);
        opened.wake(Vec::new(), u16::MAX - 1);
        let ids: Vec<u16> = (0..4).map(|offset| opened.open(1, (AT, offset), 9)).collect();
        assert_eq!(ids, [u16::MAX - 1, u16::MAX, 1, 2]);
        assert_eq!(opened.room(), 0);
        assert_eq!(opened.acknowledge(u16::MAX), Acknowledged::Over);
        opened.wake(opened.iter().copied().collect(), u16::MAX - 1);
        assert_eq!(opened.open(1, (AT, 9), 9), u16::MAX);
    }

    #[test]
    fn messages_that_the_log_lost_are_given_up() {
        let mut opened = Opened::new(2);
        let ids = [opened.open(1, (AT, 7), 9), opened.open(2, (AT, 8), 9)];
        opened.wake(opened.iter().copied().collect(), 3);
        assert_eq!(opened.resends().count(), 2);
        assert_eq!(ids.map(|id| opened.give_up_resend(id)), [false, true]);
        assert_eq!((opened.resends().count(), opened.room()), (0, 1));
        assert_eq!(opened.complete(ids[1]), Acknowledged::Over);
        assert_eq!(opened.room(), 2);
    }

    #[test]
    fn an_exchange_of_qos_2_ends_with_its_last_acknowledgement() {
        let mut opened = Opened::new(2);
        let id = opened.open(2, (AT, 7), 9);
        assert_eq!(opened.acknowledge(id), Acknowledged::Violated);
        assert_eq!(opened.complete(id), Acknowledged::Violated);
        assert_eq!(opened.complete(id + 1), Acknowledged::Unknown);
        assert_eq!(opened.receive(id, false), Acknowledged::Continues);
        assert_eq!(opened.room(), 1);
        assert!(opened.find(AT, 7).is_some_and(|open| open.is_received));
        assert_eq!(opened.complete(id), Acknowledged::Over);
        assert_eq!(opened.room(), 2);
        let refused = opened.open(2, (AT, 8), 9);
        assert_eq!(opened.receive(refused, true), Acknowledged::Over);
    }
}
