//! Packages for operators: the units of systemd, and the packages for Debian and RPM.
//!
//! The units are checked without a running systemd: that every line is known, and their exposure.
//! The check of Debian's package installs it on this machine, starts the command line of its unit
//! as its user, removes and purges it. RPM's is installed on a copy whose changes are in memory.
//! That needs root, and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::dist;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

/// The maximum exposure in `systemd-analyze security`, in tenths: 18 is the present one.
const EXPOSURE_MAX: &str = "18";
const UNITS: &[&str] = &["crore.service", "crore.socket", "crore-operators.socket"];
const PROGRAM: &str = "/usr/bin/crore";
const HOME: &str = "/var/lib/crore";
/// The runtime directory, as systemd would create it; not that of another node.
const RUNTIME_DIRECTORY: &str = "/run/crore-package";
/// The check of RPM's package: `$1` is the package, `$2` is a folder for changes.
const RPM: &str = include_str!("package/rpm.sh");
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks the units.
pub fn check_units(workspace: &Workspace) -> Result<Tally> {
    let folder = workspace.target.join("units");
    fs::create_dir_all(&folder)?;
    for unit in UNITS {
        let text = fs::read_to_string(workspace.root.join("deploy/systemd").join(unit))?;
        // The unit's program need not be installed here.
        fs::write(folder.join(unit), text.replace(PROGRAM, "/bin/true"))?;
    }
    let paths: Vec<PathBuf> = UNITS.iter().map(|unit| folder.join(unit)).collect();
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(&paths)
        .output()
        .context("systemd-analyze")?;
    let said = String::from_utf8_lossy(&verified.stderr);
    // Versions before 253 do not know it; the unit has an alternative for them.
    let faults: Vec<&str> = said
        .lines()
        .filter(|line| !line.ends_with("Failed to parse service type, ignoring: notify-reload"))
        .collect();
    ensure!(faults.is_empty(), "the units: {}", faults.join("\n"));
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let mut security = workspace.command(&["systemd-analyze", "security", "--offline=true"]);
    let said = shell::output(security.arg(threshold).arg(&paths[0]))?;
    println!("{}", said.lines().last().unwrap_or_default().trim());
    Ok(Tally::ONE_PASSED)
}

/// Tries all packages of a release; installs those for Debian and RPM, starts their program, and
/// removes them.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    let (folder, tally) = dist::check_release(workspace)?;
    check_package(&dist::package(&folder, "deb")?)?;
    check_rpm(workspace, &dist::package(&folder, "rpm")?)?;
    Ok(tally + Tally { passed: 2, failed: 0 })
}

fn check_rpm(workspace: &Workspace, package: &Path) -> Result<()> {
    let changes = workspace.target.join("rpm-changes");
    fs::create_dir_all(&changes)?;
    let mut check = Command::new("unshare");
    check.args(["--mount", "--fork", "--kill-child", "sh", "-c", RPM, "sh"]);
    shell::run(check.arg(package).arg(&changes))?;
    Ok(fs::remove_dir(changes)?)
}

fn check_package(package: &Path) -> Result<()> {
    let succeeds = |words: &[&str]| shell::succeeds(Command::new(words[0]).args(&words[1..]));
    ensure!(succeeds(&["test", "-w", "/etc/passwd"]), "installing a package needs root");
    ensure!(!Path::new(PROGRAM).exists(), "{PROGRAM} is already installed");
    let had_user = succeeds(&["getent", "passwd", "crore"]);
    let installed = Installed { had_user };
    let apt = ["apt-get", "-q", "install", "-y", "--no-install-recommends"];
    let mut install = Command::new(apt[0]);
    install.args(&apt[1..]).env("DEBIAN_FRONTEND", "noninteractive");
    shell::run(install.arg(package))?;

    for path in [
        PROGRAM,
        "/etc/crore/crore.toml",
        "/usr/lib/systemd/system/crore.service",
        "/usr/share/man/man1/crore.1.gz",
        "/usr/share/bash-completion/completions/crore",
        HOME,
    ] {
        ensure!(Path::new(path).exists(), "{path} is missing");
    }
    ensure!(succeeds(&["getent", "passwd", "crore"]), "no user crore");
    let conffiles =
        shell::output(Command::new("dpkg-query").args(["-W", "-f=${Conffiles}", "crore"]))?;
    ensure!(conffiles.contains("/etc/crore/crore.toml"), "{conffiles}");

    let mut node = start_by_unit()?;
    let ready = wait_until(|| succeeds(&[PROGRAM, "health"]));
    let mut drain = Command::new(PROGRAM);
    drain.env("RUNTIME_DIRECTORY", RUNTIME_DIRECTORY);
    let drained = ready && shell::succeeds(drain.args(["drain", "--window", "1s"]));
    if !drained {
        node.kill()?;
    }
    let status = node.wait()?;
    ensure!(ready, "the installed node did not get ready");
    ensure!(drained && status.success(), "the node did not drain: {status}");

    shell::run(Command::new("dpkg").args(["--remove", "crore"]))?;
    ensure!(!Path::new(PROGRAM).exists(), "the program remains after removal");
    ensure!(Path::new("/etc/crore/crore.toml").exists(), "removal deleted the configuration");
    ensure!(Path::new(HOME).exists(), "removal deleted the data");
    shell::run(Command::new("dpkg").args(["--purge", "crore"]))?;
    for path in ["/etc/crore", HOME] {
        ensure!(!Path::new(path).exists(), "{path} remains after a purge");
    }
    drop(installed);
    Ok(())
}

/// Starts the command line of the installed unit, with its user and its environment.
fn start_by_unit() -> Result<Child> {
    let unit = fs::read_to_string("/usr/lib/systemd/system/crore.service")?;
    let values = |key: &str| -> Vec<String> {
        let lines = unit.lines().filter_map(|line| line.strip_prefix(key));
        lines.map(str::to_owned).collect()
    };
    let (starts, environment) = (values("ExecStart="), values("Environment="));
    let [start] = &starts[..] else {
        bail!("the unit has {} command lines", starts.len());
    };
    // Without it `crore drain` would not find the operators' socket.
    ensure!(values("RuntimeDirectory=") == ["crore"], "the unit has no runtime directory");
    let owned = ["-d", "-m", "0755", "-o", "crore", "-g", "crore"];
    shell::run(Command::new("install").args(owned).arg(RUNTIME_DIRECTORY))?;
    // `setpriv` becomes the node, so that a signal reaches the node.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=crore", "--regid=crore", "--init-groups", "--", "env"]);
    command.args(environment);
    command.arg(format!("RUNTIME_DIRECTORY={RUNTIME_DIRECTORY}"));
    command.args(start.split(' ')).current_dir(HOME);
    let child = command.stdin(Stdio::null()).spawn();
    child.context("the unit's command line")
}

fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

/// Removes all remains when dropped.
struct Installed {
    had_user: bool,
}

impl Drop for Installed {
    fn drop(&mut self) {
        let quietly = |words: &[&str]| {
            let _ = shell::succeeds(Command::new(words[0]).args(&words[1..]));
        };
        quietly(&["dpkg", "--purge", "crore"]);
        quietly(&["rm", "-r", RUNTIME_DIRECTORY]);
        if !self.had_user {
            quietly(&["deluser", "--quiet", "crore"]);
        }
    }
}
