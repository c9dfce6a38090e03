//! The lives of logs: the epoch of each node, and the validity of older epochs in newer ones.
//!
//! A life begins with a new epoch, and for each partition with a start: positions and records of
//! older lives below it stay valid. A memory log's start is 0: nothing is left of the previous
//! life. Several nodes may serve one life, one after the other: a durable log keeps its epoch over
//! restarts.

use std::collections::BTreeMap;

/// One epoch of a log.
#[derive(Clone, Debug)]
struct Life {
    epoch: u64,
    /// The starts by partition, numbered over all logs; 0 if there is none.
    starts: BTreeMap<u32, u64>,
    /// The older epochs that its newest node knows.
    known: Vec<u64>,
}

/// One log.
#[derive(Clone, Debug)]
struct LogLives {
    /// The end of its partitions, exclusive.
    end: u32,
    /// The life of each node, in order.
    of_instances: Vec<u32>,
    lives: Vec<Life>,
}

/// All logs of a world.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    logs: Vec<LogLives>,
    /// The log's lowest offset at its last start, by partition.
    floors: BTreeMap<u32, u64>,
}

impl Lives {
    /// Records the lowest offset at a start; deduplication has forgotten earlier publications.
    pub fn started_with(&mut self, partition: u32, floor: u64) {
        self.floors.insert(partition, floor);
    }

    /// Whether retention had dropped an offset before the last start.
    pub fn is_forgotten(&self, partition: u32, offset: u64) -> bool {
        self.floors.get(&partition).is_some_and(|floor| offset < *floor)
    }

    /// Adds a log; its partitions are those before `end` that belong to no earlier one.
    pub fn add_log(&mut self, end: u32, epoch: u64) {
        self.logs.push(LogLives {
            end,
            of_instances: vec![0],
            lives: vec![Life { epoch, starts: BTreeMap::new(), known: Vec::new() }],
        });
    }

    /// Begins the next node's life of this log: with the same epoch, or with a new one and its
    /// starts.
    pub fn restarted(
        &mut self,
        log: usize,
        epoch: u64,
        starts: BTreeMap<u32, u64>,
        known: Vec<u64>,
    ) {
        let log = &mut self.logs[log];
        if log.lives.last().is_none_or(|life| life.epoch != epoch) {
            log.lives.push(Life { epoch, starts, known: Vec::new() });
        }
        if let Some(life) = log.lives.last_mut() {
            life.known = known;
        }
        log.of_instances.push(log.lives.len() as u32 - 1);
    }

    fn log(&self, partition: u32) -> &LogLives {
        let place = self.logs.partition_point(|log| log.end <= partition);
        &self.logs[place.min(self.logs.len() - 1)]
    }

    /// The number of the present or last node.
    pub fn instance(&self) -> u32 {
        self.logs.first().map_or(0, |log| log.of_instances.len() as u32 - 1)
    }

    /// The life that a node served.
    pub fn at(&self, partition: u32, instance: u32) -> u32 {
        self.log(partition).of_instances[instance as usize]
    }

    /// The present life.
    pub fn present(&self, partition: u32) -> u32 {
        self.at(partition, self.instance())
    }

    /// The epochs of all lives of a partition, in order.
    pub fn epochs(&self, partition: u32) -> Vec<u64> {
        self.log(partition).lives.iter().map(|life| life.epoch).collect()
    }

    /// The epoch of a life.
    pub fn epoch(&self, partition: u32, life: u32) -> u64 {
        self.log(partition).lives[life as usize].epoch
    }

    /// The life of an epoch, if there ever was one.
    pub fn of_epoch(&self, partition: u32, epoch: u64) -> Option<u32> {
        let lives = &self.log(partition).lives;
        let place = lives.iter().position(|life| life.epoch == epoch)?;
        Some(place as u32)
    }

    fn start(&self, partition: u32, life: u32) -> u64 {
        let starts = &self.log(partition).lives[life as usize].starts;
        starts.get(&partition).copied().unwrap_or(0)
    }

    /// The life in which the record at an offset of `life` was appended.
    pub fn origin(&self, partition: u32, mut life: u32, offset: u64) -> u32 {
        while life > 0 && offset < self.start(partition, life) {
            life -= 1;
        }
        life
    }

    /// Whether a position of one life is valid in the same or a later one. Nothing lies before
    /// position 0.
    pub fn holds(&self, partition: u32, from: u32, offset: u64, to: u32) -> bool {
        let lives = &self.log(partition).lives;
        let epoch = lives.get(from as usize).map_or(0, |life| life.epoch);
        let is_known = lives.get(to as usize).is_some_and(|life| life.known.contains(&epoch));
        (from == to || is_known)
            && from <= to
            && (from + 1..=to).all(|life| offset < self.start(partition, life).max(1))
    }

    /// The lowest start of the lives after `from` up to `to`: offsets below it are unchanged.
    pub fn kept_before(&self, partition: u32, from: u32, to: u32) -> u64 {
        let starts = (from + 1..=to).map(|life| self.start(partition, life));
        starts.min().unwrap_or(u64::MAX)
    }
}
