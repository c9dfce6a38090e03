//! A node that is small enough to be obviously correct: two logs, what it has granted on its only
//! connection, and a ledger of everything that was ever appended.
//!
//! Place: the server's side of random runs. It takes frames and returns frames, as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The number of logs; topic `t<n>` lives in log n modulo this.
pub const PARTITIONS: usize = 2;

/// A position: epoch and offset.
pub type At = (u64, u64);

/// One appended message.
#[derive(Clone, Debug)]
pub struct Record {
    pub offset: u64,
    pub prev: u64,
    pub topic: String,
    pub payload: String,
}

/// One partition.
#[derive(Debug, Default)]
pub struct Log {
    pub epoch: u64,
    pub head: u64,
    /// Everything up to here is gone.
    pub evicted: u64,
    pub records: Vec<Record>,
    /// Everything that was ever appended, by epoch.
    pub ledger: BTreeMap<u64, Vec<Record>>,
}

/// A subscription of the connection.
#[derive(Clone, Debug)]
struct Grant {
    filter: String,
    alias: u64,
}

/// The node.
#[derive(Debug)]
pub struct Model {
    pub logs: Vec<Log>,
    /// The first position of each subscription number: everything after it is the client's.
    pub begins: BTreeMap<(u64, usize), At>,
    /// Sequences and positions of each producer.
    producers: BTreeMap<String, BTreeMap<u64, At>>,
    tickets: BTreeMap<String, Vec<(u64, String)>>,
    grants: BTreeMap<u64, Grant>,
    aliases: u64,
    /// The next publication of once is refused for the moment.
    pub refuses_next: bool,
    /// The first sequence that was refused: what follows it is refused too.
    held: Option<u64>,
    /// The next ticket's subscriptions begin at older cursors than the client's.
    pub rewinds: bool,
    /// The next ticket is refused.
    pub forgets_tickets: bool,
    has_said_go_away: bool,
    /// A mistake of the client.
    pub complaint: Option<String>,
}

pub fn partition_of(topic: &str) -> usize {
    topic.trim_start_matches('t').parse::<usize>().unwrap_or(0) % PARTITIONS
}

pub fn is_filter(name: &str) -> bool {
    name == "#" || name == "+"
}

impl Model {
    pub fn new() -> Model {
        let log = || Log { epoch: 7, ..Log::default() };
        Model {
            logs: (0..PARTITIONS).map(|_| log()).collect(),
            begins: BTreeMap::new(),
            producers: BTreeMap::new(),
            tickets: BTreeMap::new(),
            grants: BTreeMap::new(),
            aliases: 0,
            refuses_next: false,
            held: None,
            rewinds: false,
            forgets_tickets: false,
            has_said_go_away: false,
            complaint: None,
        }
    }

    /// Begins another connection.
    pub fn connected(&mut self) {
        self.grants.clear();
        self.held = None;
        self.has_said_go_away = false;
    }

    /// Appends a message; returns its position, and the frames for the connection.
    pub fn append(&mut self, topic: &str, payload: &str) -> (At, Vec<Value>) {
        let partition = partition_of(topic);
        let log = &mut self.logs[partition];
        let ledger = log.ledger.entry(log.epoch).or_default();
        let prev = ledger.iter().rev().find(|it| it.topic == topic).map_or(0, |it| it.offset);
        log.head += 3;
        let record =
            Record { offset: log.head, prev, topic: topic.to_owned(), payload: payload.to_owned() };
        ledger.push(record.clone());
        log.records.push(record.clone());
        let epoch = log.epoch;
        let mut frames = Vec::new();
        if !self.has_said_go_away {
            for grant in self.grants.values().filter(|grant| grant.filter == topic) {
                frames.push(message(grant.alias, &record));
            }
            if self.grants.values().any(|grant| is_filter(&grant.filter)) {
                frames.push(named(partition, epoch, &record, None));
            }
        }
        ((epoch, record.offset), frames)
    }

    /// Drops the older half of a log.
    pub fn evict(&mut self, partition: usize) {
        let log = &mut self.logs[partition];
        let until = (log.evicted + log.head) / 2;
        log.evicted = until;
        log.records.retain(|record| record.offset > until);
    }

    /// Loses a log: another epoch begins. Returns the gaps of its subscribers.
    pub fn lose(&mut self, partition: usize) -> Vec<Value> {
        let log = &mut self.logs[partition];
        *log = Log {
            epoch: log.epoch + 1,
            head: 1,
            evicted: 1,
            records: Vec::new(),
            ledger: std::mem::take(&mut log.ledger),
        };
        let epoch = log.epoch;
        if self.has_said_go_away {
            return Vec::new();
        }
        let gap = |(number, grant): (&u64, &Grant)| {
            let is_filter = is_filter(&grant.filter);
            let concerns = is_filter || partition_of(&grant.filter) == partition;
            concerns.then(|| {
                json!({
                    "type": "gap", "subscription": number, "epoch": epoch, "to": 1,
                    "partition": is_filter.then_some(partition), "reason": "unknown_epoch",
                })
            })
        };
        self.grants.iter().filter_map(gap).collect()
    }

