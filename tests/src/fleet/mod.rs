//! A fleet of clients of every SDK against one node under faults: `README.md` describes drivers,
//! faults and oracle.
//!
//! [`plan`] gives each client its work, [`driver`] runs the drivers, [`record`] keeps their
//! reports, [`link`] cuts connections, [`node`] kills, drains, upgrades and restores the node,
//! [`ledger`] has all messages of the logs, [`oracle`] compares, and [`plant`] proves that the
//! oracle can fail.

pub mod driver;
pub mod ledger;
pub mod link;
pub mod node;
pub mod oracle;
pub mod plan;
pub mod plant;
pub mod random;
pub mod record;
