//! Relations between options of who may do what. Files are not read here.

use crate::configuration::entries::{Configuration, Entry};
use crate::configuration::fault::{Fault, Origin};
use crate::configuration::options::TokenKeyTable;
use crate::configuration::options::entitlement::{Entitlement, Mode};
use entitlement::algorithm::Family;
use entitlement::api_keys::API_KEYS_MAX;
use entitlement::keys::{KEYS_TRIED_MAX, SECRET_BYTES_MIN};
use fetch::Url;
use std::collections::HashMap;

/// Whether clients are asked who they are.
pub fn takes_tokens(configuration: &Configuration) -> bool {
    configuration.read::<Entitlement>().mode == Mode::Tokens
}

/// Whether a list of issuers or audiences says that any will do.
pub fn is_anything(words: &[String]) -> bool {
    words.iter().any(|word| word == "*")
}

/// Appends what does not fit together.
pub fn check(configuration: &Configuration, faults: &mut Vec<Fault>) {
    check_mode(configuration, faults);
    check_section(configuration, faults);
    check_claims(configuration, faults);
    let mut nameless: HashMap<&str, usize> = HashMap::new();
    for entry in &configuration.token_keys {
        check_token_key(entry, faults);
        let TokenKeyTable { id, algorithm, .. } = entry.read();
        if let (None, Some(algorithm)) = (id, algorithm) {
            let count = nameless.entry(algorithm.name()).or_default();
            *count += 1;
            if *count == KEYS_TRIED_MAX + 1 {
                let problem =
                    format!("{algorithm} has more than {KEYS_TRIED_MAX} keys without an id");
                faults.push(fault(entry, "token_key", "id", problem, "an id for each key"));
            }
        }
    }
    check_api_keys(configuration, faults);
    check_grants(configuration, faults);
}

fn check_mode(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let names = ["secret", "jwks_file", "jwks_url", "users_file"];
    let keys = names.map(|name| format!("entitlement.{name}"));
    let given = keys.iter().find_map(|key| configuration.given(key));
    let of_tables = configuration.token_keys.first().map(|entry| &entry.origin);
    let key_origin = given.map(|(_, origin)| origin).or(of_tables);
    let (_, origin) = configuration.get("entitlement.mode");
    match (takes_tokens(configuration), key_origin) {
        (false, Some(key_origin)) => faults.push(Fault {
            origin: key_origin.clone(),
            key: "entitlement.mode".into(),
            problem: "a key for tokens or a file of users is set, but authentication is off".into(),
            expected: "entitlement.mode = \"tokens\", or no keys and no users".into(),
        }),
        (true, None) if !has_others(configuration) => faults.push(Fault {
            origin: origin.clone(),
            key: "entitlement.mode".into(),
            problem: "no keys are configured, so no client could authenticate".into(),
            expected:
                "entitlement.secret, jwks_file, jwks_url or users_file, a [[token_key]] or an [[api_key]], tls.client_ca_file, or permissions of anonymous clients (entitlement.anonymous_subscribe)"
                    .into(),
        }),
        _ => {}
    }
}

/// Whether clients may do something without a token.
fn has_others(configuration: &Configuration) -> bool {
    let section: Entitlement = configuration.read();
    let lists = [section.anonymous_subscribe, section.anonymous_publish, section.anonymous_history];
    !configuration.api_keys.is_empty()
        || configuration.given("tls.client_ca_file").is_some()
        || lists.iter().any(|list| !list.is_empty())
}

/// Grants without users are a misunderstanding.
fn check_grants(configuration: &Configuration, faults: &mut Vec<Fault>) {
    if let Some(grant) = configuration.grants.first()
        && configuration.given("entitlement.users_file").is_none()
        && configuration.given("tls.client_ca_file").is_none()
    {
        faults.push(Fault {
            origin: grant.origin.clone(),
            key: "grant".into(),
            problem: "there are no users: neither entitlement.users_file nor tls.client_ca_file is set".into(),
            expected: "entitlement.users_file = \"...\", a file by mosquitto_passwd, or tls.client_ca_file".into(),
        });
    }
}

