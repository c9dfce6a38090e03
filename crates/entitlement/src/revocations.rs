//! Revocations of tokens before their expiry: single tokens (`jti`), all tokens signed by a key,
//! and all tokens of a subject (`sub`), or of all subjects, that were issued before a moment.
//!
//! Pure values under the authenticator's lock. Invariants: the number is bounded; there is one for
//! each `jti`, key and `sub`, and one for all; each has an end, after which its tokens have
//! expired, or none. A token without a time of issue counts as issued before every moment.

use crate::claims::token_id;
use broker::entitlement::{Entitlement, NEVER, Signer, user_name};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of revocations in force.
pub const REVOCATIONS_MAX: usize = 100_000;

/// The revoked tokens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Revoked {
    /// The token with this `jti`.
    Token(Box<str>),
    /// The tokens of this `sub`.
    Subject {
        /// Only of this `iss`; without it, of every issuer.
        issuer: Option<Box<str>>,
        /// The `sub`.
        subject: Box<str>,
    },
    /// All tokens signed by the key with this ID (`kid`) or thumbprint ([`Signer::thumbprint`]).
    Key(Box<str>),
    /// All tokens.
    All,
}

impl Revoked {
    /// The tokens of a `sub`, of any issuer.
    pub fn subject(subject: &str) -> Revoked {
        let (issuer, subject) = (None, subject.into());
        Revoked::Subject { issuer, subject }
    }

    /// Whether the time of issue matters. It does not for a single token, nor for a stolen key,
    /// because its thief can write any time.
    pub fn has_moment(&self) -> bool {
        !matches!(self, Revoked::Token(_) | Revoked::Key(_))
    }
}

/// One revocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// Its number at this node; never used again.
    pub id: u64,
    /// The revoked tokens.
    pub revoked: Revoked,
    /// Only tokens issued before this time, in seconds since 1970. 0 if the time does not matter
    /// ([`Revoked::has_moment`]).
    pub issued_before_s: u32,
    /// The end of the revocation, in seconds since 1970; [`NEVER`].
    pub ends_s: u32,
}

/// All revocations in force.
#[derive(Clone, Debug, Default)]
pub struct Revocations {
    by_id: BTreeMap<u64, Revocation>,
    /// Single tokens by the hash of `jti`.
    tokens: HashMap<u64, u64>,
    subjects: HashMap<Box<str>, u64>,
    /// Subjects of one issuer ([`user_name`]).
    users: HashMap<Box<str>, u64>,
    keys: HashMap<Box<str>, u64>,
    all: Option<u64>,
    ids_given: u64,
}

/// The maximum [`REVOCATIONS_MAX`] is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RevocationsFull;

impl Revocations {
    /// Restores stored revocations; new numbers continue after the highest of them and of
    /// `ids_given`.
    pub fn restore(ids_given: u64, revocations: impl IntoIterator<Item = Revocation>) -> Self {
        let mut restored = Revocations { ids_given, ..Revocations::default() };
        for revocation in revocations.into_iter().take(REVOCATIONS_MAX) {
            restored.ids_given = restored.ids_given.max(revocation.id);
            restored.put(revocation);
        }
        restored
    }

    /// Adds a revocation, or extends the existing one of the same tokens; returns the result.
    ///
    /// # Errors
    /// The maximum is reached, even after removal of ended ones.
    pub fn add(
        &mut self,
        revoked: Revoked,
        issued_before_s: u32,
        ends_s: u32,
        now_s: u64,
    ) -> Result<Revocation, RevocationsFull> {
        let revocation = match self.find(&revoked) {
            Some(known) => Revocation {
                issued_before_s: known.issued_before_s.max(issued_before_s),
                ends_s: known.ends_s.max(ends_s),
                ..known.clone()
            },
            None => {
                if self.by_id.len() >= REVOCATIONS_MAX {
                    self.clear_ended(now_s);
                }
                if self.by_id.len() >= REVOCATIONS_MAX {
                    return Err(RevocationsFull);
                }
                self.ids_given += 1;
                Revocation { id: self.ids_given, revoked, issued_before_s, ends_s }
            }
        };
        self.put(revocation.clone());
        Ok(revocation)
    }

