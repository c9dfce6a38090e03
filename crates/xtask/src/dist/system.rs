//! Packages of systems: the tarball, Debian's and RPM's. All contain the program, and the files of
//! [`FILES`].

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Dist;
use crate::shell;

/// A kind of package.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Debian,
    Rpm,
    Tarball,
}

/// An administrator's file: an upgrade keeps its changes.
const CONFIGURATION: &str = "etc/crore/crore.toml";
const MANUAL: &str = "usr/share/man/man1/crore.1";

/// Not a file of the repository, but of the build.
const NOTICES: &str = "THIRD-PARTY.txt";

/// Files of the repository, their places on a system, and those in the tarball.
const FILES: &[(&str, &str, &str)] = &[
    ("crore.toml", CONFIGURATION, "crore.toml"),
    ("LICENSE", "usr/share/doc/crore/copyright", "LICENSE"),
    (NOTICES, "usr/share/doc/crore/THIRD-PARTY.txt", "THIRD-PARTY.txt"),
    ("README.md", "usr/share/doc/crore/README.md", "README.md"),
    ("CHANGELOG.md", "usr/share/doc/crore/CHANGELOG.md", "CHANGELOG.md"),
    ("docs/operating.md", "usr/share/doc/crore/operating.md", "docs/operating.md"),
    ("docs/configuration.md", "usr/share/doc/crore/configuration.md", "docs/configuration.md"),
    ("deploy/man/crore.1", MANUAL, "man/crore.1"),
    (
        "deploy/systemd/crore.service",
        "usr/lib/systemd/system/crore.service",
        "systemd/crore.service",
    ),
    ("deploy/systemd/crore.socket", "usr/lib/systemd/system/crore.socket", "systemd/crore.socket"),
    (
        "deploy/systemd/crore-operators.socket",
        "usr/lib/systemd/system/crore-operators.socket",
        "systemd/crore-operators.socket",
    ),
    (
        "deploy/completions/crore.bash",
        "usr/share/bash-completion/completions/crore",
        "completions/crore.bash",
    ),
    ("deploy/completions/_crore", "usr/share/zsh/vendor-completions/_crore", "completions/_crore"),
    (
        "deploy/completions/crore.fish",
        "usr/share/fish/vendor_completions.d/crore.fish",
        "completions/crore.fish",
    ),
];

/// Places on a system with RPM that differ from Debian's.
const RPM_PLACES: &[(&str, &str)] = &[
    ("usr/share/doc/crore/copyright", "usr/share/licenses/crore/LICENSE"),
    ("usr/share/doc/crore/THIRD-PARTY.txt", "usr/share/licenses/crore/THIRD-PARTY.txt"),
    ("usr/share/zsh/vendor-completions/_crore", "usr/share/zsh/site-functions/_crore"),
];

/// Folders that the packages create, beyond those of every system.
const FOLDERS: &[&str] = &["etc/crore", "usr/share/doc/crore", "usr/share/licenses/crore"];

/// Scripts of the Debian package.
const SCRIPTS: &[&str] = &["postinst", "postrm", "prerm"];

