//! HTTP/1.1 (RFC 9112) without I/O, for the server and for clients, and the formats inside it.
//!
//! Place on the path: step 2. [`head`] finds and checks the head of a message, [`request`] and
//! [`response`] interpret (and encode) it, [`body`] removes the framing of the content, [`target`]
//! decodes paths and queries; [`forwarded`] finds the client behind a proxy; [`event_stream`] is
//! `text/event-stream`, [`problem`] the body of an error.
//!
//! Invariant: request smuggling is a threat, so every ambiguity between two implementations is
//! refused: bare CR or LF, folded lines, space before a colon, more than one length, a length
//! beside a transfer coding.

pub mod body;
pub mod event_stream;
pub mod forwarded;
pub mod head;
pub mod problem;
pub mod request;
pub mod response;
pub mod target;

pub use body::{BodyDecoder, BodyFraming, BodyPart};
pub use forwarded::ForwardedField;
pub use head::{HeadLimits, HeadScan, Version};
pub use problem::Problem;
pub use request::Request;
pub use response::{Response, ResponseWriter};
pub use target::Target;
