//! The process that has taken a node's place: not our child, and all the same ended with its test.

use std::process::Command;

use crate::server::Server;

/// It is killed when this is dropped.
#[derive(Debug)]
pub struct Successor(u32);

impl Successor {
    /// The process of this number.
    pub fn new(process: u32) -> Successor {
        Successor(process)
    }

    /// Its number.
    pub fn process(&self) -> u32 {
        self.0
    }

    /// Sends it a signal by its short name.
    pub fn signal(&self, name: &str) {
        assert!(self.try_signal(name), "cannot send {name}");
    }

    /// Ends it at once, as a crash does, and waits until all of it is gone. The server is the one that it has come from: both have
    /// the same outputs.
    pub fn kill(self, server: Server) {
        drop(self);
        server.end();
    }

    /// It has ended: its number may be another's by now.
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
        // It may be gone already.
        self.try_signal("KILL");
    }
}
