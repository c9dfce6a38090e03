//! Planted bugs: faults of a node, applied at the shards' boundary, to check that the oracle finds
//! them.
//!
//! Place: only in the simulator's own mailbox and network; production code does not know them.

mod mqtt;
mod needs;

use broker::disk::{DiskAnswer, DiskLetter, DiskRequest};
use broker::mail::{
    AddFilter, Description, FilterPage, Grant, Page, Publish, Start, Subscribe, ToEdge, ToHome,
};
use broker::sys;
use node::mailbox::Post;
use node::users::Users;
use stdx::chunk::Slice;
use stdx::prng::Prng;

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A page omits one of its records.
    SkipReplayed,
    /// A live message is lost between home and edge.
    LoseMessage,
    /// A page contains its records twice.
    RepeatPage,
    /// Two neighbouring letters are swapped.
    SwapLetters,
    /// A page reports the end of a replay too early.
    CaughtUpEarly,
    /// A record has a wrong predecessor.
    WrongPrev,
    /// A grant has an old epoch.
    OldEpoch,
    /// After a restart, a position of the previous life is treated as one of this life.
    FeedOldEpoch,
    /// The interest of a grant is lost: no message of its topic arrives.
    LoseInterest,
    /// An acknowledgement is lost.
    LoseAck,
    /// A publication is acknowledged but not appended.
    AckWithoutAppend,
    /// The release of an index is lost.
    DropReleased,
    /// A write loses bytes.
    LoseBytes,
    /// A page reports a smaller skip than the actual one.
    SkipLess,
    /// The disk reports a sync that it has not begun: acknowledged before the sync.
    AckBeforeSync,
    /// A home receives a record as durable before the log thread has it: delivered before the sync.
    DeliverBeforeSync,
    /// A home is never notified that a batch is durable.
    LoseCommitted,
    /// A page from disk contains its records twice.
    RepeatDiskPage,
    /// A page from disk omits one of its records.
    SkipDiskRecord,
    /// A page from disk reports the end of its range, but is empty.
    DiskPageEndsEarly,
    /// A start misses a record of the log.
    SkipRecovered,
    /// A start treats the last batch of a clean tail as torn.
    ForgetLastBatch,
    /// A start reuses offsets.
    ReuseOffsets,
    /// A start passes no holes to homes: offsets that damage may have removed.
    LoseHoles,
    /// The end of the log is not recorded.
    LoseNotedEnd,
    /// A start misses retained messages.
    LoseRetained,
    /// A start forgets the identities of publications.
    DropProducers,
    /// A resume ticket claims more than was written to the client.
    TicketAhead,
    /// The id of an event stream over filters claims more than was written.
    IdAhead,
    /// A publication loses its key for deduplication.
    DropKeys,
    /// A filter of a resuming client loses its cursors on the way to a home: it begins live.
    LoseCursors,
    /// An edge receives a position that a partition's stream has not reached.
    PositionAhead,
    /// An edge receives no positions of the streams.
    LosePositions,
    /// Edges receive no notice of a revocation.
    LoseRevocation,
    /// A token is treated as one that does not expire.
    TokenForEver,
    /// A token is treated as one that permits everything.
    WideToken,
    /// A home reports wrong names of topics.
    OtherNames,
    /// A connection that leaves its user is subtracted twice.
    LeaveTwice,
    /// A connection that has left its user still counts.
    StayCounted,
    /// The event of a new session is lost.
    LoseSession,
    /// The event of a vacated topic is lost.
    LoseOccupancy,
    /// A message in JSON has another epoch than the log.
    OtherEpochInJson,
    /// The will of a connection that is taken over is not published.
    LoseWill,
    /// A will is published although its client has left with DISCONNECT.
    WillAfterDisconnect,
    /// A session forgets which messages wait for PUBCOMP.
    LoseReleases,
    /// A session forgets which messages were not acknowledged.
    LoseInflight,
    /// A session forgets publications with QoS 2: they are appended twice.
    ForgetReceived,
    /// Messages between the halves of a takeover are lost.
    CursorAhead,
    /// A new subscription gets one retained message too few.
    LackRetained,
    /// A session whose time is over continues.
    InheritExpired,
    /// A session continues although its client wants a new one.
    InheritClean,
    /// Messages are sent again without DUP.
    RepeatWithoutDup,
    /// A publication with DUP counts as known.
    DupIsKnown,
    /// Two open messages have one packet identifier.
    SharedId,
    /// CONNACK tells the contrary about the session.
    LieAboutSession,
    /// A message of a group is lost on its way to a member.
    LoseShared,
    /// A message that a member gives back counts as acknowledged.
    LoseReturned,
    /// A group does not hear that a member has acknowledged a message.
    ForgetDone,
    /// A group forgets the sessions that sleep.
    ForgetSleeper,
}

