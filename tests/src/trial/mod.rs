//! Trials of a cluster: one fault of the engine or of a node again and again, for minutes, while
//! publishers and subscribers move between the nodes; then a judgement of everything that was
//! published, acknowledged, delivered and told.
//!
//! `cluster_trials` runs them. [`faults`] names the faults, [`load`] and [`subscribers`] are the
//! clients, [`judge`] has the rules.

pub mod faults;
pub mod history;
pub mod judge;
pub mod load;
pub mod log;
pub mod subscribers;
pub mod world;
