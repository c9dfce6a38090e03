//! The authenticator: credentials in, entitlements out.
//!
//! All I/O threads share one. A token's signature is verified once and then cached by the token's
//! digest; its claims are decoded and checked each time, because that is cheap and time passes. A
//! password is hashed once and then known by its digest; the hash is for a thread beside the I/O
//! threads. Locks protect a look-up or an exchange, never a signature.

use crate::api_keys::{API_KEY_PREFIX, ApiKey, ApiKeys};
use crate::cache::VerifiedTokens;
use crate::claims::{Claims, TokenRules};
use crate::counters::{Counters, Statistics};
use crate::keys::{KeySet, TokenKey};
use crate::notices::{Notice, Notices};
use crate::password_file::User;
use crate::refresh::KeyRequests;
use crate::refusal::Refusal;
use crate::revocations::Revocations;
use crate::terms::TermsTable;
use crate::token::Parts;
use crate::users::{Accepted, Grant, Users};
use broker::entitlement::{
    Authenticator, BY_CERTIFICATE, BY_PASSWORD, CredentialKind, Decision, Digest, Entitlement,
    NEVER, kind_of_secret, user_and_expiry, user_and_password,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Maximum number of distinct terms that are shared.
const TERMS_MAX: usize = 1 << 20;

/// The settings of the authenticator. A reload replaces them.
#[derive(Clone, Debug, Default)]
pub struct AuthenticatorSettings {
    /// Requirements for tokens.
    pub rules: TokenRules,
    /// Keys from the configuration and its files.
    pub token_keys: Vec<TokenKey>,
    /// API keys.
    pub api_keys: Vec<ApiKey>,
    /// Users with passwords.
    pub users: Vec<User>,
    /// Permissions of these users.
    pub grants: Vec<Grant>,
}

/// Checks tokens, API keys, and passwords.
pub struct TokenAuthenticator {
    state: RwLock<Arc<State>>,
    verified: VerifiedTokens,
    terms: TermsTable,
    pub(crate) revocations: RwLock<Revocations>,
    /// Held while revocations change, including the write of the file.
    pub(crate) changing: Mutex<()>,
    /// The presented API keys, by the digests that connections store. Removed keys are not in it.
    shown: Mutex<HashMap<Digest, [u8; 32]>>,
    requests: Option<Arc<KeyRequests>>,
    /// The node does not know whether other nodes have revoked tokens.
    lacks_revocations: AtomicBool,
    pub(crate) counters: Counters,
    notices: Notices,
}

/// The state that a reload replaces, and the time of the last fetched key set.
#[derive(Default)]
struct State {
    rules: TokenRules,
    own_keys: Vec<TokenKey>,
    fetched_keys: Vec<TokenKey>,
    keys: KeySet,
    api_keys: Arc<ApiKeys>,
    users: Arc<Users>,
}

impl fmt::Debug for TokenAuthenticator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenAuthenticator")
    }
}

impl TokenAuthenticator {
    /// Creates an authenticator. `verified_max` is the size of the cache of verified tokens;
    /// `requests` requests further keys, if there is a source; `notices` receives notices for
    /// operators.
    pub fn new(
        settings: AuthenticatorSettings,
        revocations: Revocations,
        verified_max: usize,
        requests: Option<Arc<KeyRequests>>,
        notices: Notices,
    ) -> TokenAuthenticator {
        let state = State::of(settings, &State::default());
        TokenAuthenticator {
            state: RwLock::new(Arc::new(state)),
            verified: VerifiedTokens::new(verified_max),
            terms: TermsTable::new(TERMS_MAX),
            revocations: RwLock::new(revocations),
            changing: Mutex::default(),
            shown: Mutex::default(),
            requests,
            lacks_revocations: AtomicBool::new(false),
            counters: Counters::default(),
            notices,
        }
    }

    /// Applies other settings; fetched keys stay. Clients of API keys that are removed, have other
    /// permissions or expire earlier are revoked, and so are users that are removed or have other
    /// permissions or another password: the caller tells the node that revocations have changed.
    pub fn replace(&self, settings: AuthenticatorSettings) {
        let newer = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let newer = Arc::new(State::of(settings, &state));
            *state = Arc::clone(&newer);
            newer
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.retain(|_, sha256| newer.api_keys.get(sha256).is_some());
    }

