//! The query parameters of the operators' API.
//!
//! Place: before the handlers, after the authorization. Invariant: an unknown parameter is refused
//! by its name, as on the clients' port; otherwise a typing error, or a member of the body in the
//! wrong place, would silently become a default.

use super::authority::problem;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;

/// Requests with parameters: method, route, names. Other requests have none.
const PARAMETERS: &[(&str, &str, &[&str])] = &[
    ("GET", "/api/v1/connections", &["address", "protocol", "sub", "lagging", "after", "limit"]),
    ("DELETE", "/api/v1/connections/{id}", &["return"]),
    ("GET", "/api/v1/connections/{id}/subscriptions", &["after", "limit"]),
    ("GET", "/api/v1/logs", &["after", "limit", "level", "target"]),
    ("GET", "/api/v1/revocations", &["after", "limit"]),
    ("GET", "/api/v1/statistics/history", &["from"]),
    ("GET", "/api/v1/topic", &["topic"]),
    ("GET", "/api/v1/topic/history", &["topic", "since", "reverse", "limit"]),
    ("GET", "/api/v1/topics", &["prefix", "filter", "after", "limit"]),
];
/// Maximum length of an unknown parameter's name in a refusal, in characters.
const NAME_LEN_MAX: usize = 64;

/// Refuses a request with an unknown parameter.
pub async fn check(request: Request, next: Next) -> Response {
    let known = known(request.method().as_str(), request.uri().path());
    let query = request.uri().query().unwrap_or_default();
    match unknown(query, known) {
        None => next.run(request).await,
        Some(name) => {
            let name: String = name.chars().take(NAME_LEN_MAX).collect();
            let names = match known {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            let detail = format!("unknown parameter `{name}`; known parameters: {names}");
            problem(StatusCode::BAD_REQUEST, "unknown_parameter", &detail)
        }
    }
}

fn known(method: &str, path: &str) -> &'static [&'static str] {
    // The handlers of `GET` also answer `HEAD`.
    let method = if method == "HEAD" { "GET" } else { method };
    let found = PARAMETERS.iter().find(|(of, route, _)| *of == method && matches(route, path));
    found.map_or(&[], |(_, _, names)| names)
}

/// Whether a path matches this route, in which `{...}` matches any segment.
fn matches(route: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (route.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted.starts_with('{') || wanted == given => {}
            _ => return false,
        }
    }
}

/// The first name of a query that is not in this list. No known name needs percent-encoding.
fn unknown<'a>(query: &'a str, known: &[&str]) -> Option<&'a str> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
        .find(|name| !known.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn names() {
        let known = &["after", "limit"];
        for (query, expected) in [
            ("", None),
            ("after=1&limit=2", None),
            ("&&limit=2&", None),
            ("limit", None),
            ("limits=2", Some("limits")),
            ("after=1&x", Some("x")),
            ("=1", Some("")),
        ] {
            assert_eq!(unknown(query, known), expected, "{query}");
        }
    }

    #[test]
    fn routes() {
        let one = "/api/v1/connections/{id}";
        for (path, expected) in [
            ("/api/v1/connections/1f-2", true),
            ("/api/v1/connections/{id}", true),
            ("/api/v1/connections", false),
            ("/api/v1/connections/1/subscriptions", false),
            ("/api/v1/topics/1", false),
            ("", false),
        ] {
            assert_eq!(matches(one, path), expected, "{path}");
        }
    }

    /// The port refuses exactly the parameters that the document does not have.
    #[test]
    fn the_document_has_the_same_parameters() {
        let document = include_str!("../../../../spec/openapi.json");
        let document: Value = serde_json::from_str(document).unwrap();
        let mut seen = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            if !path.starts_with("/api/v1/") {
                continue;
            }
            let operations = item.as_object().unwrap().iter();
            for (method, operation) in operations.filter(|(_, it)| it["responses"].is_object()) {
                let names = |of: &Value| -> BTreeSet<String> {
                    let listed = of["parameters"].as_array().into_iter().flatten();
                    listed
                        .filter(|parameter| parameter["in"] == "query")
                        .filter_map(|parameter| parameter["name"].as_str().map(String::from))
                        .collect()
                };
                let method = method.to_uppercase();
                let told: BTreeSet<String> =
                    known(&method, path).iter().map(|name| (*name).to_owned()).collect();
                assert_eq!(names(operation), told, "{method} {path}");
                let has_refusal = operation["responses"]["400"].is_object();
                assert!(has_refusal, "{method} {path} may be refused with 400");
                seen.insert((method, path.clone()));
            }
        }
        for (method, path, _) in PARAMETERS {
            assert!(seen.contains(&((*method).to_owned(), (*path).to_owned())));
        }
    }
}
