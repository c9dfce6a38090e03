//! URLs of nodes: `ws://host:port/path` or `wss://...`, and of MQTT: `mqtt://host:port`.
//!
//! Place: from the options to the connect and the handshake's request line. Pure.

use std::fmt;

/// The port of a bare `host`, without a scheme.
pub const PORT: u16 = 8800;
/// The path of the native protocol.
pub const TARGET: &str = "/crore";

/// The port of MQTT, and that of MQTT with TLS.
pub const MQTT_PORTS: (u16, u16) = (1883, 8883);

/// One address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Whether to use TLS.
    pub is_tls: bool,
    /// The name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The path and query for the request line; [`TARGET`] if the URL has none.
    pub target: String,
}

/// An invalid URL; the text has the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidUrl(String);

impl fmt::Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidUrl {}

impl Endpoint {
    /// Parses `ws://host[:port][/path][?query]`; `http://` is equivalent, and without a scheme the
    /// port is [`PORT`] instead of 80. `wss://` and `https://` mean TLS, and port 443.
    ///
    /// # Errors
    /// Another scheme, no host, an invalid port, characters that are invalid in a request line.
    pub fn parse(url: &str) -> Result<Endpoint, InvalidUrl> {
        let (rest, default_port, is_tls) = match url.split_once("://") {
            None => (url, PORT, false),
            Some(("ws" | "http", rest)) => (rest, 80, false),
            Some(("wss" | "https", rest)) => (rest, 443, true),
            Some(_) => {
                return Err(InvalidUrl(format!(
                    "`{url}`: the scheme is not ws, wss, http or https"
                )));
            }
        };
        Endpoint::parse_rest(url, rest, default_port, is_tls)
    }

    /// Parses `mqtt://host[:port]`, which is also the meaning of a bare `host[:port]`, or
    /// `mqtts://` with TLS. The ports are [`MQTT_PORTS`].
    ///
    /// # Errors
    /// The errors of [`Endpoint::parse`], or a path.
    pub fn parse_mqtt(url: &str) -> Result<Endpoint, InvalidUrl> {
        let invalid = |why: &str| InvalidUrl(format!("`{url}`: {why}"));
        let (rest, default_port, is_tls) = match url.split_once("://") {
            None => (url, MQTT_PORTS.0, false),
            Some(("mqtt", rest)) => (rest, MQTT_PORTS.0, false),
            Some(("mqtts", rest)) => (rest, MQTT_PORTS.1, true),
            Some(_) => return Err(invalid("the scheme is not mqtt or mqtts")),
        };
        if rest.trim_end_matches('/').contains(['/', '?', '#']) {
            return Err(invalid("an address of MQTT has no path"));
        }
        Endpoint::parse_rest(url, rest, default_port, is_tls)
    }

    /// Parses what follows the scheme.
    fn parse_rest(
        url: &str,
        rest: &str,
        default_port: u16,
        is_tls: bool,
    ) -> Result<Endpoint, InvalidUrl> {
        let invalid = |why: &str| InvalidUrl(format!("`{url}`: {why}"));
        let rest = rest.split('#').next().unwrap_or_default();
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(cut);
        if authority.contains('@') {
            return Err(invalid("user and password are not allowed in the URL"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) =
                    bracketed.split_once(']').ok_or_else(|| invalid("`[` without `]`"))?;
                (host, after.strip_prefix(':').or((!after.is_empty()).then_some("?")))
            }
            None => match authority.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err(invalid("an IPv6 address needs brackets"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            None => default_port,
            Some(text) => text.parse().map_err(|_| invalid("the port is not a number"))?,
        };
        if host.is_empty() {
            return Err(invalid("the host is missing"));
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid("characters must be percent-encoded"));
        }
        let target = match target {
            "" | "/" => TARGET.to_owned(),
            query if query.starts_with('?') => format!("{TARGET}{query}"),
            path => path.to_owned(),
        };
        Ok(Endpoint { is_tls, host: host.to_owned(), port, target })
    }

    /// The host and port for the `Host` field.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "wss" } else { "ws" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

impl std::str::FromStr for Endpoint {
    type Err = InvalidUrl;

    fn from_str(url: &str) -> Result<Endpoint, InvalidUrl> {
        Endpoint::parse(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_mqtt_are_parsed_or_refused() {
        fn check(url: &str, parsed: Option<(&str, u16, bool)>) {
            let endpoint = Endpoint::parse_mqtt(url).ok();
            let found = endpoint.as_ref().map(|it| (it.host.as_str(), it.port, it.is_tls));
            assert_eq!(found, parsed, "{url}");
        }
        check("localhost", Some(("localhost", 1883, false)));
        check("localhost:9", Some(("localhost", 9, false)));
        check("mqtt://broker/", Some(("broker", 1883, false)));
        check("mqtts://broker", Some(("broker", 8883, true)));
        check("mqtts://[::1]:1", Some(("::1", 1, true)));
        for wrong in ["", "ws://broker", "mqtt://broker/x", "mqtt://broker:x", "mqtt://u:p@b"] {
            check(wrong, None);
        }
    }

    #[test]
    fn urls_are_parsed_or_refused() {
        fn check(url: &str, shown: Option<&str>) {
            let read = Endpoint::parse(url).ok().map(|endpoint| endpoint.to_string());
            assert_eq!(read.as_deref(), shown, "{url}");
        }
        check("localhost", Some("ws://localhost:8800/crore"));
        check("localhost:9", Some("ws://localhost:9/crore"));
        check("wss://node", Some("wss://node:443/crore"));
        check("https://node:8843/", Some("wss://node:8843/crore"));
        check("ws://node", Some("ws://node:80/crore"));
        check("http://node:8800/", Some("ws://node:8800/crore"));
        check("ws://node:8800/other?a=b", Some("ws://node:8800/other?a=b"));
        check("ws://node?a=b", Some("ws://node:80/crore?a=b"));
        check("ws://[::1]:8800", Some("ws://[::1]:8800/crore"));
        check("[::1]", Some("ws://[::1]:8800/crore"));
        check("ws://node/x#fragment", Some("ws://node:80/x"));
        for wrong in [
            "",
            "ws://",
            "wss://",
            "ftp://node",
            "node:port",
            "node:99999",
            "::1",
            "[::1",
            "[::1]x",
            "ws://a b",
            "ws://node/\r\n",
            "ws://u:p@node",
            "ws://node/é",
        ] {
            check(wrong, None);
        }
    }
}
