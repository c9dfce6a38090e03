//! A home, its mirror's log thread, and an engine: what a client gets, with the mirror and without.

mod world;

use broker::mail::*;
use broker::position::Position;
use log::store::DiskError;
use stdx::prng::Prng;
use world::{Engine, Life, Node, W_MS, read_all, read_filter};

/// A node with a mirror, whose memory holds about fifty records, and an engine with `count`.
fn begun(count: u64) -> (Engine, Node) {
    let mut engine = Engine::new();
    engine.append(count);
    let mut node = Node::new(true);
    node.begin(engine.cold());
    node.read(&engine);
    (engine, node)
}

/// All that the node serves is what the engine has from an offset on, and older records are a gap.
#[track_caller]
fn serves_from(node: &mut Node, engine: &Engine, first: u64) {
    let mut of_topics = Vec::new();
    for topic in ["a", "b", "c"] {
        let (gap, records) = read_all(node, topic, Some(engine.position(0)));
        let wanted = engine.records_of(topic, first);
        assert_eq!(records, wanted, "topic {topic} from {first}");
        // The gap ends before the first record, and not before the last one that is missing.
        let mut missing = engine.records_of(topic, 0);
        missing.truncate(missing.len() - wanted.len());
        let end = gap.map_or(0, |gap| gap.to);
        assert!(wanted.first().is_none_or(|first| end < first.0), "{topic}: {gap:?}");
        assert!(missing.last().is_none_or(|last| end >= last.0), "{topic}: {gap:?}");
        assert_eq!(gap.is_some(), !missing.is_empty(), "topic {topic}: {gap:?}");
        of_topics.extend(records);
    }
    of_topics.sort_unstable();
    let (gap, records) = read_filter(node, 0);
    assert_eq!(records, of_topics, "by filter");
    assert_eq!(gap.map_or(0, |gap| gap.to), first - 1, "by filter");
}

#[test]
fn recoveries_beyond_memory_are_read_from_the_mirror() {
    let (mut engine, mut node) = begun(300);
    assert!(node.records_in_memory() < 100, "{}", node.records_in_memory());
    serves_from(&mut node, &engine, 1);
    engine.append(200);
    node.read(&engine);
    serves_from(&mut node, &engine, 1);
    assert_eq!(node.home.statistics().mirrors_lost, 0);
}

/// Nothing of the path waits: the log thread says nothing, and messages and acknowledgements go on.
#[test]
fn a_mirror_that_hangs_costs_history_and_nothing_else() {
    let (mut engine, mut node) = begun(300);
    node.is_hanging = true;
    engine.append(20);
    node.read(&engine);
    let asked = node.ask("a", Some(engine.position(0)));
    for _ in 0..70 {
        node.pass(100);
    }
    assert!(node.home.statistics().mirrors_lost == 1, "it was given up");
    let page = node.answer(asked).expect("an answer from memory");
    assert_eq!(page.gap.map(|gap| gap.from), Some(0));
    let oldest = node.oldest();
    serves_from(&mut node, &engine, oldest);
    engine.append(20);
    node.read(&engine);
    let oldest = node.oldest();
    serves_from(&mut node, &engine, oldest);
    // It begins anew, and history grows again.
    node.is_hanging = false;
    node.pass(100);
    assert_eq!(node.worker().statistics().mirrors_dropped, 1, "the log says so");
    let begins = node.head() + 1;
    engine.append(300);
    node.read(&engine);
    assert!(node.records_in_memory() < 100, "memory begins behind the mirror");
    serves_from(&mut node, &engine, begins);
}

#[test]
fn a_mirror_without_room_is_dropped_and_begins_anew() {
    let (mut engine, mut node) = begun(300);
    node.disk.fail_writes(1, DiskError::NoSpace);
    engine.append(10);
    node.read(&engine);
    let statistics = node.home.statistics();
    assert_eq!((statistics.mirrors_lost, statistics.mirrors_closed), (1, 1));
    let oldest = node.oldest();
    serves_from(&mut node, &engine, oldest);
    engine.append(10);
    node.read(&engine);
    node.pass(2_000);
    let begins = node.head() + 1;
    engine.append(300);
    node.read(&engine);
    serves_from(&mut node, &engine, begins);
    assert_eq!(node.home.statistics().mirrors_closed, 0);
    let statistics = node.worker().statistics();
    assert_eq!((statistics.mirrors_dropped, statistics.mirrored_records), (1, 600));
}

