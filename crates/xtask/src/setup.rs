//! Installs the tools of the tests on a Debian 12 machine; existing ones are not changed.
//!
//! Compiler parts come from rustup, system packages from apt (as root or through sudo), packages of
//! npm and PyPI from committed lists of exact versions into the target folder. Prometheus with its
//! `promtool`, nginx, Caddy and Python 2.7 are taken out of their Debian packages into the target
//! folder: installing those would start servers, or is not possible at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::python2;
use crate::shell::{self, Workspace};

/// Exact, so that the gate's result for the same sources does not change by itself.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// Programs that tests start, with their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("dpkg-deb", "dpkg"),
    ("go", "golang-go"),
    ("hexdump", "bsdextrautils"),
    ("ip", "iproute2"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("node", "nodejs"),
    ("mosquitto_passwd", "mosquitto"),
    ("mosquitto_sub", "mosquitto-clients"),
    ("npm", "npm"),
    ("openssl", "openssl"),
    ("php", "php-cli"),
    ("objcopy", "binutils"),
    ("python3", "python3"),
    ("rpmbuild", "rpm"),
    ("slowhttptest", "slowhttptest"),
    ("strace", "strace"),
    ("systemd-analyze", "systemd"),
    ("testssl", "testssl.sh"),
    ("valgrind", "valgrind"),
];

/// Installs all of it.
pub fn everything(workspace: &Workspace) -> Result<()> {
    fs::create_dir_all(workspace.foreign())?;
    compiler_parts(workspace)?;
    system_packages(workspace)?;
    promtool(workspace)?;
    proxies(workspace)?;
    npm_packages(workspace)?;
    python_packages(workspace, "python", "tests/clients/requirements.txt")?;
    python_packages(workspace, "schemathesis", "tests/schemathesis/requirements.txt")?;
    python2::install(workspace)?;
    cargo_deny(workspace)?;
    Ok(())
}

/// Installs `cargo-deny` from crates.io once; about two minutes on two cores.
pub fn cargo_deny(workspace: &Workspace) -> Result<PathBuf> {
    cargo_tool(workspace, "cargo-deny", CARGO_DENY_VERSION)
}

/// Installs a cargo tool in an exact version from crates.io once.
pub fn cargo_tool(workspace: &Workspace, name: &str, version: &str) -> Result<PathBuf> {
    let folder = workspace.foreign().join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.is_file() {
        let version = format!("{name}@{version}");
        let folder_text = folder.to_string_lossy();
        let arguments = ["install", "--locked", "--quiet", "--root", &folder_text, &version];
        let build = workspace.foreign().join("build");
        shell::run(workspace.cargo(&arguments).env("CARGO_TARGET_DIR", &build))?;
        fs::remove_dir_all(build)?;
    }
    Ok(program)
}

/// Runs `install` into a fresh folder, unless the last run finished with the same `key`.
pub fn once(folder: &Path, key: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = folder.join(".installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == key) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    install()?;
    fs::write(&stamp, key)?;
    Ok(())
}

/// Options that give apt separate lists and a cache under `state`, so that it needs no root.
pub fn private_apt(state: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(state.join("state/lists/partial"))?;
    fs::create_dir_all(state.join("cache/archives/partial"))?;
    let state = state.display();
    let options = [
        format!("Dir::State={state}/state"),
        format!("Dir::Cache={state}/cache"),
        "APT::Sandbox::User=".to_owned(),
    ];
    Ok(options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect())
}

/// Downloads Debian packages and unpacks them into `folder`. `apt_options` select the source.
pub fn unpack_packages(folder: &Path, apt_options: &[String], packages: &[&str]) -> Result<()> {
    let archives = folder.join("archives");
    fs::create_dir_all(&archives)?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-o", "Acquire::Retries=3"]).args(apt_options).args(arguments);
        command.current_dir(&archives);
        shell::run(&mut command)
    };
    apt(&["update"])?;
    apt(&[&["download"], packages].concat())?;
    for archive in fs::read_dir(&archives)? {
        let mut command = Command::new("dpkg-deb");
        shell::run(command.arg("-x").arg(archive?.path()).arg(folder))?;
    }
    fs::remove_dir_all(archives)?;
    Ok(())
}

