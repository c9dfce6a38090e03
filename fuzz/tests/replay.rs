//! Runs every committed corpus file through its target, so that fixed faults stay fixed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

fn names(folder: &str) -> BTreeSet<String> {
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_string();
    entries(&here().join(folder)).iter().map(stem).collect()
}

#[test]
fn every_corpus_file_passes() {
    for (target, run) in fuzz::TARGETS {
        let files = entries(&here().join("corpus").join(target));
        assert!(!files.is_empty(), "{target} has no corpus");
        for file in files {
            // Visible only when the test fails: the last file is the one to examine.
            println!("{}", file.display());
            run(&fs::read(&file).unwrap());
        }
        run(b"");
    }
}

#[test]
fn targets_binaries_and_corpora_agree() {
    let targets: BTreeSet<String> =
        fuzz::TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(targets, names("fuzz_targets"));
    assert_eq!(targets, names("corpus"));
    let manifest = fs::read_to_string(here().join("Cargo.toml")).unwrap();
    for target in &targets {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
    }
}

/// The committed seeds equal those in the code.
#[test]
fn seeds_are_committed() {
    for (target, _) in fuzz::TARGETS {
        let seeds = fuzz::seeds::seeds(target);
        for (name, bytes) in seeds {
            let path = here().join("corpus").join(target).join(name);
            assert!(fs::read(&path).is_ok_and(|found| found == bytes), "{path:?} is stale");
        }
    }
}
