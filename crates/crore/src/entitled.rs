//! Builds the authenticator from the configuration: keys and their files, the fetching of key sets,
//! stored revocations.
//!
//! Place: at the start, and at a reload. Invariants: files are read before anything changes; a
//! fault names the file, the key and the expected value, and reveals nothing of a key.

use crate::configuration::entries::{Configuration, Entry};
use crate::configuration::fault::{Fault, Faults, Origin};
use crate::configuration::options::entitlement::Mode;
use crate::configuration::options::{
    ApiKeyTable, Entitlement, GrantTable, Node, NodeLimits, TokenKeyTable,
};
use crate::configuration::relations::entitlement::{is_anything, takes_tokens};
use crate::logging::{Level, Log};
use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use broker::entitlement::{NEVER, Permissions};
use broker::settings::EntitlementSettings;
use entitlement::algorithm::{Algorithm, Family};
use entitlement::api_keys::ApiKey;
use entitlement::claims::TokenRules;
use entitlement::jwks::{JWKS_BYTES_MAX, Jwks};
use entitlement::keys::{KeyError, TokenKey};
use entitlement::notices::{Notice, Notices};
use entitlement::password_file::{self, LineFault, User};
use entitlement::refresh::{self, FetchGuard, KeyRequests, KeySource};
use entitlement::revocation_file;
use entitlement::revocations::Revocations;
use entitlement::users::Grant;
use entitlement::{AuthenticatorSettings, TokenAuthenticator};
use fetch::Url;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use zeroize::Zeroizing;

/// Maximum size of a key file, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// An authenticator with its resources.
pub struct Entitled {
    /// The authenticator; shared with the node.
    pub authenticator: Arc<TokenAuthenticator>,
    /// Directory of the revocations, if any.
    pub data_dir: Option<PathBuf>,
    /// Notices of the authenticator; the thread that writes the log takes them.
    notices: Option<Receiver<Notice>>,
    /// Fetches key sets until it is dropped.
    _fetching: Option<FetchGuard>,
}

impl Entitled {
    /// The notices of the authenticator, for the thread that writes the log.
    pub fn take_notices(&mut self) -> Option<Receiver<Notice>> {
        self.notices.take()
    }
}

/// Entitlement settings of the edges; none if clients need no token.
pub fn settings(configuration: &Configuration) -> Option<EntitlementSettings> {
    let section: Entitlement = configuration.read();
    let NodeLimits { connections_per_user_max, .. } = configuration.read();
    (section.mode == Mode::Tokens).then(|| EntitlementSettings {
        anonymous: Permissions {
            subscribe: section.anonymous_subscribe,
            publish: section.anonymous_publish,
            history: section.anonymous_history,
        },
        notice_before_s: section.notice_before.as_secs() as u32,
        users_are_counted: connections_per_user_max.is_some(),
        takes_passwords: section.users_file.is_some(),
    })
}

/// Builds the node's authenticator; none if clients need no token and there is no API key.
///
/// # Errors
/// A key or its file is faulty, the file of revocations is unreadable, or the system refuses a
/// thread.
pub fn prepare(configuration: &Configuration) -> Result<Option<Entitled>, crate::exit::Ending> {
    if !takes_tokens(configuration) && configuration.api_keys.is_empty() {
        return Ok(None);
    }
    let settings = authenticator_settings(configuration)?;
    let data_dir = data_dir(configuration);
    let revocations = match &data_dir {
        Some(directory) => revocation_file::read(directory).with_context(|| {
            let file = directory.join(revocation_file::FILE_NAME);
            format!(
                "cannot read {}; without it, the node would accept revoked tokens again",
                file.display()
            )
        })?,
        None => Revocations::default(),
    };
    let source = key_source(configuration)?;
    let request = source.as_ref().map(|_| Arc::new(KeyRequests::default()));
    let (notices, read) = Notices::new();
    let Entitlement { verified_max, .. } = configuration.read();
    let authenticator = Arc::new(TokenAuthenticator::new(
        settings,
        revocations,
        verified_max,
        request.clone(),
        notices,
    ));
    let fetching = match (source, request) {
        (Some(source), Some(request)) => {
            let guard = refresh::spawn(&authenticator, request, source);
            Some(guard.context("cannot start the thread that fetches keys")?)
        }
        _ => None,
    };
    Ok(Some(Entitled { authenticator, data_dir, notices: Some(read), _fetching: fetching }))
}