fn compiler_parts(workspace: &Workspace) -> Result<()> {
    for (part, program) in [("clippy", "cargo-clippy"), ("rustfmt", "cargo-fmt")] {
        if !shell::succeeds(&mut workspace.command(&[program, "--version"])) {
            shell::run(&mut workspace.command(&["rustup", "component", "add", part]))?;
        }
    }
    Ok(())
}

fn system_packages(workspace: &Workspace) -> Result<()> {
    let mut missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !shell::is_installed(program))
        .map(|(_, package)| *package)
        .collect();
    if !shell::succeeds(&mut workspace.command(&["python3", "-c", "import ensurepip, venv"])) {
        missing.push("python3-venv");
    }
    // For the cargo feature `engine`: librdkafka uses the system's OpenSSL.
    if !shell::succeeds(&mut workspace.command(&["pkg-config", "--exists", "openssl"])) {
        missing.extend(["libssl-dev", "pkg-config"]);
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !shell::is_installed("apt-get") {
        bail!("please install: {} (only Debian's apt is known here)", missing.join(", "));
    }
    let user = shell::output(&mut workspace.command(&["id", "-u"]))?;
    let prefix: &[&str] = match (user.trim(), shell::is_installed("sudo")) {
        ("0", _) => &["env", "DEBIAN_FRONTEND=noninteractive"],
        (_, true) => &["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"],
        _ => bail!("please install as root: {}", missing.join(" ")),
    };
    // A new machine may still be running its first installation.
    let apt = [prefix, &["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]].concat();
    shell::run(&mut workspace.command(&[&apt[..], &["update"]].concat()))?;
    let install = ["install", "-y", "--no-install-recommends"];
    shell::run(&mut workspace.command(&[&apt[..], &install, &missing].concat()))
}

/// Unpacks Prometheus and its checker from the server's package, as
/// `foreign/promtool/usr/bin/promtool` and `prometheus`.
fn promtool(workspace: &Workspace) -> Result<()> {
    let folder = workspace.foreign().join("promtool");
    once(&folder, "prometheus", || {
        let apt = private_apt(&folder.join("apt"))?;
        unpack_packages(&folder, &apt, &["prometheus"])?;
        fs::remove_dir_all(folder.join("apt"))?;
        let program = folder.join("usr/bin/promtool");
        shell::run(Command::new(program).arg("--version"))
    })
    .context("promtool, from Debian's package `prometheus`")
}

/// Unpacks nginx and Caddy, as `foreign/proxies/usr/sbin/nginx` and
/// `foreign/proxies/usr/bin/caddy`.
fn proxies(workspace: &Workspace) -> Result<()> {
    let folder = workspace.foreign().join("proxies");
    once(&folder, "nginx caddy", || {
        let apt = private_apt(&folder.join("apt"))?;
        unpack_packages(&folder, &apt, &["nginx", "caddy"])?;
        fs::remove_dir_all(folder.join("apt"))?;
        shell::run(Command::new(folder.join("usr/sbin/nginx")).arg("-v"))?;
        shell::run(Command::new(folder.join("usr/bin/caddy")).arg("version"))
    })
    .context("proxies, from Debian's packages `nginx` and `caddy`")
}

fn npm_packages(workspace: &Workspace) -> Result<()> {
    let folder = workspace.foreign().join("npm");
    let files = ["package.json", "package-lock.json"];
    let lists = workspace.root.join("tests/clients");
    let key = read_all(&lists, &files)?;
    once(&folder, &key, || {
        for file in files {
            fs::copy(lists.join(file), folder.join(file))?;
        }
        let arguments = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        shell::run(workspace.command(&arguments).current_dir(&folder))
    })
    .context("packages of npm")
}

/// Creates a Python environment with the packages of a list, in the foreign folder under this name.
pub fn python_packages(workspace: &Workspace, name: &str, list: &str) -> Result<()> {
    python_packages_with(workspace, Path::new("python3"), name, list)
}

/// Like `python_packages`, with this interpreter.
pub fn python_packages_with(
    workspace: &Workspace,
    python: &Path,
    name: &str,
    list: &str,
) -> Result<()> {
    let folder = workspace.foreign().join(name);
    let list = workspace.root.join(list);
    once(&folder, &fs::read_to_string(&list)?, || {
        shell::run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--require-hashes", "-r"]).arg(&list);
        shell::run(&mut pip)
    })
    .context("packages of PyPI")
}

fn read_all(folder: &Path, files: &[&str]) -> Result<String> {
    let read = |file: &&str| {
        let path = folder.join(file);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    files.iter().map(read).collect()
}
