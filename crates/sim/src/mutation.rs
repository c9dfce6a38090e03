//! Planted bugs: what a broken node would do, done at the shards' boundary, to see that the oracle finds it.
//!
//! Place: in the simulator's own mailbox and network only; production code knows nothing of it.

use broker::mail::{Letter, Request, Start};
use node::mailbox::Post;
use stdx::chunk::Slice;
use stdx::prng::Prng;

/// One way in which a node could be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A page lacks one of its records.
    SkipReplayed,
    /// A live message is lost between home and edge.
    LoseMessage,
    /// A page is delivered with its records repeated.
    RepeatPage,
    /// Two neighbouring letters change places.
    SwapLetters,
    /// A page says that replay is over when it is not.
    CaughtUpEarly,
    /// A record names a wrong predecessor.
    WrongPrev,
    /// A grant names an epoch that is over.
    OldEpoch,
    /// After a restart, a position of the life before is taken for one of this life.
    FeedOldEpoch,
    /// A grant's interest gets lost: the stream of its topic is silent.
    LoseInterest,
    /// An acknowledgement is lost.
    LoseAck,
    /// A publication is acknowledged and not appended.
    AckWithoutAppend,
    /// The release of an index is lost.
    DropReleased,
    /// Bytes vanish from a write.
    LoseBytes,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 13] = [
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
    ];
}

/// Applies one mutation now and then.
pub struct Saboteur {
    mutation: Option<Mutation>,
    random: Prng,
    /// Topics' streams that are silent, by (from, to, index).
    silent: Vec<(u16, u16, u32)>,
    /// The epoch of the node before this one.
    former: Option<u64>,
    /// How often it struck.
    pub strikes: u32,
}

const CHANCE: f64 = 0.15;

impl Saboteur {
    /// One that applies `mutation`, or nothing.
    pub fn new(mutation: Option<Mutation>, seed: u64) -> Saboteur {
        Saboteur {
            mutation,
            random: Prng::new(seed ^ 0x5ab0),
            silent: Vec::new(),
            former: None,
            strikes: 0,
        }
    }

    /// The next node begins; the first log of the one before had this epoch.
    pub(crate) fn restarted(&mut self, former: u64) {
        self.former = Some(former);
        self.silent.clear();
    }

    fn strikes(&mut self) -> bool {
        let strikes = self.random.chance(CHANCE);
        self.strikes += u32::from(strikes);
        strikes
    }

    /// Bytes on their way to a client.
    pub(crate) fn on_write(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.mutation == Some(Mutation::LoseBytes) && bytes.len() > 8 && self.random.chance(0.01)
        {
            self.strikes += 1;
            let from = self.random.below(bytes.len() as u64 - 4) as usize;
            bytes.drain(from..from + 4);
        }
        bytes
    }

    /// A batch between shards; what takes its place.
    pub(crate) fn on_post(&mut self, to: u16, post: Post) -> Post {
        if self.mutation.is_none() {
            return post;
        }
        match post {
            Post::Letters { from, letters } => Post::Letters {
                from,
                letters: self.letters(from, to, letters),
            },
            Post::Requests { from, requests } => Post::Requests {
                from,
                requests: self.requests(requests),
            },
            other => other,
        }
    }

    fn requests(&mut self, mut requests: Vec<Request>) -> Vec<Request> {
        if self.mutation == Some(Mutation::FeedOldEpoch) {
            for request in &mut requests {
                if let Request::Subscribe {
                    start: Start::Since(position),
                    ..
                } = request
                    && Some(position.epoch) == self.former
                    && self.random.chance(0.5)
                {
                    self.strikes += 1;
                    position.epoch += 1;
                }
            }
        }
        if self.mutation == Some(Mutation::AckWithoutAppend) {
            for request in &mut requests {
                // Of a publish only the acknowledgement is left: it goes to another topic's name in the same partition.
                if let Request::Publish { publication, .. } = request
                    && self.random.chance(CHANCE)
                {
                    self.strikes += 1;
                    publication.topic = Slice::copy_of(b"elsewhere");
                }
            }
        }
        requests
    }

    fn letters(&mut self, from: u16, to: u16, letters: Vec<Letter>) -> Vec<Letter> {
        let mut kept: Vec<Letter> = Vec::with_capacity(letters.len());
        for mut letter in letters {
            match (&mut letter, self.mutation) {
                (Letter::Page { records, .. }, Some(Mutation::SkipReplayed))
                    if records.len() > 1 && self.strikes() =>
                {
                    let at = self.random.below(records.len() as u64) as usize;
                    records.remove(at);
                }
                (Letter::Page { records, .. }, Some(Mutation::RepeatPage))
                    if !records.is_empty() && self.strikes() =>
                {
                    records.extend_from_within(..);
                }
                (Letter::Page { caught_up, .. }, Some(Mutation::CaughtUpEarly))
                    if !*caught_up && self.strikes() =>
                {
                    *caught_up = true;
                }
                (Letter::FilterPage { records, .. }, Some(Mutation::SkipReplayed))
                    if records.len() > 1 && self.strikes() =>
                {
                    let at = self.random.below(records.len() as u64) as usize;
                    records.remove(at);
                }
                (Letter::FilterPage { records, .. }, Some(Mutation::RepeatPage))
                    if !records.is_empty() && self.strikes() =>
                {
                    records.extend_from_within(..);
                }
                (Letter::FilterPage { caught_up, .. }, Some(Mutation::CaughtUpEarly))
                    if !*caught_up && self.strikes() =>
                {
                    *caught_up = true;
                }
                (Letter::Message { record, .. }, Some(Mutation::WrongPrev)) if self.strikes() => {
                    *record = with_wrong_prev(record, self.random.chance(0.5));
                }
                (Letter::Message { .. }, Some(Mutation::LoseMessage)) if self.strikes() => continue,
                (Letter::Message { index, .. }, Some(Mutation::LoseInterest))
                    if self.silent.contains(&(from, to, *index)) =>
                {
                    continue;
                }
                (Letter::Granted { index, .. }, Some(Mutation::LoseInterest)) if self.strikes() => {
                    self.silent.push((from, to, *index));
                }
                (Letter::Granted { epoch, .. }, Some(Mutation::OldEpoch)) if self.strikes() => {
                    *epoch -= 1;
                }
                (Letter::Published { .. }, Some(Mutation::LoseAck)) if self.strikes() => continue,
                (Letter::Released { .. }, Some(Mutation::DropReleased)) if self.strikes() => {
                    continue;
                }
                _ => {}
            }
            kept.push(letter);
        }
        if self.mutation == Some(Mutation::SwapLetters) {
            for at in 1..kept.len() {
                let same_index = matches!(
                    (&kept[at - 1], &kept[at]),
                    (Letter::Message { index: one, .. }, Letter::Message { index: two, .. }) if one == two
                );
                if same_index && self.strikes() {
                    kept.swap(at - 1, at);
                }
            }
        }
        kept
    }
}

/// The record with another `prev`: too high, as if something were missing, or too low, as if nothing could be.
fn with_wrong_prev(record: &Slice, too_high: bool) -> Slice {
    let Some(view) = log::RecordView::parse(record) else {
        return record.clone();
    };
    let (prev, offset) = (view.prev(), view.offset());
    let wrong = if too_high { offset - 1 } else { 0 };
    let mut bytes = record.to_vec();
    // `docs/formats.md`: the predecessor stands at bytes 16 to 24.
    debug_assert_eq!(bytes[16..24], prev.to_le_bytes());
    bytes[16..24].copy_from_slice(&wrong.to_le_bytes());
    Slice::copy_of(&bytes)
}
