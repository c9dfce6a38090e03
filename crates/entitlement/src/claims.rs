//! The claims of a token (RFC 7519, section 4.1, and Crore's own: `permissions` and `limits`), and
//! the check whether they are valid now.
//!
//! Pure. The signature was verified before, but issuers make mistakes: unknown members of
//! `permissions` and `limits` are refused, so that a typing error never grants or unlimits more
//! than intended; repeated members are refused. Invariant: a token without a permission does not
//! grant it.

use crate::refusal::Refusal;
use crate::token::{Object, present};
use broker::entitlement::{
    EntitlementLimits, ISSUER_BYTES_MAX, NEVER, Permissions, SUBJECT_BYTES_MAX, Signer, Terms,
};
use broker::topic::Filter;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;

/// Maximum number of filters of one token or API key; a filter of `all` counts once.
pub const FILTERS_MAX: usize = 256;
/// Maximum length of `jti`, in bytes.
pub const TOKEN_ID_BYTES_MAX: usize = 255;

/// Requirements for tokens in addition to their signature.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TokenRules {
    /// Permitted values of `iss`; empty: any.
    pub issuers: Vec<String>,
    /// Permitted values in `aud`; empty: any.
    pub audiences: Vec<String>,
    /// Tolerance for differences between clocks, in seconds.
    pub leeway_s: u32,
    /// Permitted values of the header's `typ`; empty: any, or none.
    pub token_types: Vec<String>,
    /// If set, `exp` is required, and at most this number of seconds after `iat` (without `iat`:
    /// after now).
    pub lifetime_max_s: Option<u32>,
}

/// The decoded claims of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claims {
    /// `aud`, as a list of one if it is a string; `None` if it is missing.
    pub audiences: Option<Vec<String>>,
    /// `sub`; empty if it is missing.
    pub subject: Box<str>,
    /// The hash of `jti`; 0 without one.
    pub token_id: u64,
    /// `exp`, seconds since 1970; [`NEVER`].
    pub expires_s: u32,
    /// `nbf`; 0 if it is missing.
    pub not_before_s: u32,
    /// `iat`; 0 if it is missing.
    pub issued_s: u32,
    /// The permissions and limits, with the token's `iss`. The authenticator adds the signing key.
    pub terms: Terms,
}

