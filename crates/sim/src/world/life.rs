//! The lives of a world's node: it begins, is killed or stops regularly, and another one begins on
//! the same disks.

use super::{START_MS, SimClock, World};
use crate::faults::Crash;
use crate::memory::SimMemory;
use crate::mesh::SimMailbox;
use crate::network::{SimNet, fold};
use broker::home::Home;
use broker::mail::HomeId;
use broker::settings::LogSettings;
use node::mailbox::Control;
use node::reactor::{Reactor, ReactorParts};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The start of a log's life after the newest former one that it knows, by partition; at its
/// beginning, if it knows none. `former` are the epochs of all former ones.
fn starts_of(log: &LogSettings, former: &[u64]) -> BTreeMap<u32, u64> {
    let older = &log.older_epochs;
    let known = former.iter().rev().find(|it| older.iter().any(|older| older.epoch == **it));
    let since = known.and_then(|known| older.iter().position(|older| older.epoch == *known));
    // Interrupted starts may have begun lives that no client saw.
    let since = since.map_or(&[][..], |since| &older[since..]);
    let mut starts = BTreeMap::new();
    for older in since {
        for (partition, valid_below) in (log.first_partition.0..).zip(&older.valid_below) {
            let start = starts.entry(partition).or_insert(u64::MAX);
            *start = (*start).min(*valid_below);
        }
    }
    starts
}

impl World {
    /// Begins a node.
    pub(super) fn start(&mut self) {
        let settings = &self.plan.settings;
        let homes = usize::from(settings.homes_count);
        let seed = self.plan.seed;
        self.users = Arc::default();
        self.counted = vec![BTreeMap::new(); usize::from(settings.edges_count)];
        self.turns_before = self.turns;
        self.revocations.clear();
        self.memories.clear();
        for shard in 0..usize::from(settings.edges_count) {
            let mut memory = SimMemory::new(
                self.plan.memory_bytes / homes,
                self.memory_refusals.clone(),
                self.random.fork(),
            );
            self.memories.push(memory.clone());
            let home = (shard < homes).then(|| {
                let mut home = Home::new(settings.clone(), HomeId(shard as u16), (seed, !seed));
                if let Some(value) = self.plan.counters_begin_at() {
                    home.begin_counters_at(value);
                }
                let mut disks = self.disks.borrow_mut();
                if let Err(text) = disks.restore(&mut home, HomeId(shard as u16), &mut memory) {
                    self.oracle.fail(None, text);
                }
                home
            });
            let parts = ReactorParts { home, ..self.parts(shard) };
            let mut reactor = Reactor::new(parts);
            if let Some(value) = self.plan.counters_begin_at() {
                reactor.begin_counters_at(value);
            }
            self.reactors.push(reactor);
            self.revocations.push(0);
        }
    }

    /// The parts of a shard's reactor, without a home.
    pub(super) fn parts(&self, shard: usize) -> ReactorParts<SimNet, SimMailbox, SimClock> {
        let seed = self.plan.seed;
        ReactorParts {
            home: None,
            net: SimNet::new(self.network.clone(), shard),
            mailbox: SimMailbox::new(self.mesh.clone(), self.disks.clone(), shard),
            clock: SimClock(self.clock.clone()),
            id: shard as u16,
            settings: self.plan.settings.clone(),
            memory: Box::new(self.memories[shard].clone()),
            hash_seed: (seed, !seed),
            authenticator: Some(self.authenticator.clone()),
            door: None,
            users: self.users.clone(),
            pressure: Arc::default(),
            journal: None,
        }
    }

    /// Kills the node, with everything in its memory.
    pub(super) fn crash(&mut self, crash: Crash) {
        self.reached.crashes += 1;
        self.oracle.mqtt.died_at_ms = Some(self.now_ms);
        self.hash = fold(self.hash, 0xdead);
        self.oracle.note_all("--- the node dies ---");
        self.collect_statistics();
        self.reactors.clear();
        self.network.borrow_mut().crash(crash.leaves_data);
        self.mesh.borrow_mut().crash();
        self.disks.borrow_mut().crash();
        self.down_until_ms = Some(self.now_ms + crash.down_ms);
    }

