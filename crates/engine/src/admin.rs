//! Questions and commands about the engine's topics, for `crore engine init`, `crore doctor` and
//! the start of a node. They wait for their answers.

use crate::settings::{EngineLog, EngineSettings, LogLines, Login, Severity};
use crate::{EngineError, beginning, properties};
use kafka::{
    Client, ClusterDescription, Event, Kind, ListedOffset, NewTopic, OffsetQuery, Queue,
    TopicDescription, certificate, code,
};
use std::ffi::{CStr, CString};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// The brokers' description of themselves and of the topics of all logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// The identity of the cluster.
    pub cluster_id: String,
    /// Its living brokers.
    pub brokers_count: usize,
    /// A description for each log, in the settings' order.
    pub topics: Vec<Topic>,
}

/// A topic as the brokers describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// The name.
    pub name: String,
    /// The reason why there is no description; none if there is.
    pub fault: Option<String>,
    /// Whether the fault is that the topic does not exist.
    pub is_missing: bool,
    /// The upper half of epochs.
    pub topic_id: u32,
    /// The number of partitions.
    pub partitions_count: usize,
    /// Partitions without a leader.
    pub leaderless: usize,
    /// The least number of copies of a partition.
    pub replicas: usize,
    /// The least number of complete copies of a partition.
    pub in_sync: usize,
    /// The topic's options, as far as they may be read.
    pub options: Vec<(String, String)>,
}

/// Something that a topic lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lack {
    /// The topic's name.
    pub topic: String,
    /// Whether a node may run nevertheless if the operator allows weak topics: records may be lost,
    /// but not in silence.
    pub may_be_allowed: bool,
    /// A sentence: the present value, and the right one.
    pub text: String,
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "topic {}: {}", self.topic, self.text)
    }
}

/// Copies of each partition that survive the loss of a broker.
pub const REPLICAS: usize = 3;
/// Complete copies without which a broker must refuse records.
pub const IN_SYNC_MIN: usize = 2;
/// The time in which all brokers know of a topic that was just created.
const NEWS_PATIENCE: Duration = Duration::from_secs(5);
/// The time between two questions about it.
const NEWS_EVERY: Duration = Duration::from_millis(100);
/// The time for which the control topic keeps the removal of a key.
pub const REMOVED_KEPT_DAYS: u64 = 30;

/// The time after which a compacted topic closes a segment, in milliseconds.
const SEGMENT_MS: u64 = 3_600 * 1_000;

/// Asks the brokers about themselves and the topics of all logs.
///
/// # Errors
/// A setting is not valid, or no broker answers in time.
pub fn describe(settings: &EngineSettings, timeout: Duration) -> Result<Description, EngineError> {
    describe_with(&Asker::new(settings, timeout)?, settings)
}

/// Like [`describe`], of topics that should exist: some may have been created a moment ago, and not
/// all brokers know of them. So the brokers are asked again for some seconds while one is missing.
///
/// # Errors
/// Those of [`describe`].
pub fn describe_existing(
    settings: &EngineSettings,
    timeout: Duration,
) -> Result<Description, EngineError> {
    let asker = Asker::new(settings, timeout)?;
    let is_missing = |found: &Description| found.topics.iter().any(|topic| topic.is_missing);
    ask_while(is_missing, asker.patience(), || describe_with(&asker, settings))
}

/// Asks again while something is missing in the answer, for as long and as often as that. The last
/// answer.
fn ask_while<T>(
    is_missing: impl Fn(&T) -> bool,
    (patience, every): (Duration, Duration),
    mut ask: impl FnMut() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let known_at = Instant::now() + patience;
    loop {
        let answer = ask()?;
        if !is_missing(&answer) || Instant::now() >= known_at {
            return Ok(answer);
        }
        thread::sleep(every);
    }
}

fn describe_with(asker: &Asker, settings: &EngineSettings) -> Result<Description, EngineError> {
    let cluster = asker.cluster()?;
    let names: Vec<&str> = settings.logs.iter().map(|log| log.topic.as_str()).collect();
    let mut described = Vec::new();
    if !names.is_empty() {
        asker.client.describe_topics(&names, asker.timeout_ms(), 0, &asker.queue);
        described = asker.answer(|event| match event {
            Event::Topics { answer, .. } => Some(answer),
            _ => None,
        })?;
    }
    let mut topics = Vec::new();
    for name in names {
        let found = described.iter().find(|topic: &&TopicDescription| topic.name == name);
        let mut topic = Topic::of(name, found);
        if topic.fault.is_none() {
            asker.client.describe_topic_options(name, asker.timeout_ms(), 0, &asker.queue)?;
            // Without the right to read them they stay empty.
            let options = asker.answer(|event| match event {
                Event::TopicOptions { answer, .. } => Some(answer),
                _ => None,
            });
            topic.options = options.unwrap_or_default();
        }
        topics.push(topic);
    }
    Ok(Description { cluster_id: cluster.id, brokers_count: cluster.brokers, topics })
}

