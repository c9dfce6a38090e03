//! Users with passwords or certificates, and the permissions that grants give them.
//!
//! Shared by all I/O threads, beside the path of messages. Built at the start and at a reload.
//! Invariants: a user has the permissions of the grants for all users and of its own, and no
//! others, by whatever it proves its name; of a password that was accepted only the digest stays,
//! one for each user, and only while the user's line in the file is the same.

use crate::password_file::{PasswordHash, User};
use broker::entitlement::{Digest, Permissions, Terms};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Permissions of users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The user's name; all users if there is none.
    pub user: Option<Box<str>>,
    /// The permissions.
    pub permissions: Permissions,
}

/// A user with the right password: the name, the digest, and the fingerprint of the hash.
pub(crate) type Accepted = (Box<str>, Digest, [u8; 32]);

/// The users of a node, by name.
#[derive(Default)]
pub struct Users {
    users: HashMap<Box<str>, Known>,
    /// The permissions of everybody with a certificate.
    terms: TermsOfUsers,
    /// The hash that the password of an unknown user is compared with, so that the time of the
    /// answer does not tell which names exist.
    decoy: Option<PasswordHash>,
}

/// One user.
pub(crate) struct Known {
    password: PasswordHash,
    /// The permissions.
    pub terms: Arc<Terms>,
    /// The digest of name and password, once they were accepted.
    accepted: Mutex<Option<Digest>>,
}

impl fmt::Debug for Users {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} users", self.users.len())
    }
}

impl Users {
    /// Creates the table. Users of `older` with the same hash need not prove their passwords again.
    pub fn new(users: Vec<User>, grants: &[Grant], older: &Users) -> Users {
        let terms = TermsOfUsers::new(grants);
        let decoy = users.first().map(|user| user.password.clone());
        let known = |User { name, password }: User| {
            let before = older.users.get(&name).filter(|before| before.password == password);
            let accepted = before.and_then(Known::accepted);
            let terms = terms.of(&name);
            (name, Known { password, terms, accepted: Mutex::new(accepted) })
        };
        let users = users.into_iter().map(known).collect();
        Users { users, terms, decoy }
    }

    /// The permissions that a name has by a certificate.
    pub(crate) fn terms_of(&self, name: &str) -> Arc<Terms> {
        self.terms.of(name)
    }

    /// The user with this name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Known> {
        self.users.get(std::str::from_utf8(name).ok()?)
    }

    /// Spends the time that the password of a user takes.
    pub(crate) fn pretend(&self, password: &[u8]) {
        if let Some(decoy) = &self.decoy {
            std::hint::black_box(decoy.verifies(password));
        }
    }

    /// The number of users.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The users who have proved their passwords.
    pub(crate) fn accepted(&self) -> Vec<Accepted> {
        let mut all = Vec::new();
        for (name, known) in &self.users {
            if let Some(digest) = known.accepted() {
                all.push((name.clone(), digest, known.password.fingerprint()));
            }
        }
        all
    }

    /// Restores them; those whose hash is another by now are ignored.
    pub(crate) fn know_accepted(&self, before: Vec<Accepted>) {
        for (name, digest, fingerprint) in before {
            if let Some(known) = self.users.get(&name)
                && known.password.fingerprint() == fingerprint
            {
                known.accept(digest);
            }
        }
    }
}

impl Known {
    /// Whether a password with this digest was accepted before.
    pub fn has_accepted(&self, digest: Digest) -> bool {
        self.accepted() == Some(digest)
    }

    /// Whether this is the password. An accepted one is remembered by the digest.
    pub fn verify(&self, password: &[u8], digest: Digest) -> bool {
        let is_right = self.password.verifies(password);
        if is_right {
            self.accept(digest);
        }
        is_right
    }

    fn accepted(&self) -> Option<Digest> {
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, digest: Digest) {
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
    }
}

/// Permissions by user. Users without grants of their own share one value.
#[derive(Default)]
struct TermsOfUsers {
    all: Arc<Terms>,
    own: HashMap<Box<str>, Arc<Terms>>,
}

impl TermsOfUsers {
    fn new(grants: &[Grant]) -> TermsOfUsers {
        let mut all = Permissions::default();
        for grant in grants.iter().filter(|grant| grant.user.is_none()) {
            add(&mut all, &grant.permissions);
        }
        let mut own: HashMap<Box<str>, Permissions> = HashMap::new();
        for grant in grants {
            if let Some(user) = &grant.user {
                let permissions = own.entry(user.clone()).or_insert_with(|| all.clone());
                add(permissions, &grant.permissions);
            }
        }
        let terms = |permissions| Arc::new(Terms { permissions, ..Terms::default() });
        let own = own.into_iter().map(|(user, permissions)| (user, terms(permissions)));
        TermsOfUsers { own: own.collect(), all: terms(all) }
    }

    fn of(&self, user: &str) -> Arc<Terms> {
        Arc::clone(self.own.get(user).unwrap_or(&self.all))
    }
}

fn add(permissions: &mut Permissions, more: &Permissions) {
    permissions.subscribe.extend_from_slice(&more.subscribe);
    permissions.publish.extend_from_slice(&more.publish);
    permissions.history.extend_from_slice(&more.history);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(user: Option<&str>, filter: &str) -> Grant {
        let permissions = Permissions { subscribe: vec![filter.into()], ..Permissions::default() };
        Grant { user: user.map(Into::into), permissions }
    }

    #[test]
    fn users_have_the_grants_of_all_and_their_own() {
        let grants = [
            grant(Some("anna"), "a"),
            grant(None, "all"),
            grant(Some("anna"), "b"),
            grant(None, "z"),
        ];
        let terms = TermsOfUsers::new(&grants);
        let filters = |user| terms.of(user).permissions.subscribe.clone();
        assert_eq!(
            filters("anna").iter().map(|filter| &**filter).collect::<Vec<_>>(),
            ["all", "z", "a", "b"]
        );
        assert_eq!(filters("ben").iter().map(|filter| &**filter).collect::<Vec<_>>(), ["all", "z"]);
        assert!(Arc::ptr_eq(&terms.of("ben"), &terms.of("cleo")));
        assert!(TermsOfUsers::new(&[]).of("ben").permissions.is_empty());
    }
}