/// Keys, rules, API keys and users, with their files read.
///
/// # Errors
/// All faults.
pub fn authenticator_settings(
    configuration: &Configuration,
) -> Result<AuthenticatorSettings, Faults> {
    let mut faults = Vec::new();
    let mut token_keys = Vec::new();
    let section: Entitlement = configuration.read();
    if let Some(secret) = section.secret {
        let key = TokenKey::of_secret(None, Algorithm::HS256, secret.as_str().as_bytes());
        match key {
            Ok(key) => token_keys.push(key),
            Err(error) => faults.push(fault(configuration, "entitlement.secret", &error)),
        }
    }
    for entry in &configuration.token_keys {
        match token_key(entry) {
            Ok(key) => token_keys.push(key),
            Err(fault) => faults.push(fault),
        }
    }
    if let Some(file) = section.jwks_file {
        match key_set(&file, configuration.origin_of("entitlement.jwks_file")) {
            Ok(jwks) => token_keys.extend(jwks.keys),
            Err(fault) => faults.push(fault),
        }
    }
    let users = section.users_file.map(|file| {
        users(&file, configuration.origin_of("entitlement.users_file")).unwrap_or_else(|fault| {
            faults.push(fault);
            Vec::new()
        })
    });
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    let lifetime_max_s = section.token_lifetime_max.as_secs();
    Ok(AuthenticatorSettings {
        rules: TokenRules {
            issuers: wanted(section.issuers),
            audiences: wanted(section.audiences),
            token_types: section.token_types,
            leeway_s: section.leeway.as_secs() as u32,
            lifetime_max_s: (lifetime_max_s > 0).then_some(lifetime_max_s as u32),
        },
        token_keys,
        api_keys: configuration.api_keys.iter().map(api_key).collect(),
        users: users.unwrap_or_default(),
        grants: configuration.grants.iter().map(grant).collect(),
    })
}

/// Permitted values of a claim; empty: any value, which the configuration writes as `*`.
fn wanted(words: Vec<String>) -> Vec<String> {
    if is_anything(&words) { Vec::new() } else { words }
}

/// Warnings at the start.
pub fn notices(configuration: &Configuration) -> Vec<(Level, String)> {
    let mut notices = Vec::new();
    if !takes_tokens(configuration) {
        let sentence = "authentication is off (entitlement.mode = \"open\"): every client that can connect can publish and read everything; use this for development only";
        return vec![(Level::Warn, sentence.into())];
    }
    if data_dir(configuration).is_none() {
        let sentence = "revocations are lost at a restart: node.data_dir is not set";
        notices.push((Level::Warn, sentence.into()));
    }
    if let Some(text) = configuration.read::<Entitlement>().jwks_url
        && let Some(url) = Url::parse(&text)
        && !url.is_https
        && !url.is_local()
    {
        let sentence = "entitlement.jwks_url has no TLS: an attacker between the issuer and this node can insert keys";
        notices.push((Level::Warn, sentence.into()));
    }
    let users_file = configuration.read::<Entitlement>().users_file;
    if users_file.is_some() && configuration.grants.is_empty() {
        let sentence =
            "users have no permissions: entitlement.users_file is set, and there is no [[grant]]";
        notices.push((Level::Warn, sentence.into()));
    }
    notices.extend(notices_of_claims(configuration));
    notices
}

/// An issuer signs tokens for every application that trusts it: without a rule for a claim, tokens
/// of other applications are accepted.
fn notices_of_claims(configuration: &Configuration) -> Vec<(Level, String)> {
    let is_public = |entry: &Entry| entry.read::<TokenKeyTable>().public_key_file.is_some();
    let section: Entitlement = configuration.read();
    let has_set = section.jwks_url.is_some() || section.jwks_file.is_some();
    if !has_set && !configuration.token_keys.iter().any(is_public) {
        return Vec::new();
    }
    let mut sentences = Vec::new();
    if section.audiences.is_empty() {
        sentences.push("tokens of every audience are accepted: set entitlement.audiences, or [\"*\"] if the issuer signs for no other application");
    }
    if section.issuers.is_empty() {
        sentences.push("tokens of every issuer with a known key are accepted: set entitlement.issuers, or [\"*\"] if all keys belong to one issuer");
    }
    if section.token_lifetime_max.is_zero() {
        sentences.push("tokens without an expiry are accepted: set entitlement.token_lifetime_max, so that a stolen token expires");
    }
    let warning = |sentence: &str| (Level::Warn, sentence.to_owned());
    sentences.into_iter().map(warning).collect()
}

