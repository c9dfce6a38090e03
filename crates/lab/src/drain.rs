//! A drain under load: whether every client gets a return time, and whether a message is lost.
//!
//! It starts a node with a log on disk, connects clients with the client library's own sessions
//! (groups share a topic, one client of some groups publishes), asks the operators' port for a
//! drain, follows each client until the node has ended, starts the node again, and has each client
//! return at its time. At the end every subscription must be complete, without a gap, and be beyond
//! everything that was acknowledged on its topic. Return times are compared with an even
//! distribution by the Kolmogorov-Smirnov distance.

use std::collections::BinaryHeap;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use bench::run::{Cores, Folder};
use client::session::{Answer, Event as Said, Session, SubscriptionId};
use client::{PublishOptions, Reason, Settings, Start, SubscribeOptions};
use net::kernel::{ConnectOptions, Handover, Kernel, KernelOptions, Waker};
use net::system::raise_nofile_limit;
use net::{Close, Conn, Event, Net, Read, Write};

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

/// Handshakes under way at a time.
const CONNECTING_MAX: usize = 256;
/// Connections from one source address.
const SOURCE_CONNECTIONS: usize = 20_000;
/// Maximum time of each step.
const PATIENCE: Duration = Duration::from_secs(120);
/// Said of a connection that ended by itself.
const LOST: Reason = Reason::Network(std::io::ErrorKind::ConnectionReset);
/// Time between two attempts while the node does not listen.
const RETRY_AFTER: Duration = Duration::from_millis(200);
const STEADY: Duration = Duration::from_secs(5);

struct Member {
    session: Session,
    subscription: SubscriptionId,
    conn: Option<Conn>,
    is_connected: bool,
    is_live: bool,
    /// The time of GO_AWAY, and the return delay in milliseconds.
    told: Option<(Instant, u64)>,
}

struct Crowd {
    net: Kernel,
    began: Instant,
    address: SocketAddr,
    host: String,
    members: Vec<Member>,
    /// Members by the indexes of their connections.
    by_conn: Vec<usize>,
    /// Members that want a connection, the first one last.
    absent: BinaryHeap<(std::cmp::Reverse<Instant>, usize)>,
    connecting: usize,
    group: usize,
    /// The newest acknowledged offset of each topic, and how many were.
    acknowledged: Vec<(u64, u64)>,
    unanswered: u64,
    events: Vec<Event>,
    buffer: Vec<u8>,
}

