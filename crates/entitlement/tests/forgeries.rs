//! Tokens forged in every classic way, for keys of every kind.

mod support;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use broker::entitlement::CREDENTIAL_BYTES_MAX;
use entitlement::AuthenticatorSettings;
use entitlement::algorithm::Algorithm;
use entitlement::claims::TokenRules;
use entitlement::keys::{KeyError, TokenKey};
use entitlement::refusal::Refusal;
use serde_json::{Value, json};
use support::{
    NOW_S, Pair, SECRET, authenticator, authenticator_of, claims, hmac as hmac_signer, hmac_key,
    refusal, token_of,
};

fn hs256(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    move |message| hmac::sign(&key, message).as_ref().to_vec()
}

#[test]
fn every_algorithm_verifies_its_own_signatures() {
    for algorithm in Algorithm::ALL {
        let (token, key) = match algorithm {
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => {
                let signing = entitlement::issue::SigningKey::of_secret(algorithm, SECRET).unwrap();
                let token = signing.token(None, &claims()).unwrap();
                (token, TokenKey::of_secret(None, algorithm, SECRET).unwrap())
            }
            _ => {
                let pair = Pair::new(algorithm);
                (pair.token(None), pair.key(None))
            }
        };
        let authenticator = authenticator(vec![key]);
        assert_eq!(refusal(&authenticator, &token), None, "{algorithm}");
        // A token with any changed bit is invalid.
        let bytes = token.as_bytes();
        for at in (0..bytes.len()).step_by(7) {
            let mut forged = bytes.to_vec();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert!(refusal(&authenticator, &forged).is_some(), "{algorithm} {at}");
        }
        for end in [0, 1, bytes.len() / 2, bytes.len() - 4, bytes.len() - 1] {
            assert!(refusal(&authenticator, &token[..end]).is_some(), "{algorithm} {end}");
        }
    }
}

#[test]
fn a_public_key_is_not_used_as_a_secret() {
    for algorithm in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
        let pair = Pair::new(algorithm);
        let authenticator = authenticator(vec![pair.key(Some("k"))]);
        let pem = &pair.pem.public;
        let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(&body).unwrap();
        let forms = [
            pem.as_bytes(),
            pem.trim_end().as_bytes(),
            body.as_bytes(),
            &der,
            &der[der.len() - 32..],
        ];
        for secret in forms {
            for header in [
                r#"{"alg":"HS256"}"#,
                r#"{"alg":"HS256","kid":"k"}"#,
                r#"{"alg":"HS256","kid":"k","typ":"JWT"}"#,
            ] {
                let forged = token_of(header, &claims().to_string(), hs256(secret));
                assert_eq!(refusal(&authenticator, &forged), Some(Refusal::NoKey), "{algorithm}");
            }
        }
    }
}

#[test]
fn the_key_determines_the_algorithm() {
    // A key for one algorithm does not verify another of its family.
    let pair = Pair::new(Algorithm::RS256);
    let other =
        entitlement::issue::SigningKey::of_pem(Some(Algorithm::RS512), pair.pem.private.as_bytes())
            .unwrap();
    let token = other.token(None, &claims()).unwrap();
    assert_eq!(refusal(&authenticator(vec![pair.key(None)]), &token), Some(Refusal::NoKey));
    let stronger = entitlement::issue::SigningKey::of_secret(Algorithm::HS512, &[7; 64]).unwrap();
    let token = stronger.token(None, &claims()).unwrap();
    let weaker = TokenKey::of_secret(None, Algorithm::HS256, &[7; 64]).unwrap();
    assert_eq!(refusal(&authenticator(vec![weaker]), &token), Some(Refusal::NoKey));
}

