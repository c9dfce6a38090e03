//! Options of the operators' port: who may operate, and how many may ask.

use super::{OptionSpec, count, option};
use crate::configuration::value::Kind;

/// The section.
pub const SECTION: (&str, &str) = (
    "operators",
    "Who may operate the node, at the operators' port (listen.operators) and by a socket of this machine.",
);

/// Its options.
pub const OPERATORS_OPTIONS: &[OptionSpec] = &[
    option(
        "operators.api_key",
        Kind::Choice(&["always", "beyond_loopback"]),
        "always",
        "Always: what shows clients, topics or messages, and what changes something, takes an API key with operate = true, a browser that has logged in, or the operators' socket. Beyond_loopback: requests over loopback that show no sign of a proxy need none. That is for machines without other users and without a proxy: one that adds no field, such as nginx by its defaults, looks like this machine.",
    ),
    option(
        "operators.socket",
        Kind::Text { bytes_max: 100 },
        "auto",
        "A Unix socket for operators: the node's own user and root need no key there, and commands such as `crore top` use it by themselves. Auto: operators-PORT.sock, by the port of the first address of listen.operators, in $RUNTIME_DIRECTORY, /run/crore, $XDG_RUNTIME_DIR/crore or $TMPDIR/crore-UID. Off: none. Else its path, which begins with a slash.",
    ),
    option(
        "operators.socket_group",
        Kind::Text { bytes_max: 64 },
        "",
        "A group, by name or number, whose members may use the socket, too. Its folder has to let them in.",
    ),
    option(
        "operators.origins",
        Kind::Origins,
        "",
        "Origins by which browsers come to the operators' port through a proxy, such as https://ops.example.com: on loopback the port answers to these hosts, too, and their pages may change things once they have logged in.",
    ),
    option(
        "operators.connections_max",
        count(16, 65_536),
        "256",
        "Connections to each address of listen.operators, and to the socket. A further one takes the place of the connection that has been silent for longest.",
    ),
];
