//! What one subscriber was told, as it is kept for the end of the world.

use broker::settings::LagPolicy;

/// Something lost or left out, as a node announced it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// Exclusive.
    pub from: u64,
    /// Inclusive.
    pub to: u64,
    /// As in the protocol: 0 evicted, 1 unknown epoch, 2 beyond head, 3 history limit. Of what was
    /// left out on purpose its reason behind [`SKIPPED`].
    pub reason: u8,
    /// The moment when it was told.
    pub told_at: u64,
}

/// In front of the reasons of what was left out.
pub const SKIPPED: u8 = 100;
/// The newest was to be brought.
pub const CONFLATED: u8 = SKIPPED + 1;
/// Nothing was.
pub const DROPPED: u8 = SKIPPED + 3;

/// What a subscriber was told that was left out: is that what its policy wants?
///
/// # Errors
/// It is not.
pub fn check_skip(policy: LagPolicy, hole: &Hole) -> Result<(), String> {
    let is_right = match policy {
        LagPolicy::Conflate => hole.reason == CONFLATED,
        LagPolicy::Drop => hole.reason == DROPPED,
        LagPolicy::Replay | LagPolicy::Disconnect => false,
    };
    match is_right && hole.from < hole.to {
        true => Ok(()),
        false => Err(format!("SKIPPED {hole:?}, and the policy is {policy:?}")),
    }
}

/// One subscription to a plain topic, or of one to a filter what concerns a topic, over all
/// connections on which it was resumed, within one epoch or several under which its positions
/// stayed valid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// Whose.
    pub client: usize,
    /// Which topic.
    pub topic: usize,
    /// The newest epoch that it was told.
    pub epoch: u64,
    /// It begins after this offset.
    pub from: u64,
    /// Everything up to here is settled.
    pub cursor: u64,
    /// Older epochs from which it was continued, each with its cursor at that moment: it is owed
    /// what stood behind that.
    pub crossed: Vec<(u64, u64)>,
    /// Offsets received, rising.
    pub seen: Vec<u64>,
    /// Announced.
    pub holes: Vec<Hole>,
    /// It asked for the newest so many, when the partition was known up to the offset.
    pub wanted_newest: Option<(usize, u64)>,
}

impl Run {
    /// A run of the same subscriber that was told nothing.
    pub(super) fn nothing(run: &Run) -> Run {
        Run {
            client: run.client,
            topic: run.topic,
            wanted_newest: run.wanted_newest,
            ..Run::default()
        }
    }

    /// A gap was announced: what lies before it is claimed to be settled, and judged as such.
    pub fn take_hole(&mut self, hole: Hole) {
        self.holes.push(Hole { from: self.cursor.max(hole.from), ..hole });
        self.cursor = self.cursor.max(hole.to);
    }

    /// The node has this epoch, and what this run has settled holds in it.
    pub fn continue_in(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.crossed.push((self.epoch, self.cursor));
            self.epoch = epoch;
        }
    }

    /// The node has another epoch, and what this run is about is gone: answers it as it was, and
    /// begins anew.
    pub fn begin_anew(&mut self, epoch: u64) -> Run {
        let new = Run { client: self.client, topic: self.topic, epoch, ..Run::default() };
        std::mem::replace(self, new)
    }
}
