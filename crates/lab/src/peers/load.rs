//! The load on every server: many subscribers and one publisher, as a protocol of the benchmark's
//! engine on one worker.
//!
//! Place: between `work` and a `Dialect`. The worker does not sleep during a measurement, so that
//! no server pays for waking it and no message waits for it. Invariants: each message is checked
//! against the topic of its subscriber and the messages before it; a lost connection is an error
//! of the measurement, with the server's reason.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use bench::engine::{Clients, Common, Handle, Protocol, Tally, Turn};
use bench::payload::{Clock, Header, seed_from_entropy, topic_hash};
use bench::source::Sources;

use super::dialect::{Dialect, Party, Role, Unit};

/// Maximum number of connections in progress: below the backlog of every server.
const CONNECTING_MAX: u32 = 64;
/// Source addresses, taken in turn.
const SOURCES: &str = "127.0.{1..100}.1";
/// Time without a further connection after which a measurement fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks at the counts.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum unsent bytes of the publisher; beyond it, the server counts as too slow.
const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The place of the publisher among the clients; the subscribers follow.
const PUBLISHER: u32 = 0;

/// The topics of subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topics {
    /// All to one.
    Common,
    /// Each to its own.
    Own,
}

impl Topics {
    /// The topic of the subscriber of this number; letters and digits, which all servers take.
    fn name(self, number: u64) -> String {
        match self {
            Topics::Common => "hot".to_owned(),
            Topics::Own => format!("topic{number:06}"),
        }
    }
}

/// Publications at a steady rate, each on a random topic.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Messages per second.
    pub rate: f64,
    /// Number of messages.
    pub count: u64,
    /// Number of topics.
    pub topics: u64,
    /// Size of a payload in bytes.
    pub size: usize,
}

/// All connections to one server.
pub struct Load {
    handle: Handle,
    orders: Arc<Mutex<Orders>>,
    busy: Arc<AtomicBool>,
}

/// The orders to the worker.
struct Orders {
    topics: Topics,
    /// The publications, and the time of the first one in nanoseconds.
    schedule: Option<(Schedule, u64)>,
}

impl Load {
    /// Connects the publisher.
    pub fn new(
        remote: SocketAddr,
        dialect: Box<dyn Dialect>,
        clients: u64,
    ) -> anyhow::Result<Load> {
        let mut common = Common::new(&[format!("ws://{remote}")])?;
        common.threads = 1;
        common.local_addresses =
            Sources::parse_addresses(&[SOURCES.to_owned()]).map_err(anyhow::Error::msg)?;
        let busy = common.busy_poll.clone();
        let orders = Arc::new(Mutex::new(Orders { topics: Topics::Own, schedule: None }));
        let members = Members {
            dialect,
            orders: orders.clone(),
            members: Vec::new(),
            connections: 0,
            run: seed_from_entropy() as u32,
            sent: 0,
            sequence: 0,
        };
        let handle = Clients::start(&common, clients + 1, CONNECTING_MAX, members)?;
        let mut load = Load { handle, orders, busy };
        load.grow(0)?;
        Ok(load)
    }

    /// Sets the topics of new subscribers.
    pub fn set_topics(&mut self, topics: Topics) {
        self.orders().topics = topics;
    }

    /// Connects subscribers as fast as the server accepts them, until there are `count`. Returns
    /// the time during which connects were in progress, in seconds.
    pub fn grow(&mut self, count: u64) -> anyhow::Result<f64> {
        self.take_tally();
        let missing = count + 1 - self.handle.clients();
        let wanted = self.handle.count(|tally| tally.connects) + missing;
        self.busy.store(true, Ordering::Relaxed);
        self.handle.set_clients(count + 1);
        let made = self.wait_for(PATIENCE, wanted, |tally| tally.connects)?;
        if made < wanted {
            bail!("{} of {missing} connections are missing, and no more come", wanted - made);
        }
        Ok(self.take_tally().connecting.seconds())
    }

    /// Ends the newest subscribers until `count` are left.
    pub fn shrink(&mut self, count: u64) {
        self.handle.set_clients(count + 1);
    }

    /// Publishes, and waits until `expected` messages have arrived or none arrives for `patience`.
    pub fn deliver(
        &mut self,
        schedule: Schedule,
        expected: u64,
        patience: Duration,
    ) -> anyhow::Result<Tally> {
        self.take_tally();
        let wanted = self.handle.count(|tally| tally.received) + expected;
        self.busy.store(true, Ordering::Relaxed);
        self.orders().schedule = Some((schedule, Clock::Monotonic.now_ns()));
        self.wait_for(patience, wanted, |tally| tally.received)?;
        Ok(self.take_tally())
    }

    /// Lets this time pass; the worker sleeps.
    pub fn stay(&mut self, time: Duration) -> anyhow::Result<()> {
        self.busy.store(false, Ordering::Relaxed);
        std::thread::sleep(time);
        self.check()
    }

    fn take_tally(&mut self) -> Tally {
        self.handle.snapshot().interval
    }

    fn orders(&self) -> std::sync::MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a count is `wanted`, or has not grown for `patience`. Returns the count.
    fn wait_for(
        &mut self,
        patience: Duration,
        wanted: u64,
        pick: fn(&Tally) -> u64,
    ) -> anyhow::Result<u64> {
        let mut last = (self.handle.count(pick), Instant::now());
        while last.0 < wanted && last.1.elapsed() < patience {
            std::thread::sleep(LOOK);
            self.check()?;
            let now = self.handle.count(pick);
            if now > last.0 {
                last = (now, Instant::now());
            }
        }
        Ok(last.0)
    }

