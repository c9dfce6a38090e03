//! A drain under load: whether every client gets a return time, and whether a message is lost.
//!
//! It starts a node with a log on disk, connects clients with the client library's own sessions
//! (groups share a topic, one client of some groups publishes), asks the operators' port for a
//! drain, follows each client until the node has ended, starts the node again, and has each client
//! return at its time. At the end every subscription must be complete, without a gap, and be beyond
//! everything that was acknowledged on its topic. Return times are compared with an even
//! distribution by the Kolmogorov-Smirnov distance.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use bench::engine::{Clients, Common, Handle, Protocol, Turn};
use bench::payload::Clock;
use bench::run::{Cores, Folder};
use bench::source::Sources;
use client::session::{Answer, Event, Session, SubscriptionId};
use client::{PublishOptions, Reason, Settings, Start, SubscribeOptions};

use crate::process::{self, Process};

/// The drain.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Number of clients.
    #[arg(long, default_value_t = 50_000)]
    clients: usize,
    /// Number of clients that share a topic.
    #[arg(long, default_value_t = 10)]
    group: usize,
    /// Number of groups with a client that publishes one message a second.
    #[arg(long, default_value_t = 200)]
    publishers: usize,
    /// Time over which clients return.
    #[arg(long, default_value_t = 60)]
    window_s: u64,
}

/// Maximum number of handshakes in progress.
const CONNECTING_MAX: u32 = 256;
/// Source addresses of the clients.
const SOURCES: &str = "127.0.1.{1..100}";
/// Maximum time of each step.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks at the clients.
const LOOK: Duration = Duration::from_millis(20);
/// The reason of an unexpected end of a connection.
const LOST: Reason = Reason::Network(std::io::ErrorKind::ConnectionReset);
/// Time between two messages of a publisher.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// Time under load before the drain.
const STEADY: Duration = Duration::from_secs(5);

struct Member {
    session: Session,
    subscription: SubscriptionId,
    is_live: bool,
    /// The time of GO_AWAY, and the return delay in milliseconds.
    told: Option<(Instant, u64)>,
    /// The reason of the connection's end, if the session gave one.
    reason: Option<Reason>,
}

/// All clients.
struct Fleet {
    began: Instant,
    host: String,
    members: Vec<Member>,
    group: usize,
    publishers: usize,
    /// The time of the next publications, on the monotonic clock, once the load has begun.
    publish_ns: Option<u64>,
    /// The newest acknowledged offset of each topic, and the number of acknowledgements.
    acknowledged: Vec<(u64, u64)>,
    unanswered: u64,
}

