//! Starts other programs: working folder, captured output, and error text.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tally::Tally;

/// The checkout and the target folder.
#[derive(Debug)]
pub struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
}

impl Workspace {
    /// The workspace of this program's build.
    pub fn locate() -> Result<Workspace> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .context("xtask's folder has no workspace above it")?
            .to_path_buf();
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let target = env::current_dir()?.join(target);
        Ok(Workspace { root, target })
    }

    /// The folder of foreign tools and packages, owned by `setup`.
    pub fn foreign(&self) -> PathBuf {
        self.target.join("foreign")
    }

    /// A command that runs at the root with our target folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&self.root);
        command.env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// A command of the present cargo, with the committed lock file.
    pub fn cargo(&self, words: &[&str]) -> Command {
        let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        self.command(&[&[cargo.as_str()], words].concat())
    }
}

/// Runs the command to its end; its output is passed through.
pub fn run(command: &mut Command) -> Result<()> {
    print_command(command);
    let status = command.status().with_context(|| not_started(command))?;
    if !status.success() {
        bail!("{} failed ({status})", words(command));
    }
    Ok(())
}

/// Runs a test runner: prints its output and sums up its results. A runner that fails without a
/// counted failure (a test that does not compile) counts as one.
pub fn run_tests(command: &mut Command) -> Result<Tally> {
    print_command(command);
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| not_started(command))?;
    let output = child.stdout.take().context("a piped output is there")?;
    let mut tally = Tally::default();
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        tally = tally + Tally::of_line(text.trim_end());
        line.clear();
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    if tally == Tally::default() {
        bail!("{} ran no test", words(command));
    }
    Ok(tally)
}

/// Runs the command and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| not_started(command))?;
    if !output.status.success() {
        bail!("{} failed ({})", words(command), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether the command starts and ends with success; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether a program of this name is on the search path.
pub fn is_installed(program: &str) -> bool {
    let Some(path) = env::var_os("PATH") else {
        return false;
    };
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn print_command(command: &Command) {
    println!("$ {}", words(command));
}

fn not_started(command: &Command) -> String {
    format!("cannot start {}", words(command))
}

fn words(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The search path with this folder first.
pub fn path_with(folder: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}