    /// Drains the node's clients.
    fn drain(&mut self, window_ms: u64, crash: Crash) {
        self.reached.drains += 1;
        self.hash = fold(self.hash, 0xd4a1);
        self.oracle.note_all("--- the node drains ---");
        self.mesh.borrow_mut().tell_all(|| Control::Drain { window_ms });
        self.draining = Some((self.now_ms + window_ms, crash));
        self.oracle.mqtt.is_draining = true;
    }

    /// Stops the node regularly, after its drain.
    pub(super) fn stop(&mut self) {
        let Some((_, crash)) = self.draining.take() else {
            return;
        };
        self.oracle.mqtt.died_at_ms = Some(self.now_ms);
        self.hash = fold(self.hash, 0xe4d);
        self.oracle.note_all("--- the node stops ---");
        self.collect_statistics();
        self.reactors.clear();
        self.network.borrow_mut().crash(crash.leaves_data);
        self.mesh.borrow_mut().crash();
        self.disks.borrow_mut().stop();
        self.down_until_ms = Some(self.now_ms + crash.down_ms);
    }

    pub(super) fn restart(&mut self) {
        self.down_until_ms = None;
        let former: Vec<u64> = self.plan.settings.logs.iter().map(|log| log.epoch).collect();
        let opened = self.disks.borrow_mut().open(&self.plan.settings);
        match opened {
            Ok(durable) => self.plan.start(true, durable),
            Err(text) => return self.oracle.fail(None, text),
        }
        self.oracle.is_flipped |= self.disks.borrow().is_flipped();
        self.plan.disk.is_broken |= self.disks.borrow().is_broken();
        let logs = &self.plan.settings.logs;
        let lives = logs.iter().map(|log| {
            let before = self.oracle.lives.epochs(log.first_partition.0);
            let known = log.older_epochs.iter().map(|older| older.epoch);
            (log.epoch, starts_of(log, &before), known.collect())
        });
        self.oracle.mqtt.is_draining = false;
        self.oracle.restarted(lives.collect());
        for (partition, floor) in self.disks.borrow().floors() {
            self.oracle.lives.started_with(partition, floor);
        }
        self.reached.new_epochs +=
            logs.iter().zip(&former).filter(|(log, former)| log.epoch != **former).count() as u64;
        self.mesh.borrow_mut().saboteur.restarted(former[0]);
        let epochs = logs.iter().map(|log| {
            let older = log.older_epochs.iter();
            let older: Vec<_> = older.map(|older| (older.epoch, &older.valid_below)).collect();
            format!(" {} after {older:?}", log.epoch)
        });
        let epochs: String = epochs.collect();
        self.oracle.note_all(&format!("--- the next node begins ---{epochs}"));
        self.network.borrow_mut().restart();
        self.start();
    }

    /// Runs due crashes and restarts.
    pub(super) fn die_and_rise(&mut self) {
        if self.down_until_ms.is_some_and(|at| at <= self.now_ms) {
            self.restart();
        }
        let is_due = |crash: &mut Crash| crash.after_ms + START_MS <= self.now_ms;
        if self.down_until_ms.is_none()
            && self.draining.is_none()
            && let Some(crash) = self.crashes.pop_if(is_due)
        {
            match crash.drain_ms {
                Some(window_ms) => self.drain(window_ms, crash),
                None => self.crash(crash),
            }
        }
        let has_gone = |reactor: &Reactor<_, _, _>| reactor.edge().connections_count() == 0;
        let is_over = |(until_ms, _): (u64, Crash)| {
            until_ms <= self.now_ms || self.reactors.iter().all(has_gone)
        };
        if self.draining.is_some_and(is_over) {
            self.stop();
        }
    }
}
