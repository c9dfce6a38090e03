//! Rules of the sources, as tests.
//!
//! Each rule is a pure function over the tree of text files, and has a test with a planted
//! violation. Rules that a compiler lint can check are left to the lints.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

mod layers;
mod manifests;
mod ratchet;
mod sdk_rules;
mod sources;

pub use ratchet::store;

/// Folders without sources of ours; `.git` is a file in a worktree, and the SDKs build into `dist`.
const FOREIGN: &[&str] =
    &[".git", "artifacts", "dist", "dist-docs", "dist-test", "node_modules", "target"];

/// Folders of ours with a leading dot.
const HIDDEN: &[&str] = &[".cargo", ".ci"];

/// The size above which a file is data, not a source.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// A rule: its name, and the function that finds violations.
pub struct Rule {
    /// The stable name, printed with each violation.
    pub name: &'static str,
    find: fn(&Tree) -> Vec<Finding>,
}

/// All rules.
pub const RULES: &[Rule] = &[
    Rule { name: "arrows", find: manifests::arrows },
    Rule { name: "lint table", find: manifests::lint_table },
    Rule { name: "architecture", find: manifests::architecture },
    Rule { name: "layers", find: layers::edge },
    Rule { name: "documents", find: manifests::documents },
    Rule { name: "unsafe code", find: sources::unsafe_code },
    Rule { name: "unwraps", find: sources::unwraps },
    Rule { name: "opening", find: sources::opening },
    Rule { name: "file length", find: sources::file_length },
    Rule { name: "function length", find: sources::function_length },
    Rule { name: "module names", find: sources::module_names },
    Rule { name: "leftovers", find: sources::leftovers },
    Rule { name: "fuzz targets", find: sources::fuzz_targets },
    Rule { name: "machine paths", find: sources::machine_paths },
    Rule { name: "whitespace", find: sources::whitespace },
    Rule { name: "rules of client libraries", find: sdk_rules::tests },
    Rule { name: "ratchet", find: ratchet::check },
];

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name.
    pub rule: &'static str,
    finding: Finding,
}

/// A place and its fault.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// The line, from 1; 0 is the whole file.
    line: usize,
    text: String,
}

/// The text files of the checkout, by their path from the root, in order.
#[derive(Debug, Default)]
pub struct Tree {
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    path: String,
    text: String,
}

/// All violations of all rules.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let of_rule = |rule: &Rule| {
        let name = rule.name;
        (rule.find)(tree).into_iter().map(move |finding| Violation { rule: name, finding })
    };
    RULES.iter().flat_map(of_rule).collect()
}

impl Tree {
    /// Reads the checkout at `root`.
    pub fn load(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.load_folder(root, root)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn load_folder(&mut self, root: &Path, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name();
            if FOREIGN.iter().any(|foreign| name == **foreign) {
                continue;
            }
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                // Caches of tools, such as `.mypy_cache`.
                if name.to_string_lossy().starts_with('.')
                    && !HIDDEN.contains(&&*name.to_string_lossy())
                {
                    continue;
                }
                self.load_folder(root, &entry.path())?;
            } else if metadata.is_file()
                && metadata.len() <= TEXT_BYTES_MAX
                && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
            {
                let path = entry.path().strip_prefix(root)?.to_string_lossy().into_owned();
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }

    fn with_extension<'a>(&'a self, extensions: &[&str]) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| {
            file.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
        })
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.with_extension(&["rs"])
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The names of the folders under `crates/`, each with its manifest.
    fn crates(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().filter_map(|file| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some((name, file))
        })
    }
}

impl File {
    /// Numbered from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    fn finding(&self, line: usize, text: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, text: text.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, text } = &self.finding;
        match line {
            0 => write!(formatter, "{path}: {text} ({})", self.rule),
            line => write!(formatter, "{path}:{line}: {text} ({})", self.rule),
        }
    }
}

#[cfg(test)]
mod testing {
    //! Shared parts of the tests of the rules.

    use super::*;

    /// Applies a rule to planted files and returns its findings, one `path:line text` each.
    pub fn findings(find: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        let files =
            files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() });
        let tree = Tree { files: files.collect() };
        find(&tree)
            .into_iter()
            .map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.text))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_this_checkout() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let tree = Tree::load(root).unwrap();
        assert!(tree.file("crates/xtask/src/tidy.rs").is_some());
        assert!(tree.files.iter().all(|file| !file.path.starts_with(".git/")));
        assert!(tree.crates().any(|(name, _)| name == "wire"));
    }

    #[test]
    fn violations_name_place_and_rule() {
        let file = File { path: "a/b.rs".into(), text: String::new() };
        let violation = |line| Violation { rule: "opening", finding: file.finding(line, "bad") };
        assert_eq!(violation(3).to_string(), "a/b.rs:3: bad (opening)");
        assert_eq!(violation(0).to_string(), "a/b.rs: bad (opening)");
    }
}
