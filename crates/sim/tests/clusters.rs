//! The gate's part of clusters: equal seeds give equal runs, and planted bugs are found.

use sim::cluster::{Bug, ClusterOptions, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of worlds within which each planted bug must be found.
const BUG_SEEDS: u64 = 60;

fn lossless() -> ClusterOptions {
    ClusterOptions { is_lossless: true, ..ClusterOptions::default() }
}

#[test]
fn equal_seeds_give_equal_clusters() {
    for seed in [1, 7, 42] {
        let (one, two) = (run(seed, lossless()), run(seed, lossless()));
        assert_eq!(one.hash, two.hash, "seed {seed}");
        assert_ne!(one.hash, run(seed + 1, lossless()).hash);
    }
}

/// Worlds of a compacted topic, in which all nodes begin again after the compaction.
#[test]
fn nodes_retain_the_same_after_a_compaction() {
    let mut checked = 0;
    for seed in 1..=20 {
        let options = ClusterOptions { is_compacted: true, ..ClusterOptions::default() };
        let outcome = run(seed, options);
        assert!(outcome.failure.is_none(), "seed {seed}: {:?}", outcome.failure);
        checked += outcome.seen.retained;
    }
    assert!(checked > 0);
}

#[test]
fn planted_bugs_of_the_engine_are_found() {
    let hook = std::panic::take_hook();
    // An assertion of the node is a finding, too, and needs no backtrace.
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<Bug> = Bug::ALL.into_iter().filter(|bug| !is_found(*bug)).collect();
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "not found within {BUG_SEEDS} worlds: {missed:?}");
}

fn is_found(bug: Bug) -> bool {
    (1..=BUG_SEEDS).any(|seed| {
        // A world that fails without the bug says nothing about it.
        let plain = ClusterOptions { like: Some(bug), ..ClusterOptions::default() };
        let options = ClusterOptions { bug: Some(bug), ..plain };
        let found = catch_unwind(AssertUnwindSafe(|| run(seed, options)))
            .map_or(true, |outcome| outcome.failure.is_some() && outcome.strikes > 0);
        found && run(seed, plain).failure.is_none()
    })
}
