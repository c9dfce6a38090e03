//! The cursor of an event stream over several topics, which a client brings back in `Last-Event-ID`.
//!
//! Text (`docs/formats.md`): first the topics in the order of the request, separated by commas: a position each, its epoch
//! only where it differs from the one before, and `-` for a filter or a topic that was refused. Then, if there are filters,
//! for each log `/`, its epoch, `:`, and the offsets of its partitions in base 36, separated by dots; 0 is left out.
//! All filters of a stream share this part. `7:12,9,-/7:c..2s` are two topics and a filter on a log of three partitions.
//!
//! Invariant: a cursor takes at most [`CURSOR_BYTES_MAX`] bytes; streams that could need more are refused.

use crate::edge::Beginning;
use crate::mail::{PartitionCursor, PartitionId};
use crate::position::Position;
use crate::settings::Settings;
use std::fmt::Write as _;
use stdx::memory::vector_bytes;

/// Bytes of a cursor.
pub(super) const CURSOR_BYTES_MAX: usize = 2 << 10;
/// Of one topic.
const TOPIC_BYTES_MAX: usize = "18446744073709551615:18446744073709551615,".len();
/// Of one log beside its partitions.
const LOG_BYTES_MAX: usize = "/18446744073709551615:".len();
/// Of one partition.
const PARTITION_BYTES_MAX: usize = "3w5e11264sgsf.".len();
const RADIX: u32 = 36;

/// See the module.
#[derive(Clone)]
pub(super) struct StreamCursor {
    topics: Vec<Place>,
    /// By log; nothing before the filters hold, unless the client came back with it.
    logs: Vec<LogCursor>,
}

stdx::hand!(struct StreamCursor { topics, logs });

#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    /// Of a filter; see `logs`.
    Filter,
    /// Refused.
    None,
    /// Nothing before the subscription holds, unless the client came back with it.
    Open,
    At(Position),
}

stdx::hand!(enum Place { Filter, None, Open, At(0: a) });

#[derive(Clone, PartialEq, Debug)]
struct LogCursor {
    epoch: u64,
    first_partition: PartitionId,
    offsets: Vec<u64>,
}

stdx::hand!(struct LogCursor { epoch, first_partition, offsets });

impl StreamCursor {
    /// Of topics that are filters or not; says nothing yet.
    pub fn new(is_filter: &[bool]) -> StreamCursor {
        let place = |is_filter: &bool| match is_filter {
            true => Place::Filter,
            false => Place::Open,
        };
        StreamCursor {
            topics: is_filter.iter().map(place).collect(),
            logs: Vec::new(),
        }
    }

    /// Memory of a place for each topic.
    pub fn topics_bytes(&self) -> usize {
        vector_bytes::<Place>(self.topics.capacity())
    }

    /// So many topics and filters may be in one stream.
    pub fn topics_max(settings: &Settings, has_filters: bool) -> usize {
        let partitions = settings.partitions_count() as usize;
        let of_filters = settings.logs.len() * LOG_BYTES_MAX + partitions * PARTITION_BYTES_MAX;
        let room = match has_filters {
            true => CURSOR_BYTES_MAX.saturating_sub(of_filters),
            false => CURSOR_BYTES_MAX,
        };
        room / TOPIC_BYTES_MAX
    }

    /// As text, once it can be told for all.
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        let mut epoch = None;
        for (count, place) in self.topics.iter().enumerate() {
            if count > 0 {
                text.push(',');
            }
            match place {
                Place::Filter | Place::None => text.push('-'),
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
            for (count, offset) in log.offsets.iter().enumerate() {
                if count > 0 {
                    text.push('.');
                }
                push_number(&mut text, *offset);
            }
        }
        Some(text)
    }

