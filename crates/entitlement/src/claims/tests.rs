//! Claims: decoding, refusals, and validity.

use super::*;

fn parse(json: &str) -> Result<Claims, Refusal> {
    Claims::parse(json.as_bytes())
}

fn texts(filters: &[Box<str>]) -> Vec<&str> {
    filters.iter().map(AsRef::as_ref).collect()
}

#[test]
fn all_claims_are_decoded() {
    let claims = parse(
        r#"{"iss":"i","sub":"anna","aud":["a","b"],"exp":2000,"nbf":900,"iat":1000.9,"jti":"t1","other":{"x":[1]},
        "permissions":{"sub":["news/#"],"publish":["chat/{sub}"],"history":[],"all":["own/{sub}/#"]},
        "limits":{"connections":2,"subscriptions":100,"publish_rate":10}}"#,
    )
    .unwrap();
    assert_eq!(Some(&*claims.terms.signer.issuer), Some("i"));
    assert_eq!(claims.audiences, Some(vec!["a".into(), "b".into()]));
    assert_eq!(&*claims.subject, "anna");
    assert_eq!(claims.token_id, token_id("t1"));
    let times = (claims.expires_s, claims.not_before_s, claims.issued_s);
    assert_eq!(times, (2_000, 900, 1_000));
    let permissions = &claims.terms.permissions;
    assert_eq!(texts(&permissions.subscribe), ["news/#", "own/{sub}/#"]);
    assert_eq!(texts(&permissions.publish), ["chat/{sub}", "own/{sub}/#"]);
    assert_eq!(texts(&permissions.history), ["own/{sub}/#"]);
    let limits = claims.terms.limits;
    assert_eq!(limits.connections_max, Some(2));
    assert_eq!(limits.subscriptions_max, Some(100));
    assert_eq!(limits.publish_rate_max, Some(10));
}

#[test]
fn missing_claims_permit_nothing() {
    for json in ["{}", r#"{"permissions":{}}"#, r#"{"scope":"admin"}"#] {
        let claims = parse(json).unwrap();
        assert!(claims.terms.permissions.is_empty());
        assert_eq!((claims.expires_s, claims.token_id), (NEVER, 0));
        assert_eq!(claims.audiences, None);
    }
}

