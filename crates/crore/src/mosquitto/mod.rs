//! From a configuration of Mosquitto to one of Crore (`crore bridge`).
//!
//! Each line becomes options of Crore, or a remark: why it has no meaning here, or why it cannot be
//! expressed, and the way out. Invariants: the result permits nothing that the source forbids; no
//! input panics.

mod access;
mod broker;
mod known;
mod source;
mod text;
mod who;

use broker::Broker;
use source::{Line, Remark};
use std::io;
use std::path::Path;

/// The configuration of Crore for a file of Mosquitto. The files that it names are read, relative
/// to its directory.
///
/// # Errors
/// The file cannot be read. A file that it names and that cannot be read is a remark.
pub fn translate(path: &Path) -> io::Result<String> {
    let lines = source::lines(&source::read(path)?, None);
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut broker = Broker::new();
    for line in &lines {
        if line.key == "include_dir" {
            include(&mut broker, line, directory);
        } else {
            broker.take(line);
        }
    }
    for listener in &mut broker.listeners {
        if let Some((_, file)) = &mut listener.certificate {
            *file = directory.join(&*file);
        }
        listener.key = listener.key.take().map(|file| directory.join(file));
    }
    let who = who::decide(&mut broker, directory);
    Ok(text::write(&path.display().to_string(), broker, &who))
}

/// Takes the lines of all files of a directory.
fn include(broker: &mut Broker, line: &Line, directory: &Path) {
    let unreadable = |what: &Path, error: io::Error| Remark {
        place: line.place.clone(),
        text: format!("cannot read {}: {error}", source::quote(&what.display().to_string())),
    };
    let directory = directory.join(&line.value);
    let files = match source::included(&directory) {
        Ok(files) => files,
        Err(error) => return broker.remarks.push(unreadable(&directory, error)),
    };
    for file in files {
        match source::read(&file) {
            Ok(text) => {
                source::lines(&text, Some(&file)).iter().for_each(|line| broker.take(line));
            }
            Err(error) => broker.remarks.push(unreadable(&file, error)),
        }
    }
}

#[cfg(test)]
mod tests;
