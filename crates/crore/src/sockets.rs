//! Listening sockets opened by the service manager (`.socket` units), and the options that they
//! replace.
//!
//! Their names give their purpose: `clients` (also for sockets without a name), `tls`, `operators`.
//! They replace the flags of addresses, so the rules of addresses apply to them, too. The module
//! runs before there are threads.

use crate::exit::Ending;
use crate::flags::ConfigurationArguments;
use crate::service_manager::{self, Inherited};
use anyhow::{Context, anyhow};
use net::kernel::{inherited_address, inherited_listener};
use node::upgrade::INHERIT;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::RawFd;

/// Sockets that exist at the start.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Listeners of clients, with TLS or without.
    clients: Vec<(SocketAddr, RawFd)>,
    operators: Vec<(SocketAddr, RawFd)>,
    /// Purpose and address of each socket.
    names: Vec<(String, SocketAddr)>,
}

/// The listeners of a process that takes over: its sockets come from its predecessor.
const NONE: RawFd = -1;

/// The passed sockets, and the flags with their addresses instead of the given ones.
///
/// # Errors
/// A descriptor is not a listening socket, or has an unknown name.
pub fn inherited(
    given: &ConfigurationArguments,
) -> Result<(ConfigurationArguments, Sockets), Ending> {
    if let Ok(text) = std::env::var(INHERIT) {
        let known = known(&text).with_context(|| format!("{INHERIT} says \"{text}\""))?;
        return Ok(sorted(given, known)?);
    }
    let listeners = service_manager::inherited().map_err(|problem| anyhow!(problem))?;
    let with_address = |Inherited { name, descriptor }: Inherited| {
        let address = inherited_address(descriptor)
            .with_context(|| format!("the socket \"{name}\" of the service manager"))?;
        Ok((name, address, descriptor))
    };
    let listeners: anyhow::Result<Vec<_>> = listeners.into_iter().map(with_address).collect();
    Ok(sorted(given, listeners?)?)
}

/// Parses the text of [`Sockets::described`].
fn known(text: &str) -> Option<Vec<(String, SocketAddr, RawFd)>> {
    let socket = |part: &str| {
        let (name, address) = part.split_once('=')?;
        Some((name.to_owned(), address.parse().ok()?, NONE))
    };
    text.split_ascii_whitespace().map(socket).collect()
}

fn sorted(
    given: &ConfigurationArguments,
    listeners: Vec<(String, SocketAddr, RawFd)>,
) -> anyhow::Result<(ConfigurationArguments, Sockets)> {
    let mut arguments = given.clone();
    let mut sockets = Sockets::default();
    let (mut clients, mut tls, mut operators) = (Vec::new(), Vec::new(), Vec::new());
    for (name, address, descriptor) in listeners {
        let (of_kind, texts) = match &*name {
            "clients" | "unknown" | "crore.socket" => (&mut sockets.clients, &mut clients),
            "tls" => (&mut sockets.clients, &mut tls),
            "operators" => (&mut sockets.operators, &mut operators),
            _ => {
                let text = "the service manager passes a socket for these addresses";
                let expected = "FileDescriptorName= may be clients, tls or operators";
                return Err(anyhow!("{text} \"{name}\"; {expected}"));
            }
        };
        of_kind.push((address, descriptor));
        sockets.names.push((name, address));
        texts.push(address.to_string());
    }
    let flags = [
        (&mut arguments.listen, clients),
        (&mut arguments.tls_listen, tls),
        (&mut arguments.admin_listen, operators),
    ];
    for (flag, texts) in flags {
        if !texts.is_empty() {
            *flag = texts;
        }
    }
    Ok((arguments, sockets))
}

impl Sockets {
    /// The sockets with their addresses, for the process that takes over.
    pub fn described(&self) -> String {
        let described = |(name, address): &(String, SocketAddr)| format!("{name}={address}");
        let all: Vec<String> = self.names.iter().map(described).collect();
        all.join(" ")
    }

    /// The node's listeners.
    pub fn of_clients(&self) -> Vec<(SocketAddr, RawFd)> {
        self.clients.clone()
    }

    /// Operators' listeners: the passed ones, and new ones for the other addresses.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn bind(&self, addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, Ending> {
        let listener = |address: &SocketAddr| {
            let inherited = self.operators.iter().find(|(of, _)| of == address);
            let listener = match inherited {
                Some((_, descriptor)) => inherited_listener(*descriptor),
                None => TcpListener::bind(address),
            };
            listener.with_context(|| format!("cannot bind the operators' address {address}"))
        };
        let listeners: anyhow::Result<Vec<TcpListener>> = addresses.iter().map(listener).collect();
        Ok(listeners?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn sockets_stand_for_the_flags_of_their_addresses() {
        let bound: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let inherited = |name: &str, at: usize| {
            let descriptor = bound[at].as_raw_fd();
            let address = inherited_address(descriptor).unwrap();
            (name.to_owned(), address, descriptor)
        };
        let address = |at: usize| bound[at].local_addr().unwrap();
        let given = ConfigurationArguments {
            listen: vec!["127.0.0.1:1".into()],
            tls_listen: vec!["127.0.0.1:2".into()],
            ..ConfigurationArguments::default()
        };
        let listeners = vec![inherited("clients", 0), inherited("operators", 1)];
        let (arguments, sockets) = sorted(&given, listeners).unwrap();
        assert_eq!(arguments.listen, [address(0).to_string()]);
        assert_eq!(arguments.admin_listen, [address(1).to_string()]);
        assert_eq!(arguments.tls_listen, ["127.0.0.1:2"]);
        assert_eq!(sockets.of_clients(), [(address(0), bound[0].as_raw_fd())]);
        let operators = sockets.bind(&[address(1)]).unwrap();
        assert_eq!(operators[0].local_addr().unwrap(), address(1));

        assert!(sorted(&given, vec![inherited("mqtt", 2)]).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(inherited_address(file.as_raw_fd()).is_err());

        // The process that takes over has them by their addresses.
        let known = known(&sockets.described()).unwrap();
        let (next, of_next) = sorted(&given, known).unwrap();
        assert_eq!((next.listen, next.admin_listen), (arguments.listen, arguments.admin_listen));
        assert_eq!(of_next.of_clients(), [(address(0), NONE)]);
        assert_eq!(of_next.described(), sockets.described());
    }
}