fn check_section(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let section: Entitlement = configuration.read();
    let mut push = |key: &str, problem: String, expected: &str| {
        faults.push(Fault {
            origin: configuration.origin_of(key),
            key: key.into(),
            problem,
            expected: expected.into(),
        });
    };
    if let Some(secret) = section.secret
        && secret.as_str().len() < SECRET_BYTES_MIN
    {
        let problem = format!("the secret has {} bytes", secret.as_str().len());
        let expected = format!("at least {SECRET_BYTES_MIN} bytes");
        push("entitlement.secret", problem, &expected);
    }
    if let Some(url) = &section.jwks_url
        && Url::parse(url).is_none()
    {
        let expected = "an address such as \"https://id.example.com/.well-known/jwks.json\"";
        push("entitlement.jwks_url", format!("{url:?} is not a URL"), expected);
    }
    if section.jwks_ca_file.is_some() && section.jwks_url.is_none() {
        let problem = "entitlement.jwks_url is not set".into();
        push("entitlement.jwks_ca_file", problem, "both, or neither");
    }
}

/// An issuer's key set is the same for all its applications, and for all tenants of some.
fn check_claims(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let section: Entitlement = configuration.read();
    for (key, words) in
        [("entitlement.issuers", &section.issuers), ("entitlement.audiences", &section.audiences)]
    {
        if is_anything(words) && words.len() > 1 {
            faults.push(Fault {
                origin: configuration.get(key).1.clone(),
                key: key.into(),
                problem: "\"*\" means every value, but the list has others, too".into(),
                expected: "[\"*\"] alone, or a list without it".into(),
            });
        }
    }
    if let Some((_, origin)) = configuration.given("entitlement.jwks_url")
        && section.audiences.is_empty()
    {
        faults.push(Fault {
            origin: origin.clone(),
            key: "entitlement.audiences".into(),
            problem: "entitlement.jwks_url is set without an audience: the node would accept tokens that the issuer has signed for other applications".into(),
            expected: "audiences = [\"...\"], the `aud` of tokens for this node; or [\"*\"] if the issuer signs for no other application".into(),
        });
    }
}

fn check_token_key(entry: &Entry, faults: &mut Vec<Fault>) {
    let Some(algorithm) = entry.read::<TokenKeyTable>().algorithm else {
        let problem = "the key has no algorithm".into();
        let expected = "algorithm = \"...\", the only algorithm that the key verifies";
        faults.push(fault(entry, "token_key", "algorithm", problem, expected));
        return;
    };
    let wanted: &[&str] = match algorithm.family() {
        Family::Hmac => &["secret", "secret_file"],
        _ => &["public_key_file"],
    };
    let all = ["secret", "secret_file", "public_key_file"];
    let given: Vec<&str> = all.into_iter().filter(|key| entry.get(key).is_some()).collect();
    if given.len() != 1 || !wanted.contains(&given[0]) {
        let problem = match given.as_slice() {
            [] => format!("{algorithm} has no key"),
            given => format!("{algorithm} has {}", given.join(" and ")),
        };
        let expected = format!("{} and no other source", wanted.join(" or "));
        let key = given.first().copied().unwrap_or("algorithm");
        faults.push(fault(entry, "token_key", key, problem, &expected));
    }
}

fn check_api_keys(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let mut names: HashMap<&str, Origin> = HashMap::new();
    for (number, entry) in configuration.api_keys.iter().enumerate() {
        if number == API_KEYS_MAX {
            let problem = format!("more than {API_KEYS_MAX} API keys are configured");
            faults.push(fault(entry, "api_key", "name", problem, "fewer API keys"));
        }
        match entry.text("name") {
            None => {
                let problem = "the API key has no name".into();
                faults.push(fault(entry, "api_key", "name", problem, "name = \"...\""));
            }
            Some(name) => {
                if let Some(earlier) = names.insert(name, entry.origin_of("name")) {
                    let problem = format!("\"{name}\" is already the API key of {earlier}");
                    faults.push(fault(entry, "api_key", "name", problem, "another name"));
                }
            }
        }
        if entry.get("sha256").is_none() {
            let problem = "the API key has no hash".into();
            let expected = "sha256 = \"...\", as `crore token key` prints it";
            faults.push(fault(entry, "api_key", "sha256", problem, expected));
        }
    }
}

fn fault(entry: &Entry, table: &str, key: &str, problem: String, expected: &str) -> Fault {
    Fault {
        origin: entry.origin_of(key),
        key: format!("{table}.{key}"),
        problem,
        expected: expected.into(),
    }
}
