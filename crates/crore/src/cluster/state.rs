//! The nodes and logs of a cluster, as the control topic names them. Values in, values out.
//!
//! Invariant: whether a node lives is decided by the brokers' times of its report and of the newest
//! report of any node. So the clocks of nodes do not matter; and while no report comes, because the
//! engine is away, every node counts as before.

use super::entries::{Entry, LogEntry, Meaning, NodeEntry};
use entitlement::revoking::Change;
use std::collections::BTreeMap;

/// A node without a report for this time is gone, in milliseconds.
pub const GONE_MS: u64 = 20_000;

/// See the module.
#[derive(Debug)]
pub struct ClusterState {
    /// The name and the run of this node.
    own: String,
    run: String,
    nodes: BTreeMap<String, Reported>,
    logs: BTreeMap<String, LogEntry>,
    tickets: RevokedTickets,
    /// The broker's time of the newest report.
    newest_ms: u64,
    /// Changes of the living nodes since the last [`ClusterState::take_changes`].
    changes: Vec<MemberChange>,
}

/// Tickets that all nodes refuse: those issued before a time, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RevokedTickets {
    /// The greatest time that an entry has had. Tickets stay revoked.
    pub before_ms: u64,
    /// The time of the newest entry, which is all that the topic keeps.
    pub newest_ms: u64,
}

/// A node has joined the living nodes, or has left them. All nodes find the same changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberChange {
    /// Its name.
    pub name: String,
    /// The kind of change.
    pub kind: MemberChangeKind,
    /// The broker's time of the node's last report before the change, or of the report that is the
    /// change, in milliseconds since 1970.
    pub time_ms: u64,
}

/// A change of the living nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberChangeKind {
    /// It has begun to report itself.
    Joined,
    /// It has stopped by itself.
    Stopped,
    /// It has not reported itself for [`GONE_MS`].
    Silent,
}

#[derive(Debug)]
struct Reported {
    /// It is among the living nodes.
    is_living: bool,
    entry: NodeEntry,
    time_ms: u64,
}

/// A node of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its last report.
    pub report: &'a NodeEntry,
    /// The age of the report, by the newest one, in milliseconds.
    pub age_ms: u64,
    /// It reports regularly.
    pub is_living: bool,
    /// It is this node.
    pub is_own: bool,
}

/// The consequence of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Learned {
    /// Nothing is to be done.
    Nothing,
    /// This node's own report has come back.
    OwnReport,
    /// Another process reports under this node's name.
    Namesake,
    /// An earlier entry gave the log other partitions.
    OtherLog(String),
    /// A revocation has changed.
    Revocation(Change),
    /// There is another entry about tickets.
    Tickets,
}

impl ClusterState {
    /// A cluster of which nothing is known. `run` names this start of the node.
    pub fn new(own: &str, run: &str) -> ClusterState {
        ClusterState {
            own: own.to_owned(),
            run: run.to_owned(),
            nodes: BTreeMap::new(),
            logs: BTreeMap::new(),
            tickets: RevokedTickets::default(),
            newest_ms: 0,
            changes: Vec::new(),
        }
    }

    /// The changes of the living nodes since the last call, in the order of the topic.
    pub fn take_changes(&mut self) -> Vec<MemberChange> {
        std::mem::take(&mut self.changes)
    }

    /// Takes the next entry of the control topic.
    pub fn take(&mut self, entry: &Entry) -> Learned {
        match entry.meaning() {
            None => Learned::Nothing,
            Some(Meaning::Node(name, report)) => self.take_report(name, report, entry.time_ms),
            Some(Meaning::Log(name, log)) => {
                let before = self.logs.insert(name.clone(), log.clone());
                if before.is_none_or(|before| before == log) {
                    Learned::Nothing
                } else {
                    Learned::OtherLog(name)
                }
            }
            Some(Meaning::Revocation(change)) => Learned::Revocation(change),
            Some(Meaning::Tickets(entry)) => {
                let before_ms = self.tickets.before_ms.max(entry.revoked_before);
                self.tickets = RevokedTickets { before_ms, newest_ms: entry.revoked_before };
                Learned::Tickets
            }
        }
    }

