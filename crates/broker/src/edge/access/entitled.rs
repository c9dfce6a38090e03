//! Entitlements of an edge's clients: one entry for each credential, shared by the connections that
//! present it.
//!
//! Place on the path: step 3, beside the sessions, which ask [`Entitlements::permits`].
//! `crate::entitlement` checks signatures; this module never does. Invariants: an entry lives as
//! long as it has holders ([`Entitlements::hold`]); equal terms are stored once; a credential is
//! found by its digest only until keys or revocations change; a connection with a token of its own
//! costs an entry, its place in the table and its subject, and no timer.

use crate::entitlement::{
    Action, CredentialKind, Digest, Entitlement, NEVER, Permissions, Terms, user_name,
};
use crate::handing::{give_table, table_of};
use crate::ids::NONE;
use crate::topic::Filter;
use hashbrown::HashTable;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use stdx::handing::{Hand, Input, Layout};
use stdx::names::{Name, Names};
use stdx::slab::Slab;
use wire::native::ErrorCode;

/// The entitlement of one credential.
#[derive(Hand)]
struct Entry {
    digest: [u32; 4],
    subject: Name,
    /// Two halves, so that the entry stays small.
    token_id: [u32; 2],
    issued_s: u32,
    expires_s: u32,
    terms: u32,
    /// The number of holders: connections, and decisions under way.
    holders: u32,
    is_revoked: bool,
}

const _: () = assert!(size_of::<Entry>() <= 48);

/// Terms, and how many entries have them.
#[derive(Hand)]
struct Shared {
    terms: Arc<Terms>,
    entries: u32,
}

/// All entitlements of an edge.
pub(crate) struct Entitlements {
    entries: Slab<Entry>,
    by_digest: HashTable<u32>,
    subjects: Names,
    terms: Slab<Shared>,
    by_terms: HashTable<u32>,
    /// Entries that expire.
    expiring: u32,
}

impl Entitlements {
    pub fn new() -> Entitlements {
        Entitlements {
            entries: Slab::new(),
            by_digest: HashTable::new(),
            subjects: Names::new(),
            terms: Slab::new(),
            by_terms: HashTable::new(),
            expiring: 0,
        }
    }

    /// The entry of a credential that was accepted before, and not revoked since.
    pub fn find(&self, digest: Digest) -> Option<u32> {
        let words = words_of(digest);
        let is_it = |at: &u32| self.entries[*at].digest == words;
        self.by_digest.find(hash_of(words), is_it).copied()
    }

    /// Enters the entitlement of a decision, and holds it for the caller. None if there is no room
    /// for its subject.
    pub fn enter(&mut self, entitlement: &Entitlement) -> Option<u32> {
        if let Some(at) = self.find(entitlement.digest) {
            if self.is_equal(at, entitlement) {
                self.hold(at);
                return Some(at);
            }
            // The API key may permit other actions since. Connections that presented it before keep
            // their terms.
            self.unlist(at);
        }
        let subject = self.subjects.insert(entitlement.subject.as_bytes())?;
        let digest = words_of(entitlement.digest);
        let token_id = entitlement.token_id;
        let entry = Entry {
            digest,
            subject,
            token_id: [token_id as u32, (token_id >> 32) as u32],
            issued_s: entitlement.issued_s,
            expires_s: entitlement.expires_s,
            terms: self.share(&entitlement.terms),
            holders: 1,
            is_revoked: false,
        };
        self.expiring += u32::from(entry.expires_s != NEVER);
        let at = self.entries.insert(entry);
        let entries = &self.entries;
        self.by_digest.insert_unique(hash_of(digest), at, |&other| hash_of(entries[other].digest));
        Some(at)
    }

    /// Adds a holder of the entry.
    pub fn hold(&mut self, at: u32) {
        self.entries[at].holders += 1;
    }

    /// Removes a holder of the entry; the last one takes the entry with it.
    pub fn release(&mut self, at: u32) {
        let Some(entry) = self.entries.get_mut(at) else {
            return;
        };
        entry.holders = entry.holders.saturating_sub(1);
        if entry.holders > 0 {
            return;
        }
        self.unlist(at);
        let Some(entry) = self.entries.remove(at) else {
            return;
        };
        self.expiring -= u32::from(entry.expires_s != NEVER);
        self.subjects.remove(entry.subject);
        self.unshare(entry.terms);
        if self.entries.is_empty() {
            self.by_digest = HashTable::new();
        }
    }