    /// Replaces the previously fetched keys. Returns whether they differ.
    pub fn replace_fetched(&self, keys: Vec<TokenKey>) -> bool {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let all = state.own_keys.iter().chain(&keys).cloned();
        let newer = State {
            keys: KeySet::succeed(&state.keys, all),
            rules: state.rules.clone(),
            own_keys: state.own_keys.clone(),
            fetched_keys: keys,
            api_keys: Arc::clone(&state.api_keys),
            users: Arc::clone(&state.users),
        };
        let is_new = !newer.keys.is_same(&state.keys);
        *state = Arc::new(newer);
        is_new
    }

    /// Checks a credential and returns the full reason of a refusal. The result is neither cached
    /// nor counted: for the check of a token.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn explain(
        &self,
        kind: CredentialKind,
        credential: &[u8],
        now_s: u64,
    ) -> Result<Entitlement, Refusal> {
        let digest = Digest::of(kind, credential);
        self.verdict(kind, credential, digest, now_s, &mut 0)
    }

    /// Says whether the node does not know what other nodes have revoked. As long as it does not,
    /// tokens are refused for now ([`Refusal::RevocationsMissing`]); API keys are not, because
    /// they are revoked by the configuration.
    pub fn set_lacks_revocations(&self, lacks: bool) {
        self.lacks_revocations.store(lacks, Relaxed);
    }

    /// Whether this is an API key that permits changes at the operators' port.
    pub fn may_operate(&self, api_key: &[u8], now_s: u64) -> bool {
        let state = self.state();
        let found = state.api_keys.find(api_key, now_s);
        found.is_ok_and(|(key, _)| key.operates)
    }

    /// The counters so far.
    pub fn statistics(&self) -> Statistics {
        let state = self.state();
        Statistics {
            keys: state.keys.len() as u64,
            api_keys: state.api_keys.len() as u64,
            users: state.users.len() as u64,
            verified_tokens: self.verified.len() as u64,
            revocations: self.read_revocations().len() as u64,
            ..self.counters.statistics()
        }
    }

    pub(crate) fn tell(&self, notice: Notice) {
        self.notices.tell(notice);
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn rules(&self) -> TokenRules {
        self.state().rules.clone()
    }

    pub(crate) fn read_revocations(&self) -> std::sync::RwLockReadGuard<'_, Revocations> {
        self.revocations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn verdict(
        &self,
        kind: CredentialKind,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
        signatures_count: &mut u32,
    ) -> Result<Entitlement, Refusal> {
        match kind {
            CredentialKind::Token => self.token(credential, digest, now_s, signatures_count),
            CredentialKind::ApiKey => self.api_key(credential, digest, now_s),
            CredentialKind::Password => self.password(credential, digest, now_s, signatures_count),
            CredentialKind::Certificate => self.certificate(credential, digest, now_s),
        }
    }

    /// A user's name and password. Clients whose password is a token or an API key may have any
    /// other name.
    fn password(
        &self,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
        signatures_count: &mut u32,
    ) -> Result<Entitlement, Refusal> {
        let (name, password) = user_and_password(credential).ok_or(Refusal::Password)?;
        // The hash of an empty password is in a file by mistake.
        if password.is_empty() {
            return Err(Refusal::Password);
        }
        let state = self.state();
        let Some(user) = state.users.get(name) else {
            return match other_secret(password) {
                Some(CredentialKind::Token) => {
                    self.token(password, digest, now_s, signatures_count)
                }
                Some(CredentialKind::ApiKey) => self.api_key(password, digest, now_s),
                Some(CredentialKind::Password | CredentialKind::Certificate) | None => {
                    state.users.pretend(password);
                    Err(Refusal::Password)
                }
            };
        };
        if user.has_accepted(digest) {
            self.counters.password_cache_hits.fetch_add(1, Relaxed);
        } else {
            *signatures_count += 1;
            self.counters.password_hashes.fetch_add(1, Relaxed);
            if !user.verify(password, digest) {
                return Err(Refusal::Password);
            }
        }
        Ok(Entitlement {
            digest,
            subject: String::from_utf8_lossy(name).into(),
            token_id: 0,
            issued_s: BY_PASSWORD,
            expires_s: NEVER,
            terms: Arc::clone(&user.terms),
        })
    }

    /// A user whose name TLS has proved. A ticket of TLS may outlive the certificate.
    fn certificate(
        &self,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
    ) -> Result<Entitlement, Refusal> {
        let (name, expires_s) = user_and_expiry(credential).ok_or(Refusal::NotTaken)?;
        if now_s >= expires_s {
            return Err(Refusal::Expired);
        }
        Ok(Entitlement {
            digest,
            subject: name.into(),
            token_id: 0,
            issued_s: BY_CERTIFICATE,
            expires_s: u32::try_from(expires_s).unwrap_or(NEVER),
            terms: self.state().users.terms_of(name),
        })
    }

    fn token(
        &self,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
        signatures_count: &mut u32,
    ) -> Result<Entitlement, Refusal> {
        if self.lacks_revocations.load(Relaxed) {
            return Err(Refusal::RevocationsMissing);
        }
        let parts = Parts::of(credential)?;
        let state = self.state();
        let known = self.verified.key_of(&digest);
        let key = match known.and_then(|number| state.keys.get(number)) {
            Some(key) => {
                self.counters.cache_hits.fetch_add(1, Relaxed);
                key
            }
            None => {
                let (number, key) = self.verify(&state, &parts, signatures_count)?;
                self.verified.insert(digest, number);
                key
            }
        };
        let rules = &state.rules;
        if !rules.token_types.is_empty() && !parts.header()?.is_of_type(&rules.token_types) {
            return Err(Refusal::TokenType);
        }
        let mut claims = Claims::parse(&parts.claims()?)?;
        claims.check(rules, now_s)?;
        let signer = &mut claims.terms.signer;
        if key.issuer().is_some_and(|own| *own != *signer.issuer) {
            return Err(Refusal::KeyIssuer);
        }
        signer.key_id = key.id().unwrap_or_default().into();
        signer.key_thumbprint = key.thumbprint();
        let entitlement = Entitlement {
            digest,
            token_id: claims.token_id,
            issued_s: claims.issued_s,
            expires_s: claims.ends_s(rules),
            subject: claims.subject,
            terms: self.terms.share(claims.terms),
        };
        if self.read_revocations().concern(&entitlement) {
            Err(Refusal::Revoked)
        } else {
            Ok(entitlement)
        }
    }

    /// The signing key, and its number.
    fn verify<'a>(
        &self,
        state: &'a State,
        parts: &Parts<'_>,
        signatures_count: &mut u32,
    ) -> Result<(u32, &'a TokenKey), Refusal> {
        let header = parts.header()?;
        let id = header.key_id.as_deref();
        let message = parts.message.as_bytes();
        let tried = state.keys.verify(header.algorithm, id, message, parts.signature);
        *signatures_count += tried.keys_count;
        let computed = u64::from(tried.keys_count);
        self.counters.signatures.fetch_add(computed, Relaxed);
        let key = |number| state.keys.get(number).map(|key| (number, key));
        if let Some(verified) = tried.verified.and_then(key) {
            return Ok(verified);
        }
        if tried.keys_count > 0 {
            return Err(Refusal::Signature);
        }
        match &self.requests {
            // A new key of the issuer may be about to arrive: the client should retry.
            Some(requests) if requests.ask() => Err(Refusal::KeysMissing),
            _ if state.keys.is_empty() && self.requests.is_none() => Err(Refusal::NotTaken),
            _ => Err(Refusal::NoKey),
        }
    }

    fn api_key(
        &self,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
    ) -> Result<Entitlement, Refusal> {
        let state = self.state();
        let (key, terms) = state.api_keys.find(credential, now_s)?;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.insert(digest, key.sha256);
        drop(shown);
        Ok(Entitlement {
            digest,
            subject: key.name.clone(),
            token_id: 0,
            // Refuse a token that its time of issue revokes.
            issued_s: NEVER,
            expires_s: key.expires_s,
            terms: Arc::clone(terms),
        })
    }

    /// Whether the user of this entitlement still exists with the same password and permissions.
    fn user_holds(&self, entitlement: &Entitlement) -> bool {
        let state = self.state();
        let user = state.users.get(entitlement.subject.as_bytes());
        user.is_some_and(|user| {
            user.has_accepted(entitlement.digest) && *user.terms == *entitlement.terms
        })
    }

    /// The users who have proved their passwords.
    pub(crate) fn accepted_users(&self) -> Vec<Accepted> {
        self.state().users.accepted()
    }

    /// Restores them.
    pub(crate) fn know_accepted(&self, before: Vec<Accepted>) {
        self.state().users.know_accepted(before);
    }

    /// The presented API keys, by the digests that connections store, with their hashes.
    pub(crate) fn shown_api_keys(&self) -> Vec<(Digest, [u8; 32])> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.iter().map(|(digest, sha256)| (*digest, *sha256)).collect()
    }

    /// Restores the presented keys; removed keys are ignored.
    pub(crate) fn know_shown(&self, before: Vec<(Digest, [u8; 32])>) {
        let state = self.state();
        let is_there = |(_, sha256): &(Digest, [u8; 32])| state.api_keys.get(sha256).is_some();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.extend(before.into_iter().filter(is_there));
    }

    /// Whether the API key of this entitlement still exists with the same name, and grants the same
    /// for at least as long.
    fn holds(&self, entitlement: &Entitlement) -> bool {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sha256) = shown.get(&entitlement.digest).copied() else {
            return false;
        };
        drop(shown);
        let state = self.state();
        let held = state.api_keys.get(&sha256);
        held.is_some_and(|(key, terms)| {
            **terms == *entitlement.terms
                && key.name == entitlement.subject
                && key.expires_s >= entitlement.expires_s
        })
    }
}

