//! Connections of users, as the shell counts them.

use stdx::key::Key;

/// A change of how many connections a user has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserChange {
    /// A connection comes, and waits for `Edge::user_admitted` or
    /// `Edge::user_refused`.
    Comes {
        /// The connection that waits.
        connection: Key,
        /// The user ([`crate::entitlement::user_name`]).
        user: Box<str>,
        /// The limit of the user's own token at this node.
        connections_max: Option<u32>,
    },
    /// A connection that was let in has gone, or is another's now.
    Leaves {
        /// The user ([`crate::entitlement::user_name`]).
        user: Box<str>,
    },
}

/// A connection that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedUser {
    /// The connection.
    pub connection: Key,
    /// The user.
    pub user: Box<str>,
    /// The limit of the user's own token at this node.
    pub connections_max: Option<u32>,
}
