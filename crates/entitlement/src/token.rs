//! The parts of a token (RFC 7515, the compact form): the signed text, the signature, and the
//! header.
//!
//! Pure; the input is untrusted. Invariants: the header only selects an algorithm and a key of the
//! node. Keys and addresses of keys in it (`jwk`, `jku`, `x5c`, `x5u`) are ignored, and mandatory
//! extensions (`crit`) are refused.

use crate::algorithm::Algorithm;
use crate::refusal::Refusal;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::entitlement::CREDENTIAL_BYTES_MAX;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// The three parts of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    header: &'a str,
    claims: &'a str,
    /// The signed text: header and claims with the point between them.
    pub message: &'a str,
    /// The signature in base64url.
    pub signature: &'a str,
}

/// The relevant content of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The declared algorithm.
    pub algorithm: Algorithm,
    /// The key ID.
    pub key_id: Option<Box<str>>,
    /// `typ`: the kind of the token.
    pub token_type: Option<Box<str>>,
}

impl Header {
    /// Whether `typ` is one of these. Letter case and a leading `application/` make no difference
    /// (RFC 7515, section 4.1.9).
    pub fn is_of_type(&self, types: &[String]) -> bool {
        let bare = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.strip_prefix("application/").map_or(name.clone(), str::to_owned)
        };
        let own = self.token_type.as_deref().map(bare);
        types.iter().any(|wanted| own == Some(bare(wanted)))
    }
}

#[derive(Deserialize)]
struct RawHeader<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    kid: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    typ: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "is_present")]
    crit: bool,
    #[serde(default, deserialize_with = "is_present")]
    b64: bool,
}

impl<'a> Parts<'a> {
    /// Splits a token without decoding it.
    ///
    /// # Errors
    /// The token is too long, or does not have three parts.
    pub fn of(token: &'a [u8]) -> Result<Parts<'a>, Refusal> {
        if token.len() > CREDENTIAL_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let text = std::str::from_utf8(token).map_err(|_| Refusal::Malformed("UTF-8"))?;
        let (message, signature) = text.rsplit_once('.').ok_or(Refusal::Malformed("parts"))?;
        let (header, claims) = message.split_once('.').ok_or(Refusal::Malformed("parts"))?;
        let parts = [header, claims, signature];
        if parts.iter().any(|part| part.is_empty() || part.contains('.')) {
            return Err(Refusal::Malformed("parts"));
        }
        Ok(Parts { header, claims, message, signature })
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// The header is malformed, or has an unknown algorithm or a mandatory extension.
    pub fn header(&self) -> Result<Header, Refusal> {
        let bytes =
            URL_SAFE_NO_PAD.decode(self.header).map_err(|_| Refusal::Malformed("header"))?;
        let Object::<RawHeader<'_>>(raw) =
            serde_json::from_slice(&bytes).map_err(|_| Refusal::Malformed("header"))?;
        if raw.crit || raw.b64 {
            return Err(Refusal::Critical);
        }
        let algorithm = Algorithm::of(&raw.alg).ok_or(Refusal::Algorithm)?;
        Ok(Header {
            algorithm,
            key_id: raw.kid.map(Into::into),
            token_type: raw.typ.map(Into::into),
        })
    }

    /// The bytes of the claims: JSON, if the signer was correct.
    ///
    /// # Errors
    /// The text is not base64url.
    pub fn claims(&self) -> Result<Vec<u8>, Refusal> {
        URL_SAFE_NO_PAD.decode(self.claims).map_err(|_| Refusal::Malformed("claims"))
    }
}

/// A value that is an object. The derived code would also accept a list, member by member in their
/// order of declaration.
pub(crate) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }
        deserializer.deserialize_map(Members(PhantomData)).map(Object)
    }
}

/// A present member has a value: `null` is not one.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn is_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(json: &str) -> Result<Header, Refusal> {
        let token = format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(json));
        Parts::of(token.as_bytes()).unwrap().header()
    }

    #[test]
    fn a_token_has_exactly_three_parts() {
        let parts = Parts::of(b"a.b.c").unwrap();
        assert_eq!((parts.message, parts.signature), ("a.b", "c"));
        for bad in ["", ".", "..", "a", "a.b", "a.b.", ".b.c", "a..c", "a.b.c.d", "a.b.c.d.e"] {
            assert!(Parts::of(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Parts::of(b"a.\xff.c").is_err());
        let long = format!("a.{}.c", "b".repeat(CREDENTIAL_BYTES_MAX));
        assert_eq!(Parts::of(long.as_bytes()), Err(Refusal::TooLong));
    }

    #[test]
    fn headers_are_decoded() {
        let plain = header(r#"{"alg":"HS256","typ":"JWT"}"#).unwrap();
        assert_eq!((plain.algorithm, plain.key_id), (Algorithm::HS256, None));
        let named = header(r#"{"kid":"a\u0062","alg":"ES256"}"#).unwrap();
        assert_eq!(named.key_id.as_deref(), Some("ab"));
        // Keys and their addresses in the token are ignored.
        let injected = r#"{"alg":"RS256","jwk":{"kty":"oct","k":"AA"},"jku":"https://evil.example","x5u":"file:///etc/passwd","x5c":["AA"]}"#;
        assert_eq!(header(injected).unwrap().key_id, None);
    }

    #[test]
    fn invalid_headers_are_refused() {
        for name in ["none", "None", "NONE", "nOnE", "", " none", "HS256\\u0000", "PS256"] {
            let refused = header(&format!(r#"{{"alg":"{name}"}}"#));
            assert_eq!(refused, Err(Refusal::Algorithm), "{name}");
        }
        for bad in [
            " ",
            "{}",
            "[]",
            r#"["HS256"]"#,
            "null",
            r#"{"alg":null}"#,
            r#"{"alg":["HS256"]}"#,
            r#"{"alg":"none","alg":"HS256"}"#,
            r#"{"alg":"HS256","alg":"HS256"}"#,
            r#"{"alg":"HS256","kid":null}"#,
            r#"{"alg":"HS256","kid":1}"#,
            r#"{"alg":"HS256","kid":"a","kid":"b"}"#,
            r#"{"alg":"HS256"}x"#,
        ] {
            assert_eq!(header(bad), Err(Refusal::Malformed("header")), "{bad}");
        }
        for bad in [
            r#"{"alg":"HS256","crit":["exp"]}"#,
            r#"{"alg":"HS256","crit":null}"#,
            r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#,
            r#"{"alg":"HS256","b64":false}"#,
        ] {
            assert_eq!(header(bad), Err(Refusal::Critical), "{bad}");
        }
    }
}