    /// Cancels a revocation. Returns whether the number existed.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some(revocation) = self.by_id.remove(&id) else {
            return false;
        };
        match &revocation.revoked {
            Revoked::Token(jti) => _ = self.tokens.remove(&token_id(jti)),
            Revoked::Subject { issuer, subject } => {
                _ = match issuer {
                    Some(issuer) => self.users.remove(&*user_name(issuer, subject)),
                    None => self.subjects.remove(subject),
                }
            }
            Revoked::Key(name) => _ = self.keys.remove(name),
            Revoked::All => self.all = None,
        }
        true
    }

    /// Removes revocations whose tokens have expired.
    pub fn clear_ended(&mut self, now_s: u64) {
        let has_ended =
            |entry: &Revocation| entry.ends_s != NEVER && u64::from(entry.ends_s) <= now_s;
        let ended = self.by_id.values().filter(|entry| has_ended(entry));
        let ended: Vec<u64> = ended.map(|entry| entry.id).collect();
        for id in ended {
            self.remove(id);
        }
    }

    /// Whether a token is revoked.
    pub fn concern(&self, token: &Entitlement) -> bool {
        let concerns = |id: &u64| {
            let revocation = self.by_id.get(id);
            revocation.is_some_and(|revocation| token.issued_s < revocation.issued_before_s)
        };
        let signer = &token.terms.signer;
        let user = || user_name(&signer.issuer, &token.subject);
        self.all.as_ref().is_some_and(concerns)
            || (token.token_id != 0 && self.tokens.contains_key(&token.token_id))
            || self.subjects.get(&token.subject).is_some_and(concerns)
            || (!self.users.is_empty() && self.users.get(&*user()).is_some_and(concerns))
            || (!self.keys.is_empty() && self.is_key_revoked(signer))
    }

    fn is_key_revoked(&self, signer: &Signer) -> bool {
        self.keys.contains_key(&signer.key_id) || self.keys.contains_key(&*signer.thumbprint())
    }

    /// The revocation of these tokens.
    pub fn find(&self, revoked: &Revoked) -> Option<&Revocation> {
        self.id_of(revoked).and_then(|id| self.by_id.get(&id))
    }

    /// The revocations with numbers above `after`, in order.
    pub fn after(&self, after: u64) -> impl Iterator<Item = &Revocation> {
        self.by_id.range(after.saturating_add(1)..).map(|(_, one)| one)
    }

    /// The number of assigned numbers.
    pub fn ids_given(&self) -> u64 {
        self.ids_given
    }

    /// The number of revocations in force.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are no revocations.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    fn id_of(&self, revoked: &Revoked) -> Option<u64> {
        match revoked {
            Revoked::Token(jti) => self.tokens.get(&token_id(jti)).copied(),
            Revoked::Subject { issuer, subject } => match issuer {
                Some(issuer) => self.users.get(&*user_name(issuer, subject)).copied(),
                None => self.subjects.get(subject).copied(),
            },
            Revoked::Key(name) => self.keys.get(name).copied(),
            Revoked::All => self.all,
        }
    }

    fn put(&mut self, revocation: Revocation) {
        let id = revocation.id;
        match &revocation.revoked {
            Revoked::Token(jti) => _ = self.tokens.insert(token_id(jti), id),
            Revoked::Subject { issuer, subject } => {
                _ = match issuer {
                    Some(issuer) => self.users.insert(user_name(issuer, subject).into(), id),
                    None => self.subjects.insert(subject.clone(), id),
                }
            }
            Revoked::Key(name) => _ = self.keys.insert(name.clone(), id),
            Revoked::All => self.all = Some(id),
        }
        self.by_id.insert(id, revocation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::entitlement::{Digest, Terms};
    use std::sync::Arc;

    fn token(token_id: u64, signer: Signer, subject: &str, issued_s: u32) -> Entitlement {
        Entitlement {
            digest: Digest([0; 16]),
            subject: subject.into(),
            token_id,
            issued_s,
            expires_s: NEVER,
            terms: Arc::new(Terms { signer, ..Terms::default() }),
        }
    }

    fn concern(revocations: &Revocations, token_id: u64, subject: &str, issued_s: u32) -> bool {
        revocations.concern(&token(token_id, Signer::default(), subject, issued_s))
    }

    fn add(revocations: &mut Revocations, revoked: Revoked, before_s: u32, ends_s: u32) -> u64 {
        revocations.add(revoked, before_s, ends_s, 0).unwrap().id
    }

    #[test]
    fn tokens_subjects_and_all_are_revoked() {
        let mut revocations = Revocations::default();
        let jti = token_id("t1");
        assert!(!concern(&revocations, jti, "anna", 0));
        let token = add(&mut revocations, Revoked::Token("t1".into()), 0, NEVER);
        assert!(concern(&revocations, jti, "anna", 500));
        assert!(!concern(&revocations, token_id("t2"), "anna", 500));
        assert!(!concern(&revocations, 0, "anna", 500));
        assert!(revocations.remove(token) && !revocations.remove(token));
        assert!(!concern(&revocations, jti, "anna", 500));

        let anna = add(&mut revocations, Revoked::subject("anna"), 1_000, NEVER);
        for (issued_s, expected) in [(0, true), (999, true), (1_000, false)] {
            assert_eq!(concern(&revocations, 0, "anna", issued_s), expected, "{issued_s}");
        }
        assert!(!concern(&revocations, 0, "ben", 0) && !concern(&revocations, 0, "", 0));
        revocations.remove(anna);

        add(&mut revocations, Revoked::All, 2_000, NEVER);
        assert!(concern(&revocations, 0, "ben", 1_999) && !concern(&revocations, 0, "ben", 2_000));
        // An API key has no time of issue.
        assert!(!concern(&revocations, 0, "server", NEVER));
    }

    #[test]
    fn equal_subjects_of_different_issuers_differ() {
        let of = |issuer: &str| {
            let issuer = issuer.into();
            let signer = Signer { issuer, ..Signer::default() };
            token(0, signer, "anna", 500)
        };
        let mut revocations = Revocations::default();
        let anna_of_a = Revoked::Subject { issuer: Some("a".into()), subject: "anna".into() };
        let id = add(&mut revocations, anna_of_a.clone(), 1_000, NEVER);
        assert!(revocations.concern(&of("a")));
        assert!(!revocations.concern(&of("b")) && !revocations.concern(&of("")));
        assert_eq!(add(&mut revocations, anna_of_a, 1_000, NEVER), id);
        add(&mut revocations, Revoked::subject("anna"), 1_000, NEVER);
        assert!(revocations.remove(id) && revocations.len() == 1);
        assert!(revocations.concern(&of("a")) && revocations.concern(&of("b")));
    }

    #[test]
    fn a_key_is_revoked_by_its_id_or_thumbprint() {
        let by = |key_id: &str, key_thumbprint| Signer {
            key_id: key_id.into(),
            key_thumbprint,
            ..Signer::default()
        };
        for (name, signer, expected) in [
            ("k1", by("k1", 7), true),
            ("k1", by("k2", 7), false),
            ("k1", by("", 7), false),
            ("0000000000000007", by("", 7), true),
            ("0000000000000007", by("k1", 7), true),
            ("0000000000000007", by("", 8), false),
        ] {
            let mut revocations = Revocations::default();
            let id = add(&mut revocations, Revoked::Key(name.into()), 0, NEVER);
            let signed = token(0, signer, "anna", u32::MAX - 1);
            assert_eq!(revocations.concern(&signed), expected, "{name} {signed:?}");
            assert!(revocations.remove(id) && !revocations.concern(&signed));
        }
    }

    #[test]
    fn a_repeated_revocation_only_extends_the_first() {
        let mut revocations = Revocations::default();
        let anna = || Revoked::subject("anna");
        let first = add(&mut revocations, anna(), 1_000, 5_000);
        assert_eq!(add(&mut revocations, anna(), 900, 6_000), first);
        let held: Vec<_> = revocations.after(0).collect();
        assert_eq!((held[0].issued_before_s, held[0].ends_s), (1_000, 6_000));
        assert_eq!(held.len(), 1);
    }

    #[test]
    fn revocations_are_bounded_and_end() {
        let mut revocations = Revocations::default();
        for number in 0..REVOCATIONS_MAX {
            let jti = Revoked::Token(number.to_string().into());
            add(&mut revocations, jti, 0, if number == 7 { 50 } else { NEVER });
        }
        let another = || Revoked::Token("another".into());
        assert_eq!(revocations.add(another(), 0, NEVER, 49), Err(RevocationsFull));
        // An existing revocation can still be extended.
        assert!(revocations.add(Revoked::Token("1".into()), 0, NEVER, 49).is_ok());
        let added = revocations.add(another(), 0, NEVER, 50).unwrap();
        assert_eq!(added.id, REVOCATIONS_MAX as u64 + 1);
        assert!(!concern(&revocations, token_id("7"), "", 0));
    }

    #[test]
    fn numbers_continue_after_a_restart() {
        let mut revocations = Revocations::default();
        let first = add(&mut revocations, Revoked::Token("a".into()), 0, NEVER);
        add(&mut revocations, Revoked::Token("b".into()), 0, NEVER);
        revocations.remove(first);
        let held: Vec<Revocation> = revocations.after(0).cloned().collect();
        let mut again = Revocations::restore(9, held);
        assert_eq!(add(&mut again, Revoked::All, 1, NEVER), 10);
        assert!(concern(&again, token_id("b"), "", 5));
    }
}
