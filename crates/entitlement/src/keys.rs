//! Keys that verify signatures, and the selection of keys for a token.
//!
//! Created at the start, at a reload and after a fetch of a key set; shared read-only afterwards.
//! Invariants: a key has its algorithms, and the token's header only selects among these, so a
//! public key never becomes the secret of an HMAC. Weak keys are refused at creation. No code here
//! prints a key.

use crate::algorithm::{Algorithm, Family};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey,
    RsaPublicKeyComponents, VerificationAlgorithm,
};
use jsonwebtoken::DecodingKey;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use std::fmt;

/// Maximum number of keys of a node.
pub const KEYS_MAX: usize = 128;
/// Maximum number of keys tried for one token; a token with a key ID is tried with keys of that ID
/// only.
pub const KEYS_TRIED_MAX: usize = 4;
/// Minimum length of an HMAC secret, in bytes.
pub const SECRET_BYTES_MIN: usize = 32;
/// Minimum length of an RSA modulus, in bits.
pub const RSA_BITS_MIN: usize = 2_048;
/// Maximum length of an RSA modulus; a longer one costs more to verify than a node should spend.
pub const RSA_BITS_MAX: usize = 8_192;
pub use broker::entitlement::KEY_ID_BYTES_MAX;

/// The algorithms of RSA keys without a declared one.
const RSA_ALGORITHMS: &[Algorithm] = &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512];
/// The bytes before the point in a public key's DER, by curve (RFC 5480), and before the 32 bytes
/// of Ed25519 (RFC 8410). Each has one length and one form, so that no parser is needed.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P384_PREFIX: [u8; 23] = [
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
    0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];
pub(crate) const ED25519_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The reason why a key is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// The secret of an HMAC is too short; its length in bytes.
    ShortSecret(usize),
    /// The modulus of an RSA key is too short or too long; its length in bits.
    RsaBits(usize),
    /// The key does not match the algorithm.
    NotFor(Algorithm),
    /// The text contains no public key.
    NoPem,
    /// The ID is empty or too long.
    BadId,
}

impl fmt::Display for KeyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::ShortSecret(bytes) => write!(
                formatter,
                "the secret has {bytes} bytes, at least {SECRET_BYTES_MIN} are required"
            ),
            KeyError::RsaBits(bits) => write!(
                formatter,
                "the RSA key has {bits} bits, {RSA_BITS_MIN} to {RSA_BITS_MAX} are required"
            ),
            KeyError::NotFor(algorithm) => {
                write!(formatter, "it is not a public key for {algorithm}")
            }
            KeyError::NoPem => {
                formatter.write_str("it contains no public key (PEM, \"BEGIN PUBLIC KEY\")")
            }
            KeyError::BadId => {
                write!(formatter, "the id of a key must have 1 to {KEY_ID_BYTES_MAX} bytes")
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// One verifying key.
#[derive(Clone)]
pub struct TokenKey {
    id: Option<Box<str>>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
    /// The issuer of its tokens, if declared: tokens must have the same `iss`.
    issuer: Option<Box<str>>,
    /// A hash of everything but the issuer, to recognise the same key after a reload.
    fingerprint: [u8; 32],
}

impl fmt::Debug for TokenKey {
    /// Its ID and algorithms.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TokenKey({:?} {:?})", self.id, self.algorithms)
    }
}

