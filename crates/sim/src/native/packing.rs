//! Compression of one native client: whether it offers it, which messages it compresses, and how it
//! inflates.
//!
//! The choices come from a separate generator, so that worlds without compression do not change.

use crate::plan::Plan;
use stdx::prng::Prng;
use wire::websocket::deflate::{Deflater, Inflater};

/// The compression of a client; see the module.
pub(super) struct Packing {
    random: Prng,
    is_offered: bool,
    is_agreed: bool,
    deflater: Option<Deflater>,
    inflater: Option<Inflater>,
}

impl Packing {
    pub(super) fn new(id: usize, plan: &Plan) -> Packing {
        let mut random = Prng::new(plan.seed ^ 0x0005_9ac4 ^ (id as u64) << 32);
        Packing {
            is_offered: random.chance(0.6) && plan.settings.compression.is_some(),
            random,
            is_agreed: false,
            deflater: None,
            inflater: None,
        }
    }

    pub(super) fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Processes the result of the handshake. False if it contradicts the plan.
    pub(super) fn agreed(&mut self, is_agreed: bool, plan: &Plan) -> bool {
        self.is_agreed = is_agreed;
        is_agreed == (self.is_offered && plan.settings.compression.is_some())
    }

    /// Compresses a message's payload, in most cases if that is shorter.
    pub(super) fn pack(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.is_agreed || self.random.chance(0.3) {
            return None;
        }
        let level = self.random.between(1, 9) as u8;
        let deflater = self.deflater.get_or_insert_with(|| Deflater::new(level));
        let mut packed = Vec::new();
        deflater.deflate(&[bytes], &mut packed).then_some(packed)
    }

    pub(super) fn take_inflater(&mut self) -> Inflater {
        self.inflater.take().unwrap_or_default()
    }

    pub(super) fn give_inflater(&mut self, inflater: Inflater) {
        self.inflater = Some(inflater);
    }
}