    /// Fails if a connection was lost, or if the server does not read.
    fn check(&mut self) -> anyhow::Result<()> {
        let failures =
            |tally: &Tally| tally.disconnects + tally.connects_failed + tally.unacknowledged;
        if self.handle.count(failures) > 0 || self.handle.is_finished() {
            let trouble = self.handle.total().trouble.clone();
            bail!("a connection failed: {}", trouble.unwrap_or_default());
        }
        Ok(())
    }
}

/// The clients of the worker.
struct Members {
    dialect: Box<dyn Dialect>,
    orders: Arc<Mutex<Orders>>,
    /// Clients by place: the publisher, then the subscribers.
    members: Vec<Member>,
    connections: u32,
    run: u32,
    /// Sent messages of the current schedule.
    sent: u64,
    sequence: u64,
}

#[derive(Default)]
struct Member {
    role: Role,
    topic: String,
    topic_hash: u32,
    number: u32,
    stage: u8,
    last_sequence: u64,
}

impl Members {
    fn orders(&self) -> std::sync::MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&mut self, topic: &str, size: usize, intended_ns: u64, turn: &mut Turn<'_>) {
        self.sequence += 1;
        let header = Header {
            clock: Clock::Monotonic,
            publisher: self.run,
            topic_hash: topic_hash(topic),
            intended_ns,
            sequence: self.sequence,
        };
        let mut payload = Vec::new();
        header.write(size, turn.random, &mut payload);
        self.dialect.publish(topic, &payload, turn.to(PUBLISHER));
    }
}

impl Protocol for Members {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        let (role, topic) = match place.checked_sub(PUBLISHER + 1) {
            None => (Role::Publisher, String::new()),
            Some(number) => (Role::Subscriber, self.orders().topics.name(number.into())),
        };
        let at = place as usize;
        if self.members.len() <= at {
            self.members.resize_with(at + 1, Member::default);
        }
        self.members[at] = Member {
            role,
            topic_hash: topic_hash(&topic),
            topic,
            number: self.connections,
            ..Member::default()
        };
        self.connections += 1;
        if self.dialect.begin(&mut self.members[at].party(), turn.to(place)) {
            turn.opened();
        }
    }

    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let member = &mut self.members[place as usize];
        let (mut taken, mut out) = (0, Vec::new());
        while taken < bytes.len() {
            let unread = &mut bytes[taken..];
            let found = self.dialect.next(&mut member.party(), unread, &mut out);
            let found = found.map_err(|error| format!("{:?}: {error:#}", member.role))?;
            let Some((length, unit)) = found else {
                break;
            };
            match unit {
                Unit::Nothing => {}
                Unit::Live => turn.opened(),
                Unit::Message(payload) => {
                    member.count(Header::read(&unread[payload]), self.run, turn);
                }
            }
            taken += length;
        }
        if !out.is_empty() {
            turn.to(place).extend_from_slice(&out);
        }
        Ok(taken)
    }

    fn lost(&mut self, _place: u32, _turn: &mut Turn<'_>) {}

    fn wake_ns(&self) -> Option<u64> {
        let orders = self.orders();
        let (schedule, start_ns) = orders.schedule?;
        Some(start_ns + schedule.due_ns(self.sent))
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        let orders = self.orders();
        let (topics, Some((schedule, start_ns))) = (orders.topics, orders.schedule) else {
            return;
        };
        drop(orders);
        let intended_ns = start_ns + schedule.due_ns(self.sent);
        if intended_ns > turn.now_ns {
            return;
        }
        let topic = topics.name(turn.random.below(schedule.topics));
        self.publish(&topic, schedule.size, intended_ns, turn);
        self.sent += 1;
        if self.sent == schedule.count {
            self.sent = 0;
            self.orders().schedule = None;
        }
        if turn.backlog_bytes() > BACKLOG_BYTES_MAX {
            turn.tally.unacknowledged += 1;
            turn.tally.trouble = Some("the server does not read the publications".to_owned());
        }
    }
}

impl Schedule {
    /// The time of a message after the first one, in nanoseconds.
    fn due_ns(&self, number: u64) -> u64 {
        (number as f64 * 1e9 / self.rate) as u64
    }
}

impl Member {
    fn party(&mut self) -> Party<'_> {
        Party { role: self.role, topic: &self.topic, number: self.number, stage: &mut self.stage }
    }

    /// Counts a message: received if it is ours, on the right topic, and new; else foreign.
    fn count(&mut self, header: Option<Header>, run: u32, turn: &mut Turn<'_>) {
        let is_ours = |header: &Header| {
            (header.publisher, header.topic_hash) == (run, self.topic_hash)
                && header.sequence > self.last_sequence
        };
        match header.filter(is_ours) {
            Some(header) => {
                self.last_sequence = header.sequence;
                turn.tally.received += 1;
                let latency_ns = turn.now_ns.saturating_sub(header.intended_ns);
                turn.tally.latency.record_ns(latency_ns);
            }
            None => turn.tally.foreign += 1,
        }
    }
}
