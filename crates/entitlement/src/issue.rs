//! The issuer's side: private keys, and tokens signed with them. For `crore token gen`, tests and
//! benchmarks; a node signs no tokens.

use crate::algorithm::Algorithm;
use crate::keys::{ED25519_PREFIX, RSA_BITS_MIN, SECRET_BYTES_MIN};
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair,
};
use aws_lc_rs::{hmac, rsa};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::fmt;
use zeroize::Zeroizing;

/// A key that signs tokens.
pub struct SigningKey {
    algorithm: Algorithm,
    kind: Kind,
}

enum Kind {
    Hmac(Box<hmac::Key>),
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl fmt::Debug for SigningKey {
    /// The algorithm of the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SigningKey({})", self.algorithm)
    }
}

impl SigningKey {
    /// A secret for one HMAC algorithm. Nodes refuse short secrets, so this does, too.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub fn of_secret(algorithm: Algorithm, secret: &[u8]) -> Result<SigningKey, String> {
        let hmac = match algorithm {
            Algorithm::HS256 => hmac::HMAC_SHA256,
            Algorithm::HS384 => hmac::HMAC_SHA384,
            Algorithm::HS512 => hmac::HMAC_SHA512,
            _ => return Err(format!("{algorithm} needs a private key, not a secret")),
        };
        if secret.len() < SECRET_BYTES_MIN {
            let bytes = secret.len();
            return Err(format!(
                "the secret has {bytes} bytes, at least {SECRET_BYTES_MIN} are required"
            ));
        }
        Ok(SigningKey { algorithm, kind: Kind::Hmac(Box::new(hmac::Key::new(hmac, secret))) })
    }

    /// A private key in PEM, for this algorithm or, without one, for the first that matches.
    ///
    /// # Errors
    /// The reason, as a sentence that reveals nothing of the key.
    pub fn of_pem(algorithm: Option<Algorithm>, pem: &[u8]) -> Result<SigningKey, String> {
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| "it contains no private key in PEM".to_owned())?;
        let fits = |own: &&Algorithm| algorithm.is_none_or(|wanted| wanted == **own);
        let kinds = [
            Algorithm::EdDSA,
            Algorithm::ES256,
            Algorithm::ES384,
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
        ];
        let keys = kinds.iter().filter(fits);
        let key = keys.filter_map(|own| SigningKey::of_der(*own, &der)).next();
        key.ok_or_else(|| match algorithm {
            Some(algorithm) => format!("it is not a private key for {algorithm}"),
            None => "the node does not support this kind of private key".into(),
        })
    }

    fn of_der(algorithm: Algorithm, der: &PrivateKeyDer<'_>) -> Option<SigningKey> {
        let bytes = der.secret_der();
        let ec = |algorithm: &'static EcdsaSigningAlgorithm| match der {
            PrivateKeyDer::Pkcs8(_) => EcdsaKeyPair::from_pkcs8(algorithm, bytes).ok(),
            PrivateKeyDer::Sec1(_) => EcdsaKeyPair::from_private_key_der(algorithm, bytes).ok(),
            _ => None,
        };
        let rsa = || match der {
            PrivateKeyDer::Pkcs8(_) => RsaKeyPair::from_pkcs8(bytes).ok(),
            PrivateKeyDer::Pkcs1(_) => RsaKeyPair::from_der(bytes).ok(),
            _ => None,
        };
        let kind = match algorithm {
            Algorithm::EdDSA => Kind::Ed(Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes).ok()?),
            Algorithm::ES256 => Kind::Ec(ec(&ECDSA_P256_SHA256_FIXED_SIGNING)?),
            Algorithm::ES384 => Kind::Ec(ec(&ECDSA_P384_SHA384_FIXED_SIGNING)?),
            Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => {
                let key = rsa()?;
                if 8 * key.public_modulus_len() < RSA_BITS_MIN {
                    return None;
                }
                Kind::Rsa(Box::new(key))
            }
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => return None,
        };
        Some(SigningKey { algorithm, kind })
    }

    /// The algorithm of its signatures.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Creates a token with these claims, a JSON object.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn token(
        &self,
        key_id: Option<&str>,
        claims: &serde_json::Value,
    ) -> Result<String, String> {
        let mut header = serde_json::json!({"alg": self.algorithm.name(), "typ": "JWT"});
        if let Some(key_id) = key_id {
            header["kid"] = key_id.into();
        }
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
        let signature = self.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// The signature of a message, in the encoding of a token.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |_| "cannot sign: the system provides no random numbers".to_owned();
        Ok(match &self.kind {
            Kind::Hmac(key) => hmac::sign(key, message).as_ref().into(),
            Kind::Ed(key) => key.sign(message).as_ref().into(),
            Kind::Ec(key) => {
                let signature = key.sign(&SystemRandom::new(), message);
                signature.map_err(failed)?.as_ref().into()
            }
            Kind::Rsa(key) => {
                let padding: &'static dyn RsaEncoding = match self.algorithm {
                    Algorithm::RS384 => &RSA_PKCS1_SHA384,
                    Algorithm::RS512 => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(padding, &SystemRandom::new(), message, &mut signature).map_err(failed)?;
                signature
            }
        })
    }
}

