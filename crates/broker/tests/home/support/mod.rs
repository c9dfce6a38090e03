//! The setup of a home's tests.

use broker::now::Now;
use broker::settings::{
    Durability, LagPolicy, Limits, LogSettings, OlderEpoch, RuleSettings, Settings,
};
use std::sync::Arc;

/// The epoch of the log.
pub const EPOCH: u64 = 7;
/// The time at a script's start.
pub const START_MS: u64 = 1_000_000;

/// The clocks at the start.
pub const START: Now = Now { monotonic_ms: START_MS, unix_ms: START_MS };

/// A home with one log and one rule, large in everything.
#[derive(Clone)]
pub struct Setup {
    pub edges: u16,
    pub partitions: u32,
    pub segment_bytes: u32,
    pub log_bytes_max: u64,
    pub age_max_ms: u64,
    pub retained_bytes_max: u64,
    pub history_messages_max: u32,
    pub history_age_max_ms: u64,
    pub message_bytes_max: u32,
    pub memory_bytes: usize,
    /// The cache of a log on disk; none: the log is in memory.
    pub cache_bytes: Option<u64>,
    /// An engine orders the records.
    pub is_engine: bool,
    /// The engine's topic is compacted.
    pub is_compacted: bool,
    pub older_epochs: Vec<OlderEpoch>,
    pub limits: Limits,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            edges: 2,
            partitions: 1,
            segment_bytes: 4096,
            log_bytes_max: 1 << 20,
            age_max_ms: 1000,
            retained_bytes_max: 1 << 20,
            history_messages_max: 1000,
            history_age_max_ms: 1 << 40,
            message_bytes_max: 1 << 20,
            memory_bytes: 1 << 26,
            cache_bytes: None,
            is_engine: false,
            is_compacted: false,
            older_epochs: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Setup {
    pub fn settings(&self) -> Arc<Settings> {
        Arc::new(Settings {
            edges_count: self.edges,
            homes_count: 1,
            logs: vec![LogSettings {
                name: "log".into(),
                partitions_count: self.partitions,
                durability: match self.cache_bytes {
                    _ if self.is_engine => Durability::Engine,
                    Some(_) => Durability::Disk,
                    None => Durability::Memory,
                },
                epoch: EPOCH,
                older_epochs: self.older_epochs.clone(),
                cache_bytes: self.cache_bytes.unwrap_or(0),
                log_bytes_max: self.log_bytes_max,
                age_max_ms: self.age_max_ms,
                segment_bytes: self.segment_bytes,
                retained_bytes_max: self.retained_bytes_max,
                is_compacted: self.is_compacted,
                ..LogSettings::default()
            }],
            rules: vec![RuleSettings {
                when_lagging: LagPolicy::Replay,
                log: 0,
                history_messages_max: self.history_messages_max,
                history_age_max_ms: self.history_age_max_ms,
                message_bytes_max: self.message_bytes_max,
                ..RuleSettings::default()
            }],
            limits: self.limits.clone(),
            node_name: "test".into(),
            ..Settings::default()
        })
    }
}