#[test]
fn a_damaged_mirror_is_dropped_when_it_is_read() {
    let (engine, mut node) = begun(300);
    let name = node.disk.names().into_iter().find(|name| name.ends_with(".log")).unwrap();
    for byte in (700..3_000).step_by(64) {
        node.disk.flip_bit(&name, byte, 3);
    }
    let (gap, _) = read_all(&mut node, "a", Some(engine.position(0)));
    assert!(gap.is_some(), "the loss is told");
    assert_eq!(node.worker().statistics().mirrors_dropped, 1);
    let oldest = node.oldest();
    serves_from(&mut node, &engine, oldest);
}

#[test]
fn a_start_serves_what_the_mirror_had() {
    let (mut engine, mut node) = begun(300);
    node.pass(1_100);
    let acknowledged = engine.position(150);
    let mut node = node.restart(Life::Killed);
    engine.append(50);
    let tail = node.mirrored().expect("the mirror has an end");
    assert!((280..=engine.end() - 50).contains(&tail.head), "{tail:?}");
    node.begin(engine.following(&tail));
    node.read(&engine);
    assert!(node.read_count < 150, "the tail does not begin at the log's");
    serves_from(&mut node, &engine, 1);
    let (gap, records) = read_all(&mut node, "b", Some(acknowledged));
    assert_eq!((gap, records), (None, engine.records_of("b", 151)));
    engine.append(300);
    node.read(&engine);
    serves_from(&mut node, &engine, 1);
    assert_eq!(node.home.statistics().mirrors_lost, 0);
}

/// The log thread drops old records while the tail is on its way to the mirror's end.
#[test]
fn a_start_knows_what_the_mirror_drops_meanwhile() {
    let (mut engine, mut node) = begun(300);
    node.pass(1_100);
    let mut node = node.restart(Life::Killed);
    engine.append(50);
    let tail = node.mirrored().expect("the mirror has an end");
    node.begin(engine.following(&tail));
    node.hear_floor(120);
    node.read(&engine);
    assert_eq!(node.oldest(), 120);
}

/// The mirror fails, and is dropped, while the tail is on its way to the mirror's end.
#[test]
fn a_start_does_not_serve_a_mirror_that_fails_meanwhile() {
    let (mut engine, mut node) = begun(300);
    node.pass(1_100);
    let mut node = node.restart(Life::Killed);
    engine.append(50);
    let tail = node.mirrored().expect("the mirror has an end");
    node.begin(engine.following(&tail));
    node.hear_available(false);
    node.hear_available(true);
    node.read(&engine);
    assert_eq!(node.home.statistics().mirrors_lost, 1);
    serves_from(&mut node, &engine, tail.head + 1);
}

/// The engine has lost the mirror's newest records and has others in their places.
#[test]
fn a_mirror_of_another_lineage_is_not_served() {
    let (mut engine, mut node) = begun(300);
    node.pass(1_100);
    let mut node = node.restart(Life::Killed);
    engine.truncate(280);
    engine.append(100);
    let tail = node.mirrored().expect("the mirror has an end");
    node.begin(engine.following(&tail));
    node.read(&engine);
    assert_eq!(node.home.statistics().mirrors_lost, 1);
    serves_from(&mut node, &engine, tail.head + 1);
    engine.append(300);
    node.read(&engine);
    serves_from(&mut node, &engine, tail.head + 1);
    // A start after that follows the present records.
    node.pass(1_100);
    let mut node = node.restart(Life::Killed);
    let again = node.mirrored().expect("the mirror has an end");
    node.begin(engine.following(&again));
    node.read(&engine);
    serves_from(&mut node, &engine, tail.head + 1);
}

/// A partition loses records while the node runs: the mirror has records of the former life.
#[test]
fn a_truncation_drops_the_mirror() {
    let (mut engine, mut node) = begun(300);
    engine.truncate(200);
    engine.append(20);
    node.begin(engine.cold_from(190));
    node.read(&engine);
    serves_from(&mut node, &engine, 191);
    node.pass(2_000);
    engine.append(20);
    node.read(&engine);
    engine.append(300);
    node.read(&engine);
    let (gap, _) = read_all(&mut node, "a", Some(engine.position(0)));
    assert!(gap.is_some_and(|gap| gap.to >= 190));
    node.pass(1_100);
    let mut node = node.restart(Life::Closed);
    let tail = node.mirrored().expect("the mirror has an end");
    node.begin(engine.following(&tail));
    node.read(&engine);
    let first = tail.floor;
    assert!(first > 190, "{tail:?}");
    serves_from(&mut node, &engine, first);
}

