//! Handing what a judge knows, and no configuration says, to the judge of the next process.
//!
//! For live upgrades, not for I/O threads. Revocations go with it, so that those that no file has stay in force, and which API keys
//! were shown, so that their clients go on. Fetched keys do not: the next process fetches them as at a start. Invariant: from
//! [`TokenJudge::hold_revocations`] on nothing is revoked here that the next judge does not hear of.

use crate::judge::TokenJudge;
use crate::revocation_file;
use broker::entitlement::Digest;
use std::fmt;
use std::sync::{MutexGuard, PoisonError};
use stdx::handing::{Hand, Input};

/// Nobody revokes as long as this lives; who wants to waits.
pub struct RevocationsHeld<'a> {
    _changing: MutexGuard<'a, ()>,
}

impl RevocationsHeld<'_> {
    /// Nobody revokes here any more: the process is about to end.
    pub fn for_ever(self) {
        std::mem::forget(self);
    }
}

impl fmt::Debug for RevocationsHeld<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RevocationsHeld")
    }
}

impl TokenJudge {
    /// Lets nobody revoke, or take that back, for now.
    pub fn hold_revocations(&self) -> RevocationsHeld<'_> {
        RevocationsHeld { _changing: self.changing.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// What the next judge has to know.
    pub fn hand_over(&self) -> Vec<u8> {
        let mut out = Vec::new();
        revocation_file::encode(&self.read_revocations()).give(&mut out);
        let shown: Vec<(Digest, [u8; 32])> = self.shown_api_keys();
        shown.give(&mut out);
        out
    }

    /// Knows what the judge before has handed over, in place of what a file has said. False if these bytes are none of it.
    pub fn take_over(&self, bytes: &[u8]) -> bool {
        let mut input = Input::new(bytes);
        let handed = <(Vec<u8>, Vec<(Digest, [u8; 32])>)>::take(&mut input);
        let Some((revocations, shown)) = handed.filter(|_| input.left() == 0) else {
            return false;
        };
        let Ok(revocations) = revocation_file::decode(&revocations) else {
            return false;
        };
        *self.revocations.write().unwrap_or_else(PoisonError::into_inner) = revocations;
        self.know_shown(shown);
        true
    }
}
