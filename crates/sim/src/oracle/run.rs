//! The record of one subscriber, for the end of the world.

use broker::settings::LagPolicy;

/// A gap or skip, as a node reported it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The start, exclusive.
    pub from: u64,
    /// The end, inclusive.
    pub to: u64,
    /// The protocol's reason: 0 evicted, 1 unknown epoch, 2 beyond head, 3 history limit. For a
    /// skip, its reason plus [`SKIPPED`].
    pub reason: u8,
    /// The moment of the report.
    pub told_at: u64,
}

/// The offset of the reasons of skips.
pub const SKIPPED: u8 = 100;
/// The policy sends the newest message only.
pub const CONFLATED: u8 = SKIPPED + 1;
/// The policy sends none.
pub const DROPPED: u8 = SKIPPED + 3;

/// Checks whether a skip agrees with the policy.
///
/// # Errors
/// It does not.
pub fn check_skip(policy: LagPolicy, hole: &Hole) -> Result<(), String> {
    let is_right = match policy {
        LagPolicy::Conflate => hole.reason == CONFLATED,
        LagPolicy::Drop => hole.reason == DROPPED,
        LagPolicy::Replay | LagPolicy::Disconnect => false,
    };
    if is_right && hole.from < hole.to {
        Ok(())
    } else {
        Err(format!("SKIPPED {hole:?}, and the policy is {policy:?}"))
    }
}

/// One subscription to a plain topic, or the part of a filter's subscription for one topic, over
/// all its connections, within one epoch or several under which its positions stayed valid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// The client.
    pub client: usize,
    /// The topic.
    pub topic: usize,
    /// The newest reported epoch.
    pub epoch: u64,
    /// It begins after this offset.
    pub from: u64,
    /// Everything up to here is settled.
    pub cursor: u64,
    /// Older epochs that it crossed, each with its cursor at that moment: it must receive the
    /// messages behind that.
    pub crossed: Vec<(u64, u64)>,
    /// Received offsets, ascending.
    pub seen: Vec<u64>,
    /// Reported gaps and skips.
    pub holes: Vec<Hole>,
    /// The request for the newest messages: their number, and the partition's known offset at that
    /// time.
    pub wanted_newest: Option<(usize, u64)>,
}

impl Run {
    /// An empty run of the same subscriber.
    pub(super) fn nothing(run: &Run) -> Run {
        Run {
            client: run.client,
            topic: run.topic,
            wanted_newest: run.wanted_newest,
            ..Run::default()
        }
    }

    /// Adds a gap: everything before it is claimed to be settled, and checked as such.
    pub fn take_hole(&mut self, hole: Hole) {
        self.holes.push(Hole { from: self.cursor.max(hole.from), ..hole });
        self.cursor = self.cursor.max(hole.to);
    }

    /// Switches to the node's epoch, in which the run's settled part stays valid.
    pub fn continue_in(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.crossed.push((self.epoch, self.cursor));
            self.epoch = epoch;
        }
    }

    /// Ends the run at a new epoch without its messages: returns it, and begins anew.
    pub fn begin_anew(&mut self, epoch: u64) -> Run {
        let new = Run { client: self.client, topic: self.topic, epoch, ..Run::default() };
        std::mem::replace(self, new)
    }
}
