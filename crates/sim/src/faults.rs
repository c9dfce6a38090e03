//! The faults of a world, as probabilities and bounds drawn from its seed.

use stdx::prng::Prng;

/// Faults of the network.
#[derive(Clone, Copy, Debug)]
pub struct NetFaults {
    /// The probability that a read or write is partial.
    pub split: f64,
    /// The probability that readiness is reported one poll late.
    pub late: f64,
    /// The minimum buffer of a socket for a client that does not read.
    pub buffer_bytes_min: u64,
    /// The maximum of that buffer.
    pub buffer_bytes_max: u64,
}

/// Faults of the mailboxes.
#[derive(Clone, Copy, Debug)]
pub struct MailFaults {
    /// The maximum delay of a batch, in milliseconds.
    pub delay_ms_max: u64,
    /// The probability that an arrived batch is left for a later turn.
    pub late: f64,
}

/// Faults of clients.
#[derive(Clone, Copy, Debug)]
pub struct ClientFaults {
    /// The probability of a lost connection, at each action.
    pub cut: f64,
    /// The probability of a pause in reading, at each action.
    pub stall: f64,
    /// The maximum pause, in milliseconds.
    pub stall_ms_max: u64,
    /// The probability that a client is permanently slow.
    pub slow: f64,
}

/// The duration of a hang after the last fault, if disks hang; meanwhile the other logs must serve
/// their clients.
pub const HANG_AT_END_MS: u64 = 40_000;

/// Faults of a log's disk, and of the path to it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DiskFaults {
    /// The maximum delay of requests and of answers, in milliseconds.
    pub delay_ms_max: u64,
    /// The probability that an arrived message is left for a later turn.
    pub late: f64,
    /// The probability that the reads of a turn are reordered.
    pub reorder: f64,
    /// The probability, at each turn of the log thread, that the next syncs fail.
    pub fail_sync: f64,
    /// The probability that the next writes fail.
    pub fail_write: f64,
    /// The probability that the next reads fail.
    pub fail_read: f64,
    /// The probability, at each turn of the log thread, that the disk is full for some time.
    pub full: f64,
    /// The maximum of that time, in milliseconds.
    pub full_ms_max: u64,
    /// The probability, at each turn of the log thread, that a call to the disk hangs.
    pub hang: f64,
    /// The maximum duration of such a call, in milliseconds.
    pub hang_ms_max: u64,
    /// The duration of a hang at the end of the faults, in milliseconds.
    pub hang_at_end_ms: u64,
    /// The probability that a crash is one of the whole machine: unsynced data is torn or lost.
    pub power: f64,
    /// The probability that a crash flips bits of synced data.
    pub flip: f64,
    /// The probability that these are among the newest bytes whose damage can be detected: some
    /// clients still wait for them.
    pub flip_newest: f64,
    /// A crash has left unreadable bytes.
    pub is_broken: bool,
}

impl DiskFaults {
    /// Draws the faults.
    pub fn draw(random: &mut Prng) -> DiskFaults {
        let fails = random.chance(0.3);
        let mut rate = |rates: [f64; 3]| if fails { rates[random.below(3) as usize] } else { 0.0 };
        DiskFaults {
            fail_sync: rate([0.0, 0.02, 0.1]),
            fail_write: rate([0.0, 0.02, 0.1]),
            full: rate([0.0, 0.01, 0.05]),
            fail_read: rate([0.0, 0.02, 0.1]),
            delay_ms_max: [0, 1, 10, 80][random.below(4) as usize],
            late: [0.0, 0.2, 0.6][random.below(3) as usize],
            reorder: [0.0, 0.5][random.below(2) as usize],
            full_ms_max: random.between(5, 300),
            power: [0.0, 0.5, 1.0][random.below(3) as usize],
            flip: if random.chance(0.2) { 0.5 } else { 0.0 },
            flip_newest: 0.0,
            is_broken: false,
            hang: 0.0,
            hang_ms_max: 0,
            hang_at_end_ms: 0,
        }
    }

    /// Adds hanging disks, in one of five worlds; drawn separately, so that the other worlds do not
    /// change.
    pub fn hang(&mut self, seed: u64) {
        let mut random = Prng::new(seed ^ 0x6861_6e67);
        if random.chance(0.2) {
            self.hang = [0.0, 0.01, 0.05][random.below(3) as usize];
            self.hang_ms_max = random.between(50, 20_000);
            self.hang_at_end_ms = [0, HANG_AT_END_MS][random.below(2) as usize];
        }
    }