#[test]
fn the_algorithm_none_is_refused() {
    let authenticator = authenticator(vec![hmac_key(), Pair::new(Algorithm::ES256).key(None)]);
    for name in ["none", "None", "NONE", "nOnE", "", "null", "HS256 ", "\\u006eone"] {
        let header = format!(r#"{{"alg":"{name}","typ":"JWT"}}"#);
        let signed = token_of(&header, &claims().to_string(), hs256(SECRET));
        assert_eq!(refusal(&authenticator, &signed), Some(Refusal::Algorithm), "{name}");
        let empty = token_of(&header, &claims().to_string(), |_| Vec::new());
        assert!(refusal(&authenticator, &empty).is_some(), "{name}");
    }
    // A token without a signature, under a valid name.
    let token = hmac_signer().token(None, &claims()).unwrap();
    let (message, _) = token.rsplit_once('.').unwrap();
    assert!(refusal(&authenticator, &format!("{message}.")).is_some());
    assert!(refusal(&authenticator, message).is_some());
}

#[test]
fn key_ids_are_only_compared() {
    let authenticator =
        authenticator(vec![TokenKey::of_secret(Some("good"), Algorithm::HS256, SECRET).unwrap()]);
    let huge = "k".repeat(4_000);
    for name in [
        "../../../../dev/null",
        "/dev/null",
        "file:///dev/null",
        "good' UNION SELECT 'AAAA",
        "good\\u0000",
        "GOOD",
        "good ",
        "",
        "| sleep 9",
        "https://evil.example/key",
        &huge,
    ] {
        for secret in [&b""[..], b"AAAA", SECRET] {
            let header = format!(r#"{{"alg":"HS256","kid":"{name}"}}"#);
            let forged = token_of(&header, &claims().to_string(), hs256(secret));
            assert_eq!(refusal(&authenticator, &forged), Some(Refusal::NoKey), "{name}");
        }
    }
    let header = r#"{"alg":"HS256","kid":"good"}"#;
    let good = token_of(header, &claims().to_string(), hs256(SECRET));
    assert_eq!(refusal(&authenticator, &good), None);
    // A token without a key ID is tried with all matching keys.
    let nameless = token_of(r#"{"alg":"HS256"}"#, &claims().to_string(), hs256(SECRET));
    assert_eq!(refusal(&authenticator, &nameless), None);
}

#[test]
fn keys_in_the_token_are_ignored() {
    let own = Pair::new(Algorithm::ES256);
    let evil = Pair::new(Algorithm::ES256);
    let authenticator = authenticator(vec![own.key(Some("k"))]);
    for header in [
        json!({"alg": "ES256", "kid": "k", "jwk": {"kty": "EC", "crv": "P-256"}}),
        json!({"alg": "ES256", "jku": "https://evil.example/jwks.json"}),
        json!({"alg": "ES256", "kid": "k", "x5u": "https://evil.example/cert.pem"}),
        json!({"alg": "ES256", "x5c": ["AAAA"], "x5t": "AAAA"}),
    ] {
        let sign = |message: &[u8]| evil.signing.sign(message).unwrap();
        let forged = token_of(&header.to_string(), &claims().to_string(), sign);
        assert_eq!(refusal(&authenticator, &forged), Some(Refusal::Signature));
    }
    // An ECDSA signature of zeros was valid for every message in Java, for lack of a check.
    let header = r#"{"alg":"ES256","kid":"k"}"#;
    let zeros = token_of(header, &claims().to_string(), |_| vec![0; 64]);
    assert_eq!(refusal(&authenticator, &zeros), Some(Refusal::Signature));
}

#[test]
fn mandatory_extensions_are_refused() {
    let authenticator = authenticator(vec![hmac_key()]);
    for header in
        [r#"{"alg":"HS256","crit":["exp"]}"#, r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#]
    {
        let token = token_of(header, &claims().to_string(), hs256(SECRET));
        assert_eq!(refusal(&authenticator, &token), Some(Refusal::Critical));
    }
}

#[test]
fn repeated_members_are_refused() {
    let authenticator = authenticator(vec![hmac_key()]);
    let sign = hs256(SECRET);
    let header = r#"{"alg":"none","alg":"HS256"}"#;
    let token = token_of(header, &claims().to_string(), &sign);
    assert_eq!(refusal(&authenticator, &token), Some(Refusal::Malformed("header")));
    for twice in [
        r#"{"sub":"anna","sub":"root"}"#,
        r#"{"exp":1,"exp":9999999999}"#,
        r#"{"permissions":{"sub":["a"],"subscribe":["b"]}}"#,
    ] {
        let token = token_of(r#"{"alg":"HS256"}"#, twice, &sign);
        assert!(matches!(refusal(&authenticator, &token), Some(Refusal::Claims(_))), "{twice}");
    }
}

#[test]
fn time_issuer_and_audience_are_checked() {
    let authenticator = authenticator_of(AuthenticatorSettings {
        rules: TokenRules {
            issuers: vec!["https://id.example".into()],
            audiences: vec!["crore".into()],
            leeway_s: 5,
            ..TokenRules::default()
        },
        token_keys: vec![hmac_key()],
        ..AuthenticatorSettings::default()
    });
    let check = |changes: &[(&str, Value)], expected: Option<Refusal>| {
        let mut claims = claims();
        claims["iss"] = "https://id.example".into();
        claims["aud"] = "crore".into();
        for (name, value) in changes {
            claims[*name] = value.clone();
        }
        let token = hmac_signer().token(None, &claims).unwrap();
        assert_eq!(refusal(&authenticator, &token), expected, "{changes:?}");
    };
    check(&[], None);
    check(&[("exp", json!(NOW_S - 4))], None);
    check(&[("exp", json!(NOW_S - 5))], Some(Refusal::Expired));
    check(&[("exp", json!(0))], Some(Refusal::Expired));
    check(&[("exp", json!(-1))], Some(Refusal::Expired));
    check(&[("nbf", json!(NOW_S + 5))], None);
    check(&[("nbf", json!(NOW_S + 6))], Some(Refusal::NotYet));
    check(&[("iat", json!(NOW_S + 6))], Some(Refusal::NotYet));
    check(&[("iss", json!("https://id.example/"))], Some(Refusal::Issuer));
    check(&[("aud", json!("other"))], Some(Refusal::Audience));
    check(&[("aud", json!(["other", "crore"]))], None);
}

#[test]
fn huge_tokens_are_refused_before_decoding() {
    let authenticator = authenticator(vec![hmac_key()]);
    let mut claims = claims();
    claims["filler"] = "x".repeat(CREDENTIAL_BYTES_MAX).into();
    let token = hmac_signer().token(None, &claims).unwrap();
    assert_eq!(refusal(&authenticator, &token), Some(Refusal::TooLong));
    let deep = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
    // Deep nesting costs no stack in ignored members, and is refused elsewhere.
    let of = |name: &str| {
        let claims = format!(r#"{{"{name}":{deep}}}"#);
        refusal(&authenticator, &token_of(r#"{"alg":"HS256"}"#, &claims, hs256(SECRET)))
    };
    assert_eq!(of("x"), None);
    assert!(matches!(of("aud"), Some(Refusal::Claims(_))));
}

#[test]
fn padding_and_other_alphabets_are_refused() {
    let authenticator = authenticator(vec![hmac_key()]);
    let token = hmac_signer().token(None, &claims()).unwrap();
    assert_eq!(refusal(&authenticator, &token), None);
    for bad in [
        format!("{token}="),
        format!("{token}=="),
        format!(" {token}"),
        format!("{token}\n"),
        format!("{token}\0"),
        token.replace('.', ".."),
        token.replace('.', ","),
        format!("Bearer {token}"),
    ] {
        assert!(refusal(&authenticator, &bad).is_some(), "{bad}");
    }
    // The last character of a signature of 32 bytes has two unused bits; a change of them gives
    // another token.
    let last = token.as_bytes()[token.len() - 1];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for other in alphabet.iter().filter(|other| **other != last) {
        let forged = format!("{}{}", &token[..token.len() - 1], char::from(*other));
        assert!(refusal(&authenticator, &forged).is_some());
    }
}

#[test]
fn weak_keys_are_refused() {
    let short = TokenKey::of_secret(None, Algorithm::HS256, &SECRET[..31]);
    assert_eq!(short.unwrap_err(), KeyError::ShortSecret(31));
    let empty = TokenKey::of_secret(None, Algorithm::HS512, b"");
    assert_eq!(empty.unwrap_err(), KeyError::ShortSecret(0));
    // 1,024 bits, as in a certificate of the nineties.
    let mut modulus = vec![0xff; 128];
    modulus[127] = 0x01;
    let der = rsa_der(&modulus);
    let weak = TokenKey::of_public_der(None, Algorithm::RS256, &der);
    assert!(weak.is_err());
    // A key for one algorithm cannot be used for another.
    let pair = Pair::new(Algorithm::ES256);
    for algorithm in [Algorithm::ES384, Algorithm::RS256, Algorithm::EdDSA, Algorithm::HS256] {
        let wrong = TokenKey::of_public_pem(None, algorithm, pair.pem.public.as_bytes());
        assert_eq!(wrong.unwrap_err(), KeyError::NotFor(algorithm));
    }
    let private = TokenKey::of_public_pem(None, Algorithm::ES256, pair.pem.private.as_bytes());
    assert_eq!(private.unwrap_err(), KeyError::NoPem);
}

/// `RSAPublicKey` (RFC 8017, A.1.1) of a modulus of 128 bytes and the exponent 65,537.
fn rsa_der(modulus: &[u8]) -> Vec<u8> {
    let mut der = vec![0x30, 0x81, 137, 0x02, 0x81, 129, 0x00];
    der.extend_from_slice(modulus);
    der.extend_from_slice(&[0x02, 0x03, 0x01, 0x00, 0x01]);
    der
}

#[test]
fn this_crate_and_the_library_accept_the_same_tokens() {
    // Tokens of the library's own issuer, as a differential check of this crate's.
    let library = |claims: &Value| {
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET);
        jsonwebtoken::encode(&jsonwebtoken::Header::default(), claims, &key).unwrap()
    };
    let authenticator = authenticator(vec![hmac_key()]);
    assert_eq!(refusal(&authenticator, &library(&claims())), None);
    // The library accepts this crate's tokens, too.
    let token = hmac_signer().token(Some("k"), &claims()).unwrap();
    let key = jsonwebtoken::DecodingKey::from_secret(SECRET);
    let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS256);
    validation.validate_exp = false;
    let decoded = jsonwebtoken::decode::<Value>(&token, &key, &validation).unwrap();
    assert_eq!(decoded.claims, claims());
    assert_eq!(decoded.header.kid.as_deref(), Some("k"));
    assert!(URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).is_ok());
}
