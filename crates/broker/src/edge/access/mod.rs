//! Access: what clients are entitled to, and the questions about it that are under way.
//!
//! Owner of entitlements and renewals. It knows connections by their keys and indexes only.

pub(crate) mod entitled;
pub(crate) mod judging;
pub(crate) mod users;

use crate::edge::access::judging::Judging;
use crate::session::renewal::Renewals;
use stdx::handing::Hand;

/// See the module.
#[derive(Hand)]
pub(crate) struct Access {
    pub judging: Judging,
    pub renewals: Renewals,
}

impl Access {
    /// Nobody is entitled to anything.
    pub fn new() -> Access {
        Access { judging: Judging::new(), renewals: Renewals::default() }
    }
}
