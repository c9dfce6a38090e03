//! One partition of the engine's model: three replicas, a leader, commits, and elections.
//!
//! A clean election loses only entries that were never committed. An unclean one makes a replica
//! the leader that lacks committed entries; the others then cut theirs off.

use super::life::{Content, Entry, EntryId, Life, Path};
use super::verdict::Window;
use stdx::prng::Prng;

/// The number of replicas.
pub const REPLICAS: usize = 3;
/// The number of replicas in sync without which the leader takes nothing.
const IN_SYNC_MIN: usize = 2;

/// One copy of the log.
#[derive(Clone, Default)]
struct Replica {
    path: Path,
    is_alive: bool,
    is_in_sync: bool,
}

/// A partition; see the module.
pub struct Partition {
    /// All lives, the present one last.
    pub lives: Vec<Life>,
    replicas: Vec<Replica>,
    leader: Option<usize>,
    window: Window,
    committed: u64,
    /// Entries up to this offset are expired.
    pub expired: u64,
    /// The first entry of an open transaction.
    open: Option<EntryId>,
    /// The difference of each broker's clock.
    skews_ms: [u64; REPLICAS],
}

impl Partition {
    /// Creates an empty partition; its first lineage begins.
    pub fn new(topic_id: u32, window_s: u64, skews_ms: [u64; REPLICAS]) -> Partition {
        let mut partition = Partition {
            lives: Vec::new(),
            replicas: Vec::new(),
            leader: None,
            window: Window::new(window_s),
            committed: 0,
            expired: 0,
            open: None,
            skews_ms,
        };
        partition.recreate(topic_id);
        partition
    }

    /// Replaces the topic by an empty one.
    pub fn recreate(&mut self, topic_id: u32) {
        let mut life = Life::new(topic_id);
        life.begin(0, Path::new());
        self.lives.push(life);
        let replica = Replica { path: Path::new(), is_alive: true, is_in_sync: true };
        self.replicas = vec![replica; REPLICAS];
        self.leader = Some(0);
        self.window.clear();
        (self.committed, self.expired, self.open) = (0, 0, None);
    }

    /// The present life.
    pub fn life(&self) -> &Life {
        self.lives.last().expect("a partition has a life")
    }

    fn life_mut(&mut self) -> &mut Life {
        self.lives.last_mut().expect("a partition has a life")
    }

    /// The life of a topic.
    pub fn life_of(&self, topic_id: u32) -> Option<&Life> {
        self.lives.iter().find(|life| life.topic_id == topic_id)
    }

    /// Whether there is a leader.
    pub fn is_led(&self) -> bool {
        self.leader.is_some()
    }

    /// Whether the leader takes records.
    pub fn is_available(&self) -> bool {
        self.is_led() && self.in_sync().count() >= IN_SYNC_MIN
    }

    /// The newest offset of the leader.
    pub fn end(&self) -> u64 {
        self.life().path().len() as u64
    }

    /// Everything up to this offset is committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Tails may read up to this offset.
    pub fn visible(&self) -> u64 {
        let open = self.open.map(|open| self.life().entry(open).offset - 1);
        self.committed.min(open.unwrap_or(u64::MAX))
    }

    /// Everything up to this offset is older than a time.
    pub fn older_than(&self, time_ms: u64) -> u64 {
        let life = self.life();
        let is_older = |id: &&EntryId| life.entry(**id).time_ms < time_ms;
        life.path().iter().take_while(is_older).count() as u64
    }

    /// Compacts the entries older than a time.
    pub fn compact(&mut self, time_ms: u64) {
        let through = self.older_than(time_ms).min(self.visible());
        self.life_mut().compact(through);
    }

    fn in_sync(&self) -> impl Iterator<Item = usize> {
        (0..REPLICAS).filter(|replica| self.replicas[*replica].is_in_sync)
    }

    /// The leader takes an entry.
    pub fn append(&mut self, content: Content, now_ms: u64) -> Option<EntryId> {
        let leader = self.leader.filter(|_| self.is_available())?;
        let time_ms = now_ms + self.skews_ms[leader];
        let life = self.lives.last_mut()?;
        let id = life.append(content, time_ms, &mut self.window);
        self.replicas[leader].path.push(id);
        self.commit();
        Some(id)
    }

    /// Begins a transaction of a foreign producer with this entry, unless one is open.
    pub fn open(&mut self, id: EntryId) {
        self.open.get_or_insert(id);
    }

    /// Ends the open transaction, with a marker: commits or aborts its entry.
    pub fn close(&mut self, commits: bool, now_ms: u64) {
        if self.is_available()
            && let Some(open) = self.open.take()
        {
            if !commits {
                self.life_mut().abort(open);
                // Entries behind it were not visible yet.
                let path = self.life().path().clone();
                self.window.clear();
                for id in path {
                    let verdict = self.window.judge(self.lives[self.lives.len() - 1].entry(id));
                    self.life_mut().set_verdict(id, verdict);
                }
            }
            self.append(Content::Hole, now_ms);
        }
    }

