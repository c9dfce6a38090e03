//! A test's engine: what the home has asked it to append, and the letters of its tail.

use super::{World, publication, slice};
use broker::engine::*;
use broker::mail::*;
use stdx::chunk::Slice;

/// Publications that the home has proposed, and the state of the tail.
#[derive(Default)]
pub struct TestEngine {
    published: Vec<EnginePublish>,
    lineage: u32,
    /// The engine's clock, in milliseconds.
    time_ms: u64,
    /// Records are so much older than that.
    age_ms: u64,
    credit: u64,
    cost: u64,
}

impl TestEngine {
    pub fn new(time_ms: u64) -> TestEngine {
        TestEngine { time_ms, ..TestEngine::default() }
    }
}

const PARTITION: PartitionId = PartitionId(0);

impl World {
    /// Commands of the engine. None if it is none of them.
    pub fn run_engine(&mut self, words: &[&str]) -> Option<Option<String>> {
        match *words {
            ["restart-at", ref restart @ ..] => self.restart_tail(restart),
            ["lineage", lineage] => self.engine.lineage = lineage.parse().unwrap(),
            ["engine-time", step] => self.engine.time_ms += step.parse::<u64>().unwrap(),
            // Records of this age come next.
            ["aged", age] => self.engine.age_ms = age.parse().unwrap(),
            // Records of this home, or of others: `tail 3 own 1 | a one by=p:1@9`.
            ["tail", offset, ..] => {
                let offset: u64 = offset.parse().unwrap();
                let each = words[2..].split(|word| *word == "|");
                let records: Vec<TailRecord> = (offset..)
                    .zip(each)
                    .map(|(offset, words)| self.record(offset, words))
                    .collect();
                let through = records.last().unwrap().offset;
                self.hear_tail(records, through, None);
            }
            ["hole", through] => self.hear_tail(Vec::new(), through.parse().unwrap(), None),
            // The engine had nothing more so many milliseconds ago.
            ["ended", ago_ms] => {
                let through = self.home.tails().next().unwrap().through;
                self.hear_tail(Vec::new(), through, Some(ago_ms.parse().unwrap()));
            }
            ["engine-refuses", ref counters @ ..] => {
                let counters = counters.iter().map(|counter| counter.parse().unwrap()).collect();
                let code = Code::LogUnavailable;
                let partition = PARTITION;
                self.hear_engine(EngineLetter::Refused { partition, counters, code });
            }
            ["leader", is] => {
                let is_available = is == "yes";
                self.hear_engine(EngineLetter::Available { partition: PARTITION, is_available });
            }
            ["tails"] => return Some(Some(self.tail_text())),
            ["epochs"] => return Some(Some(std::mem::take(&mut self.epochs).join(", "))),
            ["count-restored"] => {
                let s = self.home.statistics();
                let (sent, left) = (s.tail_restorations, s.tail_unrestored);
                return Some(Some(format!(
                    "sent {sent} left out {left} over {}",
                    s.tail_retained_over
                )));
            }
            ["count-tail"] => return Some(Some(self.counted_text())),
            ["count-waiting"] => {
                let waiting = self.home.statistics().positions_waiting;
                return Some(Some(format!("waiting {waiting}")));
            }
            _ => return None,
        }
        Some(None)
    }

    /// A partition begins, or begins anew.
    fn restart_tail(&mut self, words: &[&str]) {
        match *words {
            [after, "primed", primed, "head", head, "lineages", ref each @ ..] => {
                // Records that are not read are two windows old.
                let offsets = [after, primed, head].map(|word| word.parse().unwrap());
                self.begin_anew(offsets, 2 * WINDOW_MS, each);
            }
            [after, "complete", age, "primed", primed, "head", head, "lineages", ref each @ ..] => {
                let offsets = [after, primed, head].map(|word| word.parse().unwrap());
                self.begin_anew(offsets, age.parse().unwrap(), each);
            }
            [after, "complete", age, "head", head, "lineages", ref each @ ..] => {
                let offsets = [after, after, head].map(|word| word.parse().unwrap());
                self.begin_anew(offsets, age.parse().unwrap(), each);
            }
            _ => panic!("no beginning: {words:?}"),
        }
    }

    /// Records up to `after` are older than `age_ms`.
    fn begin_anew(&mut self, offsets: [u64; 3], age_ms: u64, lineages: &[&str]) {
        let [after, primed_through, head] = offsets;
        let start = |word: &&str| {
            let (lineage, start) = word.split_once('@').unwrap();
            LineageStart { lineage: lineage.parse().unwrap(), start: start.parse().unwrap() }
        };
        let lineages: Vec<LineageStart> = lineages.iter().map(start).collect();
        self.engine.lineage = lineages.last().unwrap().lineage;
        let partition = PARTITION;
        let restart = Restart {
            partition,
            topic_id: 0,
            lineages,
            after,
            complete_from_ms: if after == 0 { 0 } else { self.engine.time_ms - age_ms },
            primed_through,
            follows_mirror: false,
            head,
        };
        self.hear_engine(EngineLetter::Restart(restart));
    }

