//! The WebSocket protocol (RFC 6455), both roles, without extensions.
//!
//! Place on the path: line 2. [`frame`] turns bytes into frames in place, [`message`] frames into events,
//! [`handshake`] an HTTP head into an upgraded connection; [`close`] is the table of close codes and [`mask`]
//! the one loop over every byte that a browser sends.
//!
//! Invariant: no frame is ever buffered here. The caller owns the bytes and keeps only an unfinished tail.

pub mod close;
pub mod frame;
pub mod handshake;
pub mod mask;
pub mod message;

pub use close::{Close, CloseCode, ClosePayload};
pub use frame::{Frame, FrameHeader, Opcode, Role};
pub use message::{Assembler, Event};