    /// Whether the entry still entitles to anything.
    ///
    /// # Errors
    /// `token_revoked`, `token_expired`.
    pub fn check(&self, at: u32, now_s: u64) -> Result<(), ErrorCode> {
        let entry = &self.entries[at];
        if entry.is_revoked {
            return Err(ErrorCode::TokenRevoked);
        }
        match entry.expires_s {
            NEVER => Ok(()),
            expires_s if u64::from(expires_s) > now_s => Ok(()),
            _ => Err(ErrorCode::TokenExpired),
        }
    }

    /// The permission of an entry for all topics that a filter covers; [`NONE`]: the permission of
    /// `anonymous`.
    ///
    /// # Errors
    /// `unauthorized` without an entry, `forbidden` with one; `token_expired`, `token_revoked`.
    pub fn permit(
        &self,
        at: u32,
        anonymous: &Permissions,
        (action, wanted): (Action, Filter<'_>),
        now_s: u64,
    ) -> Result<(), ErrorCode> {
        let (is_permitted, refusal) = match at {
            NONE => (anonymous.permit("", action, wanted), ErrorCode::Unauthorized),
            at => {
                self.check(at, now_s)?;
                (self.permits(at, action, wanted), ErrorCode::Forbidden)
            }
        };
        if is_permitted { Ok(()) } else { Err(refusal) }
    }

    /// Whether an entry, or `anonymous` without one, permits this with any topic at all.
    ///
    /// # Errors
    /// The errors of [`Entitlements::permit`].
    pub fn permit_some(
        &self,
        at: u32,
        anonymous: &Permissions,
        action: Action,
        now_s: u64,
    ) -> Result<(), ErrorCode> {
        let (permissions, refusal) = match at {
            NONE => (anonymous, ErrorCode::Unauthorized),
            at => {
                self.check(at, now_s)?;
                (self.permissions(at), ErrorCode::Forbidden)
            }
        };
        if permissions.of(action).is_empty() { Err(refusal) } else { Ok(()) }
    }

    /// The maximum number of subscriptions of a session with this entry; sessions without a limit
    /// of their own may have `of_session`.
    pub fn subscriptions_max(&self, at: u32, of_session: u32) -> u32 {
        match at {
            NONE => of_session,
            at => {
                let own = self.terms(at).limits.subscriptions_max;
                own.unwrap_or(of_session).min(of_session)
            }
        }
    }

    /// Whether connections with this entry count for its user: tokens with a subject and users with
    /// a password or a certificate, where the node (`users_are_counted`) or the token has a limit.
    pub fn is_counted(&self, at: u32, users_are_counted: bool) -> bool {
        (users_are_counted || self.terms(at).limits.connections_max.is_some())
            && self.kind(at) != CredentialKind::ApiKey
            && !self.subject(at).is_empty()
    }

    /// Whether both entries are of one user: the same kind of credential, issuer and subject.
    pub fn are_of_one_user(&self, one: u32, other: u32) -> bool {
        self.kind(one) == self.kind(other) && self.have_one_subject(one, other)
    }

    /// The user of an entry as a hash that is never 0. All clients without an entry are one user.
    pub fn user_hash(&self, at: Option<u32>) -> u64 {
        let mut hasher = DefaultHasher::new();
        if let Some(at) = at {
            // Sessions on disk have this hash: the numbers stay.
            let kind: u8 = match self.kind(at) {
                CredentialKind::Token => 0,
                CredentialKind::ApiKey => 1,
                // A user is the same by a password and by a certificate.
                CredentialKind::Password | CredentialKind::Certificate => 2,
            };
            (kind, self.user(at)).hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    /// Whether it permits this with every topic that `wanted` covers.
    pub fn permits(&self, at: u32, action: Action, wanted: Filter<'_>) -> bool {
        let permissions = self.permissions(at);
        permissions.permit(self.subject(at), action, wanted)
    }

    fn permissions(&self, at: u32) -> &Permissions {
        &self.terms(at).permissions
    }

    pub fn terms(&self, at: u32) -> &Terms {
        &self.terms[self.entries[at].terms].terms
    }

    /// The kind of the credential. Only tokens have a time of issue.
    pub fn kind(&self, at: u32) -> CredentialKind {
        CredentialKind::issued(self.entries[at].issued_s)
    }

    pub fn have_equal_terms(&self, one: u32, other: u32) -> bool {
        self.entries[one].terms == self.entries[other].terms
    }

    /// Whether both are of one issuer's subject.
    pub fn have_one_subject(&self, one: u32, other: u32) -> bool {
        self.subject(one) == self.subject(other) && self.issuer(one) == self.issuer(other)
    }

    /// Under which name connections are counted ([`user_name`]).
    pub fn user(&self, at: u32) -> Box<str> {
        user_name(self.issuer(at), self.subject(at)).into()
    }

    fn issuer(&self, at: u32) -> &str {
        &self.terms(at).signer.issuer
    }

    pub fn subject(&self, at: u32) -> &str {
        let subject = self.subjects.get(self.entries[at].subject);
        std::str::from_utf8(subject).unwrap_or_default()
    }

    /// The time at which the entry expires, in seconds since 1970.
    pub fn expires_s(&self, at: u32) -> u32 {
        self.entries[at].expires_s
    }

    /// The entitlement as it was entered.
    pub fn get(&self, at: u32) -> Entitlement {
        let entry = &self.entries[at];
        Entitlement {
            digest: digest_of(entry.digest),
            subject: self.subject(at).into(),
            token_id: u64::from(entry.token_id[0]) | u64::from(entry.token_id[1]) << 32,
            issued_s: entry.issued_s,
            expires_s: entry.expires_s,
            terms: self.terms[entry.terms].terms.clone(),
        }
    }

    /// Whether there is an entry at this place that has not been revoked.
    pub fn is_standing(&self, at: u32) -> bool {
        let entry = self.entries.get(at);
        entry.is_some_and(|entry| !entry.is_revoked)
    }

    /// Revokes the entry: no session may continue with it.
    pub fn revoke(&mut self, at: u32) {
        self.unlist(at);
        self.entries[at].is_revoked = true;
    }

    /// One more than the highest place ever used.
    pub fn places(&self) -> u32 {
        self.entries.places()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn have_expiring(&self) -> bool {
        self.expiring > 0
    }

    /// Bytes touched. Of shared terms the places only: the shell keeps them too.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
            + self.by_digest.allocation_size()
            + self.subjects.memory_bytes()
            + self.terms.memory_bytes()
            + self.by_terms.allocation_size()
    }

    fn is_equal(&self, at: u32, other: &Entitlement) -> bool {
        let entry = &self.entries[at];
        entry.issued_s == other.issued_s
            && entry.expires_s == other.expires_s
            && self.subject(at) == &*other.subject
            && *self.terms(at) == *other.terms
    }

    /// A credential that is presented from now on is authenticated again. Earlier connections keep
    /// their terms.
    pub fn unlist_all(&mut self) {
        self.by_digest = HashTable::new();
    }

    /// The next client with the credential is authenticated anew.
    fn unlist(&mut self, at: u32) {
        let hash = hash_of(self.entries[at].digest);
        if let Ok(found) = self.by_digest.find_entry(hash, |other| *other == at) {
            found.remove();
        }
    }

    fn share(&mut self, terms: &Arc<Terms>) -> u32 {
        let hash = hash_of_terms(terms);
        let is_it = |at: &u32| {
            let known = &self.terms[*at].terms;
            Arc::ptr_eq(known, terms) || known == terms
        };
        if let Some(&at) = self.by_terms.find(hash, is_it) {
            self.terms[at].entries += 1;
            return at;
        }
        let at = self.terms.insert(Shared { terms: terms.clone(), entries: 1 });
        let known = &self.terms;
        self.by_terms.insert_unique(hash, at, |&other| hash_of_terms(&known[other].terms));
        at
    }

    fn unshare(&mut self, at: u32) {
        let shared = &mut self.terms[at];
        shared.entries -= 1;
        if shared.entries > 0 {
            return;
        }
        let hash = hash_of_terms(&shared.terms);
        if let Ok(found) = self.by_terms.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.terms.remove(at);
    }
}

impl Hand for Entitlements {
    fn give(&self, out: &mut Vec<u8>) {
        self.entries.give(out);
        self.subjects.give(out);
        self.terms.give(out);
        self.expiring.give(out);
        give_table(&self.by_digest, out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let entries = <Slab<Entry>>::take(input)?;
        let subjects = Names::take(input)?;
        let terms = <Slab<Shared>>::take(input)?;
        let expiring = u32::take(input)?;
        let listed = <Vec<u32>>::take(input)?;
        let hash = |at| entries.get(at).map_or(0, |entry| hash_of(entry.digest));
        let by_digest = table_of(listed, hash);
        let places = (0..terms.places()).filter(|at| terms.contains(*at)).collect();
        let hash = |at| terms.get(at).map_or(0, |it| hash_of_terms(&it.terms));
        let by_terms = table_of(places, hash);
        Some(Entitlements { entries, by_digest, subjects, terms, by_terms, expiring })
    }

    fn layout(layout: &mut Layout) {
        layout.name("Entitlements");
        <(Slab<Entry>, Names, Slab<Shared>)>::layout(layout);
    }
}

fn words_of(Digest(bytes): Digest) -> [u32; 4] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|at| u32::from_le_bytes(words[at]))
}

fn digest_of(words: [u32; 4]) -> Digest {
    let mut bytes = [0; 16];
    for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    Digest(bytes)
}

/// The hash of a digest, which is uniform already. Only accepted credentials are entered, so no
/// client can choose the place of its entry.
fn hash_of(words: [u32; 4]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

fn hash_of_terms(terms: &Terms) -> u64 {
    let mut hasher = DefaultHasher::new();
    terms.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entitlement(number: u32, filter: &str) -> Entitlement {
        let mut digest = [0; 16];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        Entitlement {
            digest: Digest(digest),
            subject: format!("subject-{number:07}").into(),
            token_id: u64::from(number) << 20,
            issued_s: 5,
            expires_s: 10,
            terms: Arc::new(Terms {
                permissions: Permissions {
                    subscribe: vec![filter.into()],
                    ..Permissions::default()
                },
                ..Terms::default()
            }),
        }
    }

    #[test]
    fn equal_credentials_share_an_entry_until_the_last_holder() {
        let mut entitlements = Entitlements::new();
        let (one, two) = (entitlement(1, "a"), entitlement(2, "a"));
        let at = entitlements.enter(&one).unwrap();
        assert_eq!(entitlements.enter(&one), Some(at));
        let other = entitlements.enter(&two).unwrap();
        assert!(entitlements.have_equal_terms(at, other));
        assert_eq!(entitlements.terms.len(), 1);
        assert_eq!((entitlements.get(at), entitlements.get(other)), (one, two));
        entitlements.release(at);
        assert_eq!(entitlements.find(entitlement(1, "a").digest), Some(at));
        entitlements.release(at);
        assert_eq!(entitlements.find(entitlement(1, "a").digest), None);
        entitlements.release(other);
        assert!(!entitlements.have_expiring());
        assert_eq!((entitlements.len(), entitlements.terms.len()), (0, 0));
        assert!(entitlements.by_terms.is_empty() && entitlements.subjects.is_empty());
    }

    #[test]
    fn a_credential_that_permits_something_else_now_is_another_entry() {
        let mut entitlements = Entitlements::new();
        let before = entitlements.enter(&entitlement(1, "a")).unwrap();
        let after = entitlements.enter(&entitlement(1, "b")).unwrap();
        assert_ne!(before, after);
        assert_eq!(entitlements.find(entitlement(1, "b").digest), Some(after));
        entitlements.release(before);
        assert_eq!(entitlements.find(entitlement(1, "b").digest), Some(after));
        let wanted = Filter::parse("b").unwrap();
        assert!(entitlements.permits(after, Action::Subscribe, wanted));
    }

    #[test]
    fn revoked_and_expired_entries_entitle_to_nothing() {
        let mut entitlements = Entitlements::new();
        let at = entitlements.enter(&entitlement(1, "a")).unwrap();
        assert_eq!(entitlements.check(at, 9), Ok(()));
        assert_eq!(entitlements.check(at, 10), Err(ErrorCode::TokenExpired));
        entitlements.revoke(at);
        assert_eq!(entitlements.check(at, 9), Err(ErrorCode::TokenRevoked));
        assert_eq!(entitlements.find(entitlement(1, "a").digest), None);
        let again = entitlements.enter(&entitlement(1, "a")).unwrap();
        entitlements.release(at);
        assert_eq!(entitlements.find(entitlement(1, "a").digest), Some(again));
    }

    /// The budget of an idle connection with a token of its own has room for this and the
    /// authenticator's 32 bytes.
    #[test]
    fn a_token_of_its_own_costs_less_than_a_hundred_bytes() {
        let mut entitlements = Entitlements::new();
        const COUNT: u32 = 100_000;
        for number in 0..COUNT {
            entitlements.enter(&entitlement(number, "a")).unwrap();
        }
        let each = entitlements.memory_bytes() / COUNT as usize;
        assert!(each <= 96, "{each} bytes");
    }
}
