//! How many connections a user has: who shows a token counts for its subject, once the shell has
//! let it in.
//!
//! Place on the path: step 3, where a credential becomes an entitlement ([`Edge::entitle`]). A
//! user's connections are spread over the edges of a node, so the shell counts them: changes go out
//! in order ([`super::Outputs::users`]), and a connection that comes is paused until the answer,
//! which is there in the same turn.
//!
//! Invariants: a connection counts for at most one user, that of the token which it has shown last,
//! and whoever was let in leaves once; one that counts and is not entitled yet has the entry for
//! which it was let in in its state; API keys, anonymous clients and empty subjects are nobody's.
//! Where neither the node nor a token has a limit, nothing is asked. A renewal takes away nobody's
//! place: a session that counts goes on counting, and one that did not has to be let in before the
//! new token holds.

use stdx::key::Key;

/// A change of how many connections a user has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserChange {
    /// A connection comes, and waits for [`Edge::user_admitted`] or [`Edge::user_refused`].
    Comes {
        /// Who waits.
        connection: Key,
        /// The user ([`crate::entitlement::user_name`]).
        user: Box<str>,
        /// What the user's own token allows at this node.
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
    /// Which.
    pub connection: Key,
    /// Its user.
    pub user: Box<str>,
    /// What its own token allows the user at this node.
    pub connections_max: Option<u32>,
}
