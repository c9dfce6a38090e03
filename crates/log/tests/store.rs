//! The durable store against plain lists, on a disk that keeps only synced data: appends, crashes
//! at any call, restarts, retention, failing syncs, a full disk, flipped bits.

mod store_world;

use store_world::{Faults, World};

/// Worlds whose disk loses only unsynced data: everything acknowledged is present, in the same
/// epoch.
#[test]
fn nothing_acknowledged_is_lost() {
    for seed in 0..1_500 {
        run(seed, Faults::Lossy);
    }
}

/// Worlds whose disk also damages synced data: the loss is reported.
#[test]
fn damage_is_reported() {
    for seed in 0..1_500 {
        run(seed, Faults::Damaging);
    }
}

/// Repeats the worlds with hand-overs to other processes and back between calls: nothing changes,
/// and a new process writes nothing before it owns the log.
#[test]
fn a_hand_over_changes_nothing() {
    let mut handed = 0;
    for seed in 0..1_500 {
        for faults in [Faults::Lossy, Faults::Damaging] {
            println!("seed {seed}, {faults:?}, handed over");
            let mut world = World::with_hand_overs(seed, faults);
            world.run(60);
            handed += world.handed();
        }
    }
    assert!(handed > 5_000, "{handed}");
}

fn run(seed: u64, faults: Faults) {
    // Visible only when the test fails: the last seed is the one to examine.
    println!("seed {seed}, {faults:?}");
    World::new(seed, faults).run(60);
}
