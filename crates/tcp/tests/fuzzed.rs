//! The targets of the fuzzers, with random input: every run of the tests takes some of it.

mod fuzz_targets;

use stdx::prng::Prng;

/// Random input whose bytes are mostly small, so that operations are frequent.
fn input(prng: &mut Prng) -> Vec<u8> {
    let length = prng.below(600) as usize;
    let mask = if prng.chance(0.5) { 0x3f } else { 0xff };
    (0..length).map(|_| prng.next_u64() as u8 & mask).collect()
}

fn check(target: fn(&[u8]), runs: u64) {
    for seed in 0..runs {
        let input = input(&mut Prng::new(seed));
        let result = std::panic::catch_unwind(|| target(&input));
        assert!(result.is_ok(), "seed {seed}: {input:?}");
    }
}

#[test]
fn any_packet_is_read_or_dropped() {
    check(fuzz_targets::packet, 20_000);
}

#[test]
fn any_options_are_read() {
    check(fuzz_targets::options, 20_000);
}

#[test]
fn a_stack_survives_any_peer_and_application() {
    check(fuzz_targets::stack, 5_000);
}

#[test]
fn any_life_of_a_connection_ends_whole() {
    check(fuzz_targets::life, 5_000);
}