#[derive(Deserialize)]
struct RawClaims<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    iss: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    sub: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    aud: Option<Audience<'a>>,
    #[serde(default, deserialize_with = "present")]
    exp: Option<Moment>,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<Moment>,
    #[serde(default, deserialize_with = "present")]
    iat: Option<Moment>,
    #[serde(borrow, default, deserialize_with = "present")]
    jti: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    permissions: Option<Object<RawPermissions<'a>>>,
    #[serde(default, deserialize_with = "present")]
    limits: Option<Object<RawLimits>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience<'a> {
    One(#[serde(borrow)] Cow<'a, str>),
    Several(#[serde(borrow)] Vec<Cow<'a, str>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPermissions<'a> {
    #[serde(borrow, default, alias = "sub")]
    subscribe: Vec<Cow<'a, str>>,
    #[serde(borrow, default, alias = "pub")]
    publish: Vec<Cow<'a, str>>,
    #[serde(borrow, default)]
    history: Vec<Cow<'a, str>>,
    #[serde(borrow, default)]
    all: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    #[serde(default, deserialize_with = "present")]
    connections: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    subscriptions: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    publish_rate: Option<u32>,
}

/// Seconds since 1970. Negative values become 0, too large ones [`NEVER`].
struct Moment(u32);

impl Claims {
    /// Decodes claims.
    ///
    /// # Errors
    /// The claims are not a JSON object, or a relevant member is invalid.
    pub fn parse(json: &[u8]) -> Result<Claims, Refusal> {
        let Object::<RawClaims<'_>>(raw) =
            serde_json::from_slice(json).map_err(|error| Refusal::Claims(problem_of(&error)))?;
        let subject = raw.sub.unwrap_or_default();
        if subject.len() > SUBJECT_BYTES_MAX || subject.chars().any(char::is_control) {
            let problem = format!(
                "`sub` must have at most {SUBJECT_BYTES_MAX} bytes, and no control characters"
            );
            return Err(Refusal::Claims(problem));
        }
        let issuer = raw.iss.unwrap_or_default();
        if issuer.len() > ISSUER_BYTES_MAX || issuer.chars().any(char::is_control) {
            let problem = format!(
                "`iss` must have at most {ISSUER_BYTES_MAX} bytes, and no control characters"
            );
            return Err(Refusal::Claims(problem));
        }
        let token_id = match &raw.jti {
            Some(id) if id.len() > TOKEN_ID_BYTES_MAX => {
                let problem = format!("`jti` must have at most {TOKEN_ID_BYTES_MAX} bytes");
                return Err(Refusal::Claims(problem));
            }
            Some(id) => token_id(id),
            None => 0,
        };
        let seconds = |moment: Option<Moment>, otherwise| moment.map_or(otherwise, |Moment(at)| at);
        Ok(Claims {
            audiences: raw.aud.map(|audience| match audience {
                Audience::One(one) => vec![one.into_owned()],
                Audience::Several(several) => several.into_iter().map(Cow::into_owned).collect(),
            }),
            subject: subject.into(),
            token_id,
            expires_s: seconds(raw.exp, NEVER),
            not_before_s: seconds(raw.nbf, 0),
            issued_s: seconds(raw.iat, 0),
            terms: Terms {
                permissions: match raw.permissions {
                    Some(Object(raw)) => permissions(&raw)?,
                    None => Permissions::default(),
                },
                limits: match raw.limits {
                    Some(Object(raw)) => limits(raw),
                    None => EntitlementLimits::default(),
                },
                signer: Signer { issuer: issuer.into(), ..Signer::default() },
            },
        })
    }

    /// Checks whether they are valid now. `now_s` is the wall clock, seconds since 1970.
    ///
    /// # Errors
    /// The reason why they are not.
    pub fn check(&self, rules: &TokenRules, now_s: u64) -> Result<(), Refusal> {
        let leeway_s = u64::from(rules.leeway_s);
        if u64::from(self.not_before_s) > now_s + leeway_s {
            return Err(Refusal::NotYet);
        }
        // Otherwise a token from the future would be younger than every revocation.
        if u64::from(self.issued_s) > now_s + leeway_s {
            return Err(Refusal::NotYet);
        }
        let expires_s = u64::from(self.expires_s);
        if self.expires_s != NEVER && expires_s + leeway_s <= now_s {
            return Err(Refusal::Expired);
        }
        if let Some(lifetime_max_s) = rules.lifetime_max_s {
            if self.expires_s == NEVER {
                return Err(Refusal::NoExpiry);
            }
            let began_s = match self.issued_s {
                0 => now_s,
                issued_s => u64::from(issued_s),
            };
            if expires_s > began_s + u64::from(lifetime_max_s) + leeway_s {
                return Err(Refusal::Lifetime);
            }
        }
        let is_issuer = |issuer: &String| **issuer == *self.terms.signer.issuer;
        if !rules.issuers.is_empty() && !rules.issuers.iter().any(is_issuer) {
            return Err(Refusal::Issuer);
        }
        let is_named = |audience| {
            let named = self.audiences.as_ref();
            named.is_some_and(|named| named.contains(audience))
        };
        if !rules.audiences.is_empty() && !rules.audiences.iter().any(is_named) {
            return Err(Refusal::Audience);
        }
        Ok(())
    }

    /// The time after which they are invalid, in seconds since 1970: `exp` plus the clock
    /// tolerance.
    pub fn ends_s(&self, rules: &TokenRules) -> u32 {
        match self.expires_s {
            NEVER => NEVER,
            expires_s => expires_s.saturating_add(rules.leeway_s).min(NEVER - 1),
        }
    }
}

/// The hash of a `jti` for revocations, never 0.
pub fn token_id(id: &str) -> u64 {
    let hash: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(first).max(1)
}

/// Parses filters of permissions.
///
/// # Errors
/// A filter is invalid.
pub fn filters<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Box<str>>, Refusal> {
    let checked = texts.into_iter().map(|text| match Filter::parse(text) {
        Ok(_) => Ok(text.into()),
        Err(_) => Err(Refusal::Filter(text.into())),
    });
    checked.collect()
}

fn permissions(raw: &RawPermissions<'_>) -> Result<Permissions, Refusal> {
    let lists = [&raw.subscribe, &raw.publish, &raw.history];
    let count: usize = lists.iter().map(|list| list.len()).sum();
    if count + raw.all.len() > FILTERS_MAX {
        return Err(Refusal::TooManyFilters);
    }
    let list = |own: &[Cow<'_, str>]| filters(own.iter().chain(&raw.all).map(AsRef::as_ref));
    Ok(Permissions {
        subscribe: list(&raw.subscribe)?,
        publish: list(&raw.publish)?,
        history: list(&raw.history)?,
    })
}

fn limits(raw: RawLimits) -> EntitlementLimits {
    EntitlementLimits {
        connections_max: raw.connections,
        subscriptions_max: raw.subscriptions,
        publish_rate_max: raw.publish_rate,
    }
}

/// The library's error, without the position in a text that the user does not see.
fn problem_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((problem, _)) => problem.into(),
        None => text,
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seconds;
        impl Visitor<'_> for Seconds {
            type Value = Moment;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number of seconds since 1970")
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Moment, E> {
                Ok(Moment(seconds.try_into().unwrap_or(NEVER)))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Moment, E> {
                self.visit_u64(seconds.max(0) as u64)
            }

            /// Fractions are cut off; the conversion saturates.
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Moment, E> {
                self.visit_u64(seconds as u64)
            }
        }
        deserializer.deserialize_any(Seconds)
    }
}

#[cfg(test)]
mod tests;
