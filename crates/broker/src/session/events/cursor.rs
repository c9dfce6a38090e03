//! The cursor of an event stream over several topics, which a client brings back in
//! `Last-Event-ID`.
//!
//! Text (`docs/formats.md`): first the topics in the order of the request, separated by commas: a
//! position each, its epoch only where it differs from the one before; `-` for a topic that was
//! refused, or for a filter; `!` for a filter that was refused. Then, if filters are served, for
//! each log `/`, its epoch, `:`, and the offsets of its partitions in base 36, separated by dots.
//! An offset of 0 is empty, and `~n` stands for n of them. An offset of an engine's log has its
//! lineage before it, in base 36 and with `_`, where that differs from the lower half of the epoch.
//! All filters of a stream that are served share this part. `7:12,9,-/7:c..2s` are two topics and a
//! filter on a log of three partitions.
//!
//! Invariants: a cursor takes at most [`CURSOR_BYTES_MAX`] bytes; streams that could need more are
//! refused. A filter that was refused has no place in the shared part: what moves there since then
//! is not its own.

use crate::mail::{PartitionCursor, PartitionId};
use crate::notice::Beginning;
use crate::position::Position;
use crate::settings::{Durability, Settings};
use std::fmt::Write as _;
use stdx::handing::Hand;
use stdx::memory::vector_bytes;

/// Bytes of a cursor.
pub(super) const CURSOR_BYTES_MAX: usize = 2 << 10;
/// Maximum bytes of one topic.
const TOPIC_BYTES_MAX: usize = "18446744073709551615:18446744073709551615,".len();
/// Maximum bytes of one log beside its partitions.
const LOG_BYTES_MAX: usize = "/18446744073709551615:".len();
/// Maximum bytes of the lineage of one partition.
const LINEAGE_BYTES_MAX: usize = "1z141z3_".len();
/// Maximum bytes of one partition beside it.
const PARTITION_BYTES_MAX: usize = "3w5e11264sgsf.".len();
const RADIX: u32 = 36;
/// Before the length of a run of offsets of 0.
const RUN: char = '~';
/// Between a lineage and an offset.
const BEHIND_LINEAGE: char = '_';

/// See the module.
#[derive(Clone, Hand)]
pub(crate) struct StreamCursor {
    topics: Vec<Place>,
    /// The cursors by log; empty before the filters hold, unless the client came back with it.
    logs: Vec<LogCursor>,
}

#[derive(Clone, Copy, PartialEq, Debug, Hand)]
enum Place {
    /// A filter; see `logs`.
    Filter,
    /// A topic that was refused.
    None,
    /// Nothing before the subscription holds, unless the client came back with it.
    Open,
    At(Position),
    /// A filter that `logs` does not cover: refused, or refused when the client's cursor was made.
    Absent,
}

#[derive(Clone, PartialEq, Debug, Hand)]
struct LogCursor {
    /// The log's epoch; in an engine's log, one of its partitions'.
    epoch: u64,
    first_partition: PartitionId,
    offsets: Vec<u64>,
    /// The lineages of the partitions of an engine's log; empty for others.
    lineages: Vec<u32>,
}

impl LogCursor {
    /// The offset of a partition of the log. None if it is not of this log.
    fn offset_mut(&mut self, partition: PartitionId) -> Option<&mut u64> {
        let place = partition.place_after(self.first_partition)?;
        self.offsets.get_mut(place as usize)
    }

    /// Takes in the epoch of a partition. The topic's identity is that of all partitions.
    fn set_epoch(&mut self, partition: PartitionId, epoch: u64) {
        let place = partition.place_after(self.first_partition);
        match place.and_then(|place| self.lineages.get_mut(place as usize)) {
            None => self.epoch = epoch,
            Some(lineage) => {
                *lineage = epoch as u32;
                if self.epoch >> 32 != epoch >> 32 {
                    self.epoch = epoch;
                }
            }
        }
    }

