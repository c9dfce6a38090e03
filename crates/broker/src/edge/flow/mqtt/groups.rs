//! Shared subscriptions (`$share/GROUP/FILTER`): the session joins the group at every home, and
//! gets the messages that homes hand to it (`home::groups`).
//!
//! Steps 3 and 9 of the path. A group grants QoS 0 and 1: a message with QoS 2 would be bound to
//! its member for as long as the member's session lasts (MQTT 5.0, section 4.8.2), and others could
//! not take it over. Invariant: a message of a group is acknowledged to its home once: when the
//! client has acknowledged it, when it was sent with QoS 0, or when the client does not get it.

use super::deliver::Sent;
use super::message::{Cause, Expiry, Message};
use super::publish::origin_of;
use crate::edge::Edge;
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::mail::{
    AsleepInGroups, GroupDone, GroupLetter, GroupMessage, GroupRequest, HomeId, JoinGroup,
    JoinedGroup, LeaveGroup, Member, PartitionCursor, PartitionId, ToHome,
};
use crate::position::Position;
use crate::protocol::flag;
use crate::session::mqtt::Mqtt;
use crate::session::mqtt::membership::{ForMember, Membership};
use crate::session::mqtt::options::Options;
use crate::topic::Filter;
use log::RecordView;
use stdx::chunk::Slice;
use stdx::key::Key;
use wire::mqtt::{SHARED_PREFIX, SubscriptionId};
use wire::native::ErrorCode;

/// The highest QoS of a shared subscription.
const QOS_MAX: u8 = 1;
/// The messages of a group that a member may have, at most, over all homes.
const ROOM_MAX: u16 = 64;

/// The result for a message of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ToMember {
    /// The client is to acknowledge it.
    Opened,
    /// It is sent with QoS 0, or is nothing for the client.
    Over,
    /// The client has no room for it now.
    NoRoom,
}

impl Edge {
    /// Joins a group, at the place of its filter in SUBSCRIBE. `shared` is the whole filter.
    pub(super) fn join_group(
        &mut self,
        index: ConnIndex,
        (place, number): (u32, u32),
        shared: &str,
        since: &[PartitionCursor],
    ) -> Result<(), ErrorCode> {
        let group = shared.strip_prefix(SHARED_PREFIX).unwrap_or_default();
        let filter = group.split_once('/').map_or("", |(_, filter)| filter);
        let filter =
            Filter::parse(filter).map_err(|error| error.code(ErrorCode::MalformedFilter))?;
        self.permit(index, Action::Subscribe, filter)?;
        let options = Options::of(number);
        let options = Options { qos: options.qos.min(QOS_MAX), ..options }.number();
        let memberships_max = self.settings.limits.subscriptions_per_session_max as usize;
        let homes_count = self.settings.homes_count;
        let next = self.mqtt.next_member();
        let Some(mqtt) = self.mqtt_of(index) else {
            return Ok(());
        };
        if let Some(entry) = mqtt.entry(place) {
            entry.number = options;
        }
        if let Some(known) =
            mqtt.busy.memberships.iter_mut().find(|it| *it.group == *group && !it.is_leaving)
        {
            known.options = options;
            let first = known.place;
            match mqtt.busy.subscribing.entry(place) {
                // The session is a member when all homes have taken it in, and not before that.
                Some(entry) if first.is_some() => entry.behind = first,
                Some(_) | None => self.membership_granted(index, place),
            }
            return Ok(());
        }
        if mqtt.busy.memberships.len() >= memberships_max {
            return Err(ErrorCode::TooManySubscriptions);
        }
        let membership = Membership {
            number: next,
            group: group.into(),
            options,
            place: Some(place),
            unjoined: homes_count,
            is_leaving: false,
            cursors: since.to_vec(),
            waiting: Default::default(),
        };
        mqtt.busy.memberships.push(membership);
        let room = (mqtt.opened.window().min(ROOM_MAX) / homes_count).max(1);
        let member = self.member(index, next);
        for home in self.settings.homes() {
            let join = JoinGroup {
                group: self.work.mail.copy(group.as_bytes()),
                member,
                room,
                since: since.to_vec(),
            };
            self.request(home, ToHome::Group(GroupRequest::Join(Box::new(join))));
        }
        Ok(())
    }

    fn member(&self, index: ConnIndex, number: u64) -> Member {
        let client = self.mqtt_ref(index).map_or(0, |mqtt| origin_of(self.sessions.name_of(mqtt)));
        Member { connection: self.connections.slots.key(index), number, client }
    }

    /// A letter about groups.
    pub(crate) fn group_letter(&mut self, letter: GroupLetter) {
        match letter {
            GroupLetter::Joined(joined) => self.group_joined(*joined),
            GroupLetter::Message(message) => self.group_message(message),
            GroupLetter::Ended { client, groups } => self.groups_ended(client, &groups),
            GroupLetter::Asleep(asleep) => self.groups_asleep(*asleep),
        }
    }