impl Crowd {
    fn new(options: &Options, address: SocketAddr) -> anyhow::Result<Crowd> {
        raise_nofile_limit();
        let kernel = KernelOptions { registered_max: u32::MAX, ..KernelOptions::default() };
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
                conn: None,
                is_connected: false,
                is_live: false,
                told: None,
            });
        }
        let now = Instant::now();
        Ok(Crowd {
            net: Kernel::new(kernel, Waker::new()?, Handover::alone())?,
            began: now,
            address,
            host: address.to_string(),
            absent: (0..members.len()).map(|at| (std::cmp::Reverse(now), at)).collect(),
            members,
            by_conn: Vec::new(),
            connecting: 0,
            group: options.group,
            acknowledged: vec![(0, 0); options.clients.div_ceil(options.group)],
            unanswered: 0,
            events: Vec::new(),
            buffer: vec![0; 64 << 10],
        })
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// One pass: connects who is due, and deals with what the network says.
    fn turn(&mut self) -> anyhow::Result<()> {
        while self.connecting < CONNECTING_MAX
            && self.absent.peek().is_some_and(|(due, _)| due.0 <= Instant::now())
        {
            let Some((_, at)) = self.absent.pop() else {
                break;
            };
            self.connect(at)?;
        }
        let mut events = std::mem::take(&mut self.events);
        self.net.poll(Some(Duration::from_millis(5)), &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Connected(conn) => {
                    let at = self.by_conn[conn.index as usize];
                    let now_ms = self.now_ms();
                    self.members[at].is_connected = true;
                    self.connecting -= 1;
                    self.members[at].session.connected(&self.host, "/crore", now_ms);
                    self.write(at);
                }
                Event::Readable(conn) => self.read(conn),
                Event::Writable(conn) => self.write(self.by_conn[conn.index as usize]),
                Event::Closed { conn, .. } => self.lost(conn, &LOST),
                Event::Accepted { .. } | Event::Woken => {}
            }
        }
        self.events = events;
        Ok(())
    }

    fn connect(&mut self, at: usize) -> anyhow::Result<()> {
        let source = Ipv4Addr::new(127, 0, 1, 1 + (at / SOURCE_CONNECTIONS) as u8);
        let options = ConnectOptions {
            local: Some(SocketAddr::new(IpAddr::V4(source), 0)),
            ..ConnectOptions::default()
        };
        let conn = self.net.connect(self.address, &options)?;
        let index = conn.index as usize;
        if self.by_conn.len() <= index {
            self.by_conn.resize(index + 1, usize::MAX);
        }
        self.by_conn[index] = at;
        let member = &mut self.members[at];
        (member.conn, member.is_connected) = (Some(conn), false);
        self.connecting += 1;
        Ok(())
    }

    fn read(&mut self, conn: Conn) {
        let at = self.by_conn[conn.index as usize];
        loop {
            if self.members[at].conn != Some(conn) {
                return;
            }
            match self.net.read(conn, &mut self.buffer) {
                Read::Data(bytes) => {
                    let now_ms = self.now_ms();
                    let received = &mut self.buffer[..bytes];
                    let result = self.members[at].session.receive(received, now_ms);
                    self.deal_with(at);
                    match result {
                        Ok(()) => self.write(at),
                        Err(reason) => return self.lost(conn, &reason),
                    }
                }
                Read::Blocked => return,
                Read::Ended | Read::Failed(_) => return self.lost(conn, &LOST),
            }
        }
    }

    /// Processes events and answers of a session. After GO_AWAY it leaves with the last answer.
    fn deal_with(&mut self, at: usize) {
        let topic = at / self.group;
        let member = &mut self.members[at];
        while let Some(said) = member.session.take_event() {
            match said {
                Said::Subscribed { replaying, .. } => member.is_live = !replaying,
                Said::CaughtUp { .. } => member.is_live = true,
                Said::GoAway { return_after_ms, .. } => {
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
        let may_leave = member.session.return_plan().is_some() && member.session.inflight() == 0;
        if let (true, Some(conn)) = (may_leave, member.conn) {
            let reason = member.session.return_reason().unwrap_or(LOST);
            member.session.close(self.began.elapsed().as_millis() as u64);
            self.write(at);
            self.lost(conn, &reason);
        }
    }

    fn write(&mut self, at: usize) {
        let member = &mut self.members[at];
        let Some(conn) = member.conn.filter(|_| member.is_connected) else {
            return;
        };
        while !member.session.output().is_empty() {
            match self.net.write(conn, &[IoSlice::new(member.session.output())]) {
                Write::Wrote(bytes) => member.session.written(bytes),
                Write::Blocked => return,
                Write::Failed(_) => return self.lost(conn, &LOST),
            }
        }
    }

    fn lost(&mut self, conn: Conn, reason: &Reason) {
        let at = self.by_conn[conn.index as usize];
        let member = &mut self.members[at];
        if member.conn != Some(conn) {
            return;
        }
        self.connecting -= usize::from(!member.is_connected);
        self.net.close(conn, Close::Graceful);
        (member.conn, member.is_connected, member.is_live) = (None, false, false);
        let due = match member.told {
            Some((told, after_ms)) => told + Duration::from_millis(after_ms),
            None => Instant::now(),
        };
        member.session.disconnected(reason.clone(), Some(0));
        let due = due.max(Instant::now() + RETRY_AFTER);
        self.absent.push((std::cmp::Reverse(due), at));
        self.deal_with(at);
    }

    /// Runs until the condition holds.
    fn turn_until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Crowd) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            ensure!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
            self.turn()?;
        }
        Ok(())
    }

    fn live(&self) -> usize {
        self.members.iter().filter(|member| member.is_live).count()
    }

    /// One message of each publisher that may publish.
    fn publish(&mut self, publishers: usize) {
        for topic in 0..publishers.min(self.acknowledged.len()) {
            let at = topic * self.group;
            let member = &mut self.members[at];
            if member.session.has_room() && member.is_live {
                let name = format!("t/{topic}");
                let options = PublishOptions::default();
                let _ = member.session.publish(&name, &[b'x'; 512], &options, true);
                self.write(at);
            }
        }
    }
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
    let mut crowd = Crowd::new(options, process.address)?;
    let clients = options.clients;
    crowd.turn_until("all clients connect", |crowd| crowd.live() == clients)?;
    println!("{clients} clients are subscribed after {:.1} s", crowd.began.elapsed().as_secs_f64());
    let is_drained = drain(&mut crowd, &node, &mut process, options)?;
    let is_complete = come_back(&mut crowd, &node, process.address)?;
    if !is_drained || !is_complete || crowd.unanswered > 0 {
        bail!("messages or clients were lost");
    }
    Ok(())
}

