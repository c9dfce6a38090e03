//! A node in a live upgrade: in the old process it hands itself over, in the new one it takes over.

use super::Node;
use crate::reactor::state_layout;
use crate::upgrade::{Coordinator, FREEZE_PATIENCE, Giving, Hello, UpgradeError};
use broker::settings::Settings;
use net::system::{Passage, monotonic_ns};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Node {
    /// Hands everything over to the process at the other end of `control`, with the operators'
    /// listeners and standard input. `authenticator` returns the authenticator's state, after its
    /// last decision; `kill` ends the new process at once. After a success that process is the
    /// node, and this one must end without touching anything.
    ///
    /// # Errors
    /// The reason of the failure; the node serves on.
    pub fn hand_over(
        &self,
        control: OwnedFd,
        (operators, input): (&[std::net::TcpListener], BorrowedFd<'_>),
        (version, authenticator): (&str, &dyn Fn() -> Vec<u8>),
        kill: &mut dyn FnMut(),
    ) -> Result<Giving, UpgradeError> {
        if self.is_draining.load(Ordering::Relaxed) {
            kill();
            return Err(UpgradeError::Draining);
        }
        // The settings stay locked: a change sent to shards after they have stopped would be lost.
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let age_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let hello = Hello {
            layout: state_layout(),
            version: version.to_owned(),
            hash_seed: self.hash_seed,
            began_ns: monotonic_ns().saturating_sub(age_ns),
            settings: Settings::clone(&settings),
            addresses: self.addresses.iter().map(SocketAddr::to_string).collect(),
            plain_count: self.plain_count,
            operators_count: operators.len(),
            proxied: self.proxied.clone(),
        };
        let mut descriptors: Vec<BorrowedFd<'_>> = operators.iter().map(AsFd::as_fd).collect();
        descriptors.push(input);
        let threads = self.logs.iter().zip(&settings.logs).zip(0..);
        let logs = threads.filter_map(|((thread, log), index)| {
            Some((index, log.name.as_str(), thread.as_ref()?))
        });
        let coordinator = Coordinator {
            shards: &self.shards.0,
            own: &self.passages,
            control: &Passage::of(control),
            logs: logs.collect(),
            engine: self.engine.as_ref(),
            freeze_patience: FREEZE_PATIENCE,
            authenticator,
        };
        coordinator.run(&hello, &descriptors, kill)
    }

    /// Takes the place of the previous process, if this node was started with its
    /// [`crate::upgrade::Inheritance`]: waits for all state and for the commit, and then serves.
    /// `authenticator` reads the state of the previous authenticator, and returns whether it is
    /// well-formed.
    ///
    /// # Errors
    /// The previous process serves on; this one must end.
    pub fn take_over(&self, authenticator: &dyn Fn(&[u8]) -> bool) -> io::Result<()> {
        let mut adopting = self.adopting.lock().unwrap_or_else(PoisonError::into_inner);
        match adopting.take() {
            Some(adopting) => adopting.finish(&self.shards.0, authenticator),
            None => Ok(()),
        }
    }
}