impl Fleet {
    fn new(options: &Options, address: SocketAddr) -> anyhow::Result<Fleet> {
        let settings =
            Settings { tickets: true, handshake_timeout_ms: 60_000, ..Settings::default() };
        let mut members = Vec::with_capacity(options.clients);
        for number in 0..options.clients {
            let mut session = Session::new(settings.clone(), 0x5eed ^ number as u64);
            let topic = format!("t/{}", number / options.group);
            let subscription = session
                .subscribe(&topic, Start::Live, &SubscribeOptions::default())
                .map_err(|error| anyhow::anyhow!("{error:?}"))?;
            members.push(Member {
                session,
                subscription,
                is_live: false,
                told: None,
                reason: None,
            });
        }
        Ok(Fleet {
            began: Instant::now(),
            host: address.to_string(),
            members,
            group: options.group,
            publishers: options.publishers,
            publish_ns: None,
            acknowledged: vec![(0, 0); options.clients.div_ceil(options.group)],
            unanswered: 0,
        })
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Processes events and answers of a session.
    fn process(&mut self, at: usize) {
        let topic = at / self.group;
        let member = &mut self.members[at];
        while let Some(event) = member.session.take_event() {
            match event {
                Event::Subscribed { replaying, .. } => member.is_live = !replaying,
                Event::CaughtUp { .. } => member.is_live = true,
                Event::GoAway { return_after_ms, .. } => {
                    member.told = Some((Instant::now(), return_after_ms));
                }
                _ => {}
            }
        }
        while let Some((_, answer)) = member.session.take_answer() {
            match answer {
                Answer::Published(published) => {
                    let (newest, count) = &mut self.acknowledged[topic];
                    *newest = (*newest).max(published.position.offset);
                    *count += 1;
                }
                _ => self.unanswered += 1,
            }
        }
    }

    fn write(&mut self, at: usize, turn: &mut Turn<'_>) {
        let session = &mut self.members[at].session;
        while !session.output().is_empty() {
            let bytes = session.output().len();
            turn.to(at as u32).extend_from_slice(session.output());
            session.written(bytes);
        }
    }

    fn live(&self) -> usize {
        self.members.iter().filter(|member| member.is_live).count()
    }

    /// One message of each publisher that may publish.
    fn publish(&mut self, turn: &mut Turn<'_>) {
        for topic in 0..self.publishers.min(self.acknowledged.len()) {
            let at = topic * self.group;
            let member = &mut self.members[at];
            if member.session.has_room() && member.is_live {
                let name = format!("t/{topic}");
                let options = PublishOptions::default();
                let _ = member.session.publish(&name, &[b'x'; 512], &options, true);
                self.write(at, turn);
            }
        }
    }
}

/// The clients, shared by the engine's worker and the experiment.
#[derive(Clone)]
struct Shared(Arc<Mutex<Fleet>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Fleet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the condition holds.
    fn wait_until(
        &self,
        what: &str,
        mut is_so: impl FnMut(&mut Fleet) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&mut self.lock()) {
            ensure!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Protocol for Shared {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        let (mut fleet, at) = (self.lock(), place as usize);
        let (host, now_ms) = (fleet.host.clone(), fleet.now_ms());
        fleet.members[at].session.connected(&host, client::url::TARGET, now_ms);
        fleet.write(at, turn);
    }

    /// After GO_AWAY a session leaves with its last answer.
    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let (mut fleet, at) = (self.lock(), place as usize);
        let now_ms = fleet.now_ms();
        let result = fleet.members[at].session.receive(bytes, now_ms);
        fleet.process(at);
        let member = &mut fleet.members[at];
        if let Err(reason) = result {
            member.reason = Some(reason.clone());
            return Err(reason.to_string());
        }
        if member.session.is_ready() {
            turn.opened();
        }
        if member.session.return_plan().is_some() && member.session.inflight() == 0 {
            member.reason = member.session.return_reason();
            member.session.close(now_ms);
            turn.leave();
        }
        fleet.write(at, turn);
        Ok(bytes.len())
    }

    fn lost(&mut self, place: u32, _turn: &mut Turn<'_>) {
        let (mut fleet, at) = (self.lock(), place as usize);
        let member = &mut fleet.members[at];
        member.is_live = false;
        let reason = member.reason.take().unwrap_or(LOST);
        member.session.disconnected(reason, Some(0));
        fleet.process(at);
    }

    fn return_ns(&self, place: u32) -> Option<u64> {
        let (told, after_ms) = self.lock().members[place as usize].told?;
        let wait =
            (told + Duration::from_millis(after_ms)).saturating_duration_since(Instant::now());
        Some(Clock::Monotonic.now_ns() + wait.as_nanos() as u64)
    }

    fn wake_ns(&self) -> Option<u64> {
        self.lock().publish_ns
    }

    fn tick(&mut self, turn: &mut Turn<'_>) {
        let mut fleet = self.lock();
        fleet.publish_ns = Some(turn.now_ns + PUBLISH_EVERY.as_nanos() as u64);
        fleet.publish(turn);
    }
}

/// Connects all clients.
fn connect(options: &Options, address: SocketAddr) -> anyhow::Result<(Shared, Handle)> {
    let mut common = Common::new(&[format!("ws://{address}")])?;
    common.threads = 1;
    common.local_addresses =
        Sources::parse_addresses(&[SOURCES.to_owned()]).map_err(anyhow::Error::msg)?;
    let fleet = Shared(Arc::new(Mutex::new(Fleet::new(options, address)?)));
    let clients = options.clients as u64;
    let mut handle = Clients::start(&common, clients, CONNECTING_MAX, fleet.clone())?;
    handle.set_clients(clients);
    Ok((fleet, handle))
}

/// A node with its log in a folder.
struct Node<'a> {
    folder: &'a Folder,
    operators: SocketAddr,
}

impl Node<'_> {
    fn start(&self, address: SocketAddr) -> anyhow::Result<Process> {
        let data = self.folder.0.join("data");
        Process::start_at(address, &Cores::default(), |folder, address| {
            let file = folder.join("crore.toml");
            std::fs::write(
                &file,
                format!(
                    "[node]\ndata_dir = {data:?}\n\
                     [[log]]\nname = \"kept\"\ndurability = \"disk\"\nbytes_max = \"1GiB\"\n"
                ),
            )?;
            let mut command =
                process::node(&process::crore()?, 2, address, &self.operators.to_string());
            command.arg("--config").arg(file);
            Ok(command)
        })
    }

    fn drain(&self, window_s: u64) -> anyhow::Result<()> {
        let output = Command::new(process::crore()?)
            .args(["drain", "--no-wait", "--operators", &format!("http://{}", self.operators)])
            .args(["--window", &format!("{window_s}s")])
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

/// Drains a node, has all clients return, and prints what happened.
///
/// # Errors
/// A message was lost, or a step took too long.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let node = Node { folder: &folder, operators: process::free_address()? };
    let mut process = node.start(process::free_address()?)?;
    let (fleet, _handle) = connect(options, process.address)?;
    let clients = options.clients;
    let begin = Instant::now();
    fleet.wait_until("all clients connect", |fleet| fleet.live() == clients)?;
    println!("{clients} clients are subscribed after {:.1} s", begin.elapsed().as_secs_f64());
    let is_drained = drain(&fleet, &node, &mut process, options)?;
    let is_complete = come_back(&fleet, &node, process.address)?;
    if !is_drained || !is_complete || fleet.lock().unanswered > 0 {
        bail!("messages or clients were lost");
    }
    Ok(())
}

