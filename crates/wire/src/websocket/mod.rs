//! The WebSocket protocol (RFC 6455), both roles, with compressed messages (RFC 7692).
//!
//! Place on the path: line 2. [`frame`] turns bytes into frames in place, [`message`] frames into
//! events, [`handshake`] an HTTP head into an upgraded connection, for which [`extension`]
//! negotiates compression and [`deflate`] does it; [`close`] is the table of close codes and
//! [`mask`] the one loop over every byte that a browser sends.
//!
//! Invariant: no frame is ever buffered here. The caller owns the bytes and keeps only an
//! unfinished tail.

pub mod close;
pub mod deflate;
pub mod extension;
pub mod frame;
pub mod handshake;
pub mod mask;
pub mod message;

pub use close::{Close, CloseCode, ClosePayload};
pub use deflate::{Deflater, Inflater};
pub use frame::{Frame, FrameHeader, Opcode, Role};
pub use message::{Assembler, Event, Kind};
