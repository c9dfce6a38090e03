//! API keys: secrets of servers, stored as hashes only.
//!
//! A key is 32 random bytes after a prefix that repository scanners and people recognise, so a
//! plain SHA-256 is enough: the key cannot be guessed. The table is built at the start and at a
//! reload, and is read-only afterwards.

use crate::refusal::Refusal;
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::entitlement::{NEVER, Permissions, Terms};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The prefix of every key.
pub const API_KEY_PREFIX: &str = "crore_";
/// API keys of a node.
pub const API_KEYS_MAX: usize = 1_000;

/// One API key of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiKey {
    /// The name of its owner.
    pub name: Box<str>,
    /// The SHA-256 of the key.
    pub sha256: [u8; 32],
    /// The expiry, in seconds since 1970; [`NEVER`].
    pub expires_s: u32,
    /// Its permissions.
    pub permissions: Permissions,
    /// Whether it permits changes at the operators' port.
    pub operates: bool,
}

/// The keys of a node, by their hashes.
#[derive(Default)]
pub struct ApiKeys {
    keys: HashMap<[u8; 32], (ApiKey, Arc<Terms>)>,
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} API keys", self.keys.len())
    }
}

impl ApiKeys {
    /// Creates the table from the first [`API_KEYS_MAX`] of these.
    pub fn new(keys: impl IntoIterator<Item = ApiKey>) -> ApiKeys {
        let with_terms = |key: ApiKey| {
            let terms =
                Arc::new(Terms { permissions: key.permissions.clone(), ..Terms::default() });
            (key.sha256, (key, terms))
        };
        ApiKeys { keys: keys.into_iter().take(API_KEYS_MAX).map(with_terms).collect() }
    }

    /// The key with this secret, and its permissions. The table is searched by hash, so the time of
    /// the search reveals nothing.
    ///
    /// # Errors
    /// The key is unknown or has expired.
    pub fn find(&self, secret: &[u8], now_s: u64) -> Result<&(ApiKey, Arc<Terms>), Refusal> {
        let found = self.keys.get(&sha256(secret)).ok_or(Refusal::UnknownApiKey)?;
        match found.0.expires_s {
            NEVER => Ok(found),
            expires_s if u64::from(expires_s) <= now_s => Err(Refusal::Expired),
            _ => Ok(found),
        }
    }

    /// The key with this hash and its permissions, if there is one; its expiry is not checked.
    pub fn get(&self, sha256: &[u8; 32]) -> Option<&(ApiKey, Arc<Terms>)> {
        self.keys.get(sha256)
    }

    /// All keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &ApiKey> {
        self.keys.values().map(|(key, _)| key)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a key permits changes at the operators' port.
    pub fn has_operator(&self) -> bool {
        self.keys.values().any(|(key, _)| key.operates)
    }
}

/// The hash of a secret.
pub fn sha256(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Creates a key; `None` if the system provides no random numbers.
pub fn new_api_key() -> Option<Zeroizing<String>> {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(&mut bytes[..]).ok()?;
    let mut key = Zeroizing::new(String::with_capacity(64));
    key.push_str(API_KEY_PREFIX);
    URL_SAFE_NO_PAD.encode_string(&bytes[..], &mut key);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_keys_are_found_by_their_secret_only() {
        let secret = new_api_key().unwrap();
        assert!(secret.starts_with(API_KEY_PREFIX) && secret.len() == 49);
        assert_ne!(*secret, *new_api_key().unwrap());
        let key = ApiKey {
            name: "prices".into(),
            sha256: sha256(secret.as_bytes()),
            expires_s: 1_000,
            permissions: Permissions { publish: vec!["prices/#".into()], ..Permissions::default() },
            operates: false,
        };
        let keys = ApiKeys::new([key.clone()]);
        assert_eq!(keys.find(secret.as_bytes(), 999).unwrap().0, key);
        assert_eq!(keys.find(secret.as_bytes(), 1_000), Err(Refusal::Expired));
        for bad in [&secret[..48], "", "prices", API_KEY_PREFIX] {
            let found = keys.find(bad.as_bytes(), 1);
            assert_eq!(found, Err(Refusal::UnknownApiKey));
        }
        // The hash is not the key.
        let hash = keys.find(&key.sha256, 1);
        assert_eq!(hash, Err(Refusal::UnknownApiKey));
        assert!(!keys.has_operator());
    }
}
