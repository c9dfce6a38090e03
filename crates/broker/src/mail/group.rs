//! Shared subscriptions of MQTT (`$share/GROUP/FILTER`): what edges and homes say to each other
//! about groups and their members.
//!
//! Every home has its part of each group, for its own partitions, and hands each message to one
//! member. A member is a subscription of one connection; its number is the edge's own.

use super::{PartitionCursor, PartitionId};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::key::Key;

/// Edge to home.
#[derive(Clone, Debug)]
pub enum GroupRequest {
    /// A member joins its group. Answered by [`GroupLetter::Joined`].
    Join(Box<JoinGroup>),
    /// A member leaves its group.
    Leave(Box<LeaveGroup>),
    /// A member has dealt with a message.
    Done(GroupDone),
}

/// Home to edge.
#[derive(Clone, Debug)]
pub enum GroupLetter {
    /// A subscription is a member of its group at this home.
    Joined(Box<JoinedGroup>),
    /// A message for one member.
    Message(GroupMessage),
    /// A session has ended that was in groups, because its client begins a new one: the edge of
    /// the new one has it leave them.
    Ended {
        /// The client, as a hash of its name.
        client: u64,
        /// The names of the groups, each with its filter.
        groups: Vec<Slice>,
    },
    /// A session that has slept over a start of the node is in groups: the edge has them wait for
    /// it at every home.
    Asleep(Box<AsleepInGroups>),
}

/// A session that has slept over a start, and is in groups.
#[derive(Clone, Debug)]
pub struct AsleepInGroups {
    /// The client, as a hash of its name.
    pub client: u64,
    /// The end of the session, in milliseconds since 1970.
    pub until_ms: u64,
    /// The names of the groups, each with its filter, and the places that the session knows.
    pub groups: Vec<(Slice, Vec<PartitionCursor>)>,
}

/// A member joins its group.
#[derive(Clone, Debug, Hand)]
pub struct JoinGroup {
    /// The group's name, `/`, and the filter; valid.
    pub group: Slice,
    /// The member.
    pub member: Member,
    /// The messages that the member may have from this home without an acknowledgement. 0: the
    /// session sleeps, and leaves at once.
    pub room: u16,
    /// The positions of the group that the member's session knows, sorted by partition: a home
    /// that does not know the group continues there.
    pub since: Vec<PartitionCursor>,
}

/// A subscription is a member of its group at a home.
#[derive(Clone, Debug, Hand)]
pub struct JoinedGroup {
    /// The member.
    pub member: Member,
    /// In each partition of the home: the members of the group have acknowledged everything up to
    /// here. After a start, the group continues there.
    pub through: Vec<(PartitionId, u64)>,
}

/// A member leaves its group. The messages that it has not acknowledged go to others, or stay with
/// it.
#[derive(Clone, Debug, Hand)]
pub struct LeaveGroup {
    /// The group; see [`JoinGroup::group`].
    pub group: Slice,
    /// The member. Its number is [`Member::ASLEEP`] if its client is not connected.
    pub member: Member,
    /// The group waits for the member's session until then, in milliseconds since 1970; 0: the
    /// session has left the group.
    pub until_ms: u64,
    /// The member is connected, and acknowledges what it has (MQTT 5.0, [MQTT-3.10.4-3]).
    pub keeps_open: bool,
}

/// A member has acknowledged a message, does not want it, or gives it back.
#[derive(Clone, Copy, Debug, Hand)]
pub struct GroupDone {
    /// The number of the member.
    pub number: u64,
    /// The partition of the message.
    pub partition: PartitionId,
    /// The offset of the message.
    pub offset: u64,
    /// The message goes to another member.
    pub is_returned: bool,
}

/// A message for one member.
#[derive(Clone, Debug, Hand)]
pub struct GroupMessage {
    /// The member.
    pub member: Member,
    /// The partition of the message.
    pub partition: PartitionId,
    /// The name of its topic.
    pub topic: Slice,
    /// The whole record as it lies in the log.
    pub record: Slice,
    /// The members of the group have acknowledged everything of the partition up to here.
    pub through: u64,
}

/// A member of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Member {
    /// The connection.
    pub connection: Key,
    /// The edge's own number of the membership.
    pub number: u64,
    /// The client, as a hash of its name.
    pub client: u64,
}

impl Member {
    /// The number of a member whose client is not connected.
    pub const ASLEEP: u64 = u64::MAX;
}