/// A private key and its public half, in PEM.
pub struct PemPair {
    /// `PRIVATE KEY`, PKCS #8.
    pub private: Zeroizing<String>,
    /// `PUBLIC KEY`.
    pub public: String,
}

/// Generates a key pair; `None` if the algorithm has none, or the system provides no random
/// numbers.
pub fn new_pair(algorithm: Algorithm) -> Option<PemPair> {
    let random = SystemRandom::new();
    let (private, public) = match algorithm {
        Algorithm::EdDSA => {
            let private = Ed25519KeyPair::generate_pkcs8v1(&random).ok()?;
            let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(private.as_ref()).ok()?;
            let public = [&ED25519_PREFIX[..], key.public_key().as_ref()].concat();
            (Zeroizing::new(private.as_ref().to_vec()), public)
        }
        Algorithm::ES256 | Algorithm::ES384 => {
            let curve = match algorithm {
                Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
                _ => &ECDSA_P384_SHA384_FIXED_SIGNING,
            };
            let private = EcdsaKeyPair::generate_pkcs8(curve, &random).ok()?;
            let key = EcdsaKeyPair::from_pkcs8(curve, private.as_ref()).ok()?;
            let public = public_der(key.public_key())?;
            (Zeroizing::new(private.as_ref().to_vec()), public)
        }
        Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => {
            let key = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).ok()?;
            let private = rsa_private_der(&key)?;
            (private, public_der(key.public_key())?)
        }
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => return None,
    };
    Some(PemPair {
        private: Zeroizing::new(pem("PRIVATE KEY", &private)),
        public: pem("PUBLIC KEY", &public),
    })
}

/// Generates a secret of this number of bytes; `None` if the system provides no random numbers.
pub fn new_secret(bytes: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut secret = Zeroizing::new(vec![0; bytes]);
    rand::fill(&mut secret).ok()?;
    Some(secret)
}

fn public_der<K>(key: &K) -> Option<Vec<u8>>
where
    K: aws_lc_rs::encoding::AsDer<aws_lc_rs::encoding::PublicKeyX509Der<'static>>,
{
    key.as_der().ok().map(|der| der.as_ref().to_vec())
}

fn rsa_private_der(key: &rsa::KeyPair) -> Option<Zeroizing<Vec<u8>>> {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    let der: Pkcs8V1Der<'_> = key.as_der().ok()?;
    Some(Zeroizing::new(der.as_ref().to_vec()))
}

/// A file of RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    let text = Zeroizing::new(STANDARD.encode(der));
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
