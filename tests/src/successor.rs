//! Live upgrades in tests: the process that replaces a node. It is not a child of the test, but is
//! ended with it.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::process::Process;
use crate::server::Server;

/// The process; dropping this value kills it.
#[derive(Debug)]
pub struct Successor(u32);

impl Successor {
    /// Wraps the process with this number.
    pub fn new(process: u32) -> Successor {
        Successor(process)
    }

    /// The process number.
    pub fn process(&self) -> u32 {
        self.0
    }

    /// Sends it a signal by its short name.
    pub fn signal(&self, name: &str) {
        assert!(self.try_signal(name), "cannot send {name}");
    }

    /// Makes it hand over to the next process.
    pub fn upgrade(self, node: &mut Process) -> Successor {
        node.skip_lines();
        self.signal("USR2");
        let successor = Successor::taken_over(node);
        wait_for_end(self.0);
        self.has_ended();
        successor
    }

    /// Waits until another process has taken over and is ready; the two report in any order. All
    /// processes of a node share the first one's output.
    pub fn taken_over(node: &mut Process) -> Successor {
        let told = "The new process is the node now. process=";
        let mut successor = None;
        let mut is_ready = false;
        while successor.is_none() || !is_ready {
            let line = node.wait_for("the new process", |line| Some(line.to_owned()));
            assert!(!line.contains("The upgrade failed"), "{line}");
            is_ready |= line == "ready";
            if let Some((_, rest)) = line.split_once(told) {
                successor = rest.split(' ').next().and_then(|text| text.parse().ok());
            }
        }
        Successor(successor.expect("its number"))
    }

    /// Kills it, as a crash does, and waits until it is gone. `server` is its predecessor, with the
    /// same output.
    pub fn kill(self, server: Server) {
        drop(self);
        server.end();
    }

    /// Waits until it has ended by itself.
    pub fn wait_for_end(self) {
        wait_for_end(self.0);
        self.has_ended();
    }

    /// Reports its end: another process may have its number now.
    pub fn has_ended(self) {
        std::mem::forget(self);
    }

    fn try_signal(&self, name: &str) -> bool {
        let mut kill = Command::new("kill");
        let status = kill.args(["-s", name, &self.0.to_string()]).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // It may already be gone.
        self.try_signal("KILL");
    }
}

/// Until its end the old process may still accept operators, whose connections then end.
fn wait_for_end(process: u32) {
    let deadline = Instant::now() + PATIENCE;
    let is_there = || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, state) = stat.rsplit_once(") ")?;
        // A zombie has ended.
        (!state.starts_with('Z')).then_some(())
    };
    while is_there().is_some() {
        assert!(Instant::now() < deadline, "process {process} does not end");
        thread::sleep(Duration::from_millis(2));
    }
}

impl Process {
    /// Makes a node hand over to another process, and waits until that is the node.
    pub fn upgrade(&mut self) -> Successor {
        self.skip_lines();
        self.signal("USR2");
        let successor = Successor::taken_over(self);
        wait_for_end(self.id());
        successor
    }

    /// Attempts an upgrade, and waits for the report of its failure, with these words in the
    /// reason.
    pub fn upgrade_in_vain(&mut self, why: &str) {
        self.skip_lines();
        self.signal("USR2");
        self.wait_for("the end of the upgrade", |line| {
            assert!(!line.contains("is the node now"), "{line}");
            let is_it = line.contains("The upgrade failed; the node continues");
            (is_it && line.contains(why)).then_some(())
        });
    }
}