    /// The followers fetch some entries.
    pub fn replicate(&mut self, random: &mut Prng) {
        let Some(leader) = self.leader else {
            return;
        };
        let path = std::mem::take(&mut self.replicas[leader].path);
        for (index, replica) in self.replicas.iter_mut().enumerate() {
            if index == leader || !replica.is_alive {
                continue;
            }
            let common = common_len(&replica.path, &path);
            replica.path.truncate(common);
            let missing = path.len() - common;
            let count = random.between(0, missing as u64) as usize;
            replica.path.extend_from_slice(&path[common..common + count]);
            replica.is_in_sync |= replica.path.len() == path.len();
        }
        self.replicas[leader].path = path;
        self.commit();
    }

    /// Whether followers lack entries.
    pub fn has_lagging(&self) -> bool {
        let end = self.life().path().len();
        let lags = |replica: &Replica| {
            replica.is_alive && (replica.path.len() != end || !replica.is_in_sync)
        };
        self.leader.is_some() && self.replicas.iter().any(lags)
    }

    fn commit(&mut self) {
        let Some(leader) = self.leader else {
            return;
        };
        let path = &self.replicas[leader].path;
        let of_replica = |replica: usize| common_len(&self.replicas[replica].path, path) as u64;
        if self.in_sync().count() >= IN_SYNC_MIN
            && let Some(least) = self.in_sync().map(of_replica).min()
        {
            let before = self.committed;
            self.committed = before.max(least);
            self.life_mut().commit(before, least);
        }
    }

    /// A replica stops: without a leader, if it was that.
    pub fn stop(&mut self, replica: usize) {
        // The last one in sync stays in sync: it has everything that is committed.
        if self.in_sync().any(|other| other != replica) {
            self.replicas[replica].is_in_sync = false;
        }
        self.replicas[replica].is_alive = false;
        if self.leader == Some(replica) {
            self.leader = None;
        }
        self.commit();
    }

    /// Nothing is served until an election.
    pub fn lose_leader(&mut self) {
        self.leader = None;
    }

    /// A replica that had stopped is there again, as a follower.
    pub fn resume(&mut self, replica: usize) {
        self.replicas[replica].is_alive = true;
    }

    /// The leader.
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// Elects any replica that is alive and in sync, the leader itself if there is no other.
    /// Returns the entries that are lost: they were not committed.
    pub fn elect(&mut self, random: &mut Prng) -> Vec<EntryId> {
        let candidates: Vec<usize> =
            self.in_sync().filter(|replica| self.replicas[*replica].is_alive).collect();
        let others: Vec<usize> =
            candidates.iter().copied().filter(|replica| Some(*replica) != self.leader).collect();
        let choices = if others.is_empty() { candidates } else { others };
        match choices.get(random.below(choices.len().max(1) as u64) as usize) {
            Some(choice) => self.lead(*choice, random),
            None => Vec::new(),
        }
    }

    /// Elects a replica that may lack committed entries. Returns all lost entries.
    pub fn elect_unclean(&mut self, replica: usize, random: &mut Prng) -> Vec<EntryId> {
        for (index, other) in self.replicas.iter_mut().enumerate() {
            other.is_in_sync = index == replica;
        }
        self.replicas[replica].is_alive = true;
        // The rest of its log was not committed yet, and is when the others have it.
        let common = common_len(self.life().path(), &self.replicas[replica].path);
        self.committed = self.committed.min(common as u64);
        self.lead(replica, random)
    }

    fn lead(&mut self, replica: usize, random: &mut Prng) -> Vec<EntryId> {
        let path = self.replicas[replica].path.clone();
        let before = self.life().path();
        let lost = before[common_len(before, &path)..].to_vec();
        let lineage = self.life().present() + random.between(1, 3) as u32;
        self.window.clear();
        let life = self.life();
        let mut window = self.window.clone();
        for id in &path {
            let entry: &Entry = life.entry(*id);
            window.judge(entry);
        }
        self.window = window;
        if self.open.is_some_and(|open| !path.contains(&open)) {
            self.open = None;
        }
        self.life_mut().begin(lineage, path);
        self.leader = Some(replica);
        self.expired = self.expired.min(self.end());
        self.commit();
        lost
    }
}

/// The length of the common beginning of two logs of one life. An entry has one predecessor, so
/// equal entries have equal beginnings.
fn common_len(one: &[EntryId], other: &[EntryId]) -> usize {
    let (mut low, mut high) = (0, one.len().min(other.len()));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if one[middle - 1] == other[middle - 1] {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}
