//! Scripts for one home: commands of edges in, letters out.
//!
//! One program, so that the home is linked once. `script` has the language.

mod damage;
mod disk;
mod disk_hangs;
mod disk_races;
mod disk_reads;
mod engine;
mod engine_nodes;
mod engine_retained;
mod engine_waits;
mod eviction;
mod filters;
mod groups;
mod groups_nodes;
mod once;
mod script;
mod scripts;
mod sequencer;
mod shared;
mod starts;
mod support;
#[path = "../transcript/mod.rs"]
mod transcript;
