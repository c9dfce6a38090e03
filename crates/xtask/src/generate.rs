//! Generated files: written from one source, committed, and compared by the gate.
//!
//! A generator is a pure function from the text of its source to the texts of files. The first
//! lines of its output state that the file is generated, and from which source.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

mod codes;

/// A source and the files generated from it.
pub struct Generator {
    /// The name in messages.
    pub name: &'static str,
    /// The source file, from the root.
    source: &'static str,
    /// Generates the files from the source's text.
    generate: fn(&str) -> Result<Files>,
}

/// Paths from the root, and texts.
type Files = Vec<(PathBuf, String)>;

/// All generators. A new one is a line here.
pub const GENERATORS: &[Generator] =
    &[Generator { name: "codes", source: "spec/codes.toml", generate: codes::generate }];

/// Writes every generated file that is outdated.
pub fn write(root: &Path) -> Result<()> {
    for (_, path, text) in outdated(root)? {
        let target = root.join(&path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&target, text)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Fails if a committed file differs from its generator's output.
pub fn check(root: &Path) -> Result<()> {
    if let Some((generator, path, _)) = outdated(root)?.first() {
        let Generator { name, source, .. } = generator;
        let path = path.display();
        bail!("{name}: {path} is out of date with {source}; run `cargo xtask generate`");
    }
    Ok(())
}

/// The outdated files, with their new text.
fn outdated(root: &Path) -> Result<Vec<(&'static Generator, PathBuf, String)>> {
    let mut outdated = Vec::new();
    for generator in GENERATORS {
        let source = fs::read_to_string(root.join(generator.source)).context(generator.source)?;
        let files = (generator.generate)(&source).context(generator.name)?;
        for (path, text) in files {
            if fs::read_to_string(root.join(&path)).ok().as_ref() != Some(&text) {
                outdated.push((generator, path, text));
            }
        }
    }
    Ok(outdated)
}
