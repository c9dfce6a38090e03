//! The work of each client of a fleet. A driver gets it as JSON, and decides nothing itself.

use serde_json::{Value, json};

use crate::fleet::random::Random;

/// Groups of topics, and topics of each group, in the log that keeps everything.
const GROUPS: u64 = 4;
const TOPICS: u64 = 5;
/// Topics of the log with little room.
const SHORT_TOPICS: u64 = 2;

/// The work of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// One subscription to a topic or filter.
    Subscribe {
        /// The topic or filter.
        filter: String,
        /// The position to start behind; without it the subscription begins live.
        since: Option<String>,
        /// Whether the reader follows the commands `pause` and `resume`.
        is_slow: bool,
    },
    /// Publications to these topics in turn, each when the harness asks for it.
    Publish {
        /// The topics; call `n` goes to topic `n % topics.len()`.
        topics: Vec<String>,
        /// With a persisted producer: exactly once.
        is_once: bool,
    },
}

/// The topics that the log with everything has.
pub fn kept_topics() -> Vec<String> {
    let groups = (0..GROUPS).flat_map(|group| (0..TOPICS).map(move |topic| (group, topic)));
    groups.map(|(group, topic)| format!("kept/{group}/{topic}")).collect()
}

/// The topics of the log with little room.
pub fn short_topics() -> Vec<String> {
    (0..SHORT_TOPICS).map(|topic| format!("short/{topic}")).collect()
}

/// Whether the filter covers the topic; the fleet has filters that end with `+` or `#`.
pub fn covers(filter: &str, topic: &str) -> bool {
    match (filter.strip_suffix('#'), filter.strip_suffix('+')) {
        (Some(prefix), _) => topic.starts_with(prefix),
        (_, Some(prefix)) => topic.strip_prefix(prefix).is_some_and(|level| !level.contains('/')),
        _ => filter == topic,
    }
}

/// Whether it is a filter with wildcards.
pub fn is_filter(filter: &str) -> bool {
    filter.ends_with(['+', '#'])
}

/// The work of `count` clients. `start` is the position of a topic's first message.
pub fn of_clients(count: usize, start: &dyn Fn(&str) -> String, random: &mut Random) -> Vec<Work> {
    (0..count).map(|number| of_client(number, start, random)).collect()
}

/// The work of `count` publishers with `once`, whose process will be killed.
pub fn of_publishers(count: usize, random: &mut Random) -> Vec<Work> {
    let topics = kept_topics();
    let mut any = || topics[random.below(topics.len() as u64) as usize].clone();
    (0..count).map(|_| Work::Publish { topics: vec![any(), any()], is_once: true }).collect()
}

fn of_client(number: usize, start: &dyn Fn(&str) -> String, random: &mut Random) -> Work {
    let (kept, short) = (kept_topics(), short_topics());
    let mut any = |topics: &[String]| topics[random.below(topics.len() as u64) as usize].clone();
    let subscribe = |filter: String, since: Option<String>, is_slow: bool| Work::Subscribe {
        filter,
        since,
        is_slow,
    };
    match number % 10 {
        0 | 1 => subscribe(any(&kept), None, false),
        2 | 3 => {
            let topic = any(&kept);
            let since = start(&topic);
            subscribe(topic, Some(since), false)
        }
        4 if number % 40 == 4 => subscribe("kept/#".to_owned(), None, false),
        4 => subscribe(format!("kept/{}/+", number as u64 / 10 % GROUPS), None, false),
        5 if number % 20 == 15 => subscribe("short/+".to_owned(), None, true),
        5 => subscribe(any(&short), None, true),
        6 | 7 => Work::Publish { topics: vec![any(&kept), any(&kept), any(&kept)], is_once: true },
        8 => Work::Publish { topics: vec![any(&kept), any(&kept)], is_once: false },
        _ => Work::Publish { topics: vec![any(&kept), any(&short)], is_once: false },
    }
}

/// The payload of a call.
pub fn payload(fleet: &str, client: usize, call: u64) -> String {
    format!("{fleet}.{client}.{call}")
}

/// The work in the form for drivers.
pub fn to_json(work: &Work) -> Value {
    match work {
        Work::Subscribe { filter, since, is_slow } => {
            json!({"subscribe": filter, "since": since, "slow": is_slow})
        }
        Work::Publish { topics, is_once } => json!({"publish": topics, "once": is_once}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_cover_their_topics() {
        assert!(covers("kept/#", "kept/1/2") && covers("kept/1/+", "kept/1/2"));
        assert!(!covers("kept/1/+", "kept/2/2") && !covers("short/+", "short/1/2"));
        assert!(covers("short/1", "short/1") && !covers("short/1", "short/12"));
    }

    #[test]
    fn ten_clients_have_all_kinds_of_work() {
        let works = of_clients(10, &|_| "1:1".to_owned(), &mut Random(1));
        let is_once = |work: &&Work| matches!(work, Work::Publish { is_once: true, .. });
        assert_eq!(works.iter().filter(is_once).count(), 2);
        let is_slow = |work: &&Work| matches!(work, Work::Subscribe { is_slow: true, .. });
        assert_eq!(works.iter().filter(is_slow).count(), 1);
    }
}
