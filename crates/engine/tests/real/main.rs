//! Tests on real brokers: `cargo xtask ci --only engine`.
//!
//! All tests share three brokers, one after the other, because brokers start slowly. The tests that
//! break brokers mend them at their end. `--long` adds kills in a row; `--measure` only measures; a
//! word selects the tests whose names contain it.

#![deny(clippy::unwrap_used)]

mod basics;
mod failures;
mod foreign;
mod losses;
mod measure;
mod node;

use brokers::{Kafka, Plan};
use node::World;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// A test: its name, and its function.
type Test = (&'static str, fn(&mut World));

const TESTS: &[Test] = &[
    ("topics_are_created_and_examined", basics::topics_are_created_and_examined),
    ("all_nodes_read_the_same_records", basics::all_nodes_read_the_same_records),
    ("a_node_continues_where_it_was", basics::a_node_continues_where_it_was),
    ("a_slow_home_does_not_delay_another", basics::a_slow_home_does_not_delay_another),
    ("other_producers_reach_topics", foreign::other_producers_reach_topics),
    ("unroutable_records_are_holes", foreign::unroutable_records_are_holes),
    ("aborted_transactions_are_holes", foreign::aborted_transactions_are_holes),
    ("an_open_transaction_is_told", foreign::an_open_transaction_is_told),
    ("java_finds_the_records", foreign::java_finds_the_records),
    ("a_killed_leader_loses_nothing", failures::a_killed_leader_loses_nothing),
    ("a_held_leader_loses_nothing", failures::a_held_leader_loses_nothing),
    ("a_partition_without_brokers_refuses", failures::a_partition_without_brokers_refuses),
    ("a_new_topic_of_the_same_name_begins_anew", losses::a_new_topic_begins_anew),
    ("added_partitions_stop_publications", losses::added_partitions_stop_publications),
    ("an_overtaken_tail_begins_anew", losses::an_overtaken_tail_begins_anew),
    ("an_unclean_election_begins_anew", losses::an_unclean_election_begins_anew),
];

const LONG: &[Test] = &[("many_killed_leaders_lose_nothing", failures::many_killed_leaders)];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let selected = arguments.iter().find(|argument| !argument.starts_with('-'));
    let folder = env::var_os("CRORE_KAFKA").map_or_else(default_folder, PathBuf::from);
    let started = brokers::fetch(&folder).and_then(|jars| Kafka::start(&jars, &Plan::new(3)));
    let kafka = match started {
        Ok(kafka) => kafka,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut world = World::new(kafka);
    if has("--measure") {
        measure::run(&mut world);
        return ExitCode::SUCCESS;
    }
    let mut tests = TESTS.to_vec();
    if has("--long") {
        tests.extend(LONG);
    }
    tests.retain(|(name, _)| selected.is_none_or(|word| name.contains(word.as_str())));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        let start = Instant::now();
        world.begin(name);
        let result = catch_unwind(AssertUnwindSafe(|| test(&mut world)));
        world.mend();
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({:.1} s)", start.elapsed().as_secs_f64());
        *(if result.is_ok() { &mut passed } else { &mut failed }) += 1;
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The folder that the gate uses, too.
fn default_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/foreign/kafka")
}
