//! The contract of every codec of this crate.
//!
//! Purpose: the result type of all decoders and the contract that callers and fuzzers rely on.
//! Place on the path: step 2 (`wire`), between the reactor's receive buffer and a session.
//!
//! Invariants:
//! - **Chunking never changes the result.** The decoded values (or the error) depend on the bytes,
//!   never on the transport's cuts.
//! - A *stateless* decoder (frame, head) returns [`Step::More`] without consuming anything: the
//!   caller keeps the unfinished tail and calls again with at least `needed` bytes.
//! - A *stream* decoder (body, event stream) stores its own state and consumes all of its input; it
//!   returns [`Step::More`] only for an empty input.
//! - Hostile bytes become a typed error, never a panic. After an error the connection must be
//!   closed: the decoder's state is unspecified (but safe).
//! - Encoders append to a buffer that the caller owns, and write whole units only.
//! - No I/O, no clock, no entropy: nonces and masking keys are arguments.

/// One step of a decoder over a slice of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<T> {
    /// A whole value was decoded from the first `consumed` bytes of the input.
    Done {
        /// The decoded value; it may borrow from the input.
        value: T,
        /// The value's bytes in the input. At least one, except for the end of a body that was
        /// already reported.
        consumed: usize,
    },
    /// The input ends before the value does. Nothing was consumed.
    More {
        /// The minimum length of the input, in bytes, for another call to make progress: a lower
        /// bound, always greater than the length of this input.
        needed: usize,
    },
}

impl<T> Step<T> {
    /// Applies `change` to the value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Step::Done { value, consumed } => Step::Done { value: change(value), consumed },
            Step::More { needed } => Step::More { needed },
        }
    }

    /// The value and the bytes consumed, or `None` when more input is needed.
    pub fn done(self) -> Option<(T, usize)> {
        match self {
            Step::Done { value, consumed } => Some((value, consumed)),
            Step::More { .. } => None,
        }
    }
}