    /// Takes over what a client has brought, if it is a cursor of such a stream; otherwise nothing is known.
    pub fn read(&mut self, text: &str, settings: &Settings) {
        let (topics, logs) = match text.split_once('/') {
            Some((topics, logs)) => (topics, Some(logs)),
            None => (text, None),
        };
        if let Some(positions) = read_topics(topics, self.topics.len()) {
            for (place, position) in self.topics.iter_mut().zip(positions) {
                if *place == Place::Open {
                    *place = Place::At(position.unwrap_or(super::event_stream::UNKNOWN));
                }
            }
        }
        if self.has_filters()
            && let Some(logs) = logs.and_then(|logs| read_logs(logs, settings))
        {
            self.logs = logs;
        }
    }

    /// Everything of a topic up to here has been sent.
    pub fn set_topic(&mut self, number: usize, position: Position) {
        if let Some(place) = self.topics.get_mut(number) {
            *place = Place::At(position);
        }
    }

    /// The position of a topic, if it is known.
    pub fn topic(&self, number: usize) -> Option<Position> {
        match self.topics.get(number)? {
            Place::At(position) => Some(*position),
            _ => None,
        }
    }

    /// A topic or filter is not served.
    pub fn refuse(&mut self, number: usize) {
        if let Some(place) = self.topics.get_mut(number) {
            *place = Place::None;
        }
    }

    /// The filters hold.
    pub fn begin_filters(&mut self, beginnings: &[Beginning], settings: &Settings) {
        self.logs = unknown_logs(settings);
        for beginning in beginnings {
            if let Some(log) = self.log_of(beginning.partition) {
                log.epoch = beginning.epoch;
            }
            self.set_partition(beginning.partition, beginning.through);
        }
    }

    /// Everything for filters up to here, in one partition, has been sent, and nothing beyond it.
    pub fn set_partition(&mut self, partition: PartitionId, offset: u64) {
        if let Some(log) = self.log_of(partition) {
            let place = partition - log.first_partition;
            if let Some(place) = log.offsets.get_mut(place as usize) {
                *place = offset;
            }
        }
    }

    /// Everything for filters up to here, in one partition, has been sent, and perhaps more. Whether that is news.
    pub fn advance_partition(&mut self, partition: PartitionId, offset: u64) -> bool {
        let Some(log) = self.log_of(partition) else {
            return false;
        };
        let place = (partition - log.first_partition) as usize;
        match log.offsets.get_mut(place) {
            Some(place) if *place < offset => {
                *place = offset;
                true
            }
            _ => false,
        }
    }

    /// The cursors with which the filters are asked for. What the client brought does not know is unknown.
    pub fn partitions(&self, settings: &Settings) -> Vec<PartitionCursor> {
        let unknown;
        let logs = match self.logs.is_empty() {
            true => {
                unknown = unknown_logs(settings);
                &unknown
            }
            false => &self.logs,
        };
        logs.iter()
            .flat_map(|log| {
                (log.first_partition..)
                    .zip(&log.offsets)
                    .map(|(partition, offset)| PartitionCursor {
                        partition,
                        position: Position {
                            epoch: log.epoch,
                            offset: *offset,
                        },
                    })
            })
            .collect()
    }

    fn has_filters(&self) -> bool {
        self.topics.contains(&Place::Filter)
    }

    fn log_of(&mut self, partition: PartitionId) -> Option<&mut LogCursor> {
        let place = self
            .logs
            .partition_point(|log| log.first_partition <= partition);
        self.logs.get_mut(place.checked_sub(1)?)
    }
}

fn unknown_logs(settings: &Settings) -> Vec<LogCursor> {
    let unknown = |log: &crate::settings::LogSettings| LogCursor {
        epoch: 0,
        first_partition: log.first_partition,
        offsets: vec![0; log.partitions_count as usize],
    };
    settings.logs.iter().map(unknown).collect()
}

/// The positions of a cursor, if it is one for so many topics.
fn read_topics(text: &str, topics_count: usize) -> Option<Vec<Option<Position>>> {
    let mut epoch = None;
    let mut positions = Vec::with_capacity(topics_count);
    for part in text.split(',') {
        positions.push(if part == "-" {
            None
        } else if part.contains(':') {
            let position: Position = part.parse().ok()?;
            epoch = Some(position.epoch);
            Some(position)
        } else {
            Some(format!("{}:{part}", epoch?).parse().ok()?)
        });
    }
    (positions.len() == topics_count).then_some(positions)
}

