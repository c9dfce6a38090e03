//! Files of users with passwords, in the format of Mosquitto's `mosquitto_passwd`.
//!
//! A line is `NAME:$7$ITERATIONS$SALT$HASH` (PBKDF2 with HMAC-SHA512, as Mosquitto 2 writes it) or
//! `NAME:$6$SALT$HASH` (SHA-512 of password and salt, Mosquitto 1); salt and hash are base64. Empty
//! lines and lines that begin with `#` are skipped. Invariants: a fault names its line and nothing
//! of its content; a hash is compared in constant time; nothing here keeps a password.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, pbkdf2};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::entitlement::SUBJECT_BYTES_MAX;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;

/// Users of one file.
pub const USERS_MAX: usize = 1_000_000;
/// Maximum size of a file, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// The most iterations that a password may cost: a few seconds.
pub const ITERATIONS_MAX: u32 = 10_000_000;
/// The length of a hash, in bytes.
const HASH_BYTES: usize = 64;
/// Maximum length of a salt, in bytes.
const SALT_BYTES_MAX: usize = 256;

/// A fault of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineFault {
    /// The line, from 1.
    pub line: usize,
    /// The fault.
    pub problem: String,
}

/// A user of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name.
    pub name: Box<str>,
    /// The hash of the password.
    pub password: PasswordHash,
}

/// The hash of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    scheme: Scheme,
    salt: Box<[u8]>,
    hash: [u8; HASH_BYTES],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    /// SHA-512 over password and salt.
    Sha512,
    /// PBKDF2 with HMAC-SHA512.
    Pbkdf2 { iterations: NonZeroU32 },
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PasswordHash")
    }
}

impl PasswordHash {
    /// Whether this is the hash of the password.
    pub fn verifies(&self, password: &[u8]) -> bool {
        match self.scheme {
            Scheme::Sha512 => {
                let mut context = digest::Context::new(&digest::SHA512);
                context.update(password);
                context.update(&self.salt);
                verify_slices_are_equal(context.finish().as_ref(), &self.hash).is_ok()
            }
            Scheme::Pbkdf2 { iterations } => {
                let algorithm = pbkdf2::PBKDF2_HMAC_SHA512;
                pbkdf2::verify(algorithm, iterations, &self.salt, password, &self.hash).is_ok()
            }
        }
    }

    /// A number that differs for every two hashes, to recognise this one in another process.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.salt);
        context.update(&self.hash);
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(context.finish().as_ref());
        fingerprint
    }

    /// Parses what follows the name and its colon.
    fn parse(text: &str) -> Result<PasswordHash, String> {
        let parts: Vec<&str> = text.split('$').collect();
        let (scheme, salt, hash) = match parts[..] {
            ["", "6", salt, hash] => (Scheme::Sha512, salt, hash),
            ["", "7", iterations, salt, hash] => {
                let number = iterations.parse::<NonZeroU32>().ok();
                let iterations = number.filter(|number| number.get() <= ITERATIONS_MAX);
                let iterations = iterations.ok_or_else(|| {
                    format!("the number of iterations is not between 1 and {ITERATIONS_MAX}")
                })?;
                (Scheme::Pbkdf2 { iterations }, salt, hash)
            }
            [_] => {
                let advice = "the password is not hashed: run mosquitto_passwd -U on the file";
                return Err(advice.into());
            }
            _ => return Err("the hash begins with neither $7$ nor $6$".into()),
        };
        let salt = STANDARD.decode(salt).map_err(|_| "the salt is not base64")?;
        if salt.is_empty() || salt.len() > SALT_BYTES_MAX {
            return Err(format!("the salt does not have 1 to {SALT_BYTES_MAX} bytes"));
        }
        let hash = STANDARD.decode(hash).map_err(|_| "the hash is not base64")?;
        let hash = hash.try_into().map_err(|_| format!("the hash has not {HASH_BYTES} bytes"))?;
        Ok(PasswordHash { scheme, salt: salt.into(), hash })
    }
}

/// The users of a file.
///
/// # Errors
/// The first faulty line.
pub fn parse(bytes: &[u8]) -> Result<Vec<User>, LineFault> {
    let mut users = Vec::new();
    let mut lines: HashMap<&[u8], usize> = HashMap::new();
    for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.trim_ascii().is_empty() || text.starts_with(b"#") {
            continue;
        }
        let fault = |problem: String| LineFault { line, problem };
        let user = user_of(text).map_err(fault)?;
        let name = &text[..user.name.len()];
        if let Some(before) = lines.insert(name, line) {
            return Err(fault(format!("line {before} has the same user")));
        }
        if users.len() == USERS_MAX {
            return Err(fault(format!("the file has more than {USERS_MAX} users")));
        }
        users.push(user);
    }
    Ok(users)
}

