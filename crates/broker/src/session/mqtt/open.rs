//! Messages with QoS 1 and 2 that a client has not acknowledged in full: their packet identifiers,
//! their places in the log, and the window that bounds them.
//!
//! Identifiers go round from 1 to 65,535 and pass over open ones, so that an identifier comes again
//! as late as possible: a late acknowledgement of another message would else be taken for that of
//! the new one.

use super::lean::{Lean, Part};
use crate::mail::{OpenDelivery, PartitionId};
use crate::position::Position;
use stdx::handing::Hand;

/// See the module.
#[derive(Hand)]
pub(crate) struct Opened {
    open: Lean<Open>,
    next_id: u16,
    /// The maximum number of open messages.
    window: u16,
    /// Acknowledgements since the session was last written.
    pub acknowledged: u16,
}

/// The open messages.
#[derive(Default, Hand)]
struct Open {
    /// In the order in which they were sent.
    deliveries: Vec<OpenDelivery>,
    /// Bytes of those that this connection has sent.
    bytes: u64,
    /// Identifiers that a connection before this one has opened, and whose messages are to be sent
    /// again, in order. Before the last of them nothing else is sent ([MQTT-4.6.0-1]).
    resends: Vec<u16>,
    /// The first of them is read from the log.
    is_reading: bool,
}

impl Part for Open {
    fn empty() -> &'static Self {
        const { &Open { deliveries: Vec::new(), bytes: 0, resends: Vec::new(), is_reading: false } }
    }

    fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.resends.is_empty() && !self.is_reading
    }
}