/// Publishes for some seconds, and drains the node until it ends: whether every client got a time
/// to return.
fn drain(
    crowd: &mut Crowd,
    node: &Node<'_>,
    process: &mut Process,
    options: &Options,
) -> anyhow::Result<bool> {
    let mut next_publish = Instant::now();
    let mut publish = |crowd: &mut Crowd| {
        if Instant::now() >= next_publish {
            next_publish = Instant::now() + Duration::from_secs(1);
            crowd.publish(options.publishers);
        }
    };
    let steady = Instant::now() + STEADY;
    while Instant::now() < steady {
        publish(crowd);
        crowd.turn()?;
    }
    let drained = Instant::now();
    node.drain(options.window_s)?;
    crowd.absent.clear();
    let mut status = None;
    crowd.turn_until("the node ends", |crowd| {
        publish(crowd);
        status = process.ended();
        status.is_some()
    })?;
    let ended_s = drained.elapsed().as_secs_f64();
    let told: Vec<(Instant, u64)> = crowd.members.iter().filter_map(|member| member.told).collect();
    let last_told = told.iter().map(|(at, _)| at.duration_since(drained)).max();
    let window_ms = (options.window_s * 1_000) as f64;
    let shares: Vec<f64> = told.iter().map(|(_, after_ms)| *after_ms as f64 / window_ms).collect();
    let acknowledged: u64 = crowd.acknowledged.iter().map(|(_, count)| count).sum();
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
    println!("publications: {acknowledged} acknowledged, {} accepted but not", crowd.unanswered);
    Ok(told.len() == options.clients)
}

/// Starts the node again and waits until every client has everything that was acknowledged: whether
/// all subscriptions are complete.
fn come_back(crowd: &mut Crowd, node: &Node<'_>, address: SocketAddr) -> anyhow::Result<bool> {
    let _process = node.start(address)?;
    let back = Instant::now();
    let clients = crowd.members.len();
    crowd.turn_until("all clients return", |crowd| crowd.live() == clients)?;
    let topics: Vec<u64> = crowd.acknowledged.iter().map(|(newest, _)| *newest).collect();
    let group = crowd.group;
    crowd.turn_until("all clients have what was acknowledged", |crowd| {
        crowd.members.iter().enumerate().all(|(at, member)| {
            let cursor = member.session.cursor(member.subscription);
            cursor.is_some_and(|cursor| cursor.offset >= topics[at / group])
        })
    })?;
    let incomplete = crowd.members.iter().filter(|member| {
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
