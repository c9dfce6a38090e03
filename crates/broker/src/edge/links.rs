//! Links to homes: how many requests are on their way to each, and the numbers that answers repeat.
//!
//! Owner of what an edge counts of its requests. It knows connections by their keys only.

use super::room::HomeLink;
use crate::mail::HomeId;
use stdx::handing::Hand;

/// See the module.
#[derive(Hand)]
pub(crate) struct Links {
    pub homes: Vec<HomeLink>,
    /// A log on disk that has no room for more requests since the frame that is being dealt with.
    pub full_log: Option<(HomeId, u16)>,
    /// The number of the newest question for names; an answer repeats it.
    pub describe_number: u32,
}

impl Links {
    /// Links to so many homes with so many logs, without a request under way.
    pub fn new(homes_count: usize, logs_count: usize) -> Links {
        Links {
            homes: (0..homes_count).map(|_| HomeLink::new(logs_count)).collect(),
            full_log: None,
            describe_number: 0,
        }
    }
}
