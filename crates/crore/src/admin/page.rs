//! The live page and the administration page: documents, styles and scripts, all embedded; nothing
//! is loaded from other hosts.

use super::{About, Shared, no_store};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

const DOCUMENT: &str = include_str!("page/page.html");
/// The style that both pages and the reports of `crore bench` share.
const LOOK: &str = include_str!("page/look.css");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
/// Crore's client for browsers, from `sdk/js`.
const CLIENT: &str = include_str!("page/crore.js");

/// The administration: a document, a style and its modules, by their names under `/admin/`.
const ADMIN: [(&str, &str); 11] = [
    ("style.css", include_str!("page/admin/style.css")),
    ("main.js", include_str!("page/admin/main.js")),
    ("api.js", include_str!("page/admin/api.js")),
    ("view.js", include_str!("page/admin/view.js")),
    ("charts.js", include_str!("page/admin/charts.js")),
    ("overview.js", include_str!("page/admin/overview.js")),
    ("search.js", include_str!("page/admin/search.js")),
    ("connections.js", include_str!("page/admin/connections.js")),
    ("topics.js", include_str!("page/admin/topics.js")),
    ("lists.js", include_str!("page/admin/lists.js")),
    ("cluster.js", include_str!("page/admin/cluster.js")),
];

/// The administration page. It connects only to this port.
pub async fn admin() -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let more = [(header::CONTENT_SECURITY_POLICY, POLICY)];
    let document = include_str!("page/admin/index.html");
    (no_store("text/html; charset=utf-8"), more, document).into_response()
}

/// Redirects the address with a slash at its end to the address without it.
pub async fn to_admin() -> Response {
    let headers = [(header::LOCATION, "/admin"), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::PERMANENT_REDIRECT, headers).into_response()
}

/// A module or style of the administration page.
pub async fn admin_part(Path(name): Path<String>) -> Response {
    let Some((_, text)) = ADMIN.iter().find(|(part, _)| *part == name) else {
        return super::plain(StatusCode::NOT_FOUND, "there is no such part\n".into());
    };
    let media_type = if name.ends_with(".css") {
        "text/css; charset=utf-8"
    } else {
        "text/javascript; charset=utf-8"
    };
    (no_store(media_type), *text).into_response()
}

pub async fn document(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let clients = clients_url(&shared.operated.about, host_of(&headers));
    // The page may connect only to the node, and no site may embed it in a frame.
    let sockets = clients.replacen("http", "ws", 1);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' {sockets}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let more = [(header::CONTENT_SECURITY_POLICY, policy)];
    (no_store("text/html; charset=utf-8"), more, DOCUMENT).into_response()
}

pub async fn look() -> Response {
    (no_store("text/css; charset=utf-8"), LOOK).into_response()
}

pub async fn style() -> Response {
    (no_store("text/css; charset=utf-8"), STYLE).into_response()
}

pub async fn script() -> Response {
    (no_store("text/javascript; charset=utf-8"), SCRIPT).into_response()
}

pub async fn client() -> Response {
    (no_store("text/javascript; charset=utf-8"), CLIENT).into_response()
}

/// Facts about the node for the page.
pub async fn facts(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let about = &shared.operated.about;
    let body = serde_json::json!({
        "node": about.node_name,
        "version": env!("CARGO_PKG_VERSION"),
        "clients": clients_url(about, host_of(&headers)),
        "is_in_cluster": shared.operated.cluster.is_some(),
    });
    (no_store("application/json"), body.to_string()).into_response()
}

/// The address of the clients' port for the browser: the host name of the browser's request, if the
/// node listens there; else the address on which the node listens. A port with TLS only if there is
/// no other, because its certificate may be for another name.
fn clients_url(about: &About, host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let plain = about.clients.first().map(|address| ("http", address));
    let with_tls = about.tls_clients.first().map(|address| ("https", address));
    match plain.or(with_tls) {
        Some((scheme, address)) if address.ip().is_unspecified() && !name.is_empty() => {
            format!("{scheme}://{name}:{}", address.port())
        }
        Some((scheme, address)) => format!("{scheme}://{address}"),
        None => "'none'".into(),
    }
}

/// The `Host` header; empty if it has characters outside names and addresses, because it is
/// repeated in a header.
fn host_of(headers: &HeaderMap) -> &str {
    headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .filter(|host| {
            host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
        })
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client of `sdk/js` speaks the protocol; the pages' own code does not.
    #[test]
    fn pages_speak_no_protocol() {
        assert!(SCRIPT.contains("import { Crore } from \"/crore.js\";"));
        assert!(CLIENT.contains("export{"), "the client is a module");
        let pages = ADMIN.iter().map(|(_, text)| *text).chain([SCRIPT]);
        for page in pages {
            for word in ["EventSource", "WebSocket", "crore.v1", "event-stream", "crore.gap"] {
                assert!(!page.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn where_the_page_finds_the_node() {
        for (listen, host, expected) in [
            ("127.0.0.1:8800", "localhost:8801", "http://127.0.0.1:8800"),
            ("0.0.0.0:8800", "node.example:8801", "http://node.example:8800"),
            ("[::]:8800", "[2001:db8::1]:8801", "http://[2001:db8::1]:8800"),
            ("[::]:8800", "[2001:db8::1]", "http://[2001:db8::1]:8800"),
            ("0.0.0.0:8800", "", "http://0.0.0.0:8800"),
            ("10.0.0.1:8800", "other:8801", "http://10.0.0.1:8800"),
        ] {
            let listen = listen.parse().unwrap();
            let mut about = About {
                node_name: String::new(),
                clients: vec![listen],
                tls_clients: vec!["127.0.0.1:8843".parse().unwrap()],
                connections_max: 1,
            };
            assert_eq!(clients_url(&about, host), expected);
            (about.clients, about.tls_clients) = (Vec::new(), vec![listen]);
            assert_eq!(clients_url(&about, host), expected.replace("http:", "https:"));
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "a; script-src *".parse().unwrap());
        assert_eq!(host_of(&headers), "");
    }
}