    /// The epoch of the partition at this place.
    fn epoch_at(&self, place: usize) -> u64 {
        match self.lineages.get(place) {
            None => self.epoch,
            Some(&lineage) => self.epoch >> 32 << 32 | u64::from(lineage),
        }
    }
}

impl StreamCursor {
    /// A cursor of topics that are filters or not; without positions yet.
    pub fn new(is_filter: &[bool]) -> StreamCursor {
        let place = |is_filter: &bool| if *is_filter { Place::Filter } else { Place::Open };
        StreamCursor { topics: is_filter.iter().map(place).collect(), logs: Vec::new() }
    }

    /// Memory of a place for each topic.
    pub fn topics_bytes(&self) -> usize {
        vector_bytes::<Place>(self.topics.capacity())
    }

    /// The maximum number of topics and filters in one stream.
    pub fn topics_max(settings: &Settings, has_filters: bool) -> usize {
        let partitions = settings.partitions_count() as usize;
        let engines = settings.logs.iter().filter(|log| log.durability == Durability::Engine);
        let lineages: usize = engines.map(|log| log.partitions_count as usize).sum();
        let of_filters = settings.logs.len() * LOG_BYTES_MAX
            + partitions * PARTITION_BYTES_MAX
            + lineages * LINEAGE_BYTES_MAX;
        let room = if has_filters {
            CURSOR_BYTES_MAX.saturating_sub(of_filters)
        } else {
            CURSOR_BYTES_MAX
        };
        room / TOPIC_BYTES_MAX
    }