    /// Ends a subscription for the moment.
    pub fn unsubscribe_one(&mut self, choice: usize) -> Vec<Value> {
        if self.has_said_go_away {
            return Vec::new();
        }
        let numbers: Vec<u64> = self.grants.keys().copied().collect();
        let Some(number) = numbers.get(choice % numbers.len().max(1)) else { return Vec::new() };
        self.grants.remove(number);
        vec![json!({"type": "unsubscribed", "subscription": number, "code": 2500})]
    }

    /// Asks the client to leave.
    pub fn go_away(&mut self) -> Value {
        self.has_said_go_away = true;
        json!({"type": "go_away", "return_after_ms": 700})
    }

    /// Notes a frame that has reached the client: its first grant is where a subscription begins.
    pub fn delivered(&mut self, frame: &Value) {
        if frame["type"] != "subscribed" {
            return;
        }
        let number = frame["subscription"].as_u64().unwrap_or(0);
        let mut begin = |partition: usize, through: &Value| {
            let parts = through.as_str().and_then(|text| text.split_once(':'));
            let at = parts.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
            self.begins.entry((number, partition)).or_insert(at.unwrap_or_default());
        };
        if let Some(partitions) = frame["partitions"].as_array() {
            for (partition, at) in partitions.iter().enumerate() {
                begin(partition, &at["through"]);
            }
        } else if let Some(grant) = self.grants.get(&number) {
            begin(partition_of(&grant.filter), &frame["through"]);
        }
    }

    /// The answers to a client's frame.
    pub fn frame(&mut self, frame: &Value) -> Vec<Value> {
        match frame["type"].as_str().unwrap_or_default() {
            "hello" => self.hello(frame),
            "subscribe" => {
                let items = frame["items"].as_array().cloned().unwrap_or_default();
                let answers = items.iter().flat_map(|item| {
                    let number = item["subscription"].as_u64().unwrap_or(0);
                    let filter = item["filter"].as_str().unwrap_or_default().to_owned();
                    if self.has_said_go_away {
                        let reference = json!({"kind": "subscription", "id": number});
                        return vec![json!({
                            "type": "error", "reference": reference, "code": 503, "temporary": true,
                        })];
                    }
                    self.subscribe(number, filter, &item["start"])
                });
                answers.collect()
            }
            "unsubscribe" => {
                let numbers = frame["subscriptions"].as_array().cloned().unwrap_or_default();
                numbers.iter().for_each(|number| {
                    self.grants.remove(&number.as_u64().unwrap_or(0));
                });
                let ended = |number| json!({"type": "unsubscribed", "subscription": number});
                numbers.iter().map(ended).collect()
            }
            "publish" => self.publish(frame),
            "ping" => vec![json!({"type": "pong", "token": frame["token"]})],
            "ticket" => {
                let ticket = format!("{:08x}", self.tickets.len() + 1);
                let held = self.grants.iter().map(|(number, it)| (*number, it.filter.clone()));
                self.tickets.insert(ticket.clone(), held.collect());
                vec![json!({
                    "type": "ticket_issued", "request": frame["request"], "ticket": ticket,
                    "expires_ms": 500_000_000,
                })]
            }
            _ => Vec::new(),
        }
    }

    fn hello(&mut self, hello: &Value) -> Vec<Value> {
        let welcome = |resumed: Option<usize>| {
            json!({
                "type": "welcome", "ping_interval_s": 25, "ticket_lifetime_s": 600,
                "resumed": resumed,
            })
        };
        let Some(ticket) = hello["ticket"].as_str() else { return vec![welcome(None)] };
        let held = self.tickets.get(ticket).cloned();
        let Some(held) = held.filter(|_| !std::mem::take(&mut self.forgets_tickets)) else {
            return vec![welcome(None), json!({"type": "error", "code": 204, "temporary": true})];
        };
        let mut answers = vec![welcome(Some(held.len()))];
        let mut cursors = hello["cursors"].as_array().cloned().unwrap_or_default();
        if std::mem::take(&mut self.rewinds) {
            cursors.iter_mut().for_each(|cursor| self.rewind(cursor));
        }
        for (number, filter) in held {
            let of_it: Vec<&Value> =
                cursors.iter().filter(|at| at["subscription"] == json!(number)).collect();
            let start = if is_filter(&filter) {
                json!({"kind": "since_each", "positions": of_it})
            } else {
                let mut since = of_it.first().map_or_else(|| json!({}), |at| (*at).clone());
                since["kind"] = json!("since");
                since
            };
            answers.extend(self.subscribe(number, filter, &start));
        }
        answers
    }

    /// Moves a cursor back, as far as the log has its messages.
    fn rewind(&self, cursor: &mut Value) {
        let offset = cursor["offset"].as_str().and_then(|text| text.parse::<u64>().ok());
        let evicted = self.logs.iter().map(|log| log.evicted).max().unwrap_or(0);
        let back = offset.map(|offset| offset.saturating_sub(9).max(evicted).min(offset));
        cursor["offset"] = json!(back.unwrap_or(0).to_string());
    }

