//! Bodies of requests, as they come.

use super::answer::Answer;
use super::publish::Intent;
use stdx::handing::Hand;
use wire::http::BodyDecoder;

/// A body under way.
#[derive(Hand)]
pub(crate) struct Body {
    pub decoder: BodyDecoder,
    pub bytes: Vec<u8>,
    /// The bytes that it will have, or may have at most.
    pub bytes_max: usize,
    pub intent: Intent,
    pub answer: Answer,
}

impl Body {
    /// Bytes of the buffer for the next part.
    pub fn buffer_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
