//! The address of a client: a URL, parsed and resolved once.
//!
//! Place: from the command line, or the control interface, to each connect and its handshake. No
//! client remembers its route: it follows from the client's number and the number of its losses.
//! Pure but for [`Route::resolve`].

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::Context;
use client::url::Endpoint;

/// Changes of the address that a run remembers.
const SEGMENTS_MAX: usize = 4_096;

/// One address of a service.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Route {
    /// The address of the socket.
    pub address: SocketAddr,
    /// Host and port as the `Host` field has them.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// The server's name, where it speaks TLS.
    pub tls_name: Option<String>,
    /// Whether the scheme is `mqtt` or `mqtts`.
    pub is_mqtt: bool,
}

impl Route {
    /// Takes a URL apart and resolves its host; `target_default` is the path where the URL has
    /// none.
    ///
    /// # Errors
    /// A URL that cannot be used, or whose host has no address.
    pub fn resolve(url: &str, target_default: &str) -> anyhow::Result<Route> {
        let is_mqtt = url.starts_with("mqtt");
        let endpoint = if is_mqtt { Endpoint::parse_mqtt(url)? } else { Endpoint::parse(url)? };
        let address = (endpoint.host.as_str(), endpoint.port)
            .to_socket_addrs()
            .with_context(|| format!("`{url}`"))?
            .next()
            .with_context(|| format!("`{url}`: the host has no address"))?;
        let host = endpoint.authority();
        let tls_name = endpoint.is_tls.then(|| endpoint.host.clone());
        // Without a path the client's own resource is meant; here it may be another one.
        let target = match endpoint.target.strip_prefix(client::url::TARGET) {
            Some("") => target_default.to_owned(),
            Some(query) if query.starts_with('?') => format!("{target_default}{query}"),
            _ => endpoint.target,
        };
        Ok(Route { address, host, target, tls_name, is_mqtt })
    }
}

/// The routes of all clients of a run: from a client's number on, these are taken in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Routes {
    /// Ascending by the first client; the first one begins at client 0 and is never empty.
    segments: Vec<(u64, Vec<Route>)>,
}

impl Routes {
    /// All clients take these in turn. At least one.
    pub(super) fn new(routes: Vec<Route>) -> Routes {
        assert!(!routes.is_empty(), "a run has an address");
        Routes { segments: vec![(0, routes)] }
    }

    /// The route of a client that has lost its connection, or could not connect, so many times:
    /// each time it takes another one. The clients of a node that dies spread over all others.
    pub(super) fn of(&self, client: u64, losses: u8) -> &Route {
        let after = self.segments.partition_point(|(first, _)| *first <= client);
        let (_, routes) = &self.segments[after - 1];
        let count = routes.len() as u64;
        let stride = 1 + client / count % (count - 1).max(1);
        &routes[((client + u64::from(losses) * stride) % count) as usize]
    }

    /// Clients from `first` on take these, and those of the beginning if there are none.
    ///
    /// # Errors
    /// The address has changed too often.
    pub(super) fn change(&mut self, first: u64, routes: &[Route]) -> Result<(), String> {
        let routes = if routes.is_empty() { self.segments[0].1.clone() } else { routes.to_vec() };
        let after = self.segments.partition_point(|(begin, _)| *begin <= first);
        if self.segments[after - 1].1 == routes {
            self.segments.truncate(after);
            return Ok(());
        }
        if after >= SEGMENTS_MAX {
            return Err(format!(
                "the address has changed {SEGMENTS_MAX} times, the maximum; remove clients first"
            ));
        }
        self.segments.truncate(after);
        self.segments.push((first, routes));
        Ok(())
    }

