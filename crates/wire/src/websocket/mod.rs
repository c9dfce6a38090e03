//! The WebSocket protocol (RFC 6455), both roles, with compressed messages (RFC 7692).
//!
//! Place on the path: step 2. [`frame`] decodes bytes to frames in place, [`message`] frames to
//! events, [`handshake`] an HTTP head to an upgraded connection, for which [`extension`] negotiates
//! compression and [`deflate`] compresses; [`close`] is the table of close codes and [`mask`] the
//! only loop over every byte from a browser.
//!
//! Invariant: no frame is ever buffered here. The caller owns the bytes and stores only an
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
