//! The work of the engine's thread: homes, progress, and the continuation after a live upgrade.

use broker::engine::{EngineLetter, LineageStart, Restart, Tail, TailRecord};
use broker::mail::{Code, PartitionId, Publication};
use broker::settings::{Durability, LogSettings, Settings};
use node::engine::{EngineStatistics, Tailed};
use node::engine_worker::{EngineOutputs, EngineWorker};
use stdx::chunk::Slice;
use stdx::handing::Hand;

/// Two homes; a log in memory with three partitions, then two partitions in the engine.
fn settings() -> Settings {
    let log = |first, partitions_count, durability| LogSettings {
        first_partition: PartitionId(first),
        partitions_count,
        durability,
        ..LogSettings::default()
    };
    Settings {
        edges_count: 2,
        homes_count: 2,
        logs: vec![log(0, 3, Durability::Memory), log(3, 2, Durability::Engine)],
        ..Settings::default()
    }
}

const PARTITION: PartitionId = PartitionId(3);
const TOPIC: u32 = 77;

struct World {
    worker: EngineWorker,
}

impl World {
    fn new() -> World {
        World::after(Vec::new())
    }

    fn after(tailed: Vec<Tailed>) -> World {
        World { worker: EngineWorker::new(&settings(), tailed) }
    }

    /// The homes' letters after a letter of the client, as text.
    fn take(&mut self, letter: EngineLetter) -> Vec<String> {
        let mut out = EngineOutputs::default();
        self.worker.take(letter, &mut out);
        out.letters
            .iter()
            .map(|(home, letter)| format!("h{} {}", home.0, text_of(letter)))
            .collect()
    }

    fn behind(&self) -> u64 {
        let mut statistics = EngineStatistics::default();
        self.worker.complete(&mut statistics);
        statistics.partitions_behind
    }

    fn restarts(&self) -> u64 {
        let mut statistics = EngineStatistics::default();
        self.worker.complete(&mut statistics);
        statistics.restarts
    }

    /// The worker of the next process.
    fn handed_over(&self) -> World {
        let mut bytes = Vec::new();
        self.worker.tailed().give(&mut bytes);
        assert!(EngineWorker::read_handed(&bytes[1..]).is_none());
        World::after(EngineWorker::read_handed(&bytes).unwrap())
    }
}

fn text_of(letter: &EngineLetter) -> String {
    match letter {
        EngineLetter::Restart(Restart { lineages, after, head, primed_through, .. }) => {
            let lineages: Vec<String> =
                lineages.iter().map(|of| format!("{}:{}", of.lineage, of.start)).collect();
            format!(
                "restart {} after {after} primed {primed_through} head {head}",
                lineages.join(" ")
            )
        }
        EngineLetter::Tail(tail) => {
            let records: Vec<String> =
                tail.records.iter().map(|record| record.offset.to_string()).collect();
            format!("tail [{}] through {}", records.join(" "), tail.through)
        }
        EngineLetter::Available { is_available, .. } => format!("available {is_available}"),
        EngineLetter::Refused { counters, code, .. } => format!("refused {counters:?} {code:?}"),
    }
}

/// A partition that begins with these lineages.
fn restart(lineages: &[(u32, u64)], after: u64, head: u64) -> EngineLetter {
    let lineages = lineages.iter();
    EngineLetter::Restart(Restart {
        partition: PARTITION,
        topic_id: TOPIC,
        lineages: lineages.map(|&(lineage, start)| LineageStart { lineage, start }).collect(),
        after,
        complete_from_ms: 0,
        primed_through: after,
        follows_mirror: false,
        head,
    })
}

/// Records of one lineage.
fn tail(lineage: u32, offsets: &[u64], through: u64) -> EngineLetter {
    let record = |&offset: &u64| TailRecord {
        restored: None,
        is_register: false,
        offset,
        lineage,
        time_ms: 0,
        name: None,
        publication: Publication { topic: Slice::copy_of(b"a"), ..Publication::default() },
    };
    let records = offsets.iter().map(record).collect();
    EngineLetter::Tail(Tail { partition: PARTITION, records, through, ended_ago_ms: None })
}