impl Mutation {
    /// All planted bugs.
    pub const ALL: [Mutation; 59] = [
        Mutation::SkipReplayed,
        Mutation::LoseMessage,
        Mutation::RepeatPage,
        Mutation::SwapLetters,
        Mutation::CaughtUpEarly,
        Mutation::WrongPrev,
        Mutation::OldEpoch,
        Mutation::FeedOldEpoch,
        Mutation::LoseInterest,
        Mutation::LoseAck,
        Mutation::AckWithoutAppend,
        Mutation::DropReleased,
        Mutation::LoseBytes,
        Mutation::SkipLess,
        Mutation::AckBeforeSync,
        Mutation::DeliverBeforeSync,
        Mutation::LoseCommitted,
        Mutation::RepeatDiskPage,
        Mutation::SkipDiskRecord,
        Mutation::DiskPageEndsEarly,
        Mutation::SkipRecovered,
        Mutation::ForgetLastBatch,
        Mutation::ReuseOffsets,
        Mutation::LoseHoles,
        Mutation::LoseNotedEnd,
        Mutation::LoseRetained,
        Mutation::DropProducers,
        Mutation::TicketAhead,
        Mutation::IdAhead,
        Mutation::DropKeys,
        Mutation::LoseCursors,
        Mutation::PositionAhead,
        Mutation::LosePositions,
        Mutation::LoseRevocation,
        Mutation::TokenForEver,
        Mutation::WideToken,
        Mutation::OtherNames,
        Mutation::LeaveTwice,
        Mutation::StayCounted,
        Mutation::LoseSession,
        Mutation::LoseOccupancy,
        Mutation::OtherEpochInJson,
        Mutation::LoseWill,
        Mutation::WillAfterDisconnect,
        Mutation::LoseReleases,
        Mutation::LoseInflight,
        Mutation::ForgetReceived,
        Mutation::CursorAhead,
        Mutation::LackRetained,
        Mutation::InheritExpired,
        Mutation::InheritClean,
        Mutation::RepeatWithoutDup,
        Mutation::DupIsKnown,
        Mutation::SharedId,
        Mutation::LieAboutSession,
        Mutation::LoseShared,
        Mutation::LoseReturned,
        Mutation::ForgetDone,
        Mutation::ForgetSleeper,
    ];
}

/// Applies one planted bug at random times.
pub struct Saboteur {
    mutation: Option<Mutation>,
    random: Prng,
    /// Streams without messages, by (from, to, index).
    silent: Vec<(u16, u16, u32)>,
    /// The epoch of the previous node.
    former: Option<u64>,
    of_mqtt: mqtt::OfMqtt,
    /// The number of times that it took effect.
    pub strikes: u32,
}

const CHANCE: f64 = 0.15;

impl Saboteur {
    /// Creates a saboteur for `mutation`, or for none.
    pub fn new(mutation: Option<Mutation>, seed: u64) -> Saboteur {
        Saboteur {
            mutation,
            random: Prng::new(seed ^ 0x5ab0),
            silent: Vec::new(),
            former: None,
            of_mqtt: mqtt::OfMqtt::default(),
            strikes: 0,
        }
    }