#[test]
fn a_lost_mirror_is_like_none() {
    let (mut engine, node) = begun(300);
    let mut node = node.restart(Life::Wiped);
    engine.append(10);
    assert_eq!(node.mirrored(), None);
    node.begin(engine.cold());
    node.read(&engine);
    serves_from(&mut node, &engine, 1);
}

/// Verdicts do not hang on the mirror: a repetition of a record from before the start is found.
#[test]
fn a_repetition_is_found_after_a_warm_start() {
    let (mut engine, mut node) = begun(300);
    engine.append_keyed("a", "k1");
    engine.append(20);
    node.read(&engine);
    node.pass(1_100);
    let mut node = node.restart(Life::Killed);
    engine.append_keyed("a", "k1");
    engine.is_dropped_last();
    engine.append(5);
    let tail = node.mirrored().expect("the mirror has an end");
    node.begin(engine.following(&tail));
    node.read(&engine);
    assert_eq!(node.home.statistics().tail_dropped, 1);
    serves_from(&mut node, &engine, 1);
}

/// A node that was away for long: what follows the mirror's end is primed, too.
#[test]
fn a_start_after_hours_continues_the_mirror() {
    let (mut engine, mut node) = begun(300);
    node.pass(1_100);
    let mut node = node.restart(Life::Killed);
    engine.pass(20 * W_MS);
    engine.append(40);
    let tail = node.mirrored().expect("the mirror has an end");
    node.begin(engine.following(&tail));
    node.read(&engine);
    serves_from(&mut node, &engine, 1);
}

/// Any order of appends, kills, crashes, faults and losses: a node serves a part of the engine's
/// records without a hole, and says which are missing before it.
#[test]
fn whatever_happens_the_history_has_no_silent_hole() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let (mut engine, mut node) = begun(100 + prng.below(200));
        for step in 0..20 {
            match prng.below(8) {
                0 => node.disk.fail_writes(1, DiskError::Io(5)),
                1 => node.disk.fail_syncs(1),
                2 => node.is_hanging = !node.is_hanging,
                3 if prng.below(2) == 0 => {
                    engine.truncate(engine.end() - prng.below(30));
                    engine.append(1);
                    node.begin(engine.cold_from(engine.end().saturating_sub(60)));
                }
                4 => {
                    let how = [Life::Killed, Life::Crashed, Life::Closed, Life::Wiped];
                    node = node.restart(how[prng.below(4) as usize]);
                    if prng.below(3) == 0 {
                        engine.truncate(engine.end() - prng.below(30));
                    }
                    engine.append(1 + prng.below(40));
                    let tail = node.mirrored().filter(|tail| tail.head <= engine.end());
                    node.begin(tail.map_or(engine.cold(), |tail| engine.following(&tail)));
                }
                _ => {}
            }
            engine.append(1 + prng.below(60));
            node.read(&engine);
            for _ in 0..prng.below(80) {
                node.pass(100);
            }
            node.is_hanging &= prng.below(2) == 0;
            check_history(&mut node, &engine, &format!("seed {seed}, step {step}"));
        }
    }
}

/// The history by topic and by filter is the engine's behind its gap.
#[track_caller]
fn check_history(node: &mut Node, engine: &Engine, at: &str) {
    for topic in ["a", "b", "c"] {
        let after = Position { offset: 0, ..engine.position(0) };
        let Some((gap, records)) = world::try_read_all(node, topic, Some(after)) else {
            continue; // the disk hangs
        };
        let behind = gap.map_or(0, |gap: Gap| gap.to);
        assert_eq!(records, engine.records_of(topic, behind + 1), "{at}: {topic} {gap:?}");
    }
    if let Some((gap, records)) = world::try_read_filter(node, 0) {
        let behind = gap.map_or(0, |gap: Gap| gap.to);
        let mut wanted: Vec<_> =
            ["a", "b", "c"].iter().flat_map(|it| engine.records_of(it, behind + 1)).collect();
        wanted.sort_unstable();
        assert_eq!(records, wanted, "{at}: {gap:?}");
    }
}
