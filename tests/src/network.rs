//! Hosts of a test: network namespaces, where ports can be few, and a cable that can be unplugged.
//!
//! They need a user namespace but no privileges, and exist as long as the processes in them.
//! Programs of the test are started on a host.

use std::process::Command;

use crate::PATIENCE;
use crate::curl::{Answer, curl_by};
use crate::process::Process;

/// A host. Dropping it removes it.
#[derive(Debug)]
pub struct Host {
    holder: Process,
    /// Whether the host has a user namespace of its own.
    has_own_users: bool,
}

/// Two hosts with a cable between them.
#[derive(Debug)]
pub struct Cable {
    /// The servers' host: 10.77.0.1.
    pub near: Host,
    /// The clients' host: 10.77.0.2.
    pub far: Host,
}

impl Host {
    /// Creates a host with only loopback.
    pub fn new() -> Host {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--net", "--"]);
        Host::held_by(unshare, true)
    }

    /// Creates a host of root's, where programs for AF_XDP may be loaded. None if the test is not
    /// run by root.
    fn of_root() -> Option<Host> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: AF_XDP needs root");
            return None;
        }
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--"]);
        Some(Host::held_by(unshare, false))
    }

    /// Creates another host with the same owner, so that a cable can connect both.
    fn beside(&self) -> Host {
        let mut unshare = self.command("unshare");
        unshare.args(["--net", "--"]);
        Host::held_by(unshare, self.has_own_users)
    }

    fn held_by(mut unshare: Command, has_own_users: bool) -> Host {
        unshare.args(["sh", "-c", "ip link set lo up && echo up && exec sleep infinity"]);
        let mut holder = Process::start(&mut unshare);
        let what = "separate host: this test needs user namespaces, or root";
        holder.wait_for(what, |line| (line == "up").then_some(()));
        Host { holder, has_own_users }
    }

    /// The words that start a program here.
    pub fn words(&self) -> Vec<String> {
        let target = self.holder.id().to_string();
        let users: &[&str] =
            if self.has_own_users { &["--user", "--preserve-credentials"] } else { &[] };
        let words = [&["nsenter", "--target", &target], users, &["--net", "--"]].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    /// A command for a program here.
    pub fn command(&self, program: &str) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command
    }

    /// Runs a shell command here.
    pub fn run(&self, line: &str) {
        let mut sh = self.command("sh");
        let ended = Process::start(sh.args(["-e", "-c", line])).end_within(PATIENCE);
        ended.assert_success();
    }

    /// Sends a request from here.
    #[track_caller]
    pub fn curl(&self, arguments: &[&str]) -> Answer {
        curl_by(self.command("curl"), arguments)
    }
}

impl Default for Host {
    fn default() -> Host {
        Host::new()
    }
}

impl Cable {
    /// Creates two hosts.
    pub fn new() -> Cable {
        Cable::from(Host::new())
    }

    /// Creates two hosts of root's, where programs for AF_XDP may be loaded. None if the test is
    /// not run by root.
    pub fn of_root() -> Option<Cable> {
        Host::of_root().map(Cable::from)
    }

    fn from(near: Host) -> Cable {
        let far = near.beside();
        near.run(&format!("ip link add near type veth peer name far netns {}", far.holder.id()));
        near.run("ip address add 10.77.0.1/24 dev near && ip link set near up");
        far.run("ip address add 10.77.0.2/24 dev far && ip link set far up");
        Cable { near, far }
    }

    /// Unplugs the cable: packets are lost silently.
    pub fn pull(&self) {
        self.far.run("ip link set far down");
    }

    /// Plugs the cable in again.
    pub fn plug(&self) {
        self.far.run("ip link set far up");
    }
}

impl Default for Cable {
    fn default() -> Cable {
        Cable::new()
    }
}
