//! The rules of `Net` once more, with every socket beside the descriptor table; and more sockets
//! than the table has entries.
//!
//! On a system without io_uring (Linux before 6.8, or a sandbox) nothing can hold them,
//! and the tests say so and pass.

#[path = "streams.rs"]
mod streams;