    /// Reports that the next node begins; the previous node's first log had this epoch.
    pub(crate) fn restarted(&mut self, former: u64) {
        self.former = Some(former);
        self.silent.clear();
    }

    fn strikes(&mut self) -> bool {
        let strikes = self.random.chance(CHANCE);
        self.strikes += u32::from(strikes);
        strikes
    }

    /// Intercepts bytes to a client.
    pub(crate) fn on_write(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.mutation == Some(Mutation::LoseBytes) && bytes.len() > 8 && self.random.chance(0.01)
        {
            self.strikes += 1;
            let from = self.random.below(bytes.len() as u64 - 4) as usize;
            bytes.drain(from..from + 4);
        }
        if self.mutation == Some(Mutation::IdAhead) && self.random.chance(CHANCE) {
            self.strikes += u32::from(raise_id(&mut bytes));
        }
        if self.mutation == Some(Mutation::OtherEpochInJson) && self.random.chance(CHANCE) {
            self.strikes += u32::from(change_epoch(&mut bytes));
        }
        bytes
    }

    /// Intercepts a batch between shards; returns its replacement.
    pub(crate) fn on_post(&mut self, to: u16, post: Post) -> Post {
        if self.mutation.is_none() {
            return post;
        }
        match post {
            Post::Letters { from, stamps, letters } => {
                Post::Letters { from, stamps, letters: self.letters(from, to, letters) }
            }
            Post::Requests { from, stamps, requests } => {
                Post::Requests { from, stamps, requests: self.requests(from, requests) }
            }
            other => other,
        }
    }

    /// Intercepts the end of a user's connection, after the update of the table; `others`
    /// connections of the user remain.
    pub(crate) fn on_user_gone(&mut self, users: &Users, subject: &str, others: usize) {
        let mutation = self.mutation;
        match mutation {
            // With fewer others the user would be missing in the table, which is detected at once.
            Some(Mutation::LeaveTwice) if others > 1 && self.strikes() => users.leave(subject),
            Some(Mutation::StayCounted) if self.strikes() => {
                users.enter(subject, None);
            }
            _ => {}
        }
    }

    /// Intercepts a request of a home to its log; returns a false answer before the log thread has
    /// it.
    pub(crate) fn on_disk_request(&mut self, request: &DiskRequest) -> Option<DiskLetter> {
        match request {
            DiskRequest::Append { generation, .. }
                if self.mutation == Some(Mutation::DeliverBeforeSync) =>
            {
                self.strikes += 1;
                Some(DiskLetter::Committed { generation: *generation, count: 1, result: Ok(()) })
            }
            _ => None,
        }
    }

    /// Whether to skip this sync.
    pub(crate) fn skips_sync(&mut self) -> bool {
        self.mutation == Some(Mutation::AckBeforeSync) && {
            self.strikes += 1;
            true
        }
    }

    /// Whether a dead node forgets its last batch.
    pub(crate) fn forgets_last_batch(&mut self) -> bool {
        self.mutation == Some(Mutation::ForgetLastBatch) && {
            self.strikes += 1;
            true
        }
    }

    /// Whether a dead node loses the record of its log's end.
    pub(crate) fn loses_noted_end(&mut self) -> bool {
        let is_lost = self.mutation == Some(Mutation::LoseNotedEnd);
        self.strikes += u32::from(is_lost);
        is_lost
    }

    /// Whether a start misses this record.
    pub(crate) fn skips_recovered(&mut self) -> bool {
        self.mutation == Some(Mutation::SkipRecovered) && self.strikes()
    }

    /// Whether to start with a planted bug.
    pub(crate) fn restores(&self) -> bool {
        matches!(
            self.mutation,
            Some(Mutation::SkipRecovered | Mutation::ReuseOffsets | Mutation::LoseRetained)
        )
    }