/// Writes the notices of the authenticator to the log, on a thread of its own, until the
/// authenticator is dropped. `changed` is called after a change of the keys.
///
/// # Errors
/// The system refuses a thread.
pub fn watch(
    notices: Receiver<Notice>,
    changed: Arc<dyn Fn() + Send + Sync>,
    log: Log,
) -> std::io::Result<()> {
    let tell = move |notice| match notice {
        Notice::Refused { reason, count } => log.write(
            Level::Warn,
            "Credentials were refused.",
            &[("last_reason", reason), ("count", &count.to_string())],
        ),
        Notice::FetchFailed(problem) => log.write(
            Level::Error,
            "The key set could not be fetched; the current keys stay in use.",
            &[("problem", &problem)],
        ),
        Notice::KeysChanged { count, skipped_count } => {
            changed();
            let fields = [("keys", &*count.to_string()), ("not_taken", &skipped_count.to_string())];
            log.write(Level::Info, "A key set was fetched.", &fields);
        }
    };
    std::thread::Builder::new()
        .name("crore-refusals".into())
        .spawn(move || notices.into_iter().for_each(tell))?;
    Ok(())
}

/// Directory of the revocations, if any.
pub fn data_dir(configuration: &Configuration) -> Option<PathBuf> {
    configuration.read::<Node>().data_dir
}

/// Fetches the issuer's keys once, to check a token.
///
/// # Errors
/// The fetch fails.
pub fn fetch_once(configuration: &Configuration) -> Result<Vec<TokenKey>, crate::exit::Ending> {
    let Some(source) = key_source(configuration)? else {
        return Ok(Vec::new());
    };
    let jwks = refresh::fetch(&source).map_err(|problem| anyhow::anyhow!(problem));
    let jwks = jwks.context("cannot fetch the key set at entitlement.jwks_url")?;
    Ok(jwks.keys)
}

fn key_source(configuration: &Configuration) -> Result<Option<KeySource>, Faults> {
    let section: Entitlement = configuration.read();
    let Some(url) = section.jwks_url.as_deref().and_then(Url::parse) else {
        return Ok(None);
    };
    let roots = section.jwks_ca_file.map_or(tls::Roots::System, tls::Roots::File);
    // A URL without TLS needs no certificates, and a small container has none.
    let roots = if url.is_https { Some(&roots) } else { None };
    let key = "entitlement.jwks_ca_file";
    let origin =
        configuration.given(key).unwrap_or(configuration.get("entitlement.mode")).1.clone();
    let tls = tls::plain_client(roots).map_err(|error| {
        Faults(vec![Fault {
            origin,
            key: key.into(),
            problem: format!("{}: {}", error.file.display(), error.problem),
            expected: error.expected.into(),
        }])
    })?;
    let (every, every_min) = (section.jwks_refresh, section.jwks_refresh_min);
    Ok(Some(KeySource { url, tls, every, every_min }))
}

fn key_set(file: &Path, origin: Origin) -> Result<Jwks, Fault> {
    let bad = |problem: String| Fault {
        origin: origin.clone(),
        key: "entitlement.jwks_file".into(),
        problem: format!("{}: {problem}", file.display()),
        expected: "a key set (JWKS, RFC 7517) with keys that verify tokens".into(),
    };
    let bytes = read(file, JWKS_BYTES_MAX as u64).map_err(bad)?;
    let jwks = Jwks::parse(&bytes).map_err(bad)?;
    if jwks.keys.is_empty() {
        Err(bad("the key set contains no usable key".into()))
    } else {
        Ok(jwks)
    }
}

fn users(file: &Path, origin: Origin) -> Result<Vec<User>, Fault> {
    let bad = |problem: String| Fault {
        origin: origin.clone(),
        key: "entitlement.users_file".into(),
        problem,
        expected: "lines NAME:$7$..., as `mosquitto_passwd FILE NAME` writes them".into(),
    };
    let bytes = read(file, password_file::FILE_BYTES_MAX)
        .map_err(|problem| bad(format!("{}: {problem}", file.display())))?;
    password_file::parse(&bytes).map_err(|LineFault { line, problem }| {
        bad(format!("{}, line {line}: {problem}", file.display()))
    })
}

