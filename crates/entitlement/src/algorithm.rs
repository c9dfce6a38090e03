//! The signature algorithms of tokens (RFC 7518, section 3.1; RFC 8037, section 3.1).
//!
//! Pure. Invariant: an algorithm without a value here verifies nothing; `none` has no value.

use std::fmt;

/// A signature algorithm of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // The names are those of the registry.
pub enum Algorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    ES256,
    ES384,
    EdDSA,
}

/// The kinds of keys that algorithms need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// A shared secret.
    Hmac,
    /// RSA with the padding of PKCS #1, version 1.5.
    Rsa,
    /// ECDSA on the curve of the algorithm.
    Ec,
    /// Ed25519.
    Ed,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::HS256,
        Algorithm::HS384,
        Algorithm::HS512,
        Algorithm::RS256,
        Algorithm::RS384,
        Algorithm::RS512,
        Algorithm::ES256,
        Algorithm::ES384,
        Algorithm::EdDSA,
    ];

    /// The algorithm of exactly this name.
    pub fn of(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Its name in the header of a token.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::HS256 => "HS256",
            Algorithm::HS384 => "HS384",
            Algorithm::HS512 => "HS512",
            Algorithm::RS256 => "RS256",
            Algorithm::RS384 => "RS384",
            Algorithm::RS512 => "RS512",
            Algorithm::ES256 => "ES256",
            Algorithm::ES384 => "ES384",
            Algorithm::EdDSA => "EdDSA",
        }
    }

    /// The kind of key that it requires.
    pub fn family(self) -> Family {
        match self {
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => Family::Hmac,
            Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => Family::Rsa,
            Algorithm::ES256 | Algorithm::ES384 => Family::Ec,
            Algorithm::EdDSA => Family::Ed,
        }
    }

    /// The algorithm of the verifying library.
    pub(crate) fn of_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Algorithm::HS256 => jsonwebtoken::Algorithm::HS256,
            Algorithm::HS384 => jsonwebtoken::Algorithm::HS384,
            Algorithm::HS512 => jsonwebtoken::Algorithm::HS512,
            Algorithm::RS256 => jsonwebtoken::Algorithm::RS256,
            Algorithm::RS384 => jsonwebtoken::Algorithm::RS384,
            Algorithm::RS512 => jsonwebtoken::Algorithm::RS512,
            Algorithm::ES256 => jsonwebtoken::Algorithm::ES256,
            Algorithm::ES384 => jsonwebtoken::Algorithm::ES384,
            Algorithm::EdDSA => jsonwebtoken::Algorithm::EdDSA,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_algorithms_are_exact() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::of(algorithm.name()), Some(algorithm));
        }
        for name in [
            "", "none", "None", "NONE", "nOnE", "hs256", "HS256 ", "PS256", "ES512", "ES256K",
            "HS1",
        ] {
            assert_eq!(Algorithm::of(name), None, "{name}");
        }
    }
}