impl Authenticator for TokenAuthenticator {
    fn authenticate(
        &self,
        kind: CredentialKind,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
    ) -> Decision {
        let mut signatures_count = 0;
        let verdict = self.verdict(kind, credential, digest, now_s, &mut signatures_count);
        self.counters.count(verdict.as_ref().map(|_| ()));
        if let Err(refusal) = &verdict {
            self.notices.refused(refusal, now_s);
        }
        Decision { result: verdict.map_err(|refusal| refusal.code()), signatures_count }
    }

    fn is_slow(&self, kind: CredentialKind, credential: &[u8], digest: Digest) -> bool {
        let of_user = (kind == CredentialKind::Password).then(|| user_and_password(credential));
        let Some((name, password)) = of_user.flatten() else {
            return false;
        };
        let state = self.state();
        match state.users.get(name) {
            _ if password.is_empty() => false,
            Some(user) => !user.has_accepted(digest),
            None => !state.users.is_empty() && other_secret(password).is_none(),
        }
    }

    fn is_revoked(&self, entitlement: &Entitlement) -> bool {
        match entitlement.kind() {
            CredentialKind::Token => self.read_revocations().concern(entitlement),
            CredentialKind::ApiKey => !self.holds(entitlement),
            CredentialKind::Password => !self.user_holds(entitlement),
            CredentialKind::Certificate => {
                *self.state().users.terms_of(&entitlement.subject) != *entitlement.terms
            }
        }
    }
}

/// The kind of a password that is a token or an API key.
fn other_secret(password: &[u8]) -> Option<CredentialKind> {
    let kind = kind_of_secret(password);
    let is_one = kind == CredentialKind::Token || password.starts_with(API_KEY_PREFIX.as_bytes());
    is_one.then_some(kind)
}

impl State {
    /// The state that follows another one.
    fn of(settings: AuthenticatorSettings, older: &State) -> State {
        let fetched_keys = older.fetched_keys.clone();
        let all = settings.token_keys.iter().chain(&fetched_keys).cloned();
        State {
            keys: KeySet::succeed(&older.keys, all),
            rules: settings.rules,
            own_keys: settings.token_keys,
            fetched_keys,
            api_keys: Arc::new(ApiKeys::new(settings.api_keys)),
            users: Arc::new(Users::new(settings.users, &settings.grants, &older.users)),
        }
    }
}
