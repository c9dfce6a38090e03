//! Generated files: written from one source of truth, committed, and compared by the gate.
//!
//! A generator is a pure function from the text of its source to the texts of files. It states in
//! the first lines of its output that the file is generated and from what.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

mod codes;

/// From one source to the files made of it.
pub struct Generator {
    /// What it is called in messages.
    pub name: &'static str,
    /// The file it reads, from the root.
    source: &'static str,
    /// From the source's text to the files.
    generate: fn(&str) -> Result<Files>,
}

/// Paths from the root, and texts.
type Files = Vec<(PathBuf, String)>;

/// All of them. A new one is a line here.
pub const GENERATORS: &[Generator] =
    &[Generator { name: "codes", source: "spec/codes.toml", generate: codes::generate }];

/// Writes every generated file that is not in step.
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

/// Fails where a committed file differs from what its generator writes.
pub fn check(root: &Path) -> Result<()> {
    if let Some((generator, path, _)) = outdated(root)?.first() {
        let Generator { name, source, .. } = generator;
        let path = path.display();
        bail!("{name}: {path} is out of date with {source}; run `cargo xtask generate`");
    }
    Ok(())
}

/// The generated files whose text is not the one in the checkout.
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
