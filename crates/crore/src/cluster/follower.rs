//! The thread between the node and the control topic: it reports this node every few seconds, takes
//! the other nodes' entries, and puts their revocations and addresses in force.
//!
//! Invariants: a revocation of another node is in force and in this node's file before the next
//! entry is taken; if the file cannot be written, it is tried again. A node that has not read its
//! own report for [`UNHEARD_MAX`] may have missed revocations, and accepts no tokens.

use super::channel::{Order, Shared};
use super::entries::{Entry, NodeEntry, TicketsEntry, change_of, node_key, written};
use super::state::{Learned, MemberChange, MemberChangeKind};
use super::topic::{Letter, WriteControl};
use crate::configuration::options;
use crate::draining::Draining;
use crate::logging::{Level, Log};
use crate::reload::Reloader;
use broker::settings::Settings;
use broker::sys::{NODES_JOINED, NODES_LEFT, OwnMessage};
use entitlement::TokenAuthenticator;
use entitlement::revoking::Change;
use node::Node;
use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time between two reports of a node.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// The time without an own report in the topic after which revocations may have been missed.
pub const UNHEARD_MAX: Duration = Duration::from_secs(60);
/// The longest time between two looks at the clock and at the node.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Reports of another process under this node's name before the log says so. A live upgrade has
/// two processes for a moment.
const NAMESAKES_MAX: u32 = 4;

/// The node's own parts, as the thread uses them.
pub struct Surroundings {
    /// The node; none when it has stopped.
    pub node: Arc<RwLock<Option<Node>>>,
    /// The configuration in force.
    pub reloader: Arc<Reloader>,
    /// Whether the node sends its clients away.
    pub draining: Arc<Draining>,
    /// The authenticator, if any, with the directory of its revocations.
    pub authenticator: Option<(Arc<TokenAuthenticator>, Option<PathBuf>)>,
    /// Makes the node check credentials again.
    pub changed: Arc<dyn Fn() + Send + Sync>,
    /// The log.
    pub log: Log,
}

/// The thread; see the module.
pub struct Follower {
    /// This node's name.
    pub name: String,
    /// This start.
    pub run: String,
    /// Letters of the topic, and orders of the operators' port.
    pub incoming: Receiver<Order>,
    /// The writer of the topic.
    pub writer: Box<dyn WriteControl>,
    /// The part that other threads read.
    pub shared: Arc<Shared>,
    /// The node.
    pub surroundings: Surroundings,
    /// Changes that are not in force yet.
    pub unapplied: Vec<Change>,
    /// Writes whose callers wait.
    pub waiting: Vec<Waiting>,
    /// The time of the last report; none before the first.
    pub reported: Option<Instant>,
    /// Whether the last report said that the node drains.
    pub was_draining: bool,
    /// The living nodes, as homes know them.
    pub told: Vec<String>,
    /// Reports of other processes under this name.
    pub namesakes: u32,
    /// The changes could not be stored; the log says so once.
    pub has_failed: bool,
    /// Tokens are refused because nothing was heard.
    pub is_unheard: bool,
    /// The time of [`TicketsEntry`] that this node has written and not read; else 0.
    pub asked_ms: u64,
}

/// A write whose caller waits until the topic has it.
pub struct Waiting {
    key: String,
    value: Option<Vec<u8>>,
    reply: Sender<()>,
}

