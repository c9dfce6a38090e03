//! What every codec of this crate promises, in one place.
//!
//! Purpose: the result type that all decoders share and the contract that callers and fuzzers rely
//! on. Place on the path: line 2 (`wire`), between the reactor's receive buffer and a session.
//!
//! Invariants:
//! - **Chunking never changes the result.** The values (or the error) that come out depend on the
//!   bytes, never on where the transport cut them.
//! - A *stateless* decoder (frame, head) answers [`Step::More`] without consuming anything: the
//!   caller keeps the unfinished tail and calls again when at least `needed` bytes are there.
//! - A *stream* decoder (body, event stream) keeps what it needs and consumes all it is given; it
//!   answers [`Step::More`] only for an empty input.
//! - Hostile bytes become a typed error, never a panic. After an error the connection is of no
//!   further use: the decoder's state is unspecified (but safe) and the owner closes.
//! - Encoders append to a buffer that the caller owns, and write whole units only.
//! - No I/O, no clock, no entropy: nonces and masking keys are arguments.

/// One step of a decoder over a slice of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<T> {
    /// A whole value was decoded from the first `consumed` bytes of the input.
    Done {
        /// What was decoded; it may borrow from the input.
        value: T,
        /// Bytes of the input that belong to it. At least one, except for the end of a body that
        /// has already come.
        consumed: usize,
    },
    /// The input ends before the value does. Nothing was consumed.
    More {
        /// The length in bytes that the input must have before another call can get further: a
        /// lower bound, always greater than the length of the input that was given.
        needed: usize,
    },
}

impl<T> Step<T> {
    /// The same step with its value changed by `change`.
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
