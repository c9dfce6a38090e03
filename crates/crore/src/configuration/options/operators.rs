//! Options of the operators' port: who may operate, and how many may ask.

use super::spec::{OptionSpec, count, option};
use crate::configuration::value::Kind;

/// The section.
pub const SECTION: (&str, &str) = (
    "operators",
    "Access of operators, at the operators' port (listen.operators) and by a socket of this machine.",
);

/// Its options.
pub const OPERATORS_OPTIONS: &[OptionSpec] = &[
    option(
        "operators.api_key",
        Kind::Choice(&["always", "beyond_loopback"]),
        "always",
        "Always: a request that shows clients, topics or messages, or changes something, needs an API key with operate = true, a browser session, or the operators' socket. Beyond_loopback: requests over loopback without a trace of a proxy need none. Choose that only for machines without other users and without a proxy: a proxy that adds no field, such as nginx by default, looks like a local client.",
    ),
    option(
        "operators.socket",
        Kind::Text { bytes_max: 100 },
        "auto",
        "A Unix socket for operators: the node's own user and root need no key there, and commands such as `crore top` use it by default. Auto: operators-PORT.sock, by the port of the first address of listen.operators, in $RUNTIME_DIRECTORY, /run/crore, $XDG_RUNTIME_DIR/crore or $TMPDIR/crore-UID. Off: none. Otherwise a path that begins with a slash.",
    ),
    option(
        "operators.socket_group",
        Kind::Text { bytes_max: 64 },
        "",
        "A group, by name or number, whose members may use the socket, too. They need access to its directory.",
    ),
    option(
        "operators.origins",
        Kind::Origins,
        "",
        "Origins of browsers that reach the operators' port through a proxy, such as https://ops.example.com: on loopback the port answers to these hosts, too, and their pages may change things after a login.",
    ),
    option(
        "operators.connections_max",
        count(16, 65_536),
        "256",
        "Connections to each address of listen.operators, and to the socket. A further one replaces the connection that has been silent for longest.",
    ),
];
