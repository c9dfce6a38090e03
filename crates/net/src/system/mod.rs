//! The operating system beside the network: descriptor tables, memory with a descriptor, messages
//! between processes, privileges, network namespaces, the heap.
//!
//! Every transport may need them; none of them knows a connection.

pub mod heap;
pub mod memory;
mod namespace;
mod passage;
mod privileges;
mod spares;
mod succession;
mod tables;

pub use namespace::NetworkNamespace;
pub use passage::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX, Passage};
pub use privileges::{DEVICES, LOW_PORTS, give_up_start_rights};
pub use spares::Spares;
pub use succession::{die, inherited_input, monotonic_ns, replace_input};
pub(crate) use tables::open_count;
pub use tables::{NofileLimit, TableRefused, nofile_limit, raise_nofile_limit, unshare_table};
