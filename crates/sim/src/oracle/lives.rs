//! The lives of logs: which epoch each node had, and what of an older epoch still holds in a newer
//! one.
//!
//! A life begins with a new epoch, and for each partition with a start: positions of older lives
//! below it stay valid, and so does what stands there. A memory log's start is 0: nothing is left
//! of the life before. One life may be served by several nodes, one after the other: a durable log
//! keeps its epoch over restarts.

use std::collections::BTreeMap;

/// From one epoch to the next.
#[derive(Clone, Debug)]
struct Life {
    epoch: u64,
    /// By partition, numbered over all logs; 0 where there is none.
    starts: BTreeMap<u32, u64>,
    /// Older epochs that its newest node knows.
    known: Vec<u64>,
}

/// One log.
#[derive(Clone, Debug)]
struct LogLives {
    /// Its partitions end before this one.
    end: u32,
    /// Of each node that has run, in order: the life that it served.
    of_instances: Vec<u32>,
    lives: Vec<Life>,
}

/// All logs of a world.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    logs: Vec<LogLives>,
    /// By partition: the least offset that the log had at its last start.
    floors: BTreeMap<u32, u64>,
}

impl Lives {
    /// A start has found a log that begins there; what was before it is forgotten by names too.
    pub fn started_with(&mut self, partition: u32, floor: u64) {
        self.floors.insert(partition, floor);
    }

    /// Whether retention had dropped an offset before the last start.
    pub fn is_forgotten(&self, partition: u32, offset: u64) -> bool {
        self.floors.get(&partition).is_some_and(|floor| offset < *floor)
    }

    /// A log begins; its partitions are those before `end` that belong to no earlier one.
    pub fn add_log(&mut self, end: u32, epoch: u64) {
        self.logs.push(LogLives {
            end,
            of_instances: vec![0],
            lives: vec![Life { epoch, starts: BTreeMap::new(), known: Vec::new() }],
        });
    }

    /// The next node serves this log: with the same epoch, or with a new one and its starts.
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

    /// Which node runs now, or ran last.
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

    /// A life's epoch.
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

    /// The life in which was appended what stands at an offset in `life`.
    pub fn origin(&self, partition: u32, mut life: u32, offset: u64) -> u32 {
        while life > 0 && offset < self.start(partition, life) {
            life -= 1;
        }
        life
    }

    /// Whether a position of one life says something in a later one, or the same.
    pub fn holds(&self, partition: u32, from: u32, offset: u64, to: u32) -> bool {
        let lives = &self.log(partition).lives;
        let epoch = lives.get(from as usize).map_or(0, |life| life.epoch);
        let is_known = lives.get(to as usize).is_some_and(|life| life.known.contains(&epoch));
        (from == to || is_known)
            && from <= to
            && (from + 1..=to).all(|life| offset < self.start(partition, life))
    }

    /// The least start of the lives after `from` up to `to`: below it everything is as it was.
    pub fn kept_before(&self, partition: u32, from: u32, to: u32) -> u64 {
        let starts = (from + 1..=to).map(|life| self.start(partition, life));
        starts.min().unwrap_or(u64::MAX)
    }
}