    /// The cursor as text, once every topic has a position.
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        let mut epoch = None;
        for (count, place) in self.topics.iter().enumerate() {
            if count > 0 {
                text.push(',');
            }
            match place {
                Place::Filter | Place::None => text.push('-'),
                Place::Absent => text.push('!'),
                Place::Open => return None,
                Place::At(position) if epoch == Some(position.epoch) => {
                    let _ = write!(text, "{}", position.offset);
                }
                Place::At(position) => {
                    epoch = Some(position.epoch);
                    let _ = write!(text, "{position}");
                }
            }
        }
        if !self.has_filters() {
            return Some(text);
        }
        if self.logs.is_empty() {
            return None;
        }
        for log in &self.logs {
            let _ = write!(text, "/{}:", log.epoch);
            push_offsets(&mut text, log);
        }
        Some(text)
    }

    /// Takes over what a client has brought, if it is a cursor of such a stream; otherwise nothing
    /// is known.
    pub fn read(&mut self, text: &str, settings: &Settings) {
        let (topics, logs) = match text.split_once('/') {
            Some((topics, logs)) => (topics, Some(logs)),
            None => (text, None),
        };
        let Some(places) = read_topics(topics, &self.topics) else {
            return;
        };
        self.topics = places;
        if self.has_filters()
            && let Some(logs) = logs.and_then(|logs| read_logs(logs, settings))
        {
            self.logs = logs;
        }
    }

    /// Settles a topic: everything of it up to here has been sent.
    pub fn set_topic(&mut self, number: usize, position: Position) {
        if let Some(place) = self.topics.get_mut(number) {
            *place = Place::At(position);
        }
    }

    /// The position of a topic, if it is known.
    pub fn topic(&self, number: usize) -> Option<Position> {
        match self.topics.get(number)? {
            Place::At(position) => Some(*position),
            Place::Filter | Place::None | Place::Open | Place::Absent => None,
        }
    }

    /// A topic or filter is not served.
    pub fn refuse(&mut self, number: usize) {
        if let Some(place) = self.topics.get_mut(number) {
            *place = match place {
                Place::Filter | Place::Absent => Place::Absent,
                Place::None | Place::Open | Place::At(_) => Place::None,
            };
        }
    }

    /// Whether this is a filter that the client's cursor does not cover.
    pub fn is_absent(&self, number: usize) -> bool {
        self.topics.get(number) == Some(&Place::Absent)
    }

    /// These filters hold.
    pub fn begin_filters(
        &mut self,
        numbers: impl Iterator<Item = usize>,
        beginnings: &[Beginning],
        settings: &Settings,
    ) {
        for number in numbers {
            if let Some(place) = self.topics.get_mut(number) {
                *place = Place::Filter;
            }
        }
        self.logs = unknown_logs(settings);
        for beginning in beginnings {
            if let Some(log) = self.log_of(beginning.partition) {
                log.set_epoch(beginning.partition, beginning.epoch);
            }
            self.set_partition(beginning.partition, beginning.through, None);
        }
    }

    /// Settles filters in one partition: everything up to here has been sent, and nothing beyond
    /// it. With the epoch of a partition whose epoch advances.
    pub fn set_partition(&mut self, partition: PartitionId, offset: u64, epoch: Option<u64>) {
        let Some(log) = self.log_of(partition) else {
            return;
        };
        if let Some(place) = log.offset_mut(partition) {
            *place = offset;
        }
        if let Some(epoch) = epoch {
            log.set_epoch(partition, epoch);
        }
    }

    /// Settles filters in one partition: everything up to here has been sent, and perhaps more.
    /// True if the cursor moved.
    pub fn advance_partition(
        &mut self,
        partition: PartitionId,
        offset: u64,
        epoch: Option<u64>,
    ) -> bool {
        match self.log_of(partition).and_then(|log| log.offset_mut(partition)) {
            Some(place) if *place < offset => {
                self.set_partition(partition, offset, epoch);
                true
            }
            _ => false,
        }
    }

    /// The cursors with which the filters are asked for. What the client brought does not know is
    /// unknown.
    pub fn partitions(&self, settings: &Settings) -> Vec<PartitionCursor> {
        let unknown;
        let logs = if self.logs.is_empty() {
            unknown = unknown_logs(settings);
            &unknown
        } else {
            &self.logs
        };
        logs.iter()
            .flat_map(|log| {
                (0..).zip(&log.offsets).map(|(place, offset)| PartitionCursor {
                    partition: log.first_partition.nth(place),
                    position: Position { epoch: log.epoch_at(place as usize), offset: *offset },
                })
            })
            .collect()
    }

    fn has_filters(&self) -> bool {
        self.topics.contains(&Place::Filter)
    }

    fn log_of(&mut self, partition: PartitionId) -> Option<&mut LogCursor> {
        let place = self.logs.partition_point(|log| log.first_partition <= partition);
        self.logs.get_mut(place.checked_sub(1)?)
    }
}

fn unknown_logs(settings: &Settings) -> Vec<LogCursor> {
    let unknown = |log: &crate::settings::LogSettings| LogCursor {
        epoch: 0,
        first_partition: log.first_partition,
        offsets: vec![0; log.partitions_count as usize],
        lineages: match log.durability {
            Durability::Engine => vec![0; log.partitions_count as usize],
            Durability::Memory | Durability::Disk => Vec::new(),
        },
    };
    settings.logs.iter().map(unknown).collect()
}

/// The places of these topics and filters in a cursor, if it belongs to such a stream.
fn read_topics(text: &str, topics: &[Place]) -> Option<Vec<Place>> {
    let mut epoch = None;
    let mut places = Vec::with_capacity(topics.len());
    let mut parts = text.split(',');
    for topic in topics {
        let part = parts.next()?;
        places.push(match (topic, part) {
            (Place::Filter, "-") => Place::Filter,
            (Place::Filter, "!") => Place::Absent,
            (Place::Filter, _) => return None,
            (_, "-") => Place::At(super::UNKNOWN),
            (_, part) if part.contains(':') => {
                let position: Position = part.parse().ok()?;
                epoch = Some(position.epoch);
                Place::At(position)
            }
            (_, part) => Place::At(format!("{}:{part}", epoch?).parse().ok()?),
        });
    }
    parts.next().is_none().then_some(places)
}