impl TokenKey {
    /// A secret for one HMAC algorithm.
    ///
    /// # Errors
    /// [`KeyError`]: it is short, or the algorithm needs another kind of key.
    pub fn of_secret(
        id: Option<&str>,
        algorithm: Algorithm,
        secret: &[u8],
    ) -> Result<TokenKey, KeyError> {
        if algorithm.family() != Family::Hmac {
            return Err(KeyError::NotFor(algorithm));
        }
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyError::ShortSecret(secret.len()));
        }
        TokenKey::new(id, &[algorithm], DecodingKey::from_secret(secret), &[secret])
    }

    /// A public key for one algorithm, from the DER of its `SubjectPublicKeyInfo` (the content of
    /// `PUBLIC KEY` in PEM).
    ///
    /// # Errors
    /// [`KeyError`]: it is weak, or of another kind.
    pub fn of_public_der(
        id: Option<&str>,
        algorithm: Algorithm,
        der: &[u8],
    ) -> Result<TokenKey, KeyError> {
        let not_for = KeyError::NotFor(algorithm);
        match algorithm {
            Algorithm::ES256 | Algorithm::ES384 => {
                let prefix: &[u8] = match algorithm {
                    Algorithm::ES256 => &P256_PREFIX,
                    _ => &P384_PREFIX,
                };
                let point = der.strip_prefix(prefix).ok_or(not_for)?;
                TokenKey::of_point(id, algorithm, point)
            }
            Algorithm::EdDSA => {
                TokenKey::of_ed25519(id, der.strip_prefix(&ED25519_PREFIX[..]).ok_or(not_for)?)
            }
            Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => {
                let public = rsa::PublicKey::from_der(der).map_err(|_| not_for)?;
                let components = RsaPublicKeyComponents::<Vec<u8>>::from(&public);
                TokenKey::of_rsa(id, Some(algorithm), &components.n, &components.e)
            }
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => Err(not_for),
        }
    }

    /// A public key for one algorithm, from PEM.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn of_public_pem(
        id: Option<&str>,
        algorithm: Algorithm,
        pem: &[u8],
    ) -> Result<TokenKey, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| KeyError::NoPem)?;
        TokenKey::of_public_der(id, algorithm, &der)
    }

    /// An RSA key from modulus and exponent, big-endian; without an algorithm, for all three.
    pub(crate) fn of_rsa(
        id: Option<&str>,
        algorithm: Option<Algorithm>,
        modulus: &[u8],
        exponent: &[u8],
    ) -> Result<TokenKey, KeyError> {
        let algorithms = match &algorithm {
            Some(algorithm) => std::slice::from_ref(algorithm),
            None => RSA_ALGORITHMS,
        };
        if algorithms[0].family() != Family::Rsa {
            return Err(KeyError::NotFor(algorithms[0]));
        }
        let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
        let modulus = &modulus[zeros..];
        let unused = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
        let bits = 8 * modulus.len() - unused;
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(KeyError::RsaBits(bits));
        }
        // The library would check both only during a verification.
        let components = RsaPublicKeyComponents { n: modulus, e: exponent };
        let is_key = components
            .to_parsed_public_key(&aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA256)
            .is_ok();
        if !is_key {
            return Err(KeyError::NotFor(algorithms[0]));
        }
        let key = DecodingKey::from_rsa_raw_components(modulus, exponent);
        TokenKey::new(id, algorithms, key, &[modulus, exponent])
    }

    /// A point on the curve of ES256 or ES384, uncompressed: 4, x, y.
    pub(crate) fn of_point(
        id: Option<&str>,
        algorithm: Algorithm,
        point: &[u8],
    ) -> Result<TokenKey, KeyError> {
        let verification: &'static dyn VerificationAlgorithm = match algorithm {
            Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED,
            _ => return Err(KeyError::NotFor(algorithm)),
        };
        let is_point = point.first() == Some(&4);
        if !is_point || ParsedPublicKey::new(verification, point).is_err() {
            return Err(KeyError::NotFor(algorithm));
        }
        TokenKey::new(id, &[algorithm], DecodingKey::from_ec_der(point), &[point])
    }

    /// The 32 bytes of an Ed25519 key.
    pub(crate) fn of_ed25519(id: Option<&str>, bytes: &[u8]) -> Result<TokenKey, KeyError> {
        if bytes.len() != 32 || ParsedPublicKey::new(&ED25519, bytes).is_err() {
            return Err(KeyError::NotFor(Algorithm::EdDSA));
        }
        TokenKey::new(id, &[Algorithm::EdDSA], DecodingKey::from_ed_der(bytes), &[bytes])
    }

    fn new(
        id: Option<&str>,
        algorithms: &[Algorithm],
        key: DecodingKey,
        material: &[&[u8]],
    ) -> Result<TokenKey, KeyError> {
        if id.is_some_and(|id| id.is_empty() || id.len() > KEY_ID_BYTES_MAX) {
            return Err(KeyError::BadId);
        }
        let mut hash = Sha256::new();
        let names = algorithms.iter().map(|algorithm| algorithm.name().as_bytes());
        let id_bytes = id.unwrap_or_default().as_bytes();
        for part in names.chain([id_bytes]).chain(material.iter().copied()) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Ok(TokenKey {
            id: id.map(Into::into),
            algorithms: algorithms.into(),
            key,
            issuer: None,
            fingerprint: hash.finalize().into(),
        })
    }

    /// Restricts the key to this issuer.
    #[must_use]
    pub fn of_issuer(self, issuer: Option<&str>) -> TokenKey {
        TokenKey { issuer: issuer.map(Into::into), ..self }
    }

    /// The issuer, if declared.
    pub fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }

    /// The ID by which tokens name it.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// A part of its fingerprint, by which operators name a key without an ID.
    pub fn thumbprint(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.fingerprint[..8]);
        u64::from_be_bytes(first)
    }

    /// The algorithms of the key.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Whether the signature, in base64url as in the token, is this key's signature of `message`.
    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &str) -> bool {
        jsonwebtoken::crypto::verify(signature, message, &self.key, algorithm.of_library())
            .unwrap_or(false)
    }
}

