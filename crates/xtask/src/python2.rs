//! A private Python 2.7 with the Autobahn test suite, under `foreign/autobahn`.
//!
//! Autobahn's fuzzing client needs Python 2.7, which Debian 12 no longer has. The packages of
//! Debian 11 still work on it: apt fetches them with a separate source list (so with Debian's
//! signatures), and they are unpacked, not installed. The Python packages come from PyPI by exact
//! hash. The machine is not changed and its own Python not used, so the suite is the same
//! everywhere.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::setup::{once, private_apt, unpack_packages};
use crate::shell::{self, Workspace};

/// Sources of Debian 11: the ordinary mirrors as long as they carry it, the archive afterwards.
const MIRRORS: &[&str] = &["http://deb.debian.org/debian", "http://archive.debian.org/debian"];

/// The interpreter, its library, and the libraries with newer versions in Debian 12.
const PACKAGES: &[&str] =
    &["python2.7-minimal", "libpython2.7-minimal", "libpython2.7-stdlib", "libffi7", "libssl1.1"];

/// The last pip for Python 2.7; Python 3 fetches it, because pip cannot install itself first.
const PIP: &str = "pip==20.3.4";

/// Installs it, unless the same version exists. The Python 3 environment must exist before.
pub fn install(workspace: &Workspace) -> Result<()> {
    let folder = workspace.foreign().join("autobahn");
    let list = workspace.root.join("tests/autobahn/requirements.txt");
    once(&folder, &fs::read_to_string(&list)?, || {
        interpreter(&folder)?;
        packages(workspace, &folder, &list)
    })
    .context("Autobahn's test suite on Python 2.7, from Debian 11 and PyPI")
}

/// Unpacks packages of Debian 11 into the folder, from the first mirror that has them.
pub fn debian_11(folder: &Path, packages: &[&str]) -> Result<()> {
    let from_any_mirror = MIRRORS.iter().any(|mirror| {
        let unpacked = unpack(folder, mirror, packages);
        if let Err(error) = &unpacked {
            println!("{mirror}: {error:#}");
        }
        unpacked.is_ok()
    });
    ensure!(from_any_mirror, "no mirror has {}", packages.join(", "));
    Ok(())
}

fn interpreter(folder: &Path) -> Result<()> {
    debian_11(folder, PACKAGES)?;
    gather_libraries(folder)?;
    // A wrapper, so that callers need no special environment.
    let wrapper = folder.join("python2.7");
    let text = "#!/bin/sh\n\
        here=$(dirname \"$(readlink -f \"$0\")\")\n\
        export PYTHONHOME=\"$here/usr\" LD_LIBRARY_PATH=\"$here/lib\"\n\
        unset PYTHONPATH\n\
        exec \"$here/usr/bin/python2.7\" \"$@\"\n";
    fs::write(&wrapper, text)?;
    shell::run(Command::new("chmod").arg("+x").arg(&wrapper))?;
    shell::run(Command::new(wrapper).args(["-c", "import ssl, ctypes"]))
}

fn unpack(folder: &Path, mirror: &str, packages: &[&str]) -> Result<()> {
    let apt = folder.join("apt");
    let mut options = private_apt(&apt)?;
    let sources = apt.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(&sources, format!("deb [signed-by={keys}] {mirror} bullseye main\n"))?;
    for option in [
        format!("Dir::Etc::SourceList={}", sources.display()),
        "Dir::Etc::SourceParts=-".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::Check-Valid-Until=false".to_owned(),
    ] {
        options.extend(["-o".to_owned(), option]);
    }
    unpack_packages(folder, &options, packages)?;
    Ok(fs::remove_dir_all(apt)?)
}

/// One folder of libraries for every architecture.
fn gather_libraries(folder: &Path) -> Result<()> {
    let libraries = folder.join("lib");
    fs::create_dir_all(&libraries)?;
    for entry in fs::read_dir(folder.join("usr/lib"))? {
        let architecture = entry?.path();
        if !architecture.to_string_lossy().ends_with("-linux-gnu") {
            continue;
        }
        for library in fs::read_dir(architecture)? {
            let library = library?;
            if !library.file_type()?.is_dir() {
                fs::copy(library.path(), libraries.join(library.file_name()))?;
            }
        }
    }
    Ok(())
}

fn packages(workspace: &Workspace, folder: &Path, list: &Path) -> Result<()> {
    let download = folder.join("pip");
    let download_text = download.to_string_lossy();
    let mut pip = Command::new(workspace.foreign().join("python/bin/pip"));
    pip.args(["download", "--quiet", "--no-deps", PIP, "-d", &download_text]);
    shell::run(&mut pip)?;
    let wheel = fs::read_dir(&download)?.next().context("pip was downloaded")??.path();

    let site = folder.join("site");
    let python = || Command::new(folder.join("python2.7"));
    let install = |requirements: &Path| {
        // Two of the packages exist as sources only; their build needs the setuptools of this list.
        let start = "import os, runpy, sys; sys.path.insert(0, sys.argv[1]); \
            os.environ['PYTHONPATH'] = sys.argv[2]; del sys.argv[1:3]; sys.argv[0] = 'pip'; \
            runpy.run_module('pip', run_name='__main__')";
        let mut command = python();
        command.args(["-W", "ignore", "-c", start]).arg(&wheel).arg(&site);
        command.args(["install", "--quiet", "--no-deps", "--no-build-isolation", "--upgrade"]);
        command.args(["--require-hashes", "--no-python-version-warning", "--target"]).arg(&site);
        shell::run(command.arg("-r").arg(requirements))
    };
    let text = fs::read_to_string(list)?;
    let setuptools: String = text.lines().filter(|line| line.starts_with("setuptools==")).collect();
    let first = folder.join("setuptools.txt");
    fs::write(&first, setuptools + "\n")?;
    install(&first)?;
    install(list)?;
    fs::remove_dir_all(download)?;
    shell::run(
        python()
            .args(["-W", "ignore"])
            .arg(workspace.root.join("tests/autobahn/wstest.py"))
            .arg(&site)
            .arg("-a"),
    )
}