    fn subscribe(&mut self, number: u64, filter: String, start: &Value) -> Vec<Value> {
        self.aliases += 1;
        let alias = self.aliases;
        let grant = Grant { filter: filter.clone(), alias };
        if self.grants.values().any(|it| it.filter == filter) {
            let reference = json!({"kind": "subscription", "id": number});
            return vec![json!({"type": "error", "reference": reference, "code": 120})];
        }
        self.grants.insert(number, grant);
        let mut answers = Vec::new();
        let partitions: Vec<usize> = if is_filter(&filter) {
            (0..PARTITIONS).collect()
        } else {
            vec![partition_of(&filter)]
        };
        let mut beginnings = Vec::new();
        for partition in partitions {
            let log = &self.logs[partition];
            let asked = asked(start, partition);
            let (through, gap) = match asked {
                None => (log.head, None),
                Some((epoch, _)) if epoch != log.epoch => (log.evicted, Some("unknown_epoch")),
                Some((_, offset)) if offset < log.evicted => (log.evicted, Some("evicted")),
                Some((_, offset)) => (offset, None),
            };
            if asked.is_some_and(|(epoch, offset)| epoch == log.epoch && offset > log.head) {
                self.complaint = Some(format!("{filter} begins beyond the head: {start}"));
            }
            let of = is_filter(&filter).then_some(partition);
            beginnings.push(json!({
                "partition": partition, "through": format!("{}:{through}", log.epoch),
                "replaying": asked.is_some(), "continued": asked.is_some() && gap.is_none(),
            }));
            if let Some(reason) = gap {
                answers.push(json!({
                    "type": "gap", "subscription": number, "partition": of, "epoch": log.epoch,
                    "to": through, "reason": reason,
                }));
            }
            if asked.is_none() {
                continue;
            }
            for record in log.records.iter().filter(|record| record.offset > through) {
                if is_filter(&filter) {
                    answers.push(named(partition, log.epoch, record, Some(number)));
                } else if record.topic == filter {
                    answers.push(message(alias, record));
                }
            }
            answers.push(json!({
                "type": "caught_up", "subscription": number, "partition": of, "through": log.head,
            }));
        }
        let mut granted = json!({"type": "subscribed", "subscription": number});
        if is_filter(&filter) {
            granted["partitions"] = json!(beginnings);
        } else if let Some(only) = beginnings.first() {
            for key in ["through", "replaying", "continued"] {
                granted[key] = only[key].clone();
            }
            granted["alias"] = json!(alias);
        }
        answers.insert(0, granted);
        answers
    }

    fn publish(&mut self, frame: &Value) -> Vec<Value> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (topic, payload) = (text(&frame["topic"]), text(&frame["payload"]));
        let published = |at: At, duplicate: bool| {
            json!({
                "type": "published", "request": frame["request"],
                "position": format!("{}:{}", at.0, at.1), "duplicate": duplicate,
            })
        };
        let refused = |code: u64| {
            let reference = json!({"kind": "request", "id": frame["request"]});
            vec![json!({
                "type": "error", "reference": reference, "code": code, "temporary": code == 504,
            })]
        };
        let Some(id) = frame["producer"]["id"].as_str().map(str::to_owned) else {
            let (at, mut frames) = self.append(&topic, &payload);
            frames.push(published(at, false));
            return frames;
        };
        let sequence = text(&frame["producer"]["sequence"]).parse().unwrap_or(0);
        let known = self.producers.entry(id.clone()).or_default();
        if let Some(at) = known.get(&sequence) {
            let at = *at;
            return vec![published(at, true)];
        }
        let is_behind = self.held.is_some_and(|held| sequence > held);
        if is_behind || std::mem::take(&mut self.refuses_next) {
            self.held = self.held.min(Some(sequence)).or(Some(sequence));
            return refused(504);
        }
        if known.last_key_value().is_some_and(|(last, _)| *last > sequence) {
            self.complaint = Some(format!("sequence {sequence} came after a later one"));
            return refused(402);
        }
        self.held = None;
        let (at, mut frames) = self.append(&topic, &payload);
        self.producers.entry(id).or_default().insert(sequence, at);
        frames.push(published(at, false));
        frames
    }
}

/// The position that a start names for a partition.
fn asked(start: &Value, partition: usize) -> Option<At> {
    let number = |value: &Value| value.as_str()?.parse::<u64>().ok();
    let position = |value: &Value| Some((number(&value["epoch"])?, number(&value["offset"])?));
    match start["kind"].as_str() {
        Some("since") => position(start),
        Some("since_each") => start["positions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|at| at["partition"] == json!(partition))
            .and_then(position),
        _ => None,
    }
}

fn message(alias: u64, record: &Record) -> Value {
    json!({
        "type": "message", "alias": alias, "offset": record.offset, "prev": record.prev,
        "payload": record.payload,
    })
}

fn named(partition: usize, epoch: u64, record: &Record, address: Option<u64>) -> Value {
    json!({
        "type": "named_message", "topic": record.topic, "partition": partition, "epoch": epoch,
        "offset": record.offset, "prev": record.prev, "payload": record.payload,
        "subscription": address,
    })
}