#[test]
fn letters_reach_the_home_of_their_partition() {
    let mut world = World::new();
    assert_eq!(world.take(restart(&[(4, 1)], 0, 0)), ["h1 restart 4:1 after 0 primed 0 head 0"]);
    assert_eq!(world.take(tail(4, &[1, 2], 2)), ["h1 tail [1 2] through 2"]);
    let partition = PartitionId(4);
    let gone = EngineLetter::Available { partition, is_available: false };
    assert_eq!(world.take(gone), ["h0 available false"]);
    let refused =
        EngineLetter::Refused { partition, counters: vec![5, 6], code: Code::LogUnavailable };
    assert_eq!(world.take(refused), ["h0 refused [5, 6] LogUnavailable"]);
    let mut statistics = EngineStatistics::default();
    world.worker.complete(&mut statistics);
    assert_eq!((statistics.partitions, statistics.partitions_unavailable), (2, 1));
}

#[test]
fn a_partition_is_behind_until_it_was_read_to_its_end() {
    let mut world = World::new();
    assert_eq!(world.behind(), 2, "no partition has begun");
    world.take(restart(&[(4, 1)], 0, 3));
    world.take(tail(4, &[1], 2));
    assert_eq!(world.behind(), 2);
    // The last offset has no message.
    world.take(tail(4, &[], 3));
    assert_eq!(world.behind(), 1, "the other partition has not begun");
}

#[test]
fn a_partition_that_begins_anew_is_counted() {
    let mut world = World::new();
    world.take(restart(&[(4, 1)], 0, 3));
    world.take(tail(4, &[1, 2, 3], 3));
    assert_eq!(world.restarts(), 0);
    let again = world.take(restart(&[(4, 1), (6, 2)], 1, 2));
    assert_eq!(again, ["h1 restart 4:1 6:2 after 1 primed 1 head 2"]);
    assert_eq!((world.restarts(), world.behind()), (1, 2));
}

/// A world with records 1 to 5, of lineages 4 and 6, in the process before.
fn upgraded() -> World {
    let mut world = World::new();
    world.take(restart(&[(4, 1)], 0, 3));
    world.take(tail(4, &[1, 2, 3], 3));
    world.take(tail(6, &[5], 5));
    world.handed_over()
}

#[test]
fn a_client_that_continues_causes_no_restart() {
    let mut world = upgraded();
    assert_eq!(world.behind(), 2, "nothing was read by this process");
    assert_eq!(world.take(tail(6, &[6], 6)), ["h1 tail [6] through 6"]);
    assert_eq!((world.restarts(), world.behind()), (0, 1));
}

/// A quiet partition has no record for long.
#[test]
fn a_partition_that_takes_publications_again_is_read() {
    let mut world = upgraded();
    let available = |is_available| EngineLetter::Available { partition: PARTITION, is_available };
    world.take(available(false));
    assert_eq!(world.behind(), 2);
    world.take(available(true));
    assert_eq!(world.behind(), 1, "the other partition has not begun");
}

/// Homes get again what primes the recognition of repetitions.
#[test]
fn a_loss_after_an_upgrade_begins_the_partition_anew() {
    let mut world = upgraded();
    assert_eq!(world.take(restart(&[(4, 1)], 0, 9)), ["h1 restart 4:1 after 0 primed 0 head 9"]);
    assert_eq!(world.take(tail(4, &[1, 2], 2)), ["h1 tail [1 2] through 2"]);
    assert_eq!(world.take(tail(7, &[3, 9], 9)), ["h1 tail [3 9] through 9"]);
    assert_eq!((world.restarts(), world.behind()), (1, 1));
}