    /// A home has taken a member into its group.
    fn group_joined(&mut self, joined: JoinedGroup) {
        let JoinedGroup { member, through } = joined;
        let epoch_of = |partition| self.links.epochs.of(partition, &self.settings);
        let cursors: Vec<PartitionCursor> = through
            .into_iter()
            .map(|(partition, offset)| (partition, Position { epoch: epoch_of(partition), offset }))
            .map(|(partition, position)| PartitionCursor { partition, position })
            .collect();
        let Some((index, membership)) = self.membership(member) else {
            return;
        };
        cursors.into_iter().for_each(|cursor| membership.note_cursor(cursor));
        membership.unjoined = membership.unjoined.saturating_sub(1);
        if membership.unjoined == 0
            && let Some(place) = membership.place.take()
        {
            self.membership_granted(index, place);
        }
    }

    fn membership(&mut self, member: Member) -> Option<(ConnIndex, &mut Membership)> {
        let Member { connection, number, .. } = member;
        self.connections.slots.get(connection)?;
        let index = ConnIndex(connection.index);
        let mqtt = self.mqtt_of(index)?;
        let membership = mqtt.busy.memberships.iter_mut().find(|it| it.number == number)?;
        Some((index, membership))
    }

    /// A home has handed a message to a member. One that has left gets nothing: its home hands the
    /// message to another.
    fn group_message(&mut self, message: GroupMessage) {
        let GroupMessage { member, partition, topic, record, through } = message;
        let epoch = self.links.epochs.of(partition, &self.settings);
        // One that has left may be forgotten here, and its home waits for this message.
        let joined = self.membership(member).filter(|(_, it)| !it.is_leaving);
        let Some((index, membership)) = joined else {
            return self.group_done(member.number, (partition, offset_of_record(&record)), true);
        };
        let position = Position { epoch, offset: through };
        membership.note_cursor(PartitionCursor { partition, position });
        membership.waiting.push_back(ForMember { partition, topic, record });
        self.send_to_members(index);
    }

    /// Sends the messages of groups that the client has room for. True if some still wait.
    pub(crate) fn send_to_members(&mut self, index: ConnIndex) -> bool {
        let count = self.mqtt_ref(index).map_or(0, |mqtt| mqtt.busy.memberships.len());
        let mut do_wait = false;
        for at in 0..count {
            while let Some(mqtt) = self.mqtt_of(index)
                && let Some(membership) = mqtt.busy.memberships.get_mut(at)
                && let Some(message) = membership.waiting.pop_front()
            {
                let (number, options) = (membership.number, Options::of(membership.options));
                match self.send_to_member(index, (number, options), &message) {
                    ToMember::Opened => {}
                    ToMember::Over => {
                        let at = (message.partition, offset_of(&message));
                        self.group_done(number, at, false);
                    }
                    ToMember::NoRoom => {
                        let mqtt = self.mqtt_of(index);
                        if let Some(it) = mqtt.and_then(|mqtt| mqtt.busy.memberships.get_mut(at)) {
                            it.waiting.push_front(message);
                        }
                        self.connections.slots[index].set(flag::LAGGING);
                        do_wait = true;
                        break;
                    }
                }
            }
        }
        do_wait
    }

    /// A member has dealt with a message.
    pub(super) fn group_done(
        &mut self,
        number: u64,
        (partition, offset): (PartitionId, u64),
        is_returned: bool,
    ) {
        let home = self.settings.home_of(partition);
        let done = GroupDone { number, partition, offset, is_returned };
        self.request(home, ToHome::Group(GroupRequest::Done(done)));
    }

    /// The client unsubscribes from a group. False if it is not in it.
    pub(super) fn end_membership(&mut self, index: ConnIndex, shared: &str) -> bool {
        let Some(group) = shared.strip_prefix(SHARED_PREFIX) else {
            return false;
        };
        let Some(mqtt) = self.mqtt_of(index) else {
            return false;
        };
        let is_it = |it: &&mut Membership| *it.group == *group && !it.is_leaving;
        let Some(membership) = mqtt.busy.memberships.iter_mut().find(is_it) else {
            return false;
        };
        membership.is_leaving = true;
        let waiting = std::mem::take(&mut membership.waiting);
        let (number, place) = (membership.number, membership.place.take());
        let group = membership.group.clone();
        for message in waiting {
            self.group_done(number, (message.partition, offset_of(&message)), true);
        }
        let member = self.member(index, number);
        self.leave_group(&group, member, None);
        self.forget_membership(index, number);
        if let Some(place) = place {
            self.membership_granted(index, place);
        }
        true
    }

