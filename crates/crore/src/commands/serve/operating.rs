//! The operators' port of `serve`: its authorization, the operators' socket, and a link for the
//! first browser.
//!
//! Place: between the configuration and [`crate::admin`]. Invariant: a process that takes over
//! creates the socket only when it is the node, so that a failed upgrade leaves the old node's
//! socket unchanged.

use super::url::http_url;
use crate::admin::sessions::Sessions;
use crate::admin::{Access, Listeners};
use crate::configuration::Configuration;
use crate::configuration::options::{ApiKeyNeed, Operators};
use crate::exit::Ending;
use crate::logging::{Level, Log, Target};
use crate::operators_socket::{OperatorsSocket, Wanted};
use crate::process::identity::group_id;
use crate::terminal;
use anyhow::anyhow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

/// The authorization of operators.
pub fn access(configuration: &Configuration, operators: &[SocketAddr]) -> Access {
    let Operators { api_key, origins, connections_max, .. } = configuration.read();
    let own = operators.first().map(|address| {
        let is_everywhere = address.ip().is_unspecified();
        let host = if is_everywhere { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
        http_url(SocketAddr::new(host, address.port()))
    });
    Access {
        trusts_loopback: api_key == ApiKeyNeed::BeyondLoopback,
        // A browser behind a proxy can rarely use the other origin.
        own_url: origins.first().cloned().or(own).unwrap_or_default(),
        origins,
        sessions: Arc::default(),
        connections_max,
    }
}

/// The operators' socket, if it is enabled. With the automatic path, a node continues without a
/// socket, and logs that.
///
/// # Errors
/// The configuration has an unknown group, or a path where the socket cannot be created.
pub fn socket(
    configuration: &Configuration,
    operators: &[SocketAddr],
    takes_over: bool,
    log: Log,
) -> Result<Option<OperatorsSocket>, Ending> {
    let Operators { socket, socket_group, .. } = configuration.read();
    let group = socket_group
        .map(|name| group_id(&name).ok_or_else(|| anyhow!("unknown group {name}")))
        .transpose()?;
    let wanted = Wanted::of(&socket);
    let made = match &wanted {
        Wanted::Off => return Ok(None),
        Wanted::At(path) => OperatorsSocket::make(path, group, takes_over),
        Wanted::Auto => match operators.first() {
            Some(address) => OperatorsSocket::make_for(address.port(), group, takes_over),
            None => return Ok(None),
        },
    };
    match made {
        Ok(socket) => Ok(Some(socket)),
        // The new node already serves clients; it continues despite this failure.
        Err(error) if takes_over || wanted == Wanted::Auto => {
            let sentence = "The operators' socket cannot be created: operators need an API key.";
            let told = [("error", &*error.to_string())];
            log.to(Target::Operators).write(Level::Warn, sentence, &told);
            Ok(None)
        }
        Err(error) => Err(Ending::from(
            anyhow::Error::new(error).context("the operators' socket (operators.socket)"),
        )),
    }
}

/// All listeners of operators.
///
/// # Errors
/// There are no file descriptors left.
pub fn listeners(
    ports: Vec<TcpListener>,
    socket: Option<&OperatorsSocket>,
) -> Result<Listeners, Ending> {
    let socket =
        socket.map(|socket| Ok((socket.listener.try_clone()?, socket.is_for_group))).transpose();
    let socket = socket.map_err(|error: std::io::Error| {
        anyhow::Error::new(error).context("no file descriptors left")
    })?;
    Ok(Listeners { ports, socket })
}

/// Prints where operators need no key. Only a terminal gets a link: it is a secret, and logs are
/// stored.
pub fn announce(
    socket: Option<&OperatorsSocket>,
    (sessions, own_url): (&Sessions, &str),
    log: Log,
) {
    if let Some(socket) = socket {
        let path = socket.path.to_string_lossy();
        log.announce("listening operators' socket", &[("path", &path)]);
    }
    if terminal::output_redraws()
        && !own_url.is_empty()
        && let Some(link) = sessions.link(own_url)
    {
        log.announce("administration, once and within an hour:", &[("url", &link)]);
    }
}