    /// Whether a start forgets the identities of publications.
    pub(crate) fn loses_window(&mut self) -> bool {
        let is_lost = self.mutation == Some(Mutation::DropProducers);
        self.strikes += u32::from(is_lost);
        is_lost
    }

    /// Whether a start misses this retained message.
    pub(crate) fn loses_retained(&mut self) -> bool {
        let is_lost = self.mutation == Some(Mutation::LoseRetained);
        self.strikes += u32::from(is_lost);
        is_lost
    }

    /// Intercepts the damaged offsets that a start found, by partition.
    pub(crate) fn loses_holes(&mut self, damaged_through: &mut [u64]) {
        if self.mutation == Some(Mutation::LoseHoles) {
            self.strikes += u32::from(damaged_through.iter().any(|through| *through > 0));
            damaged_through.fill(0);
        }
    }

    /// Intercepts the greatest offset of a partition that a start found.
    pub(crate) fn lowers_head(&mut self, head: u64) -> u64 {
        if self.mutation == Some(Mutation::ReuseOffsets) && head > 0 {
            self.strikes += 1;
            return head - 1;
        }
        head
    }

    /// Intercepts an answer of the log thread to a home.
    pub(crate) fn on_disk_letter(&mut self, mut letter: DiskLetter) -> Option<DiskLetter> {
        match (&mut letter, self.mutation) {
            (DiskLetter::Committed { .. }, Some(Mutation::LoseCommitted)) if self.strikes() => {
                return None;
            }
            (DiskLetter::Committed { .. }, Some(Mutation::DeliverBeforeSync)) => return None,
            (
                DiskLetter::Answer {
                    result: Ok(DiskAnswer::Page { records, complete, .. }), ..
                },
                Some(mutation),
            ) => self.spoil_disk_page(mutation, records, complete),
            _ => {}
        }
        Some(letter)
    }

    fn spoil_disk_page(
        &mut self,
        mutation: Mutation,
        records: &mut Vec<Slice>,
        complete: &mut bool,
    ) {
        match mutation {
            Mutation::RepeatDiskPage if !records.is_empty() && self.strikes() => {
                records.extend_from_within(..);
            }
            Mutation::SkipDiskRecord if records.len() > 1 && self.strikes() => {
                let at = self.random.below(records.len() as u64) as usize;
                records.remove(at);
            }
            Mutation::DiskPageEndsEarly if !records.is_empty() && self.strikes() => {
                records.clear();
                *complete = true;
            }
            _ => {}
        }
    }

    fn requests(&mut self, from: u16, mut requests: Vec<ToHome>) -> Vec<ToHome> {
        for request in &mut requests {
            self.on_mqtt_request(from, request);
        }
        if self.mutation == Some(Mutation::FeedOldEpoch) {
            for request in &mut requests {
                if let ToHome::Subscribe(Subscribe { start: Start::Since(position), .. }) = request
                    && Some(position.epoch) == self.former
                    && self.random.chance(0.5)
                {
                    self.strikes += 1;
                    position.epoch += 1;
                }
            }
        }
        if self.mutation == Some(Mutation::DropKeys) {
            for request in &mut requests {
                if let ToHome::Publish(Publish { publication, .. }) = request
                    && !publication.idempotency_key.is_empty()
                    && self.strikes()
                {
                    publication.idempotency_key = Slice::empty();
                }
            }
        }
        if self.mutation == Some(Mutation::LoseCursors) {
            for request in &mut requests {
                if let ToHome::AddFilter(AddFilter { since, .. }) = request
                    && !since.is_empty()
                    && self.strikes()
                {
                    since.clear();
                }
            }
        }
        let lost = match self.mutation {
            Some(Mutation::LoseSession) => Some(sys::CLIENTS_CONNECTED),
            Some(Mutation::LoseOccupancy) => Some(sys::TOPICS_VACATED),
            _ => None,
        };
        if let Some(lost) = lost {
            for request in &mut requests {
                if let ToHome::Publish(Publish { publication, .. }) = request
                    && *publication.topic == *lost.as_bytes()
                    && self.strikes()
                {
                    publication.topic = Slice::copy_of(b"elsewhere");
                }
            }
        }
        if self.mutation == Some(Mutation::AckWithoutAppend) {
            for request in &mut requests {
                // Only the acknowledgement of the publication remains: it is sent to another
                // topic's name in the same partition.
                if let ToHome::Publish(Publish { publication, .. }) = request
                    && self.random.chance(CHANCE)
                {
                    self.strikes += 1;
                    publication.topic = Slice::copy_of(b"elsewhere");
                }
            }
        }
        requests
    }

