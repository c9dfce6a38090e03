//! The answer to `GET /`: plain text for people that find this port with a browser or with curl.
//!
//! Invariant: it needs no permission and tells nothing of the node but its kind.

pub(crate) const TEXT: &[u8] = include_bytes!("greeting.txt");
