//! A small language for a home: commands of edges in, letters out, both as text.

pub mod disk;
pub mod engine;
mod groups;
mod text;

use crate::support::{START, START_MS, Setup};
use crate::transcript;
use broker::disk::{DiskLetter, DiskRequest};
use broker::home::{Home, HomeOutputs, HomeStatistics, Settled};
use broker::mail::*;
use broker::now::Now;
use broker::position::Position;
use broker::settings::Settings;
use disk::TestDisk;
use engine::TestEngine;
use log::{HeapMemory, RecordView};
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::key::Key;
use text::{disk_text, text_of};

/// A test's script as it stands in the source, with its setup: `check`.
macro_rules! script {
    ($setup:expr, $script:literal) => {
        $crate::script::check($setup, $script)
    };
}
pub(crate) use script;

/// Runs a script; `transcript` has the form of it. The answers of a command are the letters that it
/// causes and the requests to the disk. Panics with the whole transcript if the script differs.
#[track_caller]
pub fn check(setup: Setup, script: &str) {
    let settings = setup.settings();
    let mut world = World {
        disk: TestDisk::default(),
        engine: TestEngine::new(START_MS),
        epochs: Vec::new(),
        looked: VecDeque::new(),
        home: Home::new(settings.clone(), HomeId(0), (1, 2)),
        settings,
        memory: HeapMemory::new(setup.memory_bytes),
        out: HomeOutputs::new(setup.edges),
        now: START,
    };
    transcript::check(script, "", |line| match line.strip_prefix("pub ") {
        Some(publications) => {
            let each = publications.split(", ");
            let answers: Vec<_> = each.map(|it| world.command(&format!("pub {it}"))).collect();
            let is_even = answers.iter().all(|answers_of| answers_of.len() == answers[0].len());
            assert!(
                is_even,
                "{line}: publications of one line have equally many answers: {answers:?}"
            );
            answers.concat()
        }
        None => world.command(line),
    });
}

struct World {
    disk: TestDisk,
    engine: TestEngine,
    /// Letters about epochs that no command has shown.
    epochs: Vec<String>,
    /// Answers that the disk has read and not given yet.
    looked: VecDeque<DiskLetter>,
    settings: Arc<Settings>,
    home: Home,
    memory: HeapMemory,
    out: HomeOutputs,
    now: Now,
}

impl World {
    /// Runs a command; returns all its answers.
    fn command(&mut self, line: &str) -> Vec<String> {
        let mut said: Vec<String> = self.run(line).into_iter().collect();
        said.extend(self.letters());
        said.extend(self.disk_requests());
        said.extend(self.engine_requests());
        said
    }

    /// Runs a command; what it says beside letters comes back.
    fn run(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((edge, request)) = self.request(&words) {
            self.home.handle(self.now, edge, request, &mut self.memory, &mut self.out);
            return None;
        }
        match words[..] {
            ["pump"] => {
                let more = self.home.pump(self.now, &mut self.memory, &mut self.out);
                more.then(|| "more".into())
            }
            ["turn"] => {
                self.home.finish_turn(&mut self.out);
                None
            }
            ["rest"] => Some(if self.home.has_more() { "not yet" } else { "rests" }.into()),
            ["time", step] => {
                let step_ms: u64 = step.parse().unwrap();
                self.now.monotonic_ms += step_ms;
                self.now.unix_ms += step_ms;
                None
            }
            // Of the wall clock alone.
            ["clock", step] => {
                let unix_ms = self.now.unix_ms.checked_add_signed(step.parse().unwrap());
                self.now.unix_ms = unix_ms.unwrap();
                None
            }
            ["deadline"] => {
                let deadline = self.home.next_deadline_ms();
                Some(
                    deadline
                        .map_or("none".into(), |at| format!("{:+}", at as i64 - START_MS as i64)),
                )
            }
            ["count-once"] => {
                let s = self.home.statistics();
                Some(format!(
                    "published {} duplicates {} fenced {} out-of-order {} mismatch {} producers {} keys {}",
                    s.published,
                    s.duplicates,
                    s.refused.producer_fenced,
                    s.refused.out_of_order,
                    s.refused.epoch_mismatch,
                    s.producers,
                    s.idempotency_keys
                ))
            }
            ["count"] => {
                let s = self.home.statistics();
                let (topics, records, indexes) = (s.topics, s.records, s.indexes);
                let (retained, lagging) = (s.retained, s.lagging_streams);
                Some(format!(
                    "topics {topics} records {records} retained {retained} indexes {indexes} lagging {lagging}"
                ))
            }
            _ => self.run_engine(&words).unwrap_or_else(|| self.run_disk(&words)),
        }
    }

