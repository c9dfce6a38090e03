//! Options of the operators' port: who may operate, and how many may ask.

use super::spec::{count, options, text};
use super::typed::{choice, choices};
use crate::configuration::value::Kind;

options! {
    /// Access of operators, at the operators' port (listen.operators) and by a socket of this
    /// machine.
    section "operators": Operators;

    /// Always: a request that shows clients, topics or messages, or changes something, needs an API
    /// key with operate = true, a browser session, or the operators' socket. Beyond_loopback:
    /// requests over loopback without a trace of a proxy need none. Choose that only for machines
    /// without other users and without a proxy: a proxy that adds no field, such as nginx by
    /// default, looks like a local client.
    api_key: ApiKeyNeed = "always", choice::<ApiKeyNeed>(), Restart;
    /// A Unix socket for operators: the node's own user and root need no key there, and commands
    /// such as `crore top` use it by default. Auto: operators-PORT.sock, by the port of the first
    /// address of listen.operators, in $RUNTIME_DIRECTORY, /run/crore, $XDG_RUNTIME_DIR/crore or
    /// $TMPDIR/crore-UID. Off: none. Otherwise a path that begins with a slash.
    socket: String = "auto", text(100), Restart;
    /// A group, by name or number, whose members may use the socket, too. They need access to its
    /// directory.
    socket_group: Option<String> = example "adm", text(64), Restart;
    /// Origins of browsers that reach the operators' port through a proxy, such as
    /// https://ops.example.com: on loopback the port answers to these hosts, too, and their pages
    /// may change things after a login.
    origins: Vec<String> = "", Kind::Origins, Restart;
    /// Connections to each address of listen.operators, and to the socket. A further one replaces
    /// the connection that has been silent for longest.
    connections_max: usize = "256", count(16, 65_536), Restart;
}

/// Requests that need an API key.
#[derive(PartialEq, Eq)]
pub enum ApiKeyNeed {
    /// All.
    Always,
    /// All but those over loopback.
    BeyondLoopback,
}

choices! { ApiKeyNeed: Always = "always", BeyondLoopback = "beyond_loopback" }
