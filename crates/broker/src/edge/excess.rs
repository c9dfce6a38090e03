//! Bounds of the bytes that are buffered for a slow connection.

use stdx::handing::Hand;

/// The bound that a slow connection has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Excess {
    /// `outbox_bytes_max`, of the connection alone.
    Own,
    /// `pinned_bytes_max`, of all connections of the edge.
    Shared,
}
