//! Revocations on disk: one JSON file, described in `docs/formats.md`.
//!
//! The whole file is written beside the old one, synced, and renamed, so a crash leaves the old
//! file or the new one. Invariant: an unreadable file is an error, never an empty list: a revoked
//! token must not become valid unnoticed.

use crate::claims::TOKEN_ID_BYTES_MAX;
use crate::revocations::{REVOCATIONS_MAX, Revocation, Revocations, Revoked};
use broker::entitlement::{ISSUER_BYTES_MAX, KEY_ID_BYTES_MAX, NEVER, SUBJECT_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file's name in the data directory.
pub const FILE_NAME: &str = "revocations.json";
/// The version that this code reads and writes.
const VERSION: u32 = 1;
/// Maximum size of a file: the maximum number of revocations with the longest names, each byte
/// escaped.
const FILE_BYTES_MAX: u64 = (REVOCATIONS_MAX * (6 * (256 + 256) + 128)) as u64;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    ids_given: u64,
    revocations: Vec<Record>,
}

/// One of `jti`, `sub` (optionally with `iss`) and `kid`, or none: all tokens.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jti: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sub: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iss: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issued_before: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<u32>,
}

/// Reads the file of a data directory; without a file, there are no revocations.
///
/// # Errors
/// The file is unreadable or malformed.
pub fn read(data_dir: &Path) -> io::Result<Revocations> {
    let file = match File::open(data_dir.join(FILE_NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Revocations::default()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    decode(&bytes).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Replaces the file of a data directory durably.
///
/// # Errors
/// The old file then still exists.
pub fn write(data_dir: &Path, revocations: &Revocations) -> io::Result<()> {
    let (target, new) = paths(data_dir);
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(&encode(revocations))?;
    file.sync_all()?;
    fs::rename(&new, &target)?;
    // Sync the directory entry as well.
    File::open(data_dir)?.sync_all()
}

fn paths(data_dir: &Path) -> (PathBuf, PathBuf) {
    let target = data_dir.join(FILE_NAME);
    let new = data_dir.join(format!("{FILE_NAME}.new"));
    (target, new)
}

pub(crate) fn encode(revocations: &Revocations) -> Vec<u8> {
    let record = |revocation: &Revocation| {
        let revoked = &revocation.revoked;
        let (mut jti, mut sub, mut iss, mut kid) = (None, None, None, None);
        match revoked {
            Revoked::Token(id) => jti = Some(id.to_string()),
            Revoked::Subject { issuer, subject } => {
                sub = Some(subject.to_string());
                iss = issuer.as_deref().map(String::from);
            }
            Revoked::Key(name) => kid = Some(name.to_string()),
            Revoked::All => {}
        }
        let has_moment = revoked.has_moment();
        let issued_before = has_moment.then_some(revocation.issued_before_s);
        let ends = (revocation.ends_s != NEVER).then_some(revocation.ends_s);
        Record { id: revocation.id, jti, sub, iss, kid, issued_before, ends }
    };
    let document = Document {
        version: VERSION,
        ids_given: revocations.ids_given(),
        revocations: revocations.after(0).map(record).collect(),
    };
    let mut bytes = serde_json::to_vec(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Parses the output of [`write()`]; the bytes may be arbitrary. Errors are sentences for the
/// operator.
pub fn decode(bytes: &[u8]) -> Result<Revocations, String> {
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("the file exceeds the maximum size".into());
    }
    let document: Document =
        serde_json::from_slice(bytes).map_err(|error| format!("the file is damaged: {error}"))?;
    if document.version != VERSION {
        let version = document.version;
        return Err(format!("the file has version {version}, expected {VERSION}"));
    }
    if document.revocations.len() > REVOCATIONS_MAX {
        return Err(format!("the file has more than {REVOCATIONS_MAX} revocations"));
    }
    let revocations: Option<Vec<Revocation>> =
        document.revocations.into_iter().map(revocation).collect();
    let revocations = revocations.ok_or("the file is damaged: a revocation is invalid")?;
    Ok(Revocations::restore(document.ids_given, revocations))
}

fn revocation(record: Record) -> Option<Revocation> {
    let fits = |text: &str, bytes_max| !text.is_empty() && text.len() <= bytes_max;
    let is_issuer =
        |iss: &Option<String>| iss.as_ref().is_none_or(|iss| fits(iss, ISSUER_BYTES_MAX));
    let revoked = match (record.jti, record.sub, record.iss, record.kid) {
        (Some(jti), None, None, None) if fits(&jti, TOKEN_ID_BYTES_MAX) => {
            Revoked::Token(jti.into())
        }
        (None, Some(sub), iss, None) if fits(&sub, SUBJECT_BYTES_MAX) && is_issuer(&iss) => {
            Revoked::Subject { issuer: iss.map(Into::into), subject: sub.into() }
        }
        (None, None, None, Some(kid)) if fits(&kid, KEY_ID_BYTES_MAX) => Revoked::Key(kid.into()),
        (None, None, None, None) => Revoked::All,
        _ => return None,
    };
    if record.issued_before.is_some() != revoked.has_moment() {
        return None;
    }
    let issued_before_s = record.issued_before.unwrap_or(0);
    Some(Revocation {
        id: record.id,
        revoked,
        issued_before_s,
        ends_s: record.ends.unwrap_or(NEVER),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn keys_and_issuers_survive_encoding() {
        let mut all = three();
        all.add(Revoked::Key("k\n1".into()), 0, NEVER, 0).unwrap();
        let anna =
            Revoked::Subject { issuer: Some("https://id.example".into()), subject: "anna".into() };
        all.add(anna, 7, 900, 0).unwrap();
        let again = decode(&encode(&all)).unwrap();
        assert!(again.after(0).eq(all.after(0)) && again.len() == 5);
    }

    fn three() -> Revocations {
        let mut revocations = Revocations::default();
        let token = Revoked::Token("t\"1".into());
        revocations.add(token, 0, 5_000, 0).unwrap();
        let subject = Revoked::subject("anna");
        revocations.add(subject, 1_000, NEVER, 0).unwrap();
        revocations.add(Revoked::All, 900, NEVER, 0).unwrap();
        revocations
    }

    #[test]
    fn a_written_file_is_read() {
        let again = decode(&encode(&three())).unwrap();
        assert!(again.after(0).eq(three().after(0)));
        assert_eq!(again.ids_given(), 3);
        let text = String::from_utf8(encode(&three())).unwrap();
        assert_eq!(
            text,
            "{\"version\":1,\"ids_given\":3,\"revocations\":[{\"id\":1,\"jti\":\"t\\\"1\",\"ends\":5000},\
             {\"id\":2,\"sub\":\"anna\",\"issued_before\":1000},{\"id\":3,\"issued_before\":900}]}\n"
        );
    }

    #[test]
    fn damage_is_reported() {
        let bytes = encode(&three());
        for end in 0..bytes.len() - 1 {
            assert!(decode(&bytes[..end]).is_err(), "{end}");
        }
        for bad in [
            r#"{"version":2,"ids_given":0,"revocations":[]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"jti":"a","sub":"b","issued_before":1}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"jti":""}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"jti":"a","issued_before":1}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"sub":"a"}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"iss":"i","issued_before":1}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"kid":"k","issued_before":1}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"kid":"k","sub":"a"}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[{"id":1,"kid":""}]}"#,
            r#"{"version":1,"ids_given":0,"revocations":[],"more":1}"#,
        ] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    /// A directory that is removed after the test.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let name = format!("crore-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Directory(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_crash_at_any_byte_leaves_the_old_file() {
        let directory = Directory::new("revocations-crash");
        let path = &directory.0;
        assert!(read(path).unwrap().is_empty());
        write(path, &three()).unwrap();
        let mut more = three();
        more.add(Revoked::Token("t2".into()), 0, NEVER, 0).unwrap();
        let (target, new) = paths(path);
        let bytes = encode(&more);
        for end in 0..=bytes.len() {
            // The state after the death of a process during the write, before the new file replaces
            // the old one.
            fs::write(&new, &bytes[..end]).unwrap();
            assert_eq!(read(path).unwrap().len(), 3, "{end}");
        }
        // The remains do not affect later writes.
        write(path, &more).unwrap();
        assert_eq!(read(path).unwrap().len(), 4);
        assert!(!new.exists());
        fs::write(&target, "").unwrap();
        assert_eq!(read(path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