fn user_of(line: &[u8]) -> Result<User, String> {
    let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let (name, hash) = line.split_once(':').ok_or("the line has no colon after the user's name")?;
    if name.is_empty() || name.len() > SUBJECT_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "the user's name has not 1 to {SUBJECT_BYTES_MAX} bytes, or a control character"
        ));
    }
    let password = PasswordHash::parse(hash.trim_ascii_end())?;
    Ok(User { name: name.into(), password })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lines of `mosquitto_passwd` 2.0.11 and one of Mosquitto 1. The passwords are `secret`,
    /// `s:e$cret` and `secret`.
    const FILE: &str = "\
        anna:$7$101$bQNogf9Z1MYoZdTe$uImp7gikJiBqWa+r5nZpqAm7GvBdVslmHqIhqEEnHN1O/0vhukJRgr2hWfaWX3XF3iMbLNu0VQ8KCQYRx1QBLg==\n\
        ben:$7$101$BjqQFg3jZCaqUxuH$KPX83c28BErKW3LMmBirEoiRVMf5mqk98/ZitS7KZiUND89o5FXXVWxm3kMAUHqzZIesnmiU5BYl8AOxpjBp3w==\n\
        old:$6$dHdlbHZlIGJ5dGVz$oVMYq+bpyGSukllfY8G/BwgLqTIAw9BrXgAOPSc8vg1V/thNI/ExEbZhTQHqP/DIk0w9bWIDUve2ZYQQLGvYUw==\n\
        ";

    #[test]
    fn files_of_mosquitto_are_read() {
        let users = parse(FILE.as_bytes()).unwrap();
        let names: Vec<&str> = users.iter().map(|user| &*user.name).collect();
        assert_eq!(names, ["anna", "ben", "old"]);
        for (user, password) in users.iter().zip(["secret", "s:e$cret", "secret"]) {
            assert!(user.password.verifies(password.as_bytes()), "{}", user.name);
            for wrong in ["", "Secret", "secret ", "secre"] {
                assert!(!user.password.verifies(wrong.as_bytes()), "{} {wrong}", user.name);
            }
        }
        let fingerprints = users.iter().map(|user| user.password.fingerprint());
        assert_eq!(fingerprints.collect::<std::collections::HashSet<_>>().len(), 3);
    }

    #[test]
    fn empty_lines_and_comments_are_skipped() {
        let text = format!("# users\r\n\n  \n{}", FILE.replace('\n', "\r\n"));
        assert_eq!(parse(text.as_bytes()), parse(FILE.as_bytes()));
        assert_eq!(parse(b"").unwrap(), []);
    }

    #[test]
    fn a_fault_names_its_line() {
        let line = FILE.lines().next().unwrap();
        let check = |bad: &str, expected: &str| {
            let text = format!("# users\n{line}\n{bad}\n");
            let fault = parse(text.as_bytes()).unwrap_err();
            assert_eq!(fault.line, 3, "{bad}");
            assert!(fault.problem.contains(expected), "{bad}: {}", fault.problem);
        };
        check(line, "line 2 has the same user");
        check("ben", "no colon");
        check("ben:secret", "mosquitto_passwd -U");
        check("ben:", "mosquitto_passwd -U");
        check(&line.replace("anna", ""), "name");
        check(&line.replace("anna", "a\u{7}"), "name");
        check(&line.replace("anna", &"a".repeat(256)), "name");
        check(&line.replace("anna:$7", "ben:$5"), "neither $7$ nor $6$");
        check("ben:$7$101$AAAA", "neither $7$ nor $6$");
        for iterations in ["0", "-1", "x", "", "10000001", "99999999999"] {
            let bad = line.replace("anna:$7$101", &format!("ben:$7${iterations}"));
            check(&bad, "iterations");
        }
        check("ben:$7$101$?$AAAA", "salt");
        check("ben:$7$101$$AAAA", "salt");
        check("ben:$6$AAAA$?", "hash is not base64");
        check("ben:$6$AAAA$AAAA", "64 bytes");
        let fault = parse(b"\xff:$6$AAAA$AAAA").unwrap_err();
        assert_eq!((fault.line, fault.problem.contains("UTF-8")), (1, true));
    }
}