    /// Only clients below `clients` are left.
    pub(super) fn truncate(&mut self, clients: u64) {
        let kept = self.segments.partition_point(|(first, _)| *first < clients).max(1);
        self.segments.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(port: u16) -> Route {
        Route {
            address: ([127, 0, 0, 1], port).into(),
            host: format!("127.0.0.1:{port}"),
            target: "/echo".to_owned(),
            tls_name: None,
            is_mqtt: false,
        }
    }

    #[test]
    fn urls() {
        for (url, target, expected) in [
            ("ws://127.0.0.1:1", "/echo", ("127.0.0.1:1", "/echo")),
            ("ws://127.0.0.1:1/?a", "/echo", ("127.0.0.1:1", "/?a")),
            ("ws://127.0.0.1:1?a", "/echo", ("127.0.0.1:1", "/echo?a")),
            ("http://127.0.0.1:1/x/y", "/echo", ("127.0.0.1:1", "/x/y")),
            ("ws://127.0.0.1:1", "/crore", ("127.0.0.1:1", "/crore")),
        ] {
            let route = Route::resolve(url, target).unwrap();
            assert_eq!((&route.host[..], &route.target[..]), expected, "{url}");
        }
        for (url, port) in [("mqtt://127.0.0.1", 1883), ("mqtts://127.0.0.1", 8883)] {
            let route = Route::resolve(url, "/").unwrap();
            assert_eq!((route.is_mqtt, route.address.port()), (true, port), "{url}");
            assert_eq!(route.tls_name.is_some(), port == 8883, "{url}");
        }
        for wrong in ["ftp://127.0.0.1:1", "ws://", "ws://127.0.0.1:x", "mqtt://127.0.0.1/x"] {
            assert!(Route::resolve(wrong, "/echo").is_err(), "{wrong}");
        }
    }

    #[test]
    fn clients_keep_their_routes() {
        let ports = |routes: &Routes, clients: u64| -> Vec<u16> {
            (0..clients).map(|client| routes.of(client, 0).address.port()).collect()
        };
        let mut routes = Routes::new(vec![route(1), route(2)]);
        assert_eq!(ports(&routes, 4), [1, 2, 1, 2]);
        routes.change(3, &[route(7)]).unwrap();
        routes.change(5, &[]).unwrap();
        assert_eq!(ports(&routes, 7), [1, 2, 1, 7, 7, 2, 1]);
        routes.truncate(4);
        assert_eq!(ports(&routes, 6), [1, 2, 1, 7, 7, 7]);
        // The same address again changes nothing; a segment from the same client on is replaced.
        routes.change(4, &[route(7)]).unwrap();
        assert_eq!(routes.segments.len(), 2);
        routes.truncate(0);
        assert_eq!(ports(&routes, 3), [1, 2, 1]);
        routes.change(0, &[route(9)]).unwrap();
        assert_eq!(ports(&routes, 2), [9, 9]);
        routes.truncate(0);
        routes.change(0, &[]).unwrap();
        assert_eq!(ports(&routes, 2), [1, 2], "the beginning is remembered");
    }

    #[test]
    fn clients_of_a_dead_node_spread_over_all_others() {
        let routes = Routes::new(vec![route(1), route(2), route(3)]);
        let ports = |losses: u8| -> Vec<u16> {
            (0..12).step_by(3).map(|client| routes.of(client, losses).address.port()).collect()
        };
        assert_eq!([ports(0), ports(1), ports(2)], [[1, 1, 1, 1], [2, 3, 2, 3], [3, 2, 3, 2]]);
        let alone = Routes::new(vec![route(1)]);
        assert_eq!(alone.of(7, 255).address.port(), 1);
    }

    #[test]
    fn changes_are_bounded() {
        let mut routes = Routes::new(vec![route(1)]);
        let refused = (1..).find(|client| {
            let port = 2 + (client % 2) as u16;
            routes.change(*client, &[route(port)]).is_err()
        });
        assert_eq!(refused, Some(SEGMENTS_MAX as u64));
        routes.truncate(1);
        assert!(routes.change(1, &[route(3)]).is_ok());
    }
}