    /// Adds damage at most crashes, in one of six worlds, or if `must` is set; drawn separately, so
    /// that the other worlds do not change.
    pub fn damage(&mut self, seed: u64, must: bool) {
        let mut random = Prng::new(seed ^ 0x6461_6d61);
        if random.chance(1.0 / 6.0) || must {
            (self.flip, self.flip_newest) = (0.9, 0.7);
        }
    }

    /// Whether disks hang long enough that a log may count as stalled.
    pub fn hangs(&self) -> bool {
        self.hang > 0.0 || self.hang_at_end_ms > 0
    }

    /// Whether publications may be refused because of disk faults.
    pub fn refuses(&self) -> bool {
        self.fail_sync > 0.0 || self.fail_write > 0.0 || self.full > 0.0 || self.hangs()
    }

    /// Whether reads may be refused because of disk faults.
    pub fn refuses_reads(&self) -> bool {
        self.fail_read > 0.0 || self.hangs() || self.is_broken
    }

    /// Ends all faults; flipped bits stay flipped.
    pub fn calm(&mut self) {
        *self = DiskFaults {
            power: self.power,
            flip: self.flip,
            flip_newest: self.flip_newest,
            is_broken: self.is_broken,
            hang_at_end_ms: self.hang_at_end_ms,
            ..DiskFaults::default()
        };
    }
}

/// The end of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crash {
    /// Virtual milliseconds after the world's start.
    pub after_ms: u64,
    /// The delay until the next node begins.
    pub down_ms: u64,
    /// Whether clients still read data in flight.
    pub leaves_data: bool,
    /// A regular stop instead of a crash: the node drains its clients for this time in
    /// milliseconds, then stops.
    pub drain_ms: Option<u64>,
}

impl Crash {
    /// Draws no crash in half of the worlds, else one or several; at least one if `must` is set.
    pub fn draw(random: &mut Prng, active_ms: u64, must: bool) -> Vec<Crash> {
        let count = match random.below(4) {
            0 | 1 => u64::from(must),
            2 => 1,
            _ => random.between(2, 5),
        };
        let mut crashes: Vec<Crash> = (0..count)
            .map(|_| Crash {
                after_ms: random.below(active_ms),
                down_ms: [0, 1, 30, 200][random.below(4) as usize],
                leaves_data: random.chance(0.5),
                drain_ms: None,
            })
            .collect();
        crashes.sort_by_key(|crash| crash.after_ms);
        crashes
    }

    /// Turns some crashes into regular stops; a world without crashes sometimes gets one stop.
    pub fn draw_drains(crashes: &mut Vec<Crash>, random: &mut Prng, active_ms: u64) {
        let share = [0.0, 0.4, 1.0][random.below(3) as usize];
        if crashes.is_empty() && random.chance(share / 2.0) {
            crashes.push(Crash {
                after_ms: random.below(active_ms),
                down_ms: [0, 30][random.below(2) as usize],
                leaves_data: true,
                drain_ms: None,
            });
        }
        for crash in crashes {
            if random.chance(share) {
                crash.drain_ms = Some([0, 20, 200, 1_000][random.below(4) as usize]);
                crash.leaves_data = true;
            }
        }
    }
}

impl NetFaults {
    /// Draws the faults.
    pub fn draw(random: &mut Prng) -> NetFaults {
        let buffer_bytes_min = [64, 500, 4_000, 60_000][random.below(4) as usize];
        NetFaults {
            split: [0.0, 0.05, 0.5][random.below(3) as usize],
            late: [0.0, 0.1, 0.4][random.below(3) as usize],
            buffer_bytes_min,
            buffer_bytes_max: buffer_bytes_min * random.between(1, 8),
        }
    }

    /// Ends all faults.
    pub fn calm(&mut self) {
        self.split = 0.0;
        self.late = 0.0;
    }
}

impl MailFaults {
    /// Draws the faults.
    pub fn draw(random: &mut Prng) -> MailFaults {
        MailFaults {
            delay_ms_max: [0, 2, 20, 150][random.below(4) as usize],
            late: [0.0, 0.2, 0.6][random.below(3) as usize],
        }
    }
}

impl ClientFaults {
    /// Draws the faults.
    pub fn draw(random: &mut Prng) -> ClientFaults {
        ClientFaults {
            cut: [0.0, 0.01, 0.05][random.below(3) as usize],
            stall: [0.0, 0.03, 0.1][random.below(3) as usize],
            stall_ms_max: random.between(20, 1_500),
            slow: [0.0, 0.2, 0.5][random.below(3) as usize],
        }
    }
}