    fn letters(&mut self, from: u16, to: u16, letters: Vec<ToEdge>) -> Vec<ToEdge> {
        let mut kept: Vec<ToEdge> = Vec::with_capacity(letters.len());
        for mut letter in letters {
            self.change_page(&mut letter);
            self.on_mqtt_letter(to, &mut letter);
            match (&mut letter, self.mutation) {
                (ToEdge::Message { record, .. }, Some(Mutation::WrongPrev)) if self.strikes() => {
                    *record = with_wrong_prev(record, self.random.chance(0.5));
                }
                (ToEdge::Message { .. }, Some(Mutation::LoseMessage)) if self.strikes() => continue,
                (ToEdge::Message { index, .. }, Some(Mutation::LoseInterest))
                    if self.silent.contains(&(from, to, *index)) =>
                {
                    continue;
                }
                (ToEdge::Granted(Grant { index, .. }), Some(Mutation::LoseInterest))
                    if self.strikes() =>
                {
                    self.silent.push((from, to, *index));
                }
                (ToEdge::Granted(Grant { position, .. }), Some(Mutation::OldEpoch))
                    if self.strikes() =>
                {
                    position.epoch -= 1;
                }
                (ToEdge::Described(Description { names, .. }), Some(Mutation::OtherNames))
                    if !names.is_empty() && self.strikes() =>
                {
                    let mut other = names.to_vec();
                    if let Some(letter) = other.get_mut(1) {
                        *letter = if *letter == b'a' { b'b' } else { b'a' };
                    }
                    *names = Slice::copy_of(&other);
                }
                (ToEdge::Described(Description { positions, .. }), Some(Mutation::TicketAhead))
                    if !positions.is_empty() =>
                {
                    self.strikes += 1;
                    positions.iter_mut().for_each(|(_, offset)| *offset += 1);
                }
                (ToEdge::Positions { positions }, Some(Mutation::PositionAhead)) => {
                    self.strikes += 1;
                    positions.iter_mut().for_each(|at| at.through += 1);
                }
                (ToEdge::Positions { .. }, Some(Mutation::LosePositions)) => {
                    self.strikes += 1;
                    continue;
                }
                (ToEdge::Published { .. }, Some(Mutation::LoseAck)) if self.strikes() => continue,
                (ToEdge::Released { .. }, Some(Mutation::DropReleased)) if self.strikes() => {
                    continue;
                }
                _ => {}
            }
            kept.push(letter);
        }
        self.swap_letters(&mut kept);
        kept
    }

