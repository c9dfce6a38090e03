//! Packages of a release, made from one program: npm, PyPI, tarball, Debian, RPM, and the sums of
//! all of them (docs/packaging.md).
//!
//! A release links the program against an old glibc, with zig. The gate packs the program that its
//! other steps use. Invariant: the packages of one folder contain the same stripped program, and
//! equal sources, commit and tools give equal bytes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs;
use crate::python2;
use crate::sdk_js;
use crate::sdk_python;
use crate::setup;
use crate::shell::{self, Workspace};
use crate::tally::Tally;

mod notices;
mod program;
mod system;

use program::Program;

/// A platform with packages, and its name in each kind of package. Only Linux has what the server
/// needs (epoll, io_uring).
#[derive(Debug)]
pub struct Target {
    triple: &'static str,
    tarball: &'static str,
    npm: &'static str,
    wheel: &'static str,
    debian: &'static str,
    rpm: &'static str,
}

/// All platforms. A further one is a row here, and a run of `cargo xtask dist` on it.
pub const TARGETS: &[Target] = &[Target {
    triple: "x86_64-unknown-linux-gnu",
    tarball: "x86_64-linux",
    npm: "linux-x64",
    wheel: "x86_64",
    debian: "amd64",
    rpm: "x86_64",
}];

/// The glibc of a release: RHEL 8 and everything newer.
const GLIBC: &str = "2.28";
/// Features of a release that the gate's program lacks.
const RELEASE_FEATURES: &str = "engine-vendored";
/// The profile of a release's program (Cargo.toml).
const PROFILE: &str = "packaged";
const ZIG: &str = "zig";
/// The environment of the tools that install and examine packages.
const TOOLS: &str = "packages";
const SDK_PYTHON: &str = "sdk/python";

/// A folder of packages, while they are built.
struct Dist<'a> {
    workspace: &'a Workspace,
    target: &'static Target,
    program: Program,
    version: String,
    /// The commit's time in seconds, which all files get.
    epoch: String,
    /// The file with the licences of the program's libraries.
    notices: PathBuf,
    /// The folder of the packages, and another for their parts.
    folder: PathBuf,
    stage: PathBuf,
}

/// Builds the packages of a release in `target/dist`, and returns that folder.
pub fn release(workspace: &Workspace) -> Result<PathBuf> {
    let program = build_with_zig(workspace, target()?)?;
    pack(workspace, &program, "dist")
}

/// Packs a program into the folder of that name below the target folder, and returns the folder.
pub fn pack(workspace: &Workspace, program: &Path, folder: &str) -> Result<PathBuf> {
    let folder = workspace.target.join(folder);
    let stage = folder.with_extension("parts");
    for folder in [&folder, &stage] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    let target = target()?;
    let notices = stage.join("THIRD-PARTY.txt");
    fs::write(&notices, notices::text(workspace, target)?)?;
    let dist = Dist {
        workspace,
        target,
        program: Program::strip(program, &stage)?,
        version: version(workspace)?,
        epoch: epoch(workspace)?,
        notices,
        folder,
        stage,
    };
    dist.tarball()?;
    dist.debian()?;
    dist.rpm()?;
    dist.npm()?;
    dist.pypi()?;
    dist.sums()?;
    fs::remove_dir_all(&dist.stage)?;
    Ok(dist.folder)
}

/// Packs the gate's program twice, with equal result, and tries every package from its file.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    programs::release(workspace)?;
    let program = workspace.target.join("release/crore");
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS"));
    let first = pack(workspace, &program, "packages")?;
    let second = pack(workspace, &program, "packages-again")?;
    ensure!(sums(&first)? == sums(&second)?, "the same sources give different packages");
    fs::remove_dir_all(second)?;
    Ok(Tally::ONE_PASSED + shell::run_tests(&mut attempt(workspace, &first)?)?)
}

/// Builds the packages of a release and tries them, also with the glibc of Debian 11. Returns their
/// folder.
pub fn check_release(workspace: &Workspace) -> Result<(PathBuf, Tally)> {
    let folder = release(workspace)?;
    let old = workspace.foreign().join("debian-11");
    setup::once(&old, "libc6", || python2::debian_11(&old, &["libc6/bullseye"]))?;
    let mut tests = attempt(workspace, &folder)?;
    tests.env("CRORE_OLD_LIBRARIES", old.join("lib/x86_64-linux-gnu"));
    let tally = shell::run_tests(&mut tests)?;
    Ok((folder, tally))
}

