//! `peers --install`: the other servers, from registries, into one folder.
//!
//! Place: before any measurement; no other module downloads anything. Versions are exact where the
//! registry keeps old ones. Debian keeps only the newest version of a release, so each program is
//! asked for its version, which is printed. Debian's packages are unpacked, not installed, because
//! an installation would start them as services of this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

const NATS: &str = "github.com/nats-io/nats-server/v2@v2.15.2";
const WS: &str = "ws@8.23.0";
const PYTHON: [&str; 2] = ["websockets==15.0.1", "uvloop==0.21.0"];
/// With the libraries that a small Debian does not have.
const MOSQUITTO: [&str; 4] = ["mosquitto", "libcjson1", "libdlt2", "libwrap0"];
const NCHAN: [&str; 2] = ["nginx", "libnginx-mod-nchan"];

/// Fills a folder.
type Install = fn(&Path) -> anyhow::Result<()>;

/// Tries each; a server that cannot be installed is named and left out.
pub fn everything(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let steps: [(&str, Install); 5] = [
        ("nats-server", nats),
        ("mosquitto", |into| debian(into, &MOSQUITTO)),
        ("nchan", |into| debian(into, &NCHAN)),
        ("ws", node),
        ("websockets", python),
    ];
    for (name, install) in steps {
        let into = folder.join(name);
        match once(&into, install) {
            Ok(()) => println!("{name}: {}", into.display()),
            Err(error) => println!("{name}: not to be had here: {error:#}"),
        }
    }
    Ok(())
}

/// Runs `install` into an empty folder, unless it has been done.
fn once(into: &Path, install: Install) -> anyhow::Result<()> {
    let stamp = into.join(".installed");
    if stamp.is_file() {
        return Ok(());
    }
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    fs::create_dir_all(into)?;
    install(into)?;
    fs::write(&stamp, "")?;
    Ok(())
}

fn nats(into: &Path) -> anyhow::Result<()> {
    run(Command::new("go").args(["install", NATS]).env("GOBIN", into).env("CGO_ENABLED", "0"))
}

/// Unpacks them, and notes the version of the last one.
fn debian(into: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let archives = into.join("archives");
    fs::create_dir_all(&archives)?;
    run(Command::new("apt-get").args(["-q", "download"]).args(packages).current_dir(&archives))
        .context("`apt-get update` may help")?;
    let last = packages.last().copied().unwrap_or_default();
    for archive in fs::read_dir(&archives)? {
        let archive = archive?;
        run(Command::new("dpkg-deb").arg("-x").arg(archive.path()).arg(into))?;
        let name = archive.file_name().to_string_lossy().into_owned();
        // NAME_VERSION_ARCHITECTURE.deb, with a colon written as %3a.
        if let Some((name, rest)) = name.split_once('_')
            && name == last
        {
            let version = rest.split('_').next().unwrap_or_default();
            fs::write(into.join("version"), version.replace("%3a", ":"))?;
        }
    }
    fs::remove_dir_all(archives)?;
    Ok(())
}

fn node(into: &Path) -> anyhow::Result<()> {
    let options = ["--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"];
    run(Command::new("npm").args(["install", "--prefix"]).arg(into).args(options).arg(WS))
}

fn python(into: &Path) -> anyhow::Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(into))?;
    run(Command::new(into.join("bin/pip"))
        .args(["install", "--quiet", "--only-binary", ":all:"])
        .args(PYTHON))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| program.clone())?;
    if !status.success() {
        bail!("{program}: {status}");
    }
    Ok(())
}
