//! The program of the packages: stripped, with its debug information in a file of its own, and the
//! facts that packages state about it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell;

/// The compiler's library, for unwinding. What zig links contains it.
const LIBGCC: &str = "libgcc_s.so.1";
/// Libraries that a package may require: this one, and those of glibc of any age.
const LIBRARIES: &[&str] = &[
    LIBGCC,
    "ld-linux",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
];

/// A stripped program.
pub struct Program {
    pub path: PathBuf,
    /// The removed part, by which debuggers give the lines of the source.
    pub debug: PathBuf,
    /// The oldest glibc that has everything it requires: found in the program itself.
    pub glibc: (u32, u32),
    /// Whether it requires the compiler's library beside glibc.
    pub needs_libgcc: bool,
    /// The path of the dynamic loader, absent on systems with another C library.
    pub loader: String,
}

impl Program {
    /// Strips `built` into the folder.
    pub fn strip(built: &Path, folder: &Path) -> Result<Program> {
        let (path, debug) = (folder.join("crore"), folder.join("crore.debug"));
        let objcopy = || {
            let mut command = Command::new("objcopy");
            command.current_dir(folder);
            command
        };
        shell::run(objcopy().arg("--only-keep-debug").arg(built).arg(&debug))?;
        let mut strip = objcopy();
        strip.args(["--strip-all", "--add-gnu-debuglink=crore.debug"]);
        shell::run(strip.arg(built).arg(&path))?;
        let facts = ["--wide", "--dynamic", "--version-info", "--program-headers"];
        let facts = shell::output(Command::new("readelf").args(facts).arg(&path))?;
        for library in needed(&facts) {
            let is_known = LIBRARIES.iter().any(|name| library.starts_with(name));
            ensure!(is_known, "the program requires {library}");
        }
        let needs_libgcc = needed(&facts).any(|library| library == LIBGCC);
        let glibc = glibc(&facts).context("the program does not require glibc")?;
        let loader = loader(&facts).context("the program has no dynamic loader")?.to_owned();
        Ok(Program { path, debug, glibc, needs_libgcc, loader })
    }
}

fn needed(facts: &str) -> impl Iterator<Item = &str> {
    let lines = facts.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| line.split(['[', ']']).nth(1))
}

/// The highest version of the required symbols.
fn glibc(facts: &str) -> Option<(u32, u32)> {
    let versions = facts.split("Name: GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split_whitespace().next()?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions.max()
}

fn loader(facts: &str) -> Option<&str> {
    facts.split("Requesting program interpreter: ").nth(1)?.split(']').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: &str = "\
      [Requesting program interpreter: /lib64/ld-linux-x86-64.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  0x0010:   Name: GCC_4.2.0  Flags: none  Version: 27
  0x0020:   Name: GLIBC_2.9  Flags: none  Version: 26
  0x0030:   Name: GLIBC_2.28  Flags: none  Version: 25
  0x0040:   Name: GLIBC_2.2.5  Flags: none  Version: 24
";

    #[test]
    fn the_program_says_what_it_requires() {
        assert_eq!(glibc(FACTS), Some((2, 28)));
        assert_eq!(loader(FACTS), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(needed(FACTS).collect::<Vec<_>>(), ["libgcc_s.so.1", "libc.so.6"]);
        assert_eq!(glibc(""), None);
    }
}
