//! The installed package under a running systemd: reload, live upgrade, watchdog, socket
//! activation, removal.
//!
//! It runs on a separate Debian: namespaces whose process 1 is systemd. Debian 13, because systemd
//! knows `notify-reload` since version 253. debootstrap installs its files once; changes of a run
//! are in memory. It needs root. Invariant: nothing outside is changed, and all its processes end
//! with its process 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::dist;
use crate::setup::{once, private_apt, unpack_packages};
use crate::shell::{self, Workspace};
use crate::tally::Tally;

const SUITE: &str = "trixie";
const MIRROR: &str = "http://deb.debian.org/debian";
/// The packages beyond the minimum of Debian.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,adduser,curl";
/// The time limit of any wait: generous, since a busy machine is not a failure.
const PATIENCE: Duration = Duration::from_secs(120);
/// Folders of version 2 control groups: alone, or beside version 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
/// The start of process 1: `$1` are the files, `$2` is a folder for changes.
const BOOT: &str = include_str!("machine/boot.sh");

/// Installs the package there and operates it.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    let package = dist::package(&dist::release(workspace)?, "deb")?;
    let files = files(workspace)?;
    let machine = Machine::boot(workspace, &files)?;
    fs::copy(&package, machine.path("opt/crore.deb"))?;
    machine.run(&["dpkg", "-i", "/opt/crore.deb"])?;
    machine.run(&[
        "systemd-analyze",
        "--man=no",
        "verify",
        "crore.service",
        "crore.socket",
        "crore-operators.socket",
    ])?;
    check_reload_and_upgrade(&machine)?;
    check_watchdog(&machine)?;
    check_sockets(&machine)?;
    machine.run(&["systemctl", "enable", "--now", "crore.service"])?;
    // The same version again: a running node becomes the new one.
    let before = machine.main_process()?;
    machine.run(&["dpkg", "-i", "/opt/crore.deb"])?;
    machine.wait_for("the node after an upgrade of the package", |machine| {
        Ok(machine.is_ready() && machine.main_process()? != before)
    })?;
    machine.run(&["dpkg", "--purge", "crore"])?;
    ensure!(!machine.path("var/lib/crore").exists(), "the data remains after a purge");
    ensure!(machine.main_process().unwrap_or(0) == 0, "the node runs after a purge");
    Ok(Tally::ONE_PASSED)
}

/// After a live upgrade the unit has another main process, systemd has not restarted it, and
/// published messages are still present.
fn check_reload_and_upgrade(machine: &Machine) -> Result<()> {
    machine.run(&["systemctl", "start", "crore"])?;
    ensure!(machine.is_ready(), "the started node is not ready");
    machine.run(&["systemctl", "reload", "crore"])?;
    let before = machine.main_process()?;
    machine.run(&["curl", "-sf", "-d", "kept", "http://127.0.0.1:8800/topics/news"])?;
    machine.run(&["crore", "upgrade"])?;
    machine.wait_for("another main process", |machine| {
        let now = machine.main_process()?;
        Ok(now != 0 && now != before && !machine.path(&format!("proc/{before}")).exists())
    })?;
    let history = machine.output(&["curl", "-sf", "http://127.0.0.1:8800/topics/news?limit=1"])?;
    ensure!(history.contains("kept"), "after the upgrade: {history}");
    machine.run(&["systemctl", "reload", "crore"])?;
    ensure!(machine.value("NRestarts")? == "0", "the node was restarted");
    machine.run(&["systemctl", "stop", "crore"])?;
    ensure!(machine.value("Result")? == "success", "the node did not stop successfully");
    Ok(())
}

/// A hanging node is killed and restarted, also after an upgrade; a working one is not affected.
fn check_watchdog(machine: &Machine) -> Result<()> {
    let folder = machine.path("run/systemd/system/crore.service.d");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("short.conf"), "[Service]\nWatchdogSec=3s\nTimeoutAbortSec=1s\n")?;
    machine.run(&["systemctl", "daemon-reload"])?;
    machine.run(&["systemctl", "start", "crore"])?;
    machine.run(&["crore", "upgrade"])?;
    let began = Instant::now();
    machine.wait_for("three times its bound", |_| Ok(began.elapsed() > Duration::from_secs(9)))?;
    ensure!(machine.value("NRestarts")? == "0", "a live node was restarted");
    machine.run(&["systemctl", "kill", "--kill-whom=main", "--signal=STOP", "crore"])?;
    machine.wait_for("a new start", |machine| {
        Ok(machine.value("NRestarts")? == "1" && machine.is_ready())
    })?;
    fs::remove_dir_all(folder)?;
    machine.run(&["systemctl", "daemon-reload"])?;
    machine.run(&["systemctl", "stop", "crore"])
}