/// Keys, each with a number that stays the same while the key is known.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<(u32, TokenKey)>,
    numbers_given: u32,
}

/// The result of trying keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tried {
    /// The number of the key that has signed it.
    pub verified: Option<u32>,
    /// Number of tried keys, and so of computed signatures. 0: no key matches.
    pub keys_count: u32,
}

impl KeySet {
    /// The first [`KEYS_MAX`] of these keys, without duplicates; a key that is also in `older`
    /// keeps its number.
    pub fn succeed(older: &KeySet, keys: impl IntoIterator<Item = TokenKey>) -> KeySet {
        let mut set = KeySet { keys: Vec::new(), numbers_given: older.numbers_given };
        for key in keys {
            let is_same = |(_, other): &&(u32, TokenKey)| other.fingerprint == key.fingerprint;
            if set.keys.len() == KEYS_MAX || set.keys.iter().any(|held| is_same(&held)) {
                continue;
            }
            let number = match older.keys.iter().find(is_same) {
                Some((number, _)) => *number,
                None => {
                    set.numbers_given += 1;
                    set.numbers_given
                }
            };
            set.keys.push((number, key));
        }
        set
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key with this number, if it still exists.
    pub fn get(&self, number: u32) -> Option<&TokenKey> {
        let found = self.keys.iter().find(|(held, _)| *held == number);
        found.map(|(_, key)| key)
    }

    /// Whether both have the same keys.
    pub fn is_same(&self, other: &KeySet) -> bool {
        self.len() == other.len()
            && self.keys.iter().all(|(number, _)| other.get(*number).is_some())
    }

    /// Tries the matching keys: those with the token's key ID, else those without an ID; at most
    /// [`KEYS_TRIED_MAX`].
    pub fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &str,
    ) -> Tried {
        let fits = |key: &TokenKey| key.algorithms.contains(&algorithm);
        let is_named =
            id.is_some() && self.keys.iter().any(|(_, key)| key.id.as_deref() == id && fits(key));
        let mut keys_count = 0;
        let fitting = self.keys.iter().filter(|(_, key)| {
            let is_meant = match (id, is_named) {
                (None, _) => true,
                (Some(_), true) => key.id.as_deref() == id,
                (Some(_), false) => key.id.is_none(),
            };
            is_meant && fits(key)
        });
        for (number, key) in fitting.take(KEYS_TRIED_MAX) {
            keys_count += 1;
            if key.verifies(algorithm, message, signature) {
                return Tried { verified: Some(*number), keys_count };
            }
        }
        Tried { verified: None, keys_count }
    }
}