    fn take_report(&mut self, name: String, report: Option<NodeEntry>, time_ms: u64) -> Learned {
        self.newest_ms = self.newest_ms.max(time_ms);
        let Some(entry) = report else {
            let left = self.nodes.remove(&name).filter(|left| left.is_living);
            let stopped = left.map(|left| left.time_ms);
            self.changes.extend(stopped.map(|time_ms| MemberChange {
                name,
                kind: MemberChangeKind::Stopped,
                time_ms,
            }));
            self.compare_living();
            return Learned::Nothing;
        };
        let learned = match (name == self.own, entry.run == self.run) {
            (true, true) => Learned::OwnReport,
            (true, false) => Learned::Namesake,
            (false, _) => Learned::Nothing,
        };
        let was_living = self.nodes.get(&name).is_some_and(|before| before.is_living);
        self.nodes.insert(name, Reported { is_living: was_living, entry, time_ms });
        self.compare_living();
        learned
    }

    /// Notes nodes that have joined the living ones or left them.
    fn compare_living(&mut self) {
        for (name, reported) in &mut self.nodes {
            let is_living = self.newest_ms.saturating_sub(reported.time_ms) < GONE_MS;
            if is_living != reported.is_living {
                reported.is_living = is_living;
                let kind =
                    if is_living { MemberChangeKind::Joined } else { MemberChangeKind::Silent };
                let (name, time_ms) = (name.clone(), reported.time_ms);
                self.changes.push(MemberChange { name, kind, time_ms });
            }
        }
    }