    /// Changes a page of a topic or of filters.
    fn change_page(&mut self, letter: &mut ToEdge) {
        match (letter, self.mutation) {
            (ToEdge::Page(Page { records, .. }), Some(Mutation::SkipReplayed))
                if records.len() > 1 && self.strikes() =>
            {
                let at = self.random.below(records.len() as u64) as usize;
                records.remove(at);
            }
            (ToEdge::Page(Page { records, .. }), Some(Mutation::RepeatPage))
                if !records.is_empty() && self.strikes() =>
            {
                records.extend_from_within(..);
            }
            (ToEdge::Page(Page { caught_up, .. }), Some(Mutation::CaughtUpEarly))
                if !*caught_up && self.strikes() =>
            {
                *caught_up = true;
            }
            (ToEdge::FilterPage(FilterPage { records, .. }), Some(Mutation::SkipReplayed))
                if records.len() > 1 && self.strikes() =>
            {
                let at = self.random.below(records.len() as u64) as usize;
                records.remove(at);
            }
            (ToEdge::FilterPage(FilterPage { records, .. }), Some(Mutation::RepeatPage))
                if !records.is_empty() && self.strikes() =>
            {
                records.extend_from_within(..);
            }
            (ToEdge::FilterPage(FilterPage { caught_up, .. }), Some(Mutation::CaughtUpEarly))
                if !*caught_up && self.strikes() =>
            {
                *caught_up = true;
            }
            (ToEdge::Page(Page { skipped: Some(skipped), .. }), Some(Mutation::SkipLess))
                if self.strikes() =>
            {
                *skipped -= 1
            }
            (ToEdge::FilterPage(FilterPage { skipped, .. }), Some(Mutation::SkipLess))
                if !skipped.is_empty() && self.strikes() =>
            {
                let at = self.random.below(skipped.len() as u64) as usize;
                let skip = &mut skipped[at];
                skip.through = self.random.between(skip.from, skip.through - 1);
            }
            _ => {}
        }
    }

    /// Swaps neighbouring messages of one index.
    fn swap_letters(&mut self, kept: &mut [ToEdge]) {
        if self.mutation == Some(Mutation::SwapLetters) {
            for at in 1..kept.len() {
                let same_index = matches!(
                    (&kept[at - 1], &kept[at]),
                    (ToEdge::Message { index: one, .. }, ToEdge::Message { index: two, .. }) if one == two
                );
                if same_index && self.strikes() {
                    kept.swap(at - 1, at);
                }
            }
        }
    }
}

/// Raises the last offset of an id with positions for filters (`docs/formats.md`), if the bytes
/// contain a complete one.
fn raise_id(bytes: &mut [u8]) -> bool {
    let lines = bytes.split_mut(|byte| *byte == b'\n');
    let mut ids = lines.filter(|line| line.starts_with(b"id: ") && line.contains(&b'/'));
    let Some(id) = ids.next() else {
        return false;
    };
    let part = id.rsplit(|byte| b".:".contains(byte)).next();
    if part.is_none_or(|part| part.starts_with(b"~")) {
        return false; // the length of a run, not a position
    }
    let Some(last) = id.last_mut() else {
        return false;
    };
    let rises = (b'0'..=b'8').contains(last);
    *last += u8::from(rises);
    rises
}

/// Changes the epoch of a message in JSON, if the bytes contain the beginning of one.
fn change_epoch(bytes: &mut [u8]) -> bool {
    const BEFORE: &[u8] = b"\"position\":\"";
    let is_message = bytes.windows(16).any(|part| part == b"\"type\":\"message\"");
    let found = bytes.windows(BEFORE.len()).position(|part| part == BEFORE);
    let digit = found.and_then(|at| bytes.get_mut(at + BEFORE.len()));
    match digit {
        Some(digit) if is_message => {
            *digit = if *digit == b'1' { b'2' } else { b'1' };
            true
        }
        _ => false,
    }
}

/// The record with another `prev`: too high, as if records were missing, or too low, as if none
/// could be missing.
fn with_wrong_prev(record: &Slice, too_high: bool) -> Slice {
    let Some(view) = log::RecordView::parse(record) else {
        return record.clone();
    };
    let (prev, offset) = (view.prev(), view.offset());
    let wrong = if too_high { offset - 1 } else { 0 };
    let mut bytes = record.to_vec();
    // `docs/formats.md`: the predecessor is in bytes 16 to 24.
    debug_assert_eq!(bytes[16..24], prev.to_le_bytes());
    bytes[16..24].copy_from_slice(&wrong.to_le_bytes());
    Slice::copy_of(&bytes)
}