/// Creates the topics of all logs that do not exist yet, as [`lacks`] wants them, and returns the
/// names of those that it created. With fewer brokers than [`REPLICAS`] they have fewer copies.
///
/// # Errors
/// A setting is not valid, no broker answers in time, or a broker refuses a topic.
pub fn create(settings: &EngineSettings, timeout: Duration) -> Result<Vec<String>, EngineError> {
    let found = describe(settings, timeout)?;
    let mut missing = Vec::new();
    for (topic, log) in found.topics.iter().zip(&settings.logs) {
        if !topic.is_missing {
            continue;
        }
        let mut options = vec![("max.message.bytes", message_bytes_min(settings).to_string())];
        options.extend(kept_options(log));
        let partitions = log.partitions.len();
        missing.push(safe_topic(&topic.name, partitions, found.brokers_count, options));
    }
    create_topics(settings, &missing, timeout)
}

/// The options that say what the topic of a log keeps.
fn kept_options(log: &EngineLog) -> Vec<(&'static str, String)> {
    if log.is_compacted {
        return vec![
            ("cleanup.policy", "compact".to_owned()),
            ("min.compaction.lag.ms", beginning::lag_ms_wanted(log).to_string()),
            // Only closed segments are compacted, and a start reads the topic from its beginning.
            ("segment.ms", SEGMENT_MS.to_string()),
        ];
    }
    let mut options = vec![("cleanup.policy", "delete".to_owned())];
    if log.age_ms.is_some() {
        // A starting node reads so far back.
        options.push(("retention.ms", beginning::kept_ms_wanted(log).to_string()));
    }
    options
}

/// Creates the control topic of a cluster, and returns whether it did not exist. A node that was
/// away for less than [`REMOVED_KEPT_DAYS`] learns of every removed key.
///
/// # Errors
/// Those of [`create`].
pub fn create_control(
    settings: &EngineSettings,
    name: &str,
    timeout: Duration,
) -> Result<bool, EngineError> {
    let asker = Asker::new(settings, timeout)?;
    let cluster = asker.cluster()?;
    let removed_kept_ms = REMOVED_KEPT_DAYS * 24 * 3_600 * 1_000;
    let options = vec![
        ("cleanup.policy", "compact".to_owned()),
        ("delete.retention.ms", removed_kept_ms.to_string()),
        // Only closed segments are compacted, and a start reads the topic from its beginning.
        ("segment.ms", SEGMENT_MS.to_string()),
    ];
    let topic = safe_topic(name, 1, cluster.brokers, options);
    Ok(!create_topics(settings, &[topic], timeout)?.is_empty())
}