/// The tests that install each package of a folder as a user does, and run its program.
fn attempt(workspace: &Workspace, folder: &Path) -> Result<Command> {
    setup::python_packages(workspace, TOOLS, "tests/packages/requirements.txt")?;
    let tools = workspace.foreign().join(TOOLS);
    let wheels = workspace.foreign().join("packages-wheels");
    let list = workspace.root.join("tests/packages/requirements.txt");
    setup::once(&wheels, &fs::read_to_string(&list)?, || {
        let mut pip = Command::new(tools.join("bin/pip"));
        pip.args(["download", "--quiet", "--no-deps", "--require-hashes", "--dest"]).arg(&wheels);
        shell::run(pip.arg("-r").arg(&list))
    })?;
    // With pip, which Debian's own Python lacks.
    let mut tests = Command::new(tools.join("bin/python"));
    tests.arg("tests/packages/attempt.py").arg(folder).current_dir(&workspace.root);
    tests.env("CRORE_TOOLS", tools.join("bin")).env("CRORE_WHEELS", wheels);
    tests.env("CRORE_PYTHON", sdk_python::python(workspace)?);
    tests.env("CRORE_RUNTIMES", sdk_js::runtimes(workspace)?);
    Ok(tests)
}

/// The package with this extension in a folder of packages.
pub fn package(folder: &Path, extension: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = files.find(|path| path.extension().is_some_and(|found| found == extension));
    found.with_context(|| format!("no package {extension} in {}", folder.display()))
}

/// The target of this machine.
fn target() -> Result<&'static Target> {
    let is_here = |target: &&Target| target.triple.starts_with(env::consts::ARCH);
    TARGETS.iter().find(is_here).context("no packages for this machine's architecture")
}

fn build_with_zig(workspace: &Workspace, target: &Target) -> Result<PathBuf> {
    setup::python_packages(workspace, ZIG, "deploy/zig.txt")?;
    let zig = workspace.foreign().join(ZIG).join("bin");
    let mut build = workspace.command(&["cargo-zigbuild", "zigbuild", "--locked"]);
    build.args(["--profile", PROFILE, "-p", "crore", "--features", RELEASE_FEATURES]);
    build.args(["--target", &format!("{}.{GLIBC}", target.triple)]);
    let caches = workspace.foreign().join("zig-cache");
    build.env("PATH", shell::path_with(&zig)?).env("CARGO_ZIGBUILD_CACHE_DIR", &caches);
    shell::run(build.env("ZIG_GLOBAL_CACHE_DIR", &caches))?;
    Ok(workspace.target.join(target.triple).join(PROFILE).join("crore"))
}

/// The version of the server, which both packages with a client library have, too.
fn version(workspace: &Workspace) -> Result<String> {
    let read = |path: &str| fs::read_to_string(workspace.root.join(path)).context(path.to_owned());
    let toml = |path: &str| -> Result<toml::Table> { Ok(toml::from_str(&read(path)?)?) };
    let text = |value: Option<&toml::Value>| value?.as_str().map(str::to_owned);
    let server = &toml("Cargo.toml")?["workspace"]["package"]["version"];
    let python = &toml("sdk/python/pyproject.toml")?["project"]["version"];
    let version = text(Some(server)).context("no version")?;
    let has_javascript =
        read("sdk/js/package.json")?.contains(&format!("\"version\": \"{version}\""));
    ensure!(
        has_javascript && server == python,
        "Cargo.toml, sdk/js/package.json and sdk/python/pyproject.toml have different versions"
    );
    Ok(version)
}

fn epoch(workspace: &Workspace) -> Result<String> {
    if let Ok(given) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut log = workspace.command(&["git", "log", "-1", "--format=%ct"]);
    Ok(shell::output(&mut log).context("the commit's time")?.trim().to_owned())
}

impl Dist<'_> {
    /// A command with the time for whatever it writes.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.workspace.command(words);
        command.env("SOURCE_DATE_EPOCH", &self.epoch);
        command
    }

    fn npm(&self) -> Result<()> {
        shell::run(&mut sdk_js::node(self.workspace, "scripts/build.mjs")?)?;
        let mut pack = sdk_js::node(self.workspace, "scripts/pack.mjs")?;
        pack.args([&self.folder, &self.program.path, &self.notices]).arg(&self.program.loader);
        pack.arg(self.target.npm).args(TARGETS.iter().map(|target| target.npm));
        shell::run(&mut pack)
    }

    fn pypi(&self) -> Result<()> {
        let python = sdk_python::python(self.workspace)?;
        let python = python.to_string_lossy();
        let sdk = self.workspace.root.join(SDK_PYTHON);
        let mut build = self.command(&[&python, "-m", "build", "--no-isolation", "--outdir"]);
        shell::run(build.arg(&self.folder).current_dir(&sdk))?;
        let pure = self.folder.join(format!("crore-{}-py3-none-any.whl", self.version));
        let (major, minor) = self.program.glibc;
        let tag = format!("manylinux_{major}_{minor}_{}", self.target.wheel);
        let mut wheel = self.command(&[&python, "scripts/platform_wheel.py"]);
        wheel
            .args([&pure, &self.program.path, &self.notices])
            .arg(tag)
            .arg(&self.folder)
            .current_dir(&sdk);
        shell::run(&mut wheel)
    }

    /// `SHA256SUMS`, for `sha256sum --check`.
    fn sums(&self) -> Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            names.push(entry?.file_name());
        }
        names.sort();
        let mut sums = self.command(&["sha256sum"]);
        let sums = shell::output(sums.args(names).current_dir(&self.folder))?;
        Ok(fs::write(self.folder.join("SHA256SUMS"), sums)?)
    }
}