/// The part of the filters, if it fits the logs that there are.
fn read_logs(text: &str, settings: &Settings) -> Option<Vec<LogCursor>> {
    let mut logs = unknown_logs(settings);
    let mut parts = text.split('/');
    for log in &mut logs {
        let (epoch, offsets) = parts.next()?.split_once(':')?;
        let start: Position = format!("{epoch}:0").parse().ok()?;
        log.epoch = start.epoch;
        log.lineages.fill(start.epoch as u32);
        read_offsets(offsets, log)?;
    }
    parts.next().is_none().then_some(logs)
}

/// The shortest run of offsets 0 that is written as its length.
const RUN_MIN: usize = 4;

fn push_offsets(text: &mut String, log: &LogCursor) {
    let offsets = &log.offsets;
    let mut at = 0;
    while let Some(&offset) = offsets.get(at) {
        if at > 0 {
            text.push('.');
        }
        let zeros = offsets[at..].iter().take_while(|offset| **offset == 0);
        let zeros_count = zeros.count();
        if zeros_count >= RUN_MIN {
            text.push(RUN);
            push_number(text, zeros_count as u64);
            at += zeros_count;
        } else {
            if offset > 0 && log.epoch_at(at) != log.epoch {
                push_number(text, log.epoch_at(at) & u64::from(u32::MAX));
                text.push(BEHIND_LINEAGE);
            }
            push_number(text, offset);
            at += 1;
        }
    }
}

/// Fills all of them, which are 0, or it is not the text of so many.
fn read_offsets(text: &str, log: &mut LogCursor) -> Option<()> {
    let mut at = 0_usize;
    for part in text.split('.') {
        if let Some(count) = part.strip_prefix(RUN) {
            let count = usize::try_from(read_number(count)?).ok()?;
            at = at.checked_add(count).filter(|_| count > 0)?;
            continue;
        }
        let offset = match part.split_once(BEHIND_LINEAGE) {
            None => part,
            Some((lineage, offset)) => {
                *log.lineages.get_mut(at)? = u32::try_from(read_number(lineage)?).ok()?;
                offset
            }
        };
        *log.offsets.get_mut(at)? = read_number(offset)?;
        at += 1;
    }
    (at == log.offsets.len()).then_some(())
}

