//! The rules of `Net` once more, with every socket beside the descriptor table; and more sockets
//! than the table has entries.
//!
//! Where the system has no io_uring (Linux before 6.8, or a sandbox) there is nothing to hold them,
//! and the tests say so and pass.

#[path = "streams.rs"]
mod streams;