fn token_key(entry: &Entry) -> Result<TokenKey, Fault> {
    let bad = |key: &str, problem: String| Fault {
        origin: entry.origin_of(key),
        key: format!("token_key.{key}"),
        problem,
        expected: "a key for the algorithm of this table".into(),
    };
    let table: TokenKeyTable = entry.read();
    let id = table.id.as_deref();
    let Some(algorithm) = table.algorithm else {
        return Err(bad("algorithm", "the key has no algorithm".into()));
    };
    let of = |key: &str, made: Result<TokenKey, KeyError>| {
        let made = made.map_err(|error| bad(key, error.to_string()))?;
        Ok(made.of_issuer(table.issuer.as_deref()))
    };
    if algorithm.family() == Family::Hmac {
        let (key, secret) = match table.secret {
            Some(secret) => {
                let bytes = secret.as_str().as_bytes().to_vec();
                ("secret", Zeroizing::new(bytes))
            }
            None => {
                let bytes = secret_of_file(&table.secret_file.unwrap_or_default());
                ("secret_file", bytes.map_err(|problem| bad("secret_file", problem))?)
            }
        };
        let encoding = table.secret_encoding;
        let secret = decoded(&secret, &encoding)
            .ok_or_else(|| bad(key, format!("the secret is not {encoding}")))?;
        return of(key, TokenKey::of_secret(id, algorithm, &secret));
    }
    let key = "public_key_file";
    let file = table.public_key_file.unwrap_or_default();
    let pem = read(&file, KEY_FILE_BYTES_MAX)
        .map_err(|problem| bad(key, format!("{}: {problem}", file.display())))?;
    of(key, TokenKey::of_public_pem(id, algorithm, &pem))
}

/// The bytes of a secret in a file, without a line ending.
///
/// # Errors
/// The file and its fault.
pub fn secret_of_file(file: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let bytes = read(file, KEY_FILE_BYTES_MAX);
    let mut bytes =
        Zeroizing::new(bytes.map_err(|problem| format!("{}: {problem}", file.display()))?);
    while let [.., b'\n' | b'\r'] = bytes[..] {
        bytes.pop();
    }
    Ok(bytes)
}

/// Decodes a secret from `text`, `base64` or `hex`.
pub fn decoded(secret: &[u8], encoding: &str) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = match encoding {
        "base64" => STANDARD.decode(secret).or_else(|_| STANDARD_NO_PAD.decode(secret)).ok()?,
        "hex" => {
            let digits = secret.iter().map(|byte| char::from(*byte).to_digit(16));
            let digits: Vec<u32> = digits.collect::<Option<_>>()?;
            let pairs = digits.chunks_exact(2);
            if !pairs.remainder().is_empty() {
                return None;
            }
            pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
        }
        _ => secret.to_vec(),
    };
    Some(Zeroizing::new(bytes))
}

/// Reads a file of bounded size.
///
/// # Errors
/// The fault, without the name of the file.
pub fn read(file: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(|error| format!("cannot read it: {error}"))?;
    opened
        .take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read it: {error}"))?;
    if bytes.len() as u64 > bytes_max {
        Err(format!("the file exceeds {bytes_max} bytes"))
    } else {
        Ok(bytes)
    }
}

fn api_key(entry: &Entry) -> ApiKey {
    let ApiKeyTable { name, sha256, subscribe, publish, history, expires, operate } = entry.read();
    ApiKey {
        name: name.unwrap_or_default().into(),
        sha256: sha256.unwrap_or_default(),
        expires_s: expires
            .map_or(NEVER, |expires| u32::try_from(expires.0 / 1_000).unwrap_or(NEVER)),
        permissions: Permissions { subscribe, publish, history },
        operates: operate,
    }
}

fn grant(entry: &Entry) -> Grant {
    let GrantTable { user, subscribe, publish, history } = entry.read();
    let permissions = Permissions { subscribe, publish, history };
    Grant { user: user.map(Into::into), permissions }
}

fn fault(configuration: &Configuration, key: &str, error: &KeyError) -> Fault {
    Fault {
        origin: configuration.origin_of(key),
        key: key.into(),
        problem: error.to_string(),
        expected: "a key for the algorithm".into(),
    }
}
