//! Two stacks over a bad network, by seeds. `sim --tcp` runs any number of them.

mod world;

use world::World;

#[test]
fn streams_arrive_whole_over_a_bad_network() {
    for seed in 1..=60 {
        World::new(seed, false).run();
    }
}