    /// All nodes that have not left, by name.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        self.nodes.iter().map(|(name, reported)| {
            let age_ms = self.newest_ms.saturating_sub(reported.time_ms);
            Member {
                name,
                report: &reported.entry,
                age_ms,
                is_living: reported.is_living,
                is_own: *name == self.own,
            }
        })
    }

    /// Addresses of the other nodes that live and keep their clients, by name of the node.
    pub fn other_addresses(&self) -> Vec<String> {
        let takes =
            |member: &Member<'_>| member.is_living && !member.is_own && !member.report.is_draining;
        let members = self.members().filter(takes);
        members.filter_map(|member| member.report.address.clone()).collect()
    }

    /// The tickets that all nodes refuse.
    pub fn tickets(&self) -> RevokedTickets {
        self.tickets
    }

    /// The partitions of a log, as the cluster has them.
    pub fn log(&self, name: &str) -> Option<&LogEntry> {
        self.logs.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entries::TicketsEntry;
    use super::*;

    fn report(name: &str, run: &str, time_ms: u64) -> Entry {
        let address = Some(format!("wss://{name}.example.com"));
        let entry = NodeEntry { run: run.into(), address, ..NodeEntry::default() };
        written(name, &entry, time_ms)
    }

    fn written(name: &str, entry: &NodeEntry, time_ms: u64) -> Entry {
        let (key, value) = entry.written(name);
        Entry { key, value: Some(value), time_ms }
    }

    fn living(state: &ClusterState) -> Vec<&str> {
        state.members().filter(|member| member.is_living).map(|member| member.name).collect()
    }

    #[test]
    fn a_node_is_gone_when_others_have_reported_for_20_s() {
        let mut state = ClusterState::new("a", "1");
        assert_eq!(state.take(&report("a", "1", 1_000)), Learned::OwnReport);
        assert_eq!(state.take(&report("b", "2", 1_500)), Learned::Nothing);
        assert_eq!(living(&state), ["a", "b"]);
        assert_eq!(state.other_addresses(), ["wss://b.example.com"]);
        state.take(&report("a", "1", 1_500 + GONE_MS - 1));
        assert_eq!(living(&state), ["a", "b"]);
        state.take(&report("a", "1", 1_500 + GONE_MS));
        assert_eq!(living(&state), ["a"]);
        assert!(state.other_addresses().is_empty());
        state.take(&report("b", "3", 1_600 + GONE_MS));
        assert_eq!(living(&state), ["a", "b"]);
    }

    #[test]
    fn nodes_join_and_leave_once() {
        let mut state = ClusterState::new("a", "1");
        let changes = |state: &mut ClusterState| -> Vec<String> {
            let shown = |it: MemberChange| format!("{} {:?} {}", it.name, it.kind, it.time_ms);
            state.take_changes().into_iter().map(shown).collect()
        };
        state.take(&report("a", "1", 1_000));
        state.take(&report("b", "2", 1_500));
        state.take(&report("a", "1", 6_000));
        assert_eq!(changes(&mut state), ["a Joined 1000", "b Joined 1500"]);
        state.take(&report("a", "1", 1_500 + GONE_MS));
        state.take(&report("a", "1", 2_500 + GONE_MS));
        assert_eq!(changes(&mut state), ["b Silent 1500"]);
        state.take(&report("b", "3", 3_000 + GONE_MS));
        state.take(&report("c", "4", 3_000 + GONE_MS));
        assert_eq!(changes(&mut state), ["b Joined 23000", "c Joined 23000"]);
        state.take(&Entry { value: None, ..report("c", "4", 3_500 + GONE_MS) });
        state.take(&Entry { value: None, ..report("c", "4", 3_600 + GONE_MS) });
        assert_eq!(changes(&mut state), ["c Stopped 23000"]);
    }

    #[test]
    fn a_node_that_drains_or_leaves_gets_no_clients() {
        let mut state = ClusterState::new("a", "1");
        state.take(&report("a", "1", 1));
        state.take(&report("b", "2", 1));
        state.take(&report("c", "3", 1));
        assert_eq!(state.other_addresses().len(), 2);
        let address = Some("wss://b".to_owned());
        let draining = NodeEntry { address, is_draining: true, ..NodeEntry::default() };
        state.take(&written("b", &draining, 2));
        assert_eq!(state.other_addresses(), ["wss://c.example.com"]);
        state.take(&Entry { value: None, ..report("c", "3", 3) });
        assert_eq!(living(&state), ["a", "b"]);
        assert!(state.other_addresses().is_empty());
    }

    #[test]
    fn tickets_stay_revoked() {
        let mut state = ClusterState::new("a", "1");
        for revoked_before in [5, 9, 7] {
            let (key, value) = TicketsEntry { revoked_before }.written();
            let entry = Entry { key, value: Some(value), time_ms: 1 };
            assert_eq!(state.take(&entry), Learned::Tickets);
        }
        assert_eq!(state.tickets(), RevokedTickets { before_ms: 9, newest_ms: 7 });
    }

    #[test]
    fn a_namesake_is_noticed() {
        let mut state = ClusterState::new("a", "1");
        assert_eq!(state.take(&report("a", "2", 1)), Learned::Namesake);
    }

    #[test]
    fn another_form_of_a_log_is_noticed() {
        let mut state = ClusterState::new("a", "1");
        let log = LogEntry {
            first_partition: 4,
            partitions_count: 8,
            window_ms: 300_000,
            names_max: 32_768,
        };
        let entry = |log: &LogEntry| {
            let (key, value) = log.written("orders");
            Entry { key, value: Some(value), time_ms: 1 }
        };
        assert_eq!(state.take(&entry(&log)), Learned::Nothing);
        assert_eq!(state.take(&entry(&log)), Learned::Nothing);
        let other = LogEntry { first_partition: 0, ..log.clone() };
        assert_eq!(state.take(&entry(&other)), Learned::OtherLog("orders".into()));
        assert_eq!(state.log("orders"), Some(&other));
    }
}