    /// The request that a command stands for, and whose it is.
    fn request(&self, words: &[&str]) -> Option<(EdgeId, ToHome)> {
        let number = |word: &str| word.trim_start_matches(char::is_alphabetic).parse().unwrap();
        let edge = words
            .get(1)
            .and_then(|word| word.strip_prefix('e')?.parse().ok())
            .map_or(EdgeId(0), EdgeId);
        let subscription = |word: &str| Key { index: number(word), generation: 0 };
        let reply = Reply { connection: Key { index: 0, generation: 0 }, request: 1 };
        let request = match *words {
            ["sub", _, key, topic, ref start @ ..] => {
                let (rule, partition) = self.settings.locate(topic);
                ToHome::Subscribe(Subscribe {
                    partition,
                    rule,
                    topic: slice(topic),
                    subscription: subscription(key),
                    start: start_of(start),
                })
            }
            ["pub", topic, payload, ref how @ ..] => {
                let (rule, partition) = self.settings.locate(topic);
                let publication = publication(slice(topic), payload_of(payload), how);
                let reply = if how.contains(&"refusals") {
                    Some(Reply { request: Reply::REFUSALS_ONLY, ..reply })
                } else {
                    how.contains(&"ack").then_some(reply)
                };
                ToHome::Publish(Publish { partition, rule, reply, publication })
            }
            ["find", _, key, filter] => find(subscription(key), filter),
            ["release", _, index, generation] => {
                ToHome::Release { index: number(index), generation: number(generation) }
            }
            ["read", _, key, index, "after", after, ref max @ ..] => ToHome::Read(ReadTopic {
                partition: PartitionId(0),
                index: number(index),
                subscription: subscription(key),
                after: after.parse().unwrap(),
                mode: mode_of(max),
                limits: page_limits(max),
            }),
            ["history", topic, ref how @ ..] => {
                let (rule, partition) = self.settings.locate(topic);
                let beyond = how.iter().find_map(|word| word.parse::<Position>().ok());
                let reverse = how.contains(&"reverse");
                let max = how.iter().position(|word| *word == "max");
                let limits = page_limits(max.map_or(&[], |place| &how[place..]));
                let topic = slice(topic);
                ToHome::History(ReadHistory {
                    partition,
                    rule,
                    topic,
                    reply,
                    beyond,
                    reverse,
                    limits,
                })
            }
            ["filter" | "scan", ..] => filter_request(words),
            ["join" | "leave" | "done" | "return", ..] => ToHome::Group(groups::request(words)),
            ["positions", _] => ToHome::Positions,
            ["unfilter", _, filter] => ToHome::RemoveFilter { filter: slice(filter) },
            ["credit", _, bytes] => ToHome::Credit { bytes: bytes.parse().unwrap() },
            _ => return None,
        };
        Some((edge, request))
    }

