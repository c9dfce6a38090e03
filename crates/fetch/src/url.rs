//! An absolute URL of HTTP.

/// Maximum length of a URL, in bytes.
pub const URL_BYTES_MAX: usize = 2_048;

/// A parsed URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Whether it uses TLS.
    pub is_https: bool,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The value of the header field `Host`.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

impl Url {
    /// Parses an absolute URL; user names and fragments are refused.
    pub fn parse(text: &str) -> Option<Url> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"#\\\"<>".contains(&byte);
        if text.len() > URL_BYTES_MAX || !text.bytes().all(is_plain) {
            return None;
        }
        let (is_https, rest) = match text.split_once("://")? {
            ("https", rest) => (true, rest),
            ("http", rest) => (false, rest),
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, port)
            }
            None => {
                let end = authority.find(':').unwrap_or(authority.len());
                authority.split_at(end)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            None if port.is_empty() => [80, 443][usize::from(is_https)],
            _ => return None,
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_name) || port == 0 {
            return None;
        }
        Some(Url {
            is_https,
            host: host.into(),
            port,
            authority: authority.into(),
            target: if target.starts_with('/') { target.into() } else { format!("/{target}") },
        })
    }

    /// Whether the host is this machine, so that no attacker can listen in between.
    pub fn is_local(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_or_refused() {
        for (text, expected) in [
            ("https://a.example/x?y=1", (true, "a.example", 443, "/x?y=1")),
            ("http://a.example", (false, "a.example", 80, "/")),
            ("http://127.0.0.1:81?x", (false, "127.0.0.1", 81, "/?x")),
            ("https://[::1]:82/", (true, "::1", 82, "/")),
        ] {
            let url = Url::parse(text).unwrap();
            let seen = (url.is_https, url.host.as_str(), url.port, url.target.as_str());
            assert_eq!(seen, expected);
        }
        for bad in [
            "",
            "a.example",
            "ftp://a.example/",
            "file:///etc/passwd",
            "HTTPS://a.example",
            "https://",
            "https:///x",
            "https://user@a.example/",
            "https://a.example:0/",
            "https://a.example:66000/",
            "https://a.example:+1/",
            "https://a.example:/",
            "https://[::1/",
            "https://[a]/",
            "https://a.example/ x",
            "https://a.example/\r\nX: y",
            "https://a.example/#f",
            "https://ä.example/",
        ] {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
        assert!(Url::parse("http://localhost:1/").unwrap().is_local());
        assert!(!Url::parse("http://a.example/").unwrap().is_local());
    }
}
