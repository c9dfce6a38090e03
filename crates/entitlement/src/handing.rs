//! Hand-over of the authenticator's own state, beyond the configuration, to the next process.
//!
//! For live upgrades, not for I/O threads. The state has the revocations, so that those without a
//! file stay in force, and the presented API keys and accepted users, so that their clients keep
//! their sessions. It does not have fetched keys: the next process fetches them as at a start.
//! Invariant: from [`TokenAuthenticator::hold_revocations`] on, no revocation is added that the
//! next authenticator would miss.

use crate::authenticator::TokenAuthenticator;
use crate::revocation_file;
use crate::users::Accepted;
use broker::entitlement::Digest;
use std::fmt;
use std::sync::{MutexGuard, PoisonError};
use stdx::handing::{Hand, Input};

/// Blocks changes of revocations until it is dropped.
pub struct RevocationsHeld<'a> {
    _changing: MutexGuard<'a, ()>,
}

impl RevocationsHeld<'_> {
    /// Blocks changes of revocations for good: the process is about to end.
    pub fn for_ever(self) {
        std::mem::forget(self);
    }
}

impl fmt::Debug for RevocationsHeld<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RevocationsHeld")
    }
}

impl TokenAuthenticator {
    /// Blocks changes of revocations for now.
    pub fn hold_revocations(&self) -> RevocationsHeld<'_> {
        RevocationsHeld { _changing: self.changing.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// The state for the next authenticator.
    pub fn hand_over(&self) -> Vec<u8> {
        let mut out = Vec::new();
        revocation_file::encode(&self.read_revocations()).give(&mut out);
        let shown: Vec<(Digest, [u8; 32])> = self.shown_api_keys();
        shown.give(&mut out);
        self.accepted_users().give(&mut out);
        out
    }

    /// Takes over the state of the previous authenticator instead of a file's. False if the bytes
    /// are malformed.
    pub fn take_over(&self, bytes: &[u8]) -> bool {
        let mut input = Input::new(bytes);
        let handed = <(Vec<u8>, Vec<(Digest, [u8; 32])>, Vec<Accepted>)>::take(&mut input);
        let Some((revocations, shown, accepted)) = handed.filter(|_| input.left() == 0) else {
            return false;
        };
        let Ok(revocations) = revocation_file::decode(&revocations) else {
            return false;
        };
        *self.revocations.write().unwrap_or_else(PoisonError::into_inner) = revocations;
        self.know_shown(shown);
        self.know_accepted(accepted);
        true
    }
}
