//! Lines of Mosquitto's files: words, and the place of each line.
//!
//! Invariants: no input panics; a file has a bound; a place and a quote have no control characters,
//! so that they fit into a comment.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum length of a quote, in characters.
const QUOTE_CHARS_MAX: usize = 80;

/// A line with content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its place: `line 12`, or `FILE, line 12` outside of the main file.
    pub place: String,
    /// The first word.
    pub key: String,
    /// The rest, without spaces around it; may be empty.
    pub value: String,
}

/// A sentence about a line of Mosquitto's files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// The place of the line.
    pub place: String,
    /// The sentence.
    pub text: String,
}

impl Line {
    /// A remark on this line.
    pub fn remark(&self, text: impl Into<String>) -> Remark {
        Remark { place: self.place.clone(), text: text.into() }
    }

    /// The words of the value.
    pub fn words(&self) -> Vec<&str> {
        self.value.split_whitespace().collect()
    }
}

/// The lines of a text. `file` is its name, if it is not the main file.
pub fn lines(text: &str, file: Option<&Path>) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (key, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let place = match file {
            None => format!("line {number}"),
            Some(file) => format!("{}, line {number}", quote(&file.display().to_string())),
        };
        lines.push(Line { place, key: key.into(), value: value.trim().into() });
    }
    lines
}

/// A piece of a file for a comment.
pub fn quote(text: &str) -> String {
    let safe = |sign: char| if sign.is_control() { '?' } else { sign };
    let mut quote: String = text.chars().take(QUOTE_CHARS_MAX).map(safe).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        quote.push_str("...");
    }
    quote
}

/// The text of a file. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// The file cannot be read, or is too large.
pub fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("the file exceeds {FILE_BYTES_MAX} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files of a directory that end in `.conf`, in Mosquitto's order.
///
/// # Errors
/// The directory cannot be read.
pub fn included(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
