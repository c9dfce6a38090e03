//! Listening sockets that the service manager has opened (`.socket` units), and what of the configuration they replace.
//!
//! Their names say what they are for: `clients` (also those without a name of their own), `tls`, `operators`. They stand for
//! the flags of their addresses, so that what holds for an address holds for them, too. Before there are threads.

use crate::cli::ConfigurationArguments;
use crate::exit::Ending;
use crate::service_manager::{self, Inherited};
use anyhow::{Context, anyhow};
use net::kernel::{inherited_address, inherited_listener};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::RawFd;

/// Sockets that are there already.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Of clients, with TLS or without.
    clients: Vec<(SocketAddr, RawFd)>,
    operators: Vec<(SocketAddr, RawFd)>,
}

/// What was passed on, and the flags with its addresses in place of those that were given.
///
/// # Errors
/// One that is no listening socket, or has a name that says nothing.
pub fn inherited(
    given: &ConfigurationArguments,
) -> Result<(ConfigurationArguments, Sockets), Ending> {
    let listeners = service_manager::inherited().map_err(|problem| anyhow!(problem))?;
    Ok(sorted(given, listeners)?)
}

fn sorted(
    given: &ConfigurationArguments,
    listeners: Vec<Inherited>,
) -> anyhow::Result<(ConfigurationArguments, Sockets)> {
    let mut arguments = given.clone();
    let mut sockets = Sockets::default();
    let (mut clients, mut tls, mut operators) = (Vec::new(), Vec::new(), Vec::new());
    for Inherited { name, descriptor } in listeners {
        let address = inherited_address(descriptor)
            .with_context(|| format!("the socket \"{name}\" of the service manager"))?;
        let (of_kind, texts) = match &*name {
            "clients" | "unknown" | "crore.socket" => (&mut sockets.clients, &mut clients),
            "tls" => (&mut sockets.clients, &mut tls),
            "operators" => (&mut sockets.operators, &mut operators),
            _ => {
                let text = "the service manager passes on a socket";
                let expected = "FileDescriptorName= may be clients, tls or operators";
                return Err(anyhow!("{text} \"{name}\"; {expected}"));
            }
        };
        of_kind.push((address, descriptor));
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
    /// Those that the node is to accept from.
    pub fn of_clients(&self) -> Vec<(SocketAddr, RawFd)> {
        self.clients.clone()
    }

    /// Operators' listeners: those that are there, the others bound now.
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
            listener.with_context(|| format!("the operators' address {address} cannot be bound"))
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
        let bound: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let inherited = |name: &str, at: usize| Inherited {
            name: name.into(),
            descriptor: bound[at].as_raw_fd(),
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
        let file = Inherited {
            name: "clients".into(),
            descriptor: file.as_raw_fd(),
        };
        assert!(sorted(&given, vec![file]).is_err());
    }
}