    /// Commands of the disk.
    fn run_disk(&mut self, words: &[&str]) -> Option<String> {
        match *words {
            ["commit", count] => {
                let letter = self.disk.commit(count.parse().unwrap());
                self.hear(letter)
            }
            // A sequencer of its own answers, in place of the disk.
            ["place", proposal, "at", offset] => {
                let (proposal, offset) = (proposal.parse().unwrap(), offset.parse().unwrap());
                self.settle(Settled::Placed { partition: PartitionId(0), proposal, offset });
                None
            }
            ["refuse"] => {
                self.settle(Settled::Refused(Code::LogUnavailable));
                None
            }
            ["fail", ref code @ ..] => {
                let code = match code {
                    ["full"] => Code::LogFull,
                    _ => Code::LogUnavailable,
                };
                let letter = self.disk.fail(code);
                self.hear(letter)
            }
            ["look"] => {
                let letter = self.disk.answer(0);
                self.looked.extend(letter);
                None
            }
            ["answer"] => {
                let looked = self.looked.pop_front();
                let letter = looked.or_else(|| self.disk.answer(0));
                self.hear(letter)
            }
            ["fail-read"] => {
                let letter = self.disk.fail_read();
                self.hear(letter)
            }
            ["drop-below", floor] => {
                let letter = self.disk.drop_below(PartitionId(0), floor.parse().unwrap());
                self.hear(Some(letter))
            }
            ["damage", offset] => {
                self.disk.damage(PartitionId(0), offset.parse().unwrap());
                None
            }
            ["lose", offset] => {
                self.disk.lose(PartitionId(0), offset.parse().unwrap());
                None
            }
            ["available", is] => self.hear(Some(DiskLetter::Available(is == "yes"))),
            ["restart"] => {
                self.restart();
                None
            }
            ["restart", "full"] => {
                self.restart();
                self.home.set_log_available(0, false);
                None
            }
            ["counted"] => Some(counted(&self.home.statistics())),
            ["waiting"] => Some(waiting(&self.home.statistics())),
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn settle(&mut self, settled: Settled) {
        self.home.settle(self.now, 0, settled, &mut self.memory, &mut self.out);
    }

    fn hear(&mut self, letter: Option<DiskLetter>) -> Option<String> {
        let Some(letter) = letter else {
            return Some("nothing".into());
        };
        self.home.disk(self.now, 0, letter, &mut self.memory, &mut self.out);
        None
    }

    /// A new home, which knows what the disk holds: its newest two records go into memory, if no
    /// damage is behind them.
    fn restart(&mut self) {
        self.home = Home::new(self.settings.clone(), HomeId(0), (1, 2));
        self.disk.forget_requests();
        self.looked.clear();
        let records: Vec<(u64, String, Slice)> = self
            .disk
            .records_of(PartitionId(0))
            .map(|(offset, (name, record))| (offset, name.clone(), record.clone()))
            .collect();
        self.home.restore_floor(PartitionId(0), self.disk.floor(PartitionId(0)));
        let damaged_through = self.disk.damaged_through(PartitionId(0));
        self.home.restore_damage(PartitionId(0), damaged_through);
        for (offset, name, record) in &records {
            let name = name.as_bytes();
            self.home.restore_topic(PartitionId(0), name, *offset).unwrap();
            if RecordView::parse(record).unwrap().flags().has(log::Flags::RETAINED) {
                self.home.restore_retained(PartitionId(0), name, record).unwrap();
            }
        }
        let is_behind = |(offset, ..): &&(u64, _, _)| *offset > damaged_through;
        let newest = &records[records.len().saturating_sub(2)..];
        for (_, name, record) in newest.iter().filter(is_behind) {
            let (memory, out) = (&mut self.memory, &mut self.out);
            self.home.restore_record(PartitionId(0), name.as_bytes(), record, memory, out).unwrap();
        }
        let head = records.last().map_or(0, |(offset, ..)| *offset);
        let head = head.max(damaged_through);
        self.home.restore_head(PartitionId(0), head);
    }

    fn disk_requests(&mut self) -> Vec<String> {
        let requests: Vec<DiskRequest> =
            self.out.disk.iter_mut().flat_map(std::mem::take).collect();
        let texts = requests.iter().map(disk_text).collect();
        for letter in self.disk.take(requests) {
            self.hear(Some(letter));
        }
        texts
    }

    fn letters(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        for (edge, letters) in self.out.letters.iter_mut().enumerate() {
            for letter in letters.drain(..) {
                let text = format!("e{edge} {}", text_of(&letter));
                match letter {
                    // Every engine's script has them; `epochs` shows them.
                    ToEdge::Epoch { .. } | ToEdge::Restarted { .. } => self.epochs.push(text),
                    _ => texts.push(text),
                }
            }
        }
        texts
    }
}

fn slice(text: &str) -> Slice {
    Slice::copy_of(text.as_bytes())
}

fn start_of(words: &[&str]) -> Start {
    match words {
        ["live"] => Start::Live,
        ["at-head"] => Start::AtHead,
        ["since", position] => Start::Since(position.parse().unwrap()),
        ["since", first, "or", other] => {
            Start::SinceEither(first.parse().unwrap(), other.parse().unwrap())
        }
        ["last", count] => Start::Last(count.parse().unwrap()),
        ["snapshot"] => Start::Snapshot,
        _ => panic!("{words:?}"),
    }
}

fn payload_of(word: &str) -> Slice {
    match word.strip_prefix("x*") {
        Some(count) => slice(&"x".repeat(count.parse().unwrap())),
        None if word == "empty" => Slice::empty(),
        None => slice(word),
    }
}

fn counted(s: &HomeStatistics) -> String {
    let (records, segments) = (s.evicted_records, s.evicted_segments);
    format!(
        "lagged {} stream-gaps {} stalled {} evicted {records} in {segments} forgotten {} histories {}",
        s.lagged, s.stream_gaps, s.logs_stalled, s.forgotten, s.histories_read
    )
}

fn waiting(s: &HomeStatistics) -> String {
    let (staged, disk, pages) = (s.staged, s.disk_reads_waiting, s.pages_waiting);
    let (no_log, uncached) = (s.logs_unavailable, s.uncached);
    format!("staged {staged} disk {disk} pages {pages} unavailable {no_log} uncached {uncached}")
}

fn mode_of(words: &[&str]) -> ReadMode {
    match words.last() {
        Some(&"newest") => ReadMode::Newest,
        Some(&"skip") => ReadMode::Skip,
        _ => ReadMode::Replay,
    }
}

fn page_limits(max: &[&str]) -> PageLimits {
    let records_max = max.get(1).map_or(100, |max| max.parse().unwrap());
    PageLimits { records_max, bytes_max: 1 << 20 }
}

fn publication(topic: Slice, payload: Slice, how: &[&str]) -> Publication {
    let value = |name: &str| how.iter().find_map(|word| word.strip_prefix(name));
    Publication {
        topic,
        attributes: Slice::empty(),
        payload,
        retain: how.contains(&"retain"),
        producer: how.iter().find_map(|word| producer(word)),
        idempotency_key: value("key=").map_or(Slice::empty(), slice),
        expected_epoch: value("epoch=").and_then(|epoch| epoch.parse().ok()),
        ..Publication::default()
    }
}

/// `by=id:sequence@connection`.
fn producer(word: &str) -> Option<ProducerStamp> {
    let (id, rest) = word.strip_prefix("by=")?.split_once(':')?;
    let (sequence, connection) = rest.split_once('@')?;
    Some(ProducerStamp {
        id: slice(id),
        sequence: sequence.parse().ok()?,
        connection: connection.parse().ok()?,
    })
}

/// `offset<prev payload`, with `!` if retained.
fn filter_request(words: &[&str]) -> ToHome {
    let number = |word: &str| {
        let digits = word.trim_start_matches(char::is_alphabetic);
        digits.parse::<u32>().unwrap()
    };
    let subscription = |word: &str| Key { index: number(word), generation: 0 };
    match words {
        ["filter", _, key, filter, each @ ..] => ToHome::AddFilter(AddFilter {
            begins_at_head: each.first() == Some(&"at-head"),
            user: 0,
            filter: slice(filter),
            subscription: subscription(key),
            since: each
                .strip_prefix(&["at-head"])
                .unwrap_or(each)
                .chunks(2)
                .map(|each| PartitionCursor {
                    partition: PartitionId(number(each[0])),
                    position: each[1].parse().unwrap(),
                })
                .collect(),
        }),
        [_, _, key, partition, filters, "after", after, max @ ..] => {
            ToHome::ReadFilter(ReadFilter {
                partition: PartitionId(number(partition)),
                filters: filters.split('|').map(slice).collect(),
                subscription: subscription(key),
                after: after.parse().unwrap(),
                mode: mode_of(max),
                limits: page_limits(max),
            })
        }
        _ => panic!("{words:?}"),
    }
}

/// Asks for the retained messages of a filter.
fn find(subscription: SubscriptionKey, filter: &str) -> ToHome {
    ToHome::FindRetained(FindRetained {
        filter: slice(filter),
        subscription,
        from: 0,
        limits: PageLimits { records_max: 9, bytes_max: 9_000 },
    })
}