/// The part of the filters, if it fits the logs that there are.
fn read_logs(text: &str, settings: &Settings) -> Option<Vec<LogCursor>> {
    let mut logs = unknown_logs(settings);
    let mut parts = text.split('/');
    for log in &mut logs {
        let (epoch, offsets) = parts.next()?.split_once(':')?;
        let start: Position = format!("{epoch}:0").parse().ok()?;
        log.epoch = start.epoch;
        let mut offsets = offsets.split('.');
        for offset in &mut log.offsets {
            *offset = read_number(offsets.next()?)?;
        }
        if offsets.next().is_some() {
            return None;
        }
    }
    parts.next().is_none().then_some(logs)
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
    let is_ours = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    match (text, is_ours) {
        ("", _) => Some(0),
        (_, true) => u64::from_str_radix(text, RADIX).ok(),
        (_, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::FilterTrie;
    use crate::settings::{AddressSettings, Durability, Limits, LogSettings};

    fn settings(partitions: &[u32]) -> Settings {
        let mut first = 0;
        let logs = partitions.iter().map(|&partitions_count| {
            let log = LogSettings {
                name: String::new(),
                partitions_count,
                first_partition: first,
                epoch: 7,
                log_bytes_max: 0,
                age_max_ms: 0,
                segment_bytes: 0,
                retained_bytes_max: 0,
                durability: Durability::Memory,
                cache_bytes: 0,
                older_epochs: Vec::new(),
            };
            first += partitions_count;
            log
        });
        Settings {
            edges_count: 1,
            homes_count: 1,
            logs: logs.collect(),
            rules: Vec::new(),
            rule_filters: FilterTrie::default(),
            tickets: crate::settings::TicketSettings::default(),
            limits: Limits::default(),
            addresses: AddressSettings::default(),
            node_name: String::new(),
            other_addresses: Vec::new(),
            compression: None,
            allowed_origins: Vec::new(),
            journal: crate::settings::JournalSettings::default(),
            sys: crate::settings::SysSettings::default(),
            entitlement: None,
        }
    }

    fn begin(partition: PartitionId, epoch: u64, through: u64) -> Beginning {
        Beginning {
            partition,
            epoch,
            through,
            is_replaying: false,
            is_resumed: false,
            gap: None,
        }
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
        assert_eq!(
            topics,
            [Some(at(7, 12)), Some(at(7, 9)), None, Some(at(8, 3))]
        );
        for (text, count) in [
            ("", 1),
            ("1", 1),
            ("1:2", 2),
            ("1:2,3", 1),
            ("a:b", 1),
            ("1:2,", 2),
        ] {
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
            &[begin(0, 7, 12), begin(2, 7, 100), begin(3, 9, u64::MAX)],
            &settings,
        );
        let text = "-/7:c..2s/9:3w5e11264sgsf";
        assert_eq!(cursor.text().as_deref(), Some(text));
        let mut other = StreamCursor::new(&[true]);
        other.read(text, &settings);
        assert_eq!(other.logs, cursor.logs);
        assert_eq!(other.partitions(&settings)[3].position.offset, u64::MAX);
        other.set_partition(1, 36);
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
                partition: 0,
                position: Position {
                    epoch: 0,
                    offset: 0,
                },
            };
            assert_eq!(cursor.partitions(&settings)[0], unknown, "{text}");
        }
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
                    let all: Vec<_> = all.map(|at| begin(at, u64::MAX, u64::MAX)).collect();
                    cursor.begin_filters(&all, &settings);
                }
                let length = cursor.text().unwrap().len() - 2 * usize::from(has_filters);
                assert!(length <= CURSOR_BYTES_MAX, "{partitions:?}: {length}");
            }
        }
        assert_eq!(StreamCursor::topics_max(&settings(&[1024]), true), 0);
    }
}
