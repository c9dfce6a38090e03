//! Revocation while the node runs: first on disk, then in force.
//!
//! For the operators' port, not for I/O threads. Invariant: a change answered with success is in
//! the file, if there is one; if the file cannot be written, nothing has changed.

use crate::authenticator::TokenAuthenticator;
use crate::claims::TOKEN_ID_BYTES_MAX;
use crate::revocation_file;
use crate::revocations::{REVOCATIONS_MAX, Revocation, Revocations, RevocationsFull, Revoked};
use broker::entitlement::{ISSUER_BYTES_MAX, KEY_ID_BYTES_MAX, NEVER, SUBJECT_BYTES_MAX};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

/// A request to revoke tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The tokens.
    pub revoked: Revoked,
    /// Only tokens issued before this time, in seconds since 1970. Without it: all issued until
    /// now.
    pub issued_before_s: Option<u32>,
    /// The end of the revocation, in seconds since 1970. Without it: when the last such token has
    /// expired, if the lifetime of tokens is limited, else never; for a key always never.
    pub ends_s: Option<u32>,
}

/// A change that another node has made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Tokens are revoked. The revocation has its moment and its end.
    Revoked {
        /// The tokens.
        revoked: Revoked,
        /// See [`Revocation::issued_before_s`].
        issued_before_s: u32,
        /// See [`Revocation::ends_s`].
        ends_s: u32,
    },
    /// The revocation of these tokens is cancelled.
    Cancelled(Revoked),
}

/// The reason of a failed revocation.
#[derive(Debug)]
pub enum RevokeError {
    /// A name is empty or too long.
    BadName,
    /// The maximum [`REVOCATIONS_MAX`] is reached.
    Full,
    /// The file could not be written.
    File(io::Error),
}

impl fmt::Display for RevokeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RevokeError::BadName => write!(
                formatter,
                "jti must have 1 to {TOKEN_ID_BYTES_MAX} bytes, sub 1 to {SUBJECT_BYTES_MAX}, iss 1 to {ISSUER_BYTES_MAX}, kid 1 to {KEY_ID_BYTES_MAX}"
            ),
            RevokeError::Full => write!(
                formatter,
                "there are {REVOCATIONS_MAX} revocations already; revoke by `issued_before`, or cancel some"
            ),
            RevokeError::File(error) => {
                write!(formatter, "cannot write the file of revocations: {error}")
            }
        }
    }
}

impl std::error::Error for RevokeError {}

impl Revoked {
    /// Whether its names have permitted lengths.
    pub fn is_named(&self) -> bool {
        let fits = |name: &str, bytes_max| !name.is_empty() && name.len() <= bytes_max;
        match self {
            Revoked::Token(jti) => fits(jti, TOKEN_ID_BYTES_MAX),
            Revoked::Subject { issuer, subject } => {
                let is_issuer = |issuer: &str| fits(issuer, ISSUER_BYTES_MAX);
                fits(subject, SUBJECT_BYTES_MAX) && issuer.as_deref().is_none_or(is_issuer)
            }
            Revoked::Key(name) => fits(name, KEY_ID_BYTES_MAX),
            Revoked::All => true,
        }
    }
}

impl From<RevocationsFull> for RevokeError {
    fn from(_: RevocationsFull) -> RevokeError {
        RevokeError::Full
    }
}

impl TokenAuthenticator {
    /// Revokes tokens, and stores that in the data directory if there is one. The caller tells the
    /// node that revocations have changed.
    ///
    /// # Errors
    /// [`RevokeError`]; then nothing has changed.
    pub fn revoke(
        &self,
        data_dir: Option<&Path>,
        wanted: Wanted,
        now_s: u64,
    ) -> Result<Revocation, RevokeError> {
        if !wanted.revoked.is_named() {
            return Err(RevokeError::BadName);
        }
        let seconds = |at: u64| u32::try_from(at).unwrap_or(NEVER).min(NEVER - 1);
        let issued_before_s = if !wanted.revoked.has_moment() {
            0
        } else {
            wanted.issued_before_s.unwrap_or(seconds(now_s + 1))
        };
        let rules = self.rules();
        let is_key = matches!(wanted.revoked, Revoked::Key(_));
        let ends_s = wanted.ends_s.or_else(|| {
            // The thief of a key can sign another token tomorrow.
            if is_key {
                return None;
            }
            let lifetime_s = u64::from(rules.lifetime_max_s?) + 2 * u64::from(rules.leeway_s);
            Some(seconds(u64::from(issued_before_s).max(now_s) + lifetime_s))
        });
        let ends_s = ends_s.unwrap_or(NEVER);
        self.change(data_dir, |revocations| {
            Ok(revocations.add(wanted.revoked, issued_before_s, ends_s, now_s)?)
        })
    }

    /// Cancels a revocation. Returns whether the number existed.
    ///
    /// # Errors
    /// [`RevokeError::File`]; then nothing has changed.
    pub fn take_back(&self, data_dir: Option<&Path>, id: u64) -> Result<bool, RevokeError> {
        self.change(data_dir, |revocations| Ok(revocations.remove(id)))
    }

    /// Makes the changes of other nodes, in order, and stores the result once. A revocation that
    /// this node has already is extended. Returns whether tokens were revoked; then the caller
    /// tells the node that revocations have changed.
    ///
    /// # Errors
    /// [`RevokeError`]; then nothing has changed.
    pub fn apply(
        &self,
        data_dir: Option<&Path>,
        changes: Vec<Change>,
        now_s: u64,
    ) -> Result<bool, RevokeError> {
        self.change(data_dir, |revocations| {
            let mut has_revoked = false;
            for change in changes {
                match change {
                    Change::Revoked { revoked, issued_before_s, ends_s } => {
                        if !revoked.is_named() {
                            return Err(RevokeError::BadName);
                        }
                        revocations.add(revoked, issued_before_s, ends_s, now_s)?;
                        has_revoked = true;
                    }
                    Change::Cancelled(revoked) => {
                        if let Some(known) = revocations.find(&revoked).map(|known| known.id) {
                            revocations.remove(known);
                        }
                    }
                }
            }
            Ok(has_revoked)
        })
    }

    /// The revocation with this number.
    pub fn revocation(&self, id: u64) -> Option<Revocation> {
        self.read_revocations().after(id.checked_sub(1)?).next().filter(|it| it.id == id).cloned()
    }

    /// The revocation of these tokens, if there is one.
    pub fn revocation_of(&self, revoked: &Revoked) -> Option<Revocation> {
        self.read_revocations().find(revoked).cloned()
    }

    /// At most `len_max` revocations in force with numbers above `after`, in order.
    pub fn revocations_after(&self, after: u64, len_max: usize) -> Vec<Revocation> {
        let revocations = self.read_revocations();
        revocations.after(after).take(len_max).cloned().collect()
    }

    /// Changes a copy, writes it, and puts it in force: no decision waits for the disk.
    fn change<T>(
        &self,
        data_dir: Option<&Path>,
        change: impl FnOnce(&mut Revocations) -> Result<T, RevokeError>,
    ) -> Result<T, RevokeError> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut revocations = self.read_revocations().clone();
        let result = change(&mut revocations)?;
        if let Some(data_dir) = data_dir {
            revocation_file::write(data_dir, &revocations).map_err(RevokeError::File)?;
        }
        let held = self.revocations.write();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *held, revocations);
        drop(held);
        // After the lock: freeing a hundred thousand of them takes longer than an I/O thread should
        // wait.
        drop(before);
        Ok(result)
    }
}