    /// Forgets a membership that the client has ended, once it has acknowledged its messages.
    pub(super) fn forget_membership(&mut self, index: ConnIndex, number: u64) {
        if let Some(mqtt) = self.mqtt_of(index)
            && !mqtt.opened.iter().any(|open| open.member == number)
        {
            mqtt.busy.memberships.retain(|it| it.number != number || !it.is_leaving);
        }
    }

    /// The connection ends. The groups wait for the session until this time, in milliseconds since
    /// 1970; 0: it ends, too.
    pub(super) fn leave_groups(&mut self, index: ConnIndex, mqtt: &Mqtt, until_ms: u64) {
        let client = origin_of(self.sessions.name_of(mqtt));
        let connection = self.connections.slots.key(index);
        for membership in mqtt.busy.memberships.iter() {
            let member = Member { connection, number: membership.number, client };
            let until_ms = if membership.is_leaving { 0 } else { until_ms };
            self.leave_group(&membership.group, member, Some(until_ms));
        }
    }

    /// The group waits until that time, or the member stays until it has acknowledged what it has.
    fn leave_group(&mut self, group: &str, member: Member, until_ms: Option<u64>) {
        for home in self.settings.homes() {
            let group = self.work.mail.copy(group.as_bytes());
            self.request_to_leave(home, group, member, until_ms);
        }
    }

    fn request_to_leave(
        &mut self,
        home: HomeId,
        group: Slice,
        member: Member,
        until_ms: Option<u64>,
    ) {
        let keeps_open = until_ms.is_none();
        let leave = LeaveGroup { group, member, until_ms: until_ms.unwrap_or(0), keeps_open };
        self.request(home, ToHome::Group(GroupRequest::Leave(Box::new(leave))));
    }

    /// A session that slept has ended: it leaves its groups.
    fn groups_ended(&mut self, client: u64, groups: &[Slice]) {
        let connection = Key { index: u32::MAX, generation: 0 };
        let member = Member { connection, number: Member::ASLEEP, client };
        for home in self.settings.homes() {
            for group in groups {
                self.request_to_leave(home, group.clone(), member, Some(0));
            }
        }
    }

    /// A session has slept over a start: its groups begin at the place that it knows, before others
    /// join them, and wait for it.
    fn groups_asleep(&mut self, asleep: AsleepInGroups) {
        let AsleepInGroups { client, until_ms, groups } = asleep;
        let connection = Key { index: u32::MAX, generation: 0 };
        for (group, since) in groups {
            let member = Member { connection, number: self.mqtt.next_member(), client };
            for home in self.settings.homes() {
                let (group, since) = (group.clone(), since.clone());
                let join = JoinGroup { group: group.clone(), member, room: 0, since };
                self.request(home, ToHome::Group(GroupRequest::Join(Box::new(join))));
                self.request_to_leave(home, group, member, Some(until_ms));
            }
        }
    }

    fn membership_granted(&mut self, index: ConnIndex, place: u32) {
        let entry = self.mqtt_of(index).and_then(|mqtt| mqtt.entry(place));
        let number = entry.map_or(0, |entry| entry.number);
        let client = Options::pending(place);
        self.answer_filter(index, client, super::subscribe::granted(number));
        self.settled_for_renewal(index);
    }

    /// A message of a group.
    fn send_to_member(
        &mut self,
        index: ConnIndex,
        (member, options): (u64, Options),
        sent: &ForMember,
    ) -> ToMember {
        let Some(view) = RecordView::parse(&sent.record) else {
            return ToMember::Over;
        };
        let id = SubscriptionId::new(options.identifier);
        let message = Message {
            topic: std::str::from_utf8(&sent.topic).unwrap_or_default(),
            partition: sent.partition,
            record: &sent.record,
            view,
            options,
            ids: id.as_slice(),
            cause: Cause::Published,
            filter: None,
            member: Some(member),
            expiry: Expiry::of(&view, self.now.unix_ms),
        };
        if message.expiry == Expiry::Over {
            return ToMember::Over;
        }
        let open_before = self.mqtt_ref(index).map_or(0, |mqtt| mqtt.opened.iter().count());
        match self.send_with_identifier(index, &message) {
            Sent::NoRoom => ToMember::NoRoom,
            Sent::Done => {
                let open = self.mqtt_ref(index).map_or(0, |mqtt| mqtt.opened.iter().count());
                if open > open_before { ToMember::Opened } else { ToMember::Over }
            }
        }
    }
}

fn offset_of(message: &ForMember) -> u64 {
    offset_of_record(&message.record)
}

fn offset_of_record(record: &Slice) -> u64 {
    RecordView::parse(record).map_or(0, |view| view.offset())
}