fn push_number(text: &mut String, mut number: u64) {
    let mut digits = [0; PARTITION_BYTES_MAX];
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    text.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

fn read_number(text: &str) -> Option<u64> {
    let is_ours = text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    match (text, is_ours) {
        ("", _) => Some(0),
        (_, true) => u64::from_str_radix(text, RADIX).ok(),
        (_, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LogSettings;

    fn settings(partitions: &[u32]) -> Settings {
        let mut first = 0;
        let logs = partitions.iter().map(|&partitions_count| {
            let log = LogSettings {
                partitions_count,
                first_partition: PartitionId(first),
                epoch: 7,
                ..LogSettings::default()
            };
            first += partitions_count;
            log
        });
        Settings { edges_count: 1, homes_count: 1, logs: logs.collect(), ..Settings::default() }
    }

    fn begin(partition: PartitionId, epoch: u64, through: u64) -> Beginning {
        Beginning { partition, epoch, through, is_replaying: false, is_resumed: false, gap: None }
    }

    #[test]
    fn topics() {
        let settings = settings(&[3]);
        let at = |epoch, offset| Position { epoch, offset };
        let mut cursor = StreamCursor::new(&[false, false, false, false]);
        cursor.set_topic(0, at(7, 12));
        cursor.set_topic(1, at(7, 9));
        assert_eq!(cursor.text(), None);
        cursor.refuse(2);
        cursor.set_topic(3, at(8, 3));
        assert_eq!(cursor.text().as_deref(), Some("7:12,9,-,8:3"));
        let mut other = StreamCursor::new(&[false, false, true, false]);
        other.read("7:12,9,-,8:3", &settings);
        let topics: Vec<_> = (0..4).map(|number| other.topic(number)).collect();
        assert_eq!(topics, [Some(at(7, 12)), Some(at(7, 9)), None, Some(at(8, 3))]);
        for (text, count) in [("", 1), ("1", 1), ("1:2", 2), ("1:2,3", 1), ("a:b", 1), ("1:2,", 2)]
        {
            let mut cursor = StreamCursor::new(&vec![false; count]);
            cursor.read(text, &settings);
            assert_eq!(cursor.topic(0), None, "{text}");
        }
    }

    #[test]
    fn filters() {
        let settings = settings(&[3, 1]);
        let mut cursor = StreamCursor::new(&[true]);
        assert_eq!(cursor.text(), None);
        cursor.begin_filters(
            [0].into_iter(),
            &[
                begin(PartitionId(0), 7, 12),
                begin(PartitionId(2), 7, 100),
                begin(PartitionId(3), 9, u64::MAX),
            ],
            &settings,
        );
        let text = "-/7:c..2s/9:3w5e11264sgsf";
        assert_eq!(cursor.text().as_deref(), Some(text));
        let mut other = StreamCursor::new(&[true]);
        other.read(text, &settings);
        assert_eq!(other.logs, cursor.logs);
        assert_eq!(other.partitions(&settings)[3].position.offset, u64::MAX);
        other.set_partition(PartitionId(1), 36, None);
        assert_eq!(other.text().as_deref(), Some("-/7:c.10.2s/9:3w5e11264sgsf"));
        for text in [
            "-",
            "-/7:c..2s",
            "-/7:c..2s/",
            "-/7:c./9:",
            "-/7:c..2s./9:",
            "-/7:c..2s/9:/1:",
            "-/7:C..2s/9:",
            "-/7:+1..2s/9:",
            "-/7:c..2s/9:3w5e11264sgsg",
        ] {
            let mut cursor = StreamCursor::new(&[true]);
            cursor.read(text, &settings);
            let unknown = PartitionCursor {
                partition: PartitionId(0),
                position: Position { epoch: 0, offset: 0 },
            };
            assert_eq!(cursor.partitions(&settings)[0], unknown, "{text}");
        }
    }

    /// Runs of empty partitions are written as their length, and read in either form.
    #[test]
    fn runs() {
        let settings = settings(&[9, 1]);
        let check = |offsets: &[(PartitionId, u64)], text: &str, also: &str| {
            let mut cursor = StreamCursor::new(&[true]);
            let begun: Vec<_> = offsets.iter().map(|&(at, to)| begin(at, 7, to)).collect();
            cursor.begin_filters([0].into_iter(), &begun, &settings);
            cursor.logs.iter_mut().for_each(|log| log.epoch = 7);
            assert_eq!(cursor.text().as_deref(), Some(text));
            for text in [text, also] {
                let mut other = StreamCursor::new(&[true]);
                other.read(text, &settings);
                assert_eq!(other.logs, cursor.logs, "{text}");
            }
        };
        check(&[], "-/7:~9/7:", "-/7:......../7:");
        check(&[(PartitionId(0), 12)], "-/7:c.~8/7:", "-/7:c......../7:");
        check(&[(PartitionId(8), 1)], "-/7:~8.1/7:", "-/7:~4.~4.1/7:");
        check(&[(PartitionId(4), 1), (PartitionId(9), 1)], "-/7:~4.1.~4/7:1", "-/7:....1..../7:1");
        check(&[(PartitionId(3), 1)], "-/7:...1.~5/7:", "-/7:~3.1.~5/7:~1");
        for bad in [
            "-/7:~8/7:",
            "-/7:~a/7:",
            "-/7:~9./7:",
            "-/7:~0.~9/7:",
            "-/7:~/7:",
            "-/7:~3w5e11264sgsf/7:",
            "-/7:~8.~3w5e11264sgsf/7:",
        ] {
            let mut cursor = StreamCursor::new(&[true]);
            cursor.read(bad, &settings);
            assert!(cursor.logs.is_empty(), "{bad}");
        }
    }

    /// Partitions of an engine's log have lineages of their own.
    #[test]
    fn lineages() {
        let mut settings = settings(&[1, 3]);
        settings.logs[1].durability = Durability::Engine;
        let of = |lineage: u64| 1 << 32 | lineage;
        let mut cursor = StreamCursor::new(&[true]);
        let starts = [
            begin(PartitionId(0), 7, 5),
            begin(PartitionId(1), of(4), 12),
            begin(PartitionId(2), of(40), 1),
            begin(PartitionId(3), of(9), 0),
        ];
        cursor.begin_filters([0].into_iter(), &starts, &settings);
        assert_eq!(cursor.text().as_deref(), Some("-/7:5/4294967300:c.14_1."));
        cursor.set_partition(PartitionId(1), 13, Some(of(5)));
        assert!(cursor.advance_partition(PartitionId(3), 2, Some(of(4))));
        let text = "-/7:5/4294967300:5_d.14_1.2";
        assert_eq!(cursor.text().as_deref(), Some(text));
        let mut other = StreamCursor::new(&[true]);
        other.read(text, &settings);
        assert_eq!(other.text().as_deref(), Some(text));
        let positions = other.partitions(&settings).into_iter();
        let positions: Vec<_> =
            positions.map(|at| (at.position.epoch, at.position.offset)).collect();
        assert_eq!(positions, [(7, 5), (of(5), 13), (of(40), 1), (of(4), 2)]);
        let mut bad = StreamCursor::new(&[true]);
        bad.read("-/7:1_5/4294967300:c.1.", &settings);
        assert!(bad.logs.is_empty(), "a log without an engine has no lineages");
    }

    /// Only a cursor of as many topics and filters, in this order, is one of the stream.
    #[test]
    fn kinds() {
        let settings = settings(&[1]);
        let check = |kinds: &[bool], text: &str, expected: Option<&str>| {
            let mut cursor = StreamCursor::new(kinds);
            cursor.read(text, &settings);
            assert_eq!(cursor.text().as_deref(), expected, "{text}");
        };
        check(&[true, false], "-,7:1/7:5", Some("-,7:1/7:5"));
        check(&[true, true], "!,-/7:5", Some("!,-/7:5"));
        check(&[true, true], "!,!", Some("!,!"));
        check(&[true, false], "!,7:1", Some("!,7:1"));
        // The id of another stream is ignored.
        check(&[true, true], "-/7:5", None);
        check(&[true], "-,-/7:5", None);
        check(&[true], "7:1/7:5", None);
        check(&[false], "!", None);
    }

    #[test]
    fn the_longest_fits() {
        for partitions in [vec![64], vec![1], vec![64, 64], vec![32, 16, 8]] {
            let settings = settings(&partitions);
            for has_filters in [false, true] {
                let count = StreamCursor::topics_max(&settings, has_filters);
                assert!(count > 0, "{partitions:?}");
                let mut cursor = StreamCursor::new(&vec![false; count]);
                for number in 0..count {
                    let epoch = u64::MAX - number as u64;
                    let offset = u64::MAX;
                    cursor.set_topic(number, Position { epoch, offset });
                }
                if has_filters {
                    cursor.topics.push(Place::Filter);
                    let all = 0..settings.partitions_count();
                    let all: Vec<_> =
                        all.map(|at| begin(PartitionId(at), u64::MAX, u64::MAX)).collect();
                    cursor.begin_filters(std::iter::empty(), &all, &settings);
                }
                let length = cursor.text().unwrap().len() - 2 * usize::from(has_filters);
                assert!(length <= CURSOR_BYTES_MAX, "{partitions:?}: {length}");
            }
        }
        assert_eq!(StreamCursor::topics_max(&settings(&[1024]), true), 0);
    }
}