    fn tail_text(&self) -> String {
        let tail = self.home.tails().next().unwrap();
        let flag = |is: bool, name: &str| if is { format!(" {name}") } else { String::new() };
        format!(
            "through {} lineage {} pending {}{}{}",
            tail.through,
            tail.lineage,
            tail.pending,
            flag(tail.is_caught_up, "caught-up"),
            flag(tail.is_available, "available")
        )
    }

    fn counted_text(&self) -> String {
        let s = self.home.statistics();
        assert_eq!(self.engine.credit, self.engine.cost, "credit comes back");
        format!(
            "records {} dropped {} lost {} restarts {} stalls {} unknown {} ahead {}",
            s.tail_records,
            s.tail_dropped,
            s.tail_lost,
            s.tail_restarts,
            s.tail_stalls,
            s.outcomes_unknown,
            s.positions_ahead
        )
    }

    fn record(&self, offset: u64, words: &[&str]) -> TailRecord {
        let TestEngine { lineage, time_ms, age_ms, .. } = self.engine;
        let time_ms = time_ms - age_ms;
        let mut restored = None;
        let (name, publication) = match *words {
            ["own", counter] => {
                let counter: u64 = counter.parse().unwrap();
                let is_it = |publish: &&EnginePublish| publish.name.counter == counter;
                let own = self.engine.published.iter().find(is_it).unwrap();
                restored = own.restored.clone();
                (Some(own.name), own.publication.clone())
            }
            // A restoration of another home.
            ["restores", run, topic, payload, at, seen, ref how @ ..] => {
                let (run, counter) = run.split_once(':').unwrap();
                let name = RunName { run: run.parse().unwrap(), counter: counter.parse().unwrap() };
                let offset = at.strip_prefix("at=").unwrap().parse().unwrap();
                let seen = seen.strip_prefix("seen=").unwrap().parse().unwrap();
                let epoch = if how.contains(&"elsewhere") { 3 } else { u64::from(lineage) };
                restored = Some(Box::new(Restored { epoch, offset, time_ms, seen }));
                let payload = super::payload_of(payload);
                let mut publication = publication(slice(topic), payload.clone(), how);
                publication.retain = payload.is_empty();
                (Some(name), publication)
            }
            ["of", run, topic, payload, ref how @ ..] => {
                let (run, counter) = run.split_once(':').unwrap();
                let name = RunName { run: run.parse().unwrap(), counter: counter.parse().unwrap() };
                (Some(name), publication(slice(topic), super::payload_of(payload), how))
            }
            [topic, payload, ref how @ ..] => {
                (None, publication(slice(topic), super::payload_of(payload), how))
            }
            _ => panic!("no record: {words:?}"),
        };
        TailRecord { offset, lineage, time_ms, name, publication, restored, is_register: false }
    }

    fn hear_tail(&mut self, records: Vec<TailRecord>, through: u64, ended_ago_ms: Option<u64>) {
        let tail = Tail { partition: PARTITION, records, through, ended_ago_ms };
        self.engine.cost += u64::from(tail.cost());
        self.hear_engine(EngineLetter::Tail(tail));
    }

    fn hear_engine(&mut self, letter: EngineLetter) {
        self.home.engine(self.now, letter, &mut self.memory, &mut self.out);
    }

    /// Requests of the home to the engine.
    pub fn engine_requests(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        for request in std::mem::take(&mut self.out.engine) {
            match request {
                EngineRequest::Credit { bytes } => self.engine.credit += u64::from(bytes),
                EngineRequest::Publish(publish) => {
                    texts.push(text_of(&publish));
                    self.engine.published.push(publish);
                }
            }
        }
        texts
    }
}

fn text_of(publish: &EnginePublish) -> String {
    let text = |slice: &Slice| String::from_utf8_lossy(slice).into_owned();
    let Publication { topic, payload, producer, retain, .. } = &publish.publication;
    let by = producer.as_ref().map_or(String::new(), |stamp| {
        format!(" by {}:{}@{}", text(&stamp.id), stamp.sequence, stamp.connection)
    });
    let removes = if *retain && payload.is_empty() { " removes" } else { "" };
    let restored = publish.restored.as_ref().map_or(String::new(), |restored| {
        format!(" restores {} seen {}", restored.offset, restored.seen)
    });
    let payload = if payload.is_empty() { "empty".to_owned() } else { text(payload) };
    let (counter, topic) = (publish.name.counter, text(topic));
    format!("publish {counter} {topic} {payload}{by}{removes}{restored}")
}
