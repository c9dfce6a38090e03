//! The gate's part of the simulation: worlds without a failure, equal runs for equal seeds, and
//! found bugs.

use sim::world::Reached;
use sim::{Mutation, Options, Outcome, Scale, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of small worlds in the gate.
const SEEDS: u64 = 250;
/// The number of worlds within which each planted bug must be found.
const MUTATION_SEEDS: u64 = 60;
/// The number of worlds in which most native clients speak JSON.
const JSON_SEEDS: u64 = 60;
/// The number of worlds that all have clients of MQTT.
const MQTT_SEEDS: u64 = 30;
/// The number of worlds with hand-overs of shards.
const UPGRADE_SEEDS: u64 = 60;

fn check(outcome: &Outcome) {
    check_as(outcome, "");
}

fn check_as(outcome: &Outcome, options: &str) {
    if let Some(failure) = &outcome.failure {
        panic!(
            "seed {}, at {} ms, client {:?}: {}; `cargo run --release -p sim -- --seed {} --trace{options}` shows it",
            outcome.seed, failure.at_ms, failure.client, failure.text, outcome.seed
        );
    }
}

#[test]
fn small_worlds_have_no_failure() {
    let mut reached = Reached::default();
    for seed in 1..=SEEDS {
        let outcome = run(seed, Options::default());
        check(&outcome);
        reached += outcome.reached;
    }
    let Reached { crowds, events, events_left_out, filters_refused, ends_lost, repairs, .. } =
        reached;
    let rare = [crowds, events, events_left_out, filters_refused, ends_lost, repairs];
    assert!(rare.iter().all(|count| *count > 0), "{reached:?}");
}

#[test]
fn worlds_that_speak_json_have_no_failure() {
    for seed in 1..=JSON_SEEDS {
        let options = Options { json: true, ..Options::default() };
        let outcome = run(seed, options);
        check_as(&outcome, " --json");
        let upgraded = run(seed, Options { upgrades: true, ..options });
        check_as(&upgraded, " --json --upgrades");
        assert_eq!(outcome.hash, upgraded.hash, "seed {seed}");
    }
}

#[test]
fn worlds_of_mqtt_have_no_failure() {
    let mut reached = Reached::default();
    for seed in 1..=MQTT_SEEDS {
        let options = Options { mqtt: true, ..Options::default() };
        let outcome = run(seed, options);
        check_as(&outcome, " --mqtt");
        reached += outcome.reached;
        if seed.is_multiple_of(3) {
            let upgraded = run(seed, Options { upgrades: true, ..options });
            check_as(&upgraded, " --mqtt --upgrades");
            assert_eq!(outcome.hash, upgraded.hash, "seed {seed}");
        }
    }
    let rare = [
        reached.mqtt_repeats,
        reached.mqtt_retained,
        reached.mqtt_resent,
        reached.mqtt_takeovers,
        reached.mqtt_wills,
        reached.mqtt_handed_on,
    ];
    assert!(rare.iter().all(|count| *count > 0), "{reached:?}");
}

#[test]
fn a_big_world_has_no_failure() {
    let options = Options { scale: Scale::Big, ..Options::default() };
    check(&run(1, options));
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in [1, 7, 42, 99, 1234] {
        let (one, two) = (run(seed, Options::default()), run(seed, Options::default()));
        assert_eq!(one.hash, two.hash, "seed {seed}");
        let traced = run(seed, Options { tracing: true, ..Options::default() });
        assert_eq!(one.hash, traced.hash, "seed {seed}, traced");
        assert_ne!(one.hash, run(seed + 1, Options::default()).hash);
    }
}

#[test]
fn planted_bugs_are_found() {
    let hook = std::panic::take_hook();
    // An assertion of the node is a finding, too, and needs no backtrace.
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<Mutation> =
        Mutation::ALL.into_iter().filter(|mutation| !is_found(*mutation)).collect();
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "not found within {MUTATION_SEEDS} worlds: {missed:?}");
}

fn is_found(mutation: Mutation) -> bool {
    (1..=MUTATION_SEEDS).any(|seed| {
        let options = Options { mutation: Some(mutation), ..Options::default() };
        catch_unwind(AssertUnwindSafe(|| run(seed, options)))
            .map_or(true, |outcome| outcome.failure.is_some() && outcome.strikes > 0)
    })
}

/// A live upgrade between turns: in every state, a shard continues from its bytes without a visible
/// effect, to the last letter in flight and byte on the wire.
#[test]
fn a_hand_over_has_no_visible_effect() {
    let mut hand_overs = 0;
    for seed in 1..=UPGRADE_SEEDS {
        let plain = run(seed, Options::default());
        let options = Options { upgrades: true, ..Options::default() };
        let upgraded = run(seed, options);
        check(&upgraded);
        assert_eq!(plain.hash, upgraded.hash, "seed {seed}");
        hand_overs += upgraded.reached.hand_overs;
    }
    assert!(hand_overs > 50 * UPGRADE_SEEDS, "{hand_overs}");
}