/// A topic with copies at several brokers, as far as there are so many, that loses no acknowledged
/// record. `options` are those beside.
fn safe_topic(
    name: &str,
    partitions: usize,
    brokers_count: usize,
    mut options: Vec<(&str, String)>,
) -> NewTopic {
    let replicas = REPLICAS.min(brokers_count.max(1));
    options.extend([
        ("message.timestamp.type", "LogAppendTime".to_owned()),
        ("unclean.leader.election.enable", "false".to_owned()),
        ("min.insync.replicas", IN_SYNC_MIN.min(replicas.div_ceil(2)).to_string()),
    ]);
    NewTopic {
        name: name.to_owned(),
        partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
        replicas: i32::try_from(replicas).unwrap_or(1),
        options: options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// The offset behind the last record of the only partition of a topic.
///
/// # Errors
/// The topic does not exist or has several partitions, or no broker answers in time.
pub(crate) fn end_of(
    settings: &EngineSettings,
    topic: &str,
    timeout: Duration,
) -> Result<u64, EngineError> {
    let asker = Asker::new(settings, timeout)?;
    let is_missing = |found: &Topic| found.is_missing;
    let topic_of = ask_while(is_missing, asker.patience(), || asker.topic(topic))?;
    if let Some(fault) = topic_of.fault {
        let fault = if topic_of.is_missing { "it does not exist".to_owned() } else { fault };
        return Err(EngineError(format!("topic {topic}: {fault}")));
    }
    if topic_of.partitions_count != 1 {
        let found = topic_of.partitions_count;
        return Err(EngineError(format!("topic {topic}: it has {found} partitions, not one")));
    }
    let name = CString::new(topic)
        .map_err(|_| EngineError("engine: a topic's name has a zero byte".to_owned()))?;
    // The leader may learn of a new topic after the broker that described it.
    let is_early = |end: &Result<u64, kafka::Error>| end.as_ref().is_err_and(is_early);
    Ok(ask_while(is_early, asker.patience(), || asker.end_of(&name))??)
}

/// Whether the brokers do not know all of a topic yet.
fn is_early(error: &kafka::Error) -> bool {
    [code::UNKNOWN_TOPIC, code::NO_LEADER, code::NOT_LEADER].contains(&error.code)
}

/// Creates topics with any options, and returns the names of those that did not exist.
///
/// # Errors
/// Those of [`create`].
pub fn create_topics(
    settings: &EngineSettings,
    topics: &[NewTopic],
    timeout: Duration,
) -> Result<Vec<String>, EngineError> {
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let asker = Asker::new(settings, timeout)?;
    asker.client.create_topics(topics, asker.timeout_ms(), &asker.queue)?;
    asker.topic_results(code::TOPIC_EXISTS)
}

/// Deletes a topic with all its records, and returns whether it existed.
///
/// # Errors
/// Those of [`create`].
pub fn delete_topic(
    settings: &EngineSettings,
    name: &str,
    timeout: Duration,
) -> Result<bool, EngineError> {
    let asker = Asker::new(settings, timeout)?;
    asker.client.delete_topic(name, asker.timeout_ms(), &asker.queue)?;
    Ok(!asker.topic_results(code::UNKNOWN_TOPIC)?.is_empty())
}

/// Compares the topics with the settings, and returns the faults, the graver first.
pub fn lacks(settings: &EngineSettings, description: &Description) -> Vec<Lack> {
    let mut lacks = Vec::new();
    for (topic, log) in description.topics.iter().zip(&settings.logs) {
        let mut lack = |may_be_allowed, text: String| {
            lacks.push(Lack { topic: topic.name.clone(), may_be_allowed, text });
        };
        if let Some(fault) = &topic.fault {
            lack(
                false,
                if topic.is_missing { "it does not exist".to_owned() } else { fault.clone() },
            );
            continue;
        }
        let (found, wanted) = (topic.partitions_count, log.partitions.len());
        if found != wanted {
            lack(false, format!("it has {found} partitions, and the log has {wanted}"));
        }
        let bytes = message_bytes_min(settings);
        if let Some(found) = topic.number("max.message.bytes").filter(|found| *found < bytes) {
            lack(false, format!("max.message.bytes is {found}; at least {bytes} are needed"));
        }
        if topic.replicas < REPLICAS {
            let found = topic.replicas;
            lack(true, format!("it has {found} copies of a partition; {REPLICAS} survive a loss"));
        }
        if let Some(found) = topic.number("min.insync.replicas")
            && found < IN_SYNC_MIN as u64
        {
            lack(true, format!("min.insync.replicas is {found}; it should be {IN_SYNC_MIN}"));
        }
        if topic.option("unclean.leader.election.enable") == Some("true") {
            lack(
                true,
                "unclean.leader.election.enable is true; an election may lose records".to_owned(),
            );
        }
        lacks_of_kept(topic, log, &mut lack);
        if topic.option("message.timestamp.type").is_some_and(|it| it != "LogAppendTime") {
            // A producer's clock could make a record old enough for compaction before nodes have
            // read it.
            lack(
                !log.is_compacted,
                "message.timestamp.type is not LogAppendTime; producers' clocks decide how long \
                 repetitions are recognised"
                    .to_owned(),
            );
        }
    }
    lacks.sort_by_key(|lack| lack.may_be_allowed);
    lacks
}

/// Finds faults of the options that say which records a topic keeps.
fn lacks_of_kept(topic: &Topic, log: &EngineLog, lack: &mut dyn FnMut(bool, String)) {
    let kept_ms_min = beginning::kept_ms_min(log);
    if let Some(policy) = topic.option("cleanup.policy") {
        let has = |word: &str| policy.split(',').any(|it| it.trim() == word);
        match (log.is_compacted, has("compact"), has("delete")) {
            (true, true, true) => lack(
                false,
                format!("cleanup.policy is {policy}; retained messages would vanish by age"),
            ),
            (true, false, _) => lack(
                false,
                format!("cleanup.policy is {policy}; the log has compact = true, so compact"),
            ),
            (false, true, _) => lack(
                false,
                format!(
                    "cleanup.policy is {policy}; without compact = true the log needs every \
                     message, so delete"
                ),
            ),
            (true, true, false) | (false, false, _) => {}
        }
    }
    if !log.is_compacted {
        if let Some(found) = topic.number("retention.ms").filter(|found| *found < kept_ms_min) {
            lack(
                true,
                format!(
                    "retention.ms is {found}; a node that starts needs {kept_ms_min} to recognise \
                     repetitions"
                ),
            );
        }
        return;
    }
    let lag_ms_min = beginning::lag_ms_min(log);
    for (option, why) in [
        ("min.compaction.lag.ms", "recognise repetitions"),
        ("delete.retention.ms", "learn which retained messages were removed"),
    ] {
        if let Some(found) = topic.number(option).filter(|found| *found < lag_ms_min) {
            lack(
                false,
                format!("{option} is {found}; a node that starts needs {lag_ms_min} to {why}"),
            );
        }
    }
}

/// The time for which a topic with these options keeps all records, in milliseconds. None if it is
/// not known: a bound on bytes may remove them before.
pub(crate) fn kept_ms(options: &[(String, String)], is_compacted: bool) -> Option<u64> {
    let value = |name: &str| {
        let found = options.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.parse::<i64>().ok())
    };
    if is_compacted {
        return u64::try_from(value("min.compaction.lag.ms")?).ok();
    }
    // Below 0 there is no bound.
    let time_ms = value("retention.ms")?;
    value("retention.bytes").filter(|bytes| *bytes < 0)?;
    Some(u64::try_from(time_ms).unwrap_or(u64::MAX))
}

/// The longest record with its key and headers.
fn message_bytes_min(settings: &EngineSettings) -> u64 {
    u64::from(settings.payload_bytes_max) + (64 << 10)
}

impl Topic {
    fn of(name: &str, found: Option<&TopicDescription>) -> Topic {
        let error = match found {
            Some(found) => found.result.clone().err(),
            None => Some(kafka::Error { code: code::UNKNOWN_TOPIC, text: "no answer".to_owned() }),
        };
        let partitions = found.map_or(&[][..], |found| &found.partitions);
        Topic {
            name: name.to_owned(),
            is_missing: error.as_ref().is_some_and(|error| error.code == code::UNKNOWN_TOPIC),
            fault: error.map(|error| error.text),
            topic_id: beginning::topic_id(found.map_or(0, |found| found.id), name),
            partitions_count: partitions.len(),
            leaderless: partitions.iter().filter(|it| it.leader.is_none()).count(),
            replicas: partitions.iter().map(|it| it.replicas.len()).min().unwrap_or(0),
            in_sync: partitions.iter().map(|it| it.in_sync.len()).min().unwrap_or(0),
            options: Vec::new(),
        }
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.option(name)?.parse().ok()
    }
}

/// The reason in librdkafka's line about a connection; none for another line. Some reasons are only
/// in lines: a broker that closes the connection, as one with TLS does with a client without.
fn failure(line: &str) -> Option<&str> {
    line.strip_prefix("FAIL: ")?.split_once("]: ").map(|(_, reason)| reason)
}

/// A client for questions, and the time that it has.
struct Asker {
    client: Client,
    queue: Queue,
    main: Queue,
    token: Login,
    log: LogLines,
    end: Instant,
}

/// The brokers' reasons for having no answer yet.
#[derive(Default)]
struct Problem {
    last: Option<String>,
    /// A broker refuses this client, or this client a broker.
    is_refusal: bool,
    are_all_down: bool,
}

impl Problem {
    /// Takes an event of the client, and returns the reason if it is a new one.
    fn meet(&mut self, event: Event) -> Option<String> {
        let (text, is_refusal) = match event {
            Event::Error { error, .. } if error.code == code::ALL_BROKERS_DOWN => {
                self.are_all_down = true;
                return None;
            }
            // The line about the certificate has the reason.
            Event::Error { error, .. } if certificate::is_refusal(&error.text) => return None,
            Event::Error { error, .. } => {
                let is_refusal = [code::TLS, code::AUTHENTICATION].contains(&error.code);
                (error.text, is_refusal)
            }
            Event::Line { text, .. } => match certificate::refusal(&text) {
                Some(refusal) => (refusal, true),
                None if certificate::is_refusal(&text) => return None,
                None => (failure(&text)?.to_owned(), false),
            },
            _ => return None,
        };
        // Brokers refuse a client's certificate after the handshake, by an alert.
        let is_refusal = is_refusal || text.contains("alert") && text.contains("certificate");
        // librdkafka ends a text with the time that the attempt took.
        let text = text.split(" (after ").next().unwrap_or(&text).to_owned();
        self.is_refusal |= is_refusal;
        let is_new = self.last.as_ref() != Some(&text);
        is_new.then(|| self.last.insert(text).clone())
    }

    /// Whether another attempt has the same result.
    fn is_final(&self) -> bool {
        self.is_refusal && self.are_all_down
    }
}

impl Asker {
    fn new(settings: &EngineSettings, timeout: Duration) -> Result<Asker, EngineError> {
        let client = Client::new(Kind::Producer, &properties::questions(settings))?;
        let (queue, main) = (client.new_queue(), client.main_queue());
        let (token, log) = (settings.security.login.clone(), settings.log.clone());
        Ok(Asker { client, queue, main, token, log, end: Instant::now() + timeout })
    }

    /// The time in which to ask for news, and that between two questions. The last answer has time.
    fn patience(&self) -> (Duration, Duration) {
        let left = self.end.saturating_duration_since(Instant::now());
        (NEWS_PATIENCE.min(left / 2), NEWS_EVERY)
    }

    /// The offset behind the last record of a topic's first partition, or the broker's refusal.
    fn end_of(&self, topic: &CStr) -> Result<Result<u64, kafka::Error>, EngineError> {
        let partition = [(topic, 0, OffsetQuery::Latest)];
        self.client.list_offsets(&partition, self.timeout_ms(), 0, &self.queue);
        let listed = self.answer(|event| match event {
            Event::Offsets { answer, .. } => Some(Ok(answer)),
            _ => None,
        })?;
        let end = listed.and_then(|mut listed: Vec<ListedOffset>| {
            listed.pop().map_or(Ok(None), |listed| listed.offset)
        });
        Ok(end.map(|end| end.map_or(0, |(offset, _)| offset)))
    }

    fn timeout_ms(&self) -> i32 {
        let left = self.end.saturating_duration_since(Instant::now());
        i32::try_from(left.as_millis()).unwrap_or(i32::MAX).max(1)
    }

    /// The first answer of a kind.
    fn answer<T>(
        &self,
        select: impl Fn(Event) -> Option<Result<T, kafka::Error>>,
    ) -> Result<T, EngineError> {
        let mut problem = Problem::default();
        loop {
            while let Some(event) = self.main.poll(0) {
                if event == Event::TokenWanted {
                    self.give_token()?;
                } else if let Some(text) = problem.meet(event) {
                    self.log.write(Severity::Warning, &text);
                }
            }
            if problem.is_final() {
                return Err(EngineError(problem.last.unwrap_or_default()));
            }
            if let Some(answer) = self.queue.poll(20).and_then(&select) {
                return answer.map_err(|error| {
                    let because = problem.last.map_or(String::new(), |text| format!(" ({text})"));
                    EngineError(format!("the engine: {error}{because}"))
                });
            }
            if Instant::now() > self.end + Duration::from_secs(1) {
                let because = problem.last.unwrap_or_else(|| "no reason is known".to_owned());
                return Err(EngineError(format!("the engine does not answer: {because}")));
            }
        }
    }

    /// The brokers' description of themselves.
    fn cluster(&self) -> Result<ClusterDescription, EngineError> {
        self.client.describe_cluster(self.timeout_ms(), &self.queue);
        self.answer(|event| match event {
            Event::Cluster(answer) => Some(answer),
            _ => None,
        })
    }

    /// A topic as a broker describes it now, without its options.
    fn topic(&self, name: &str) -> Result<Topic, EngineError> {
        self.client.describe_topics(&[name], self.timeout_ms(), 0, &self.queue);
        let described = self.answer(|event| match event {
            Event::Topics { answer, .. } => Some(answer),
            _ => None,
        })?;
        Ok(Topic::of(name, described.first()))
    }

    /// The names for which a command did something; those with the error `usual` are left out.
    fn topic_results(&self, usual: i32) -> Result<Vec<String>, EngineError> {
        let results = self.answer(|event| match event {
            Event::TopicResults(answer) => Some(answer),
            _ => None,
        })?;
        let mut names = Vec::new();
        for (name, result) in results {
            match result {
                Ok(()) => names.push(name),
                Err(error) if error.code == usual => {}
                Err(error) => return Err(EngineError(format!("topic {name}: {error}"))),
            }
        }
        Ok(names)
    }

    fn give_token(&self) -> Result<(), EngineError> {
        let Login::Token(source) = &self.token else { return Ok(()) };
        let token = source().map_err(EngineError)?;
        let expires_ms = token.expires_ms.cast_signed();
        Ok(self.client.set_token(&token.text, &token.principal, expires_ms)?)
    }
}

#[cfg(test)]
mod tests;