/// A client that connects while no node runs is served by the next one.
fn check_sockets(machine: &Machine) -> Result<()> {
    machine.run(&["systemctl", "start", "crore.socket", "crore-operators.socket"])?;
    ensure!(machine.main_process()? == 0, "the node runs before the first connection");
    for round in ["started by a connection", "started again"] {
        machine.run(&["curl", "-sf", "-d", round, "http://127.0.0.1:8800/topics/news"])?;
        ensure!(machine.is_ready(), "{round}, and not ready");
        machine.run(&["systemctl", "restart", "crore"])?;
    }
    let before = machine.main_process()?;
    machine.run(&["crore", "upgrade"])?;
    machine.wait_for("an upgrade of one with passed sockets", |machine| {
        Ok(machine.main_process()? != before && machine.is_ready())
    })?;
    machine.run(&["systemctl", "stop", "crore.socket", "crore-operators.socket", "crore.service"])
}

/// The files of an installed Debian.
fn files(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.foreign().join("machine");
    once(&folder, &format!("{SUITE} {PACKAGES}"), || {
        let tool = folder.join("tool");
        let apt = private_apt(&folder.join("apt"))?;
        unpack_packages(&tool, &apt, &["debootstrap"])?;
        let mut debootstrap = Command::new(tool.join("usr/sbin/debootstrap"));
        debootstrap.env("DEBOOTSTRAP_DIR", tool.join("usr/share/debootstrap"));
        debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]);
        shell::run(debootstrap.arg(folder.join("files")).arg(MIRROR))
    })
    .context("the separate Debian")?;
    Ok(folder.join("files"))
}

/// A running systemd, and its files.
struct Machine {
    process: Child,
    init: u32,
    group: PathBuf,
}

impl Machine {
    fn boot(workspace: &Workspace, files: &Path) -> Result<Machine> {
        let changes = workspace.target.join("machine");
        fs::create_dir_all(&changes)?;
        let is_there = |path: &&&str| Path::new(path).join("cgroup.procs").exists();
        let groups = GROUPS.iter().find(is_there);
        let group = Path::new(groups.context("control groups, version 2")?).join("crore-machine");
        fs::create_dir_all(&group)?;
        let log = fs::File::create(workspace.target.join("machine.log"))?;
        let mut command = Command::new("unshare");
        command.args(["--fork", "--kill-child", "--pid", "--mount", "--ipc", "--uts", "--net"]);
        command.args(["sh", "-c", BOOT, "boot"]).arg(files).arg(&changes).arg(&group);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().context("unshare")?;
        let mut machine = Machine { process, init: 0, group };
        let children = format!("/proc/{0}/task/{0}/children", machine.process.id());
        machine.wait_for("process 1", |_| Ok(!fs::read_to_string(&children)?.trim().is_empty()))?;
        machine.init = fs::read_to_string(&children)?.trim().parse()?;
        machine.wait_for("systemd (see target/machine.log)", |machine| {
            let state = machine.command(&["systemctl", "is-system-running"]).output()?;
            let state = String::from_utf8_lossy(&state.stdout).into_owned();
            // Units that cannot work in namespaces may have failed.
            Ok(["running", "degraded"].contains(&state.trim()))
        })?;
        Ok(machine)
    }

    /// A path inside it, as seen from outside.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.init)).join(path)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--all", "--root", "--wd"]);
        command.args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]).args(words);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Result<()> {
        shell::run(&mut self.command(words))
    }

    fn output(&self, words: &[&str]) -> Result<String> {
        shell::output(&mut self.command(words))
    }

    /// A property of the unit.
    fn value(&self, name: &str) -> Result<String> {
        let value = self.output(&["systemctl", "show", "--value", "--property", name, "crore"])?;
        Ok(value.trim().to_owned())
    }

    /// The process number inside it; 0 if there is none.
    fn main_process(&self) -> Result<u32> {
        Ok(self.value("MainPID")?.parse()?)
    }

    fn is_ready(&self) -> bool {
        shell::succeeds(&mut self.command(&["crore", "health"]))
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Machine) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self)? {
            ensure!(Instant::now() < deadline, "timeout while waiting for {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its process 1 ends with it, and so do all others.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let remove = "find \"$0\" -depth -type d -exec rmdir {} +";
        let _ = shell::succeeds(Command::new("sh").args(["-c", remove]).arg(&self.group));
    }
}