impl Dist<'_> {
    pub(super) fn tarball(&self) -> Result<()> {
        let name = format!("crore-{}-{}", self.version, self.target.tarball);
        self.tree(Kind::Tarball, &self.stage.join("tarball").join(&name))?;
        let archive = self.folder.join(format!("{name}.tar.gz"));
        let mut tar = self.command(&["tar", "--create", "--sort=name", "--format=gnu"]);
        tar.args(["--owner=0", "--group=0", "--numeric-owner", "--use-compress-program=gzip -9n"]);
        tar.arg("--file").arg(archive).arg("--directory").arg(self.stage.join("tarball"));
        shell::run(tar.arg(&name))?;
        let debug = format!("{name}.debug");
        fs::copy(&self.program.debug, self.folder.join(&debug))?;
        let mut gzip = self.command(&["gzip", "-6", "--no-name"]);
        shell::run(gzip.arg(&debug).current_dir(&self.folder))?;
        let debug = self.folder.join(format!("{debug}.gz"));
        shell::run(self.command(&["chmod", "644"]).arg(debug))
    }

    pub(super) fn debian(&self) -> Result<()> {
        let root = self.stage.join("debian");
        self.tree(Kind::Debian, &root)?;
        let sums = self.command(&["sh", "-c", "find * -type f | LC_ALL=C sort | xargs md5sum"]);
        let sums = shell::output({ sums }.current_dir(&root))?;
        let control = root.join("DEBIAN");
        let scripts = self.workspace.root.join("deploy/debian");
        fs::create_dir_all(&control)?;
        for script in SCRIPTS {
            fs::copy(scripts.join(script), control.join(script))?;
        }
        fs::write(control.join("md5sums"), sums)?;
        fs::write(control.join("conffiles"), format!("/{CONFIGURATION}\n"))?;
        let (major, minor) = self.program.glibc;
        let libgcc = if self.program.needs_libgcc { ", libgcc-s1" } else { "" };
        let text = fs::read_to_string(scripts.join("control"))?
            .replace("@version@", &self.version)
            .replace("@architecture@", self.target.debian)
            .replace("@libraries@", &format!("libc6 (>= {major}.{minor}){libgcc}"))
            .replace("@size@", &(bytes(&root)? / 1024).to_string());
        fs::write(control.join("control"), text)?;
        self.finish(&root)?;
        shell::run(
            self.command(&["chmod", "755"]).args(SCRIPTS.iter().map(|it| control.join(it))),
        )?;
        let name = format!("crore_{}_{}.deb", self.version, self.target.debian);
        let mut build = self.command(&["dpkg-deb", "--build", "--root-owner-group", "-Zxz"]);
        shell::run(build.arg(&root).arg(self.folder.join(name)))
    }

    pub(super) fn rpm(&self) -> Result<()> {
        let root = self.stage.join("rpm");
        self.tree(Kind::Rpm, &root)?;
        let mut list = format!("%attr(755, root, root) /{}\n", Kind::Rpm.program());
        for file in FILES {
            let (mark, ending) = match Kind::Rpm.place(file) {
                CONFIGURATION => ("%config(noreplace) ", ""),
                MANUAL => ("%doc ", ".gz"),
                place if place.starts_with("usr/share/licenses/") => ("%license ", ""),
                place if place.starts_with("usr/share/doc/") => ("%doc ", ""),
                _ => ("", ""),
            };
            let place = Kind::Rpm.place(file);
            writeln!(list, "{mark}%attr(644, root, root) /{place}{ending}")?;
        }
        for folder in FOLDERS {
            writeln!(list, "%dir %attr(755, root, root) /{folder}")?;
        }
        let files = self.stage.join("rpm.files");
        fs::write(&files, list)?;
        let top = self.stage.join("rpmbuild");
        let mut build = self.command(&["rpmbuild", "-bb", "--quiet", "--target", self.target.rpm]);
        let mut define = |name: &str, value: &dyn std::fmt::Display| {
            build.arg("--define").arg(format!("{name} {value}"));
        };
        define("_topdir", &top.display());
        define("_dbpath", &top.join("database").display());
        define("_rpmdir", &self.folder.display());
        define("_rpmfilename", &"%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm");
        define("crore_version", &self.version);
        define("crore_tree", &root.display());
        define("crore_files", &files.display());
        shell::run(build.arg(self.workspace.root.join("deploy/rpm/crore.spec")))
    }

    /// Lays the program and all files at the places of their kind.
    fn tree(&self, kind: Kind, root: &Path) -> Result<()> {
        let lay = |source: &Path, place: &str| -> Result<PathBuf> {
            let path = root.join(place);
            fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
            fs::copy(source, &path).with_context(|| source.display().to_string())?;
            Ok(path)
        };
        for file in FILES {
            let root = if file.0 == NOTICES { &self.stage } else { &self.workspace.root };
            let path = lay(&root.join(file.0), kind.place(file))?;
            if kind.place(file) == MANUAL {
                shell::run(self.command(&["gzip", "-9", "--no-name"]).arg(path))?;
            }
        }
        let program = lay(&self.program.path, kind.program())?;
        self.finish(root)?;
        shell::run(self.command(&["chmod", "755"]).arg(program))
    }

    /// Gives all files the same owner's bits and time, whatever the umask and the checkout are.
    fn finish(&self, root: &Path) -> Result<()> {
        shell::run(self.command(&["chmod", "-R", "u=rwX,go=rX"]).arg(root))?;
        let time = format!("--date=@{}", self.epoch);
        let mut touch = self.command(&["find"]);
        touch.arg(root).args(["-exec", "touch", &time, "{}", "+"]);
        shell::run(&mut touch)
    }
}

impl Kind {
    /// The place of a row of [`FILES`].
    fn place(
        self,
        (_, installed, tarball): &(&'static str, &'static str, &'static str),
    ) -> &'static str {
        let other = RPM_PLACES.iter().find(|(debian, _)| self == Kind::Rpm && debian == installed);
        match (self, other) {
            (Kind::Tarball, _) => tarball,
            (_, Some((_, rpm))) => rpm,
            _ => installed,
        }
    }

    fn program(self) -> &'static str {
        if self == Kind::Tarball { "crore" } else { "usr/bin/crore" }
    }
}

/// The size of all files below a folder.
fn bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        sum += if facts.is_dir() { bytes(&entry.path())? } else { facts.len() };
    }
    Ok(sum)
}
