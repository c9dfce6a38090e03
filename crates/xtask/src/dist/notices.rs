//! The licences of the libraries inside the program. Most of them require that their text goes with
//! each copy.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::Target;
use crate::shell::{self, Workspace};

const OPENING: &str = "\
The program contains the libraries below, under the licences that follow their names. It also
contains parts of the Rust standard library, under the licence of Crore itself (Apache-2.0).
";

/// Names of files with a licence begin with one of these words.
const NAMES: &[&str] = &["copying", "copyright", "licence", "license", "notice", "unlicense"];

/// Libraries in C that packages contain: the package, the library's folder and name, and its
/// licence file.
const CONTAINED: &[(&str, &str, &str, &str)] = &[
    ("rdkafka-sys-", "librdkafka", "librdkafka", "LICENSES.txt"),
    ("openssl-src-", "openssl", "OpenSSL", "LICENSE.txt"),
    ("libz-sys-", "src/zlib", "zlib", "LICENSE"),
    ("zstd-sys-", "zstd", "Zstandard", "LICENSE"),
];

/// The text of the file for the packages: each licence once, with the libraries that have it.
pub fn text(workspace: &Workspace, target: &Target) -> Result<String> {
    let mut libraries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |name: String, file: &Path| -> Result<()> {
        let text = fs::read(file).with_context(|| format!("no licence {}", file.display()))?;
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        libraries.entry(text.trim_end().to_owned()).or_default().push(name);
        Ok(())
    };
    for library in linked(workspace, target)? {
        let folder = sources(&library)?;
        let files = chosen(fs::read_dir(&folder)?.filter_map(|file| Some(file.ok()?.path())));
        let contained = CONTAINED.iter().filter(|contained| library.starts_with(contained.0));
        for (_, below, name, file) in contained.clone() {
            add((*name).to_owned(), &folder.join(below).join(file))?;
        }
        let has_none = files.is_empty() && contained.count() == 0;
        ensure!(!has_none, "{library} has no licence in {}", folder.display());
        for file in files {
            add(library.clone(), &file)?;
        }
    }
    let mut sections: Vec<_> =
        libraries.into_iter().map(|(text, names)| (names.join(", "), text)).collect();
    sections.sort();
    let mut all = OPENING.to_owned();
    for (names, text) in sections {
        writeln!(all, "\n{}\n{names}\n\n{text}", "-".repeat(80))?;
    }
    Ok(all)
}

/// The foreign packages in the program, as `name-version`.
fn linked(workspace: &Workspace, target: &Target) -> Result<Vec<String>> {
    let tree = |edges: &str| {
        let arguments =
            ["tree", "--locked", "-p", "crore", "-e", edges, "--prefix", "none", "-f", "{p}"];
        let mut tree = workspace.cargo(&arguments);
        tree.args(["--target", target.triple, "--features", super::RELEASE_FEATURES]);
        shell::output(&mut tree)
    };
    let (linked, build) = (tree("normal")?, tree("build,normal")?);
    // OpenSSL's sources come by a package of the build.
    let openssl = build.lines().filter(|line| line.starts_with("openssl-src "));
    // Our own have a path in brackets, macros of the compiler their kind; a repetition has a star.
    let foreign = linked.lines().chain(openssl).map(|line| line.trim_end_matches(" (*)"));
    let foreign = foreign.filter(|line| !line.contains('('));
    let mut names: Vec<String> = foreign.map(|line| line.replacen(" v", "-", 1)).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The folder where cargo has unpacked a package.
fn sources(library: &str) -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let registries = fs::read_dir(home.context("no home of cargo")?.join("registry/src"))?;
    let mut folders = registries.filter_map(|entry| Some(entry.ok()?.path().join(library)));
    folders.find(|folder| folder.is_dir()).with_context(|| format!("no sources of {library}"))
}

/// The files with the licence. Where the MIT licence is one of several, it is the chosen one.
fn chosen(files: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_licence = |path: &PathBuf| NAMES.iter().any(|word| name(path).starts_with(word));
    let mut files: Vec<PathBuf> = files.filter(is_licence).collect();
    if files.iter().any(|path| name(path).contains("mit")) {
        let others = ["apache", "copying", "isc", "unlicense"];
        files.retain(|path| !others.iter().any(|word| name(path).contains(word)));
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_of_the_program_has_a_licence() {
        let workspace = Workspace::locate().unwrap();
        let text = text(&workspace, &crate::dist::TARGETS[0]).unwrap();
        for library in ["aws-lc-sys-", "hashbrown-", "librdkafka", "OpenSSL", "rustls-", "tokio-"] {
            let is_named = |line: &str| line.split(", ").any(|name| name.starts_with(library));
            assert!(text.lines().any(is_named), "{library}");
        }
    }

    #[test]
    fn mit_is_chosen_of_several() {
        let choose = |names: &[&str]| {
            let chosen = chosen(names.iter().map(PathBuf::from));
            chosen.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(choose(&["LICENSE-MIT", "LICENSE-APACHE", "src", "README"]), ["LICENSE-MIT"]);
        assert_eq!(choose(&["LICENSE", "NOTICE", "build.rs"]), ["LICENSE", "NOTICE"]);
        assert_eq!(choose(&["LICENSE-Apache"]), ["LICENSE-Apache"]);
        assert_eq!(choose(&["UNLICENSE", "COPYING", "LICENSE-MIT"]), ["LICENSE-MIT"]);
    }
}