impl Follower {
    /// Runs until the node leaves.
    pub fn run(mut self) {
        loop {
            match self.incoming.recv_timeout(LOOK_EVERY) {
                Ok(Order::Letter(Letter::Entry(entry))) => self.take(&entry),
                Ok(Order::Letter(Letter::CaughtUp)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::Tell { change, reply }) => self.tell(&change, reply),
                Ok(Order::Leave { reply }) => {
                    self.writer.write(node_key(&self.name), None);
                    // The writer's end waits for the topic.
                    drop(self.writer);
                    let _: Result<(), _> = reply.send(());
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tell_of_nodes();
            self.apply();
            self.revoke_tickets();
            self.report();
            self.watch_silence();
        }
    }

    fn take(&mut self, entry: &Entry) {
        let is_it = |waiting: &Waiting| waiting.key == entry.key && waiting.value == entry.value;
        for arrived in self.waiting.extract_if(.., |waiting| is_it(waiting)) {
            // The caller may have stopped waiting.
            let _: Result<(), _> = arrived.reply.send(());
        }
        let (learned, changes) = {
            let mut state = self.shared.state();
            (state.take(entry), state.take_changes())
        };
        self.publish_changes(&changes);
        match learned {
            Learned::Nothing => self.move_addresses(),
            Learned::OwnReport => {
                self.shared.heard();
                self.move_addresses();
            }
            Learned::Namesake => {
                self.namesakes += 1;
                if self.namesakes == NAMESAKES_MAX {
                    let sentence =
                        "Another node of the cluster has the name of this node (node.name).";
                    self.surroundings.log.write(Level::Error, sentence, &[("name", &self.name)]);
                }
            }
            Learned::OtherLog(name) => {
                let sentence = "Another node has another place or number of partitions for this log: tickets and cursors of clients that move are not valid there.";
                self.surroundings.log.write(Level::Error, sentence, &[("log", &name)]);
            }
            Learned::Revocation(change) => self.unapplied.push(change),
            Learned::Tickets => self.asked_ms = 0,
        }
    }

    /// Tells homes which nodes live, once this node's own report has come: before that, the age of
    /// other reports is not known.
    fn tell_of_nodes(&mut self) {
        let living = {
            let state = self.shared.state();
            let living = state.members().filter(|member| member.is_living);
            living.map(|member| member.name.to_owned()).collect::<Vec<String>>()
        };
        if !living.contains(&self.name) {
            return;
        }
        let node = self.surroundings.node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = node.as_ref().filter(|_| self.told != living) {
            node.tell_of_nodes(&living);
            self.told = living;
        }
    }

    /// Publishes nodes that have joined or left, if the configuration asks for it. All nodes do; in
    /// a log of the engine, the first of these messages stands for all.
    fn publish_changes(&self, changes: &[MemberChange]) {
        let node = self.surroundings.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = &*node else {
            return;
        };
        let are_published = self.surroundings.reloader.read::<options::Sys>().nodes;
        for MemberChange { name, kind, time_ms } in changes {
            if !are_published {
                continue;
            }
            let (topic, payload) = match kind {
                MemberChangeKind::Joined => (NODES_JOINED, json!({ "node": name })),
                MemberChangeKind::Stopped => {
                    (NODES_LEFT, json!({ "node": name, "reason": "stopped" }))
                }
                MemberChangeKind::Silent => {
                    (NODES_LEFT, json!({ "node": name, "reason": "silent" }))
                }
            };
            let key = format!("{name}/{time_ms}");
            node.publish_own(OwnMessage {
                idempotency_key: key.into_bytes().into(),
                ..OwnMessage::json(topic, payload.to_string().as_bytes())
            });
        }
    }

    /// Puts the changes of other nodes in force.
    fn apply(&mut self) {
        let Some((authenticator, data_dir)) = &self.surroundings.authenticator else {
            self.unapplied.clear();
            return;
        };
        self.unapplied.retain(|change| is_news(authenticator, change));
        if self.unapplied.is_empty() {
            return;
        }
        match authenticator.apply(data_dir.as_deref(), self.unapplied.clone(), now_s()) {
            Ok(has_revoked) => {
                self.has_failed = false;
                if has_revoked {
                    (self.surroundings.changed)();
                }
                for change in std::mem::take(&mut self.unapplied) {
                    complete(authenticator, &change, &*self.writer);
                }
            }
            Err(error) => {
                if !self.has_failed {
                    let sentence = "Revocations of another node cannot be stored, and are not in force yet; the node tries again.";
                    let error = error.to_string();
                    self.surroundings.log.write(Level::Error, sentence, &[("error", &error)]);
                }
                self.has_failed = true;
            }
        }
    }

    fn tell(&mut self, change: &Change, reply: Sender<()>) {
        let (key, value) = written(change);
        self.writer.write(key.clone(), value.clone());
        self.waiting.push(Waiting { key, value, reply });
    }

    /// Reports this node, if it is time.
    fn report(&mut self) {
        let is_draining = self.surroundings.draining.has_begun();
        let is_due = self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if !is_due && is_draining == self.was_draining {
            return;
        }
        let address = self.surroundings.reloader.read::<options::Node>().address;
        let node = self.surroundings.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = &*node else {
            return;
        };
        self.reported = Some(Instant::now());
        self.was_draining = is_draining;
        let statistics = node.statistics();
        let report = NodeEntry {
            run: self.run.clone(),
            address,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            connections: statistics.edge.connections,
            lag_records: statistics.engine.lag_records,
            silence_ms: statistics.engine.silence_ms,
            is_draining,
        };
        let (key, value) = report.written(&self.name);
        self.writer.write(key, Some(value));
    }

    /// Makes all nodes refuse the tickets that one of them refuses by its configuration.
    fn revoke_tickets(&mut self) {
        let tickets = self.shared.state().tickets();
        let configured = self.surroundings.reloader.read::<options::Tickets>().revoked_before.0;
        let revoked_before = configured.max(tickets.before_ms);
        if revoked_before > tickets.newest_ms && revoked_before != self.asked_ms {
            let (key, value) = TicketsEntry { revoked_before }.written();
            self.writer.write(key, Some(value));
            self.asked_ms = revoked_before;
        }
        let node = self.surroundings.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = &*node else {
            return;
        };
        let present = node.settings();
        if present.tickets.not_before_ms < revoked_before {
            let mut settings = Settings::clone(&present);
            settings.tickets.not_before_ms = revoked_before;
            node.reload(settings);
        }
    }

    /// Makes the living nodes those to which a drain sends clients; without any, those of the
    /// configuration.
    fn move_addresses(&self) {
        let found = self.shared.state().other_addresses();
        // The configuration before the node, as a reload does.
        let configured = self.surroundings.reloader.read::<options::Node>().other_addresses;
        let wanted = if found.is_empty() { configured } else { found };
        let node = self.surroundings.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = &*node else {
            return;
        };
        let present = node.settings();
        if present.other_addresses != wanted {
            let settings = Settings { other_addresses: wanted, ..Settings::clone(&present) };
            node.reload(settings);
        }
    }

    fn watch_silence(&mut self) {
        let Some((authenticator, _)) = &self.surroundings.authenticator else {
            return;
        };
        let is_unheard = self.shared.silence() > UNHEARD_MAX;
        if is_unheard == self.is_unheard {
            return;
        }
        self.is_unheard = is_unheard;
        authenticator.set_lacks_revocations(is_unheard);
        let (level, sentence) = if is_unheard {
            let sentence = "The node has not heard of the cluster for 60 s. It accepts no tokens until then, because it does not know which are revoked.";
            (Level::Error, sentence)
        } else {
            (Level::Info, "The node hears of the cluster again, and accepts tokens.")
        };
        self.surroundings.log.write(level, sentence, &[]);
    }
}

/// Whether a change is not in force at this node.
fn is_news(authenticator: &TokenAuthenticator, change: &Change) -> bool {
    match change {
        Change::Revoked { revoked, issued_before_s, ends_s } => {
            let known = authenticator.revocation_of(revoked);
            known.is_none_or(|known| {
                known.issued_before_s < *issued_before_s || known.ends_s < *ends_s
            })
        }
        Change::Cancelled(revoked) => authenticator.revocation_of(revoked).is_some(),
    }
}

/// Two nodes may have revoked the same tokens at once, and the topic keeps the later entry only: if
/// this node's revocation reaches further than the entry, it writes that.
fn complete(authenticator: &TokenAuthenticator, change: &Change, writer: &dyn WriteControl) {
    let Change::Revoked { revoked, .. } = change else {
        return;
    };
    let merged = authenticator.revocation_of(revoked).map(|revocation| change_of(&revocation));
    if let Some(merged) = merged.filter(|merged| merged != change) {
        let (key, value) = written(&merged);
        writer.write(key, value);
    }
}

/// Makes the node's own revocations those of the cluster, at a start: `changes` are all entries of
/// the topic, in order. Returns the revocations that the topic lacks.
///
/// # Errors
/// The changes cannot be stored.
pub fn reconcile(
    authenticator: &TokenAuthenticator,
    data_dir: Option<&std::path::Path>,
    changes: Vec<Change>,
) -> Result<Vec<Change>, entitlement::revoking::RevokeError> {
    let own = authenticator.revocations_after(0, usize::MAX);
    let revoked_of = |change: &Change| match change {
        Change::Revoked { revoked, .. } | Change::Cancelled(revoked) => revoked.clone(),
    };
    let named: std::collections::HashSet<_> = changes.iter().map(revoked_of).collect();
    let lacking = own.iter().filter(|revocation| !named.contains(&revocation.revoked));
    let lacking = lacking.map(change_of).collect();
    if !changes.is_empty() {
        authenticator.apply(data_dir, changes, now_s())?;
    }
    Ok(lacking)
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