/// Publishes for some seconds, and drains the node until it ends. Returns whether every client got
/// a time to return.
fn drain(
    fleet: &Shared,
    node: &Node<'_>,
    process: &mut Process,
    options: &Options,
) -> anyhow::Result<bool> {
    fleet.lock().publish_ns = Some(Clock::Monotonic.now_ns());
    std::thread::sleep(STEADY);
    let drained = Instant::now();
    node.drain(options.window_s)?;
    let mut status = None;
    fleet.wait_until("the node ends", |_| {
        status = process.ended();
        status.is_some()
    })?;
    let mut fleet = fleet.lock();
    fleet.publish_ns = None;
    let ended_s = drained.elapsed().as_secs_f64();
    let told: Vec<(Instant, u64)> = fleet.members.iter().filter_map(|member| member.told).collect();
    let last_told = told.iter().map(|(at, _)| at.duration_since(drained)).max();
    let window_ms = (options.window_s * 1_000) as f64;
    let shares: Vec<f64> = told.iter().map(|(_, after_ms)| *after_ms as f64 / window_ms).collect();
    let acknowledged: u64 = fleet.acknowledged.iter().map(|(_, count)| count).sum();
    println!(
        "GO_AWAY: {} of {}, the last after {:.2} s; the node ended after {ended_s:.2} s, {}",
        told.len(),
        options.clients,
        last_told.unwrap_or_default().as_secs_f64(),
        status.map_or(String::new(), |status| status.to_string()),
    );
    println!(
        "return times: distance from even {:.5}, {}",
        distance(shares.clone()),
        tenths(&shares)
    );
    println!("publications: {acknowledged} acknowledged, {} accepted but not", fleet.unanswered);
    Ok(told.len() == options.clients)
}

/// Starts the node again and waits until every client has all acknowledged messages. Returns
/// whether all subscriptions are complete.
fn come_back(fleet: &Shared, node: &Node<'_>, address: SocketAddr) -> anyhow::Result<bool> {
    let _process = node.start(address)?;
    let back = Instant::now();
    let clients = fleet.lock().members.len();
    fleet.wait_until("all clients return", |fleet| fleet.live() == clients)?;
    fleet.wait_until("all clients have the acknowledged messages", |fleet| {
        fleet.members.iter().enumerate().all(|(at, member)| {
            let cursor = member.session.cursor(member.subscription);
            cursor.is_some_and(|cursor| cursor.offset >= fleet.acknowledged[at / fleet.group].0)
        })
    })?;
    let fleet = fleet.lock();
    let incomplete = fleet.members.iter().filter(|member| {
        let report = member.session.report(member.subscription);
        report.is_none_or(|report| !report.is_complete())
    });
    let incomplete = incomplete.count();
    println!(
        "back: all {clients} after {:.1} s, {incomplete} with a gap",
        back.elapsed().as_secs_f64()
    );
    Ok(incomplete == 0)
}

/// The greatest difference between the distribution of these and the even one.
fn distance(mut shares: Vec<f64>) -> f64 {
    shares.sort_by(f64::total_cmp);
    let count = shares.len() as f64;
    let at = |(place, share): (usize, &f64)| {
        let (below, up_to) = (place as f64 / count, (place + 1) as f64 / count);
        (share - below).abs().max((up_to - share).abs())
    };
    shares.iter().enumerate().map(at).fold(0.0, f64::max)
}

/// The number of clients in each tenth of the window: the fewest and the most.
fn tenths(shares: &[f64]) -> String {
    let mut counts = [0_u64; 10];
    for share in shares {
        counts[((share * 10.0) as usize).min(9)] += 1;
    }
    let (fewest, most) = (counts.iter().min(), counts.iter().max());
    format!("{} to {} in each tenth", fewest.unwrap_or(&0), most.unwrap_or(&0))
}
