//! Clusters: several whole nodes on a model of an engine, in virtual time.

pub mod bug;
pub mod engine;
mod judge;
pub mod life;
mod member;
mod mirror;
mod node;
pub mod oracle;
pub mod partition;
pub mod plan;
pub mod producer;
pub mod tail;
pub mod verdict;
mod world;

pub use bug::Bug;
pub use world::{ClusterOptions, ClusterOutcome, run};
