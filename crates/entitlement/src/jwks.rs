//! Sets of public keys in the form that issuers publish (JWKS, RFC 7517).
//!
//! Pure. Invariants: an unsupported key is skipped and does not affect others; secrets (`oct`) and
//! encryption keys are never accepted from a set; the number of keys is bounded.

use crate::algorithm::{Algorithm, Family};
use crate::keys::{KEYS_MAX, TokenKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Maximum size of a set, in bytes.
pub const JWKS_BYTES_MAX: usize = 1 << 20;

/// The content of a set.
#[derive(Clone, Debug, Default)]
pub struct Jwks {
    /// Keys that verify tokens.
    pub keys: Vec<TokenKey>,
    /// Number of skipped keys: of other kinds, for other uses, weak, or too many.
    pub skipped_count: usize,
}

/// The document; other members are ignored.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Key<'a> {
    #[serde(borrow)]
    kty: Cow<'a, str>,
    #[serde(borrow, default)]
    kid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    alg: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "use")]
    usage: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    key_ops: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow, default)]
    crv: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    n: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    e: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    x: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    y: Option<Cow<'a, str>>,
}

impl Jwks {
    /// Parses a set.
    ///
    /// # Errors
    /// The set is too large, or not JSON of this form; the reason is a sentence without parts of
    /// the text.
    pub fn parse(bytes: &[u8]) -> Result<Jwks, String> {
        if bytes.len() > JWKS_BYTES_MAX {
            return Err(format!("the key set exceeds {JWKS_BYTES_MAX} bytes"));
        }
        let document: Document<'_> = serde_json::from_slice(bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!("not a key set (JSON with `keys`): line {line}, column {column}")
        })?;
        let mut jwks = Jwks::default();
        for raw in document.keys {
            let key = serde_json::from_str(raw.get()).ok();
            match key.and_then(|key| token_key(&key)) {
                Some(key) if jwks.keys.len() < KEYS_MAX => jwks.keys.push(key),
                _ => jwks.skipped_count += 1,
            }
        }
        Ok(jwks)
    }
}

fn token_key(key: &Key<'_>) -> Option<TokenKey> {
    let is_for_signatures = key.usage.as_deref().is_none_or(|usage| usage == "sig")
        && key
            .key_ops
            .as_ref()
            .is_none_or(|operations| operations.iter().any(|name| name == "verify"));
    if !is_for_signatures {
        return None;
    }
    let named = match &key.alg {
        Some(name) => Some(Algorithm::of(name)?),
        None => None,
    };
    let id = key.kid.as_deref();
    match (key.kty.as_ref(), key.crv.as_deref()) {
        ("RSA", _) => {
            let (modulus, exponent) = (decode(&key.n)?, decode(&key.e)?);
            TokenKey::of_rsa(id, named, &modulus, &exponent).ok()
        }
        ("EC", Some(curve)) => {
            let (algorithm, bytes) = match curve {
                "P-256" => (Algorithm::ES256, 32),
                "P-384" => (Algorithm::ES384, 48),
                _ => return None,
            };
            let (x, y) = (decode(&key.x)?, decode(&key.y)?);
            let is_right = x.len() == bytes
                && y.len() == bytes
                && named.is_none_or(|named| named == algorithm);
            let point: Vec<u8> = [&[4], &x[..], &y[..]].concat();
            is_right.then(|| TokenKey::of_point(id, algorithm, &point).ok())?
        }
        ("OKP", Some("Ed25519")) => {
            let is_right = named.is_none_or(|named| named.family() == Family::Ed);
            let bytes = decode(&key.x)?;
            is_right.then(|| TokenKey::of_ed25519(id, &bytes).ok())?
        }
        _ => None,
    }
}

fn decode(text: &Option<Cow<'_, str>>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.as_deref()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Keys of the examples of RFC 7515 (A.2, A.3) and RFC 8037 (A.2).
    const RSA: &str = r#"{"kty":"RSA","kid":"r","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#;
    const EC: &str = r#"{"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","use":"sig"}"#;
    const ED: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","key_ops":["verify"]}"#;

    fn parse(keys: &[&str]) -> Jwks {
        let text = format!(r#"{{"issuer":1,"keys":[{}]}}"#, keys.join(","));
        Jwks::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn keys_are_read_by_kind() {
        let jwks = parse(&[RSA, EC, ED]);
        assert_eq!(jwks.skipped_count, 0);
        let read: Vec<_> = jwks.keys.iter().map(|key| (key.id(), key.algorithms())).collect();
        assert_eq!(
            read,
            [
                (Some("r"), &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512][..]),
                (Some("e"), &[Algorithm::ES256]),
                (None, &[Algorithm::EdDSA]),
            ]
        );
    }

    #[test]
    fn unsupported_keys_are_skipped() {
        let weak = RSA.replace(&RSA[40..300], "");
        for odd in [
            "1",
            "null",
            "{}",
            r#"{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}"#,
            r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#,
            r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
            r#"{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
            &EC.replace(r#""use":"sig""#, r#""use":"enc""#),
            &EC.replace(r#""use":"sig""#, r#""alg":"HS256""#),
            &EC.replace(r#""use":"sig""#, r#""alg":"none""#),
            &ED.replace("verify", "sign"),
            &RSA.replace(r#""e":"#, r#""alg":"HS256","e":"#),
            &RSA.replace("AQAB", ""),
            &weak,
        ] {
            let jwks = parse(&[odd, ED]);
            assert_eq!((jwks.keys.len(), jwks.skipped_count), (1, 1), "{odd}");
        }
        for bad in ["", "[]", "{}", r#"{"keys":1}"#, "{\"keys\":[]", "\u{0}"] {
            assert!(Jwks::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Jwks::parse(&vec![b' '; JWKS_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_set_is_bounded() {
        let many: Vec<&str> = std::iter::repeat_n(ED, KEYS_MAX + 9).collect();
        let jwks = parse(&many);
        assert_eq!((jwks.keys.len(), jwks.skipped_count), (KEYS_MAX, 9));
    }
}
