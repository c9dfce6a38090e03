//! What may go wrong in a world, as probabilities and bounds drawn from its seed.

use stdx::prng::Prng;

/// Of the network.
#[derive(Clone, Copy, Debug)]
pub struct NetFaults {
    /// Chance that a read or write takes only a part.
    pub split: f64,
    /// Chance that readiness is told a poll later.
    pub late: f64,
    /// A socket takes so many bytes for a client that does not read.
    pub buffer_bytes_min: u64,
    /// The most.
    pub buffer_bytes_max: u64,
}

/// Of the mailboxes.
#[derive(Clone, Copy, Debug)]
pub struct MailFaults {
    /// Batches take up to so long, in milliseconds.
    pub delay_ms_max: u64,
    /// Chance that a batch that is there is left for a later turn.
    pub late: f64,
}

/// Of clients.
#[derive(Clone, Copy, Debug)]
pub struct ClientFaults {
    /// Chance, at each action, of losing the connection.
    pub cut: f64,
    /// Chance, at each action, of not reading for a while.
    pub stall: f64,
    /// The longest such while, in milliseconds.
    pub stall_ms_max: u64,
    /// Chance that a client is slow for all its life.
    pub slow: f64,
}

impl NetFaults {
    /// Drawn.
    pub fn draw(random: &mut Prng) -> NetFaults {
        let buffer_bytes_min = [64, 500, 4_000, 60_000][random.below(4) as usize];
        NetFaults {
            split: [0.0, 0.05, 0.5][random.below(3) as usize],
            late: [0.0, 0.1, 0.4][random.below(3) as usize],
            buffer_bytes_min,
            buffer_bytes_max: buffer_bytes_min * random.between(1, 8),
        }
    }

    /// None any more.
    pub fn calm(&mut self) {
        self.split = 0.0;
        self.late = 0.0;
    }
}

impl MailFaults {
    /// Drawn.
    pub fn draw(random: &mut Prng) -> MailFaults {
        MailFaults {
            delay_ms_max: [0, 2, 20, 150][random.below(4) as usize],
            late: [0.0, 0.2, 0.6][random.below(3) as usize],
        }
    }
}

impl ClientFaults {
    /// Drawn.
    pub fn draw(random: &mut Prng) -> ClientFaults {
        ClientFaults {
            cut: [0.0, 0.01, 0.05][random.below(3) as usize],
            stall: [0.0, 0.03, 0.1][random.below(3) as usize],
            stall_ms_max: random.between(20, 1_500),
            slow: [0.0, 0.2, 0.5][random.below(3) as usize],
        }
    }
}