/// A place of the log.
pub(crate) type Place = (PartitionId, Position);

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
        Opened { open: Lean::default(), next_id: 1, window: window.max(1), acknowledged: 0 }
    }

    /// Takes over the open messages of a session. The window may be smaller than their number.
    pub fn wake(&mut self, deliveries: Vec<OpenDelivery>, next_id: u16) {
        self.next_id = next_id.max(1);
        if !deliveries.is_empty() {
            let unreceived = deliveries.iter().filter(|open| !open.is_received);
            self.open.resends = unreceived.map(|open| open.id).collect();
            self.open.deliveries = deliveries;
        }
    }

    /// The number of records that may be asked for, for new messages.
    pub fn records_max(&self, bytes_max: u64) -> usize {
        if self.has_room(bytes_max) { self.room() } else { 0 }
    }

    /// Whether another message may be opened.
    pub fn has_room(&self, bytes_max: u64) -> bool {
        self.open.resends.is_empty() && self.room() > 0 && self.open.bytes < bytes_max
    }

    /// Whether messages are to be sent again, or one is read for it.
    pub fn repeats(&self) -> bool {
        self.has_resends() || self.open.is_reading
    }

    /// Whether messages are to be sent again.
    pub fn has_resends(&self) -> bool {
        !self.open.resends.is_empty()
    }

    /// The message that is to be read from the log next, to be sent again; from here on it is being
    /// read. None if one is being read, or the client has no room: the window may be smaller than
    /// that of the connection that has opened them ([MQTT-3.3.4-9]).
    pub fn next_resend(&self) -> Option<OpenDelivery> {
        let sent = self.open.deliveries.len() - self.open.resends.len();
        let has_room = sent < usize::from(self.window);
        let id = *self.open.resends.first().filter(|_| has_room && !self.open.is_reading)?;
        self.open.deliveries.iter().find(|open| open.id == id).copied()
    }

    /// The message that is to be sent again next is being read, or is not any more.
    pub fn set_reading(&mut self, is_reading: bool) {
        if let Some(open) = self.open.get_mut() {
            open.is_reading = is_reading;
        }
    }

    /// A record was read: the message that is sent again with it, unless the client has
    /// acknowledged it meanwhile.
    pub fn take_resend(&mut self, partition: PartitionId, offset: u64) -> Option<OpenDelivery> {
        let open = *self.find(partition, offset)?;
        let place = self.open.resends.iter().position(|id| *id == open.id)?;
        self.open.resends.remove(place);
        Some(open)
    }

    /// A message cannot be sent again. With QoS 1 it is not open any more. With QoS 2 the client
    /// may have it, and is released. True if it is to be.
    pub fn give_up(&mut self, id: u16) -> bool {
        self.open.resends.retain(|resend| *resend != id);
        match self.open.deliveries.iter_mut().find(|open| open.id == id) {
            Some(open) if open.qos == 2 => {
                open.is_received = true;
                true
            }
            _ => {
                self.open.deliveries.retain(|open| open.id != id);
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
        if let Some(open) = self.open.deliveries.iter_mut().find(|open| open.id == id) {
            open.member = member;
        }
    }

    /// The open message of an identifier, if it is one of a group.
    pub fn of_member(&self, id: u16) -> Option<OpenDelivery> {
        self.open.deliveries.iter().find(|open| open.id == id && open.member != 0).copied()
    }

    /// The number of further messages that may be open.
    pub fn room(&self) -> usize {
        usize::from(self.window).saturating_sub(self.open.deliveries.len())
    }

    /// Gives back the memory of lists without elements.
    pub fn rest(&mut self) {
        self.open.rest();
    }

    /// The identifier that is tried next.
    pub fn next_id(&self) -> u16 {
        self.next_id
    }

    /// The open messages, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &OpenDelivery> {
        self.open.deliveries.iter()
    }

    /// The open message at a place of the log, beside those of groups.
    pub fn find(&self, partition: PartitionId, offset: u64) -> Option<&OpenDelivery> {
        let is_it =
            |it: &&OpenDelivery| it.partition == partition && it.offset == offset && it.member == 0;
        self.open.deliveries.iter().find(is_it)
    }

    /// Opens an exchange, and gives its identifier. There is room.
    pub fn open(
        &mut self,
        (qos, retain): (u8, bool),
        (partition, position): Place,
        bytes: usize,
    ) -> u16 {
        let Position { epoch, offset } = position;
        let mut id = self.next_id.max(1);
        while self.open.deliveries.iter().any(|open| open.id == id) {
            id = following(id);
        }
        self.next_id = following(id);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let delivery = OpenDelivery {
            id,
            qos,
            is_received: false,
            retain,
            partition,
            epoch,
            offset,
            bytes,
            member: 0,
        };
        self.open.bytes += u64::from(bytes);
        self.open.deliveries.push(delivery);
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
        match self.open.deliveries.iter_mut().find(|open| open.id == id) {
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
        let Some(place) = self.open.deliveries.iter().position(|open| open.id == id) else {
            return Acknowledged::Unknown;
        };
        if !is_due(&self.open.deliveries[place]) {
            return Acknowledged::Violated;
        }
        let open = self.open.deliveries.remove(place);
        self.open.bytes = self.open.bytes.saturating_sub(open.bytes.into());
        self.open.resends.retain(|resend| *resend != open.id);
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

    fn at(offset: u64) -> Place {
        (AT, Position { epoch: 1, offset })
    }

    #[test]
    fn identifiers_go_round_and_pass_over_open_ones() {
        let mut opened = Opened::new(4);
        opened.wake(Vec::new(), u16::MAX - 1);
        let ids: Vec<u16> = (0..4).map(|offset| opened.open((1, false), at(offset), 9)).collect();
        assert_eq!(ids, [u16::MAX - 1, u16::MAX, 1, 2]);
        assert_eq!(opened.room(), 0);
        assert_eq!(opened.acknowledge(u16::MAX), Acknowledged::Over);
        opened.wake(opened.iter().copied().collect(), u16::MAX - 1);
        assert_eq!(opened.open((1, false), at(9), 9), u16::MAX);
    }

    #[test]
    fn messages_are_sent_again_in_order_and_nothing_before_the_last() {
        let mut opened = Opened::new(3);
        let ids = [
            opened.open((1, false), at(9), 9),
            opened.open((2, false), at(8), 9),
            opened.open((1, false), at(7), 9),
        ];
        opened.wake(opened.iter().copied().collect(), 4);
        let mut smaller = Opened::new(1);
        smaller.wake(opened.iter().copied().collect(), 4);
        for (id, offset) in ids.into_iter().zip([9, 8, 7]) {
            assert!(smaller.has_resends() && !smaller.has_room(100));
            assert_eq!(smaller.next_resend().map(|open| open.id), Some(id));
            smaller.set_reading(true);
            assert_eq!(smaller.next_resend(), None);
            smaller.set_reading(false);
            assert!(smaller.take_resend(AT, offset).is_some_and(|open| open.id == id));
            assert_eq!(smaller.next_resend(), None, "the window is full");
            assert_eq!(smaller.receive(id, true) == Acknowledged::Over, offset == 8);
            smaller.acknowledge(id);
        }
        assert!(smaller.has_room(100));
    }

    #[test]
    fn messages_that_the_log_lost_are_given_up() {
        let mut opened = Opened::new(2);
        let ids = [opened.open((1, false), at(7), 9), opened.open((2, false), at(8), 9)];
        opened.wake(opened.iter().copied().collect(), 3);
        assert!([7, 8].iter().all(|offset| opened.take_resend(AT, *offset).is_some()));
        assert_eq!(ids.map(|id| opened.give_up(id)), [false, true]);
        assert_eq!((opened.has_resends(), opened.room()), (false, 1));
        assert_eq!(opened.complete(ids[1]), Acknowledged::Over);
        assert_eq!(opened.room(), 2);
    }

    #[test]
    fn an_exchange_of_qos_2_ends_with_its_last_acknowledgement() {
        let mut opened = Opened::new(2);
        let id = opened.open((2, false), at(7), 9);
        assert_eq!(opened.acknowledge(id), Acknowledged::Violated);
        assert_eq!(opened.complete(id), Acknowledged::Violated);
        assert_eq!(opened.complete(id + 1), Acknowledged::Unknown);
        assert_eq!(opened.receive(id, false), Acknowledged::Continues);
        assert_eq!(opened.room(), 1);
        assert!(opened.find(AT, 7).is_some_and(|open| open.is_received));
        assert_eq!(opened.complete(id), Acknowledged::Over);
        assert_eq!(opened.room(), 2);
        let refused = opened.open((2, false), at(8), 9);
        assert_eq!(opened.receive(refused, true), Acknowledged::Over);
    }
}