#[test]
fn times_saturate() {
    for (number, expected) in [
        ("0", 0),
        ("-5", 0),
        ("-5.5", 0),
        ("1.999", 1),
        ("4294967294", NEVER - 1),
        ("4294967295", NEVER),
        ("18446744073709551615", NEVER),
        ("1e30", NEVER),
        ("99999999999999999999999", NEVER),
    ] {
        let claims = parse(&format!(r#"{{"exp":{number}}}"#)).unwrap();
        assert_eq!(claims.expires_s, expected, "{number}");
    }
}

#[test]
fn invalid_claims_are_refused() {
    for bad in [
        "",
        "[]",
        "null",
        "{",
        r#"{"sub":1}"#,
        r#"{"sub":null}"#,
        r#"{"sub":"a","sub":"b"}"#,
        r#"{"exp":1,"exp":9999999999}"#,
        r#"{"exp":"2000"}"#,
        r#"{"exp":null}"#,
        r#"{"exp":1e999}"#,
        r#"{"iat":true}"#,
        r#"{"aud":1}"#,
        r#"{"aud":["a",1]}"#,
        r#"{"jti":5}"#,
        r#"{"permissions":["a"]}"#,
        r#"{"permissions":[["a"]]}"#,
        r#"{"limits":[1,1,1]}"#,
        r#"{"permissions":null}"#,
        r#"{"permissions":{"subscribe":"a"}}"#,
        r#"{"permissions":{"subscribe":[1]}}"#,
        r#"{"permissions":{"subscribe":["a"],"sub":["b"]}}"#,
        r#"{"permissions":{"read":["a"]}}"#,
        r#"{"permissions":{},"permissions":{"all":["a"]}}"#,
        r#"{"limits":{"connection":1}}"#,
        r#"{"limits":{"connections":-1}}"#,
        r#"{"limits":{"connections":null}}"#,
    ] {
        assert!(matches!(parse(bad), Err(Refusal::Claims(_))), "{bad}");
    }
    let control = "{\"sub\":\"a\\u0000b\"}";
    assert!(matches!(parse(control), Err(Refusal::Claims(_))));
    let long = format!(r#"{{"sub":"{}"}}"#, "a".repeat(SUBJECT_BYTES_MAX + 1));
    assert!(matches!(parse(&long), Err(Refusal::Claims(_))));
    let fits = format!(r#"{{"sub":"{}"}}"#, "a".repeat(SUBJECT_BYTES_MAX));
    assert!(parse(&fits).is_ok());
    let long = format!(r#"{{"jti":"{}"}}"#, "a".repeat(TOKEN_ID_BYTES_MAX + 1));
    assert!(matches!(parse(&long), Err(Refusal::Claims(_))));
}

#[test]
fn reasons_are_clear() {
    let Err(Refusal::Claims(problem)) = parse(r#"{"permissions":{"reed":["a"]}}"#) else {
        panic!()
    };
    assert!(problem.contains("reed") && problem.contains("subscribe"), "{problem}");
    for bad in ["", "a#", "a/#/b", "a+"] {
        let json = format!(r#"{{"permissions":{{"all":["x","{bad}"]}}}}"#);
        assert_eq!(parse(&json), Err(Refusal::Filter(bad.into())));
    }
}

#[test]
fn filters_are_bounded() {
    let list = |count: usize| vec!["\"a\""; count].join(",");
    let json = |subscribe, all| {
        format!(r#"{{"permissions":{{"subscribe":[{}],"all":[{}]}}}}"#, list(subscribe), list(all))
    };
    assert!(parse(&json(FILTERS_MAX - 1, 1)).is_ok());
    assert_eq!(parse(&json(FILTERS_MAX, 1)), Err(Refusal::TooManyFilters));
}

fn check(json: &str, rules: &TokenRules, now_s: u64) -> Result<(), Refusal> {
    parse(json).unwrap().check(rules, now_s)
}

#[test]
fn times_are_checked() {
    let rules = TokenRules { leeway_s: 5, ..TokenRules::default() };
    let json = r#"{"exp":2000,"nbf":1000}"#;
    for (now_s, expected) in [
        (994, Err(Refusal::NotYet)),
        (995, Ok(())),
        (2_004, Ok(())),
        (2_005, Err(Refusal::Expired)),
    ] {
        assert_eq!(check(json, &rules, now_s), expected, "{now_s}");
    }
    assert_eq!(parse(json).unwrap().ends_s(&rules), 2_005);
    assert_eq!(parse("{}").unwrap().ends_s(&rules), NEVER);
    let last = parse(r#"{"exp":4294967294}"#).unwrap();
    assert_eq!(last.ends_s(&rules), NEVER - 1);
    assert_eq!(check(r#"{"iat":2000}"#, &rules, 1_994), Err(Refusal::NotYet));
    assert_eq!(check(r#"{"exp":0}"#, &rules, 1_994), Err(Refusal::Expired));
    assert_eq!(check("{}", &rules, 1 << 40), Ok(()));
}

#[test]
fn lifetimes_are_limited() {
    let rules = TokenRules { lifetime_max_s: Some(100), ..TokenRules::default() };
    assert_eq!(check(r#"{"iat":1000}"#, &rules, 1_000), Err(Refusal::NoExpiry));
    assert_eq!(check(r#"{"iat":1000,"exp":1100}"#, &rules, 1_000), Ok(()));
    assert_eq!(check(r#"{"iat":1000,"exp":1101}"#, &rules, 1_000), Err(Refusal::Lifetime));
    assert_eq!(check(r#"{"exp":1100}"#, &rules, 1_000), Ok(()));
    assert_eq!(check(r#"{"exp":1101}"#, &rules, 1_000), Err(Refusal::Lifetime));
}

#[test]
fn issuers_and_audiences_are_checked() {
    let rules = TokenRules {
        issuers: vec!["i".into(), "j".into()],
        audiences: vec!["crore".into()],
        ..TokenRules::default()
    };
    for (json, expected) in [
        (r#"{"iss":"i","aud":"crore"}"#, Ok(())),
        (r#"{"iss":"j","aud":["x","crore"]}"#, Ok(())),
        (r#"{"iss":"I","aud":"crore"}"#, Err(Refusal::Issuer)),
        (r#"{"aud":"crore"}"#, Err(Refusal::Issuer)),
        (r#"{"iss":"i"}"#, Err(Refusal::Audience)),
        (r#"{"iss":"i","aud":[]}"#, Err(Refusal::Audience)),
        (r#"{"iss":"i","aud":"crore2"}"#, Err(Refusal::Audience)),
        (r#"{"iss":"i","aud":"cror"}"#, Err(Refusal::Audience)),
    ] {
        assert_eq!(check(json, &rules, 1), expected, "{json}");
    }
}
