//! Addresses to listen on, and what somebody may have meant who wrote one wrongly.
//!
//! Place: under [`super::Kind::read`]. Pure: no name is looked up.

use super::Raw;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The expected value, with a proposal for the first wrong address if it can be guessed.
pub fn expectation(raw: &Raw, expected: String) -> String {
    let wrong = match raw {
        Raw::Text(text) => Some(text.as_str()),
        Raw::Array(parts) => {
            parts.iter().filter_map(Raw::text).find(|text| text.parse::<SocketAddr>().is_err())
        }
        _ => None,
    };
    match wrong.and_then(proposal) {
        Some(proposal) => format!("{expected}: {proposal}"),
        None => expected,
    }
}

fn proposal(text: &str) -> Option<String> {
    let schemes = ["http://", "https://", "ws://", "wss://"];
    let stripped = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    let rest = stripped.unwrap_or(text).trim_end_matches('/');
    if let Ok(address) = rest.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(match address {
            IpAddr::V4(address) => format!("the port is missing, as in \"{address}:8800\""),
            IpAddr::V6(address) => format!("the port is missing, as in \"[{address}]:8800\""),
        });
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => ("", rest),
    };
    let port: u16 = port.parse().ok()?;
    let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    Some(match host {
        "" => format!("write \"{here}\", or \"{everywhere}\" for all addresses of this machine"),
        "localhost" => format!("write \"{here}\""),
        "*" => format!("write \"{everywhere}\" for all addresses of this machine"),
        _ => match rest.parse::<SocketAddr>() {
            Ok(address) => format!("write \"{address}\""),
            Err(_) => "host names are not resolved; write an IP address".into(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals() {
        let both =
            "write \"127.0.0.1:8800\", or \"0.0.0.0:8800\" for all addresses of this machine";
        for (text, expected) in [
            (":8800", Some(both)),
            ("8800", Some(both)),
            ("localhost:8800", Some("write \"127.0.0.1:8800\"")),
            ("*:8800", Some("write \"0.0.0.0:8800\" for all addresses of this machine")),
            ("http://10.0.0.1:80/", Some("write \"10.0.0.1:80\"")),
            ("ws://localhost:80", Some("write \"127.0.0.1:80\"")),
            ("10.0.0.1", Some("the port is missing, as in \"10.0.0.1:8800\"")),
            ("::1", Some("the port is missing, as in \"[::1]:8800\"")),
            ("[::1]", Some("the port is missing, as in \"[::1]:8800\"")),
            ("example.com:80", Some("host names are not resolved; write an IP address")),
            ("example.com", None),
            ("127.0.0.1:99999", None),
            ("", None),
            (":", None),
        ] {
            assert_eq!(proposal(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_first_wrong_address_of_a_list_is_meant() {
        let list = ["127.0.0.1:1", "localhost:2", ":3"].map(|text| Raw::Text(text.into()));
        let said = expectation(&Raw::Array(list.to_vec()), "a list".into());
        assert_eq!(said, "a list: write \"127.0.0.1:2\"");
    }
}
