//! The check of credentials for an edge: a bounded number in each turn, in order.
//!
//! Beside the path of messages, after the input and before the output of a turn. Invariants: a turn
//! computes at most [`SIGNATURES_TURN_MAX`] signatures, so that a storm of clients with new tokens
//! does not delay connected clients; at most one question of a connection waits, and the bytes of
//! all questions are bounded; an edge without questions costs a look at an empty list. Decisions
//! that take longer than a signature are made by a thread beside this one (`slow_decisions`).

use crate::mailbox::Address;
use crate::slow_decisions::{self, Decided, SlowDecisions};
use broker::edge::Edge;
use broker::entitlement::{Authenticator, Entitlement, Question};
use broker::now::Now;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::handing::{Hand, Input, Layout};
use stdx::memory::vector_bytes;
use wire::native::ErrorCode;

/// Maximum number of signatures in one turn: about a millisecond of ES256, three of the slowest
/// kind (ES384). The last token may be tried with several keys, and all of these are.
pub const SIGNATURES_TURN_MAX: u32 = 16;
/// Maximum number of answers without a signature in one turn; each takes a microsecond or two.
pub const QUESTIONS_TURN_MAX: usize = 1_024;

/// Maximum number of waiting credential bytes; further clients get the error of an overloaded node.
pub const WAITING_BYTES_MAX: usize = 64 << 20;

/// The questions of one edge, and the authenticator.
pub(crate) struct Authenticating {
    authenticator: Option<Arc<dyn Authenticator>>,
    waiting: VecDeque<Question>,
    /// None where this thread makes all decisions.
    slow: Option<SlowDecisions>,
    /// Bytes of the waiting credentials.
    waiting_bytes: usize,
}

impl Authenticating {
    /// `address` is that of the shard, for answers of another thread.
    pub fn new(
        authenticator: Option<Arc<dyn Authenticator>>,
        address: Option<Address>,
    ) -> Authenticating {
        let both = authenticator.clone().zip(address);
        let slow = both.map(|(authenticator, address)| SlowDecisions::new(authenticator, address));
        Authenticating { authenticator, waiting: VecDeque::new(), slow, waiting_bytes: 0 }
    }

    /// Whether there are questions that could be answered now.
    pub fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the edge's questions, and answers the next ones.
    #[inline]
    pub fn turn(&mut self, edge: &mut Edge, now: Now) {
        if !edge.out.questions.is_empty() || !self.waiting.is_empty() {
            self.answer(edge, now);
        }
        // Last, so that the subscriptions of a ticket are processed in the turn in which its
        // session begins.
        if let Some(authenticator) = &self.authenticator {
            edge.recheck(&**authenticator);
        }
    }

    #[cold]
    fn answer(&mut self, edge: &mut Edge, now: Now) {
        for question in std::mem::take(&mut edge.out.questions) {
            self.waiting_bytes += question.credential.len();
            if self.waiting_bytes <= WAITING_BYTES_MAX {
                self.waiting.push_back(question);
            } else {
                self.waiting_bytes -= question.credential.len();
                tell(edge, &question, Err(ErrorCode::Overloaded));
            }
        }
        let mut signatures_count = 0;
        for _ in 0..QUESTIONS_TURN_MAX {
            if signatures_count >= SIGNATURES_TURN_MAX {
                break;
            }
            let Some(question) = self.waiting.pop_front() else {
                break;
            };
            let Some(question) = self.pass_slow(question) else {
                continue;
            };
            self.waiting_bytes -= question.credential.len();
            let verdict = match &self.authenticator {
                Some(authenticator) => {
                    let authenticated = authenticator.authenticate(
                        question.kind,
                        &question.credential,
                        question.digest,
                        now.unix_ms / 1_000,
                    );
                    signatures_count += authenticated.signatures_count;
                    authenticated.result
                }
                // A node with entitlement in its settings has an authenticator.
                None => Err(ErrorCode::Unauthorized),
            };
            tell(edge, &question, verdict);
        }
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_LEN_MAX {
            self.waiting = VecDeque::new();
        }
        self.feed_slow(edge, now);
    }

    /// Returns the question if this thread is to decide.
    fn pass_slow(&mut self, question: Question) -> Option<Question> {
        let Question { kind, credential, digest, .. } = &question;
        let authenticator = self.authenticator.as_ref();
        let is_slow = |of: &Arc<dyn Authenticator>| of.is_slow(*kind, credential, *digest);
        match &mut self.slow {
            Some(slow) if authenticator.is_some_and(is_slow) => {
                slow.push(question);
                None
            }
            Some(_) | None => Some(question),
        }
    }

    fn feed_slow(&mut self, edge: &mut Edge, now: Now) {
        if let Some(slow) = &mut self.slow {
            self.waiting_bytes -= slow.feed(edge, now.unix_ms / 1_000);
        }
    }

    /// Takes the answer to a question that took long.
    pub fn answered(&mut self, edge: &mut Edge, decided: Decided, now: Now) {
        if let Some(slow) = &mut self.slow {
            self.waiting_bytes -= slow.answered(edge, decided);
        }
        self.feed_slow(edge, now);
    }

    /// Appends the waiting questions. The new process asks them again; its authenticator may know
    /// more by then, or less.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        self.slow.is_some().give(out);
        if let Some(slow) = &self.slow {
            slow.hand_over(out);
        }
        self.waiting.give(out);
        self.waiting_bytes.give(out);
    }

    /// Takes over waiting questions.
    pub fn take_over(&mut self, input: &mut Input<'_>) -> Option<()> {
        if bool::take(input)? {
            self.waiting = slow_decisions::take_over(input)?;
        }
        let mut waiting: VecDeque<Question> = Hand::take(input)?;
        self.waiting.append(&mut waiting);
        self.waiting_bytes = Hand::take(input)?;
        Some(())
    }

    /// Bytes of the waiting questions, including the credentials.
    pub fn memory_bytes(&self) -> usize {
        let slow_bytes = self.slow.as_ref().map_or(0, SlowDecisions::memory_bytes);
        vector_bytes::<Question>(self.waiting.capacity()) + slow_bytes + self.waiting_bytes
    }
}

/// The layout of the hand-over.
pub(crate) fn layout(layout: &mut Layout) {
    <VecDeque<Question>>::layout(layout);
    layout.name("slow");
}

fn tell(edge: &mut Edge, question: &Question, verdict: Result<Entitlement, ErrorCode>) {
    let Question { connection, purpose, digest, .. } = *question;
    edge.decided(connection, purpose, digest, verdict);
}

/// Releases the memory of a long list after a storm.
const KEPT_LEN_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use broker::entitlement::{CredentialKind, Decision, Digest, Purpose};
    use broker::mail::EdgeId;
    use broker::settings::Settings;
    use std::sync::Mutex;
    use stdx::key::Key;

    /// Refuses, and remembers the order; credentials with an even number are tried with this number
    /// of keys.
    struct Strict(Mutex<Vec<u32>>, u32);

    impl Default for Strict {
        fn default() -> Strict {
            Strict(Mutex::default(), 1)
        }
    }

    impl Authenticator for Strict {
        fn authenticate(
            &self,
            _: CredentialKind,
            credential: &[u8],
            _: Digest,
            _: u64,
        ) -> Decision {
            let number =
                u32::from_le_bytes([credential[0], credential[1], credential[2], credential[3]]);
            self.0.lock().unwrap().push(number);
            Decision {
                result: Err(ErrorCode::Unauthorized),
                signatures_count: self.1 * u32::from(number.is_multiple_of(2)),
            }
        }

        fn is_revoked(&self, _: &Entitlement) -> bool {
            false
        }
    }

    fn edge() -> Edge {
        let settings = Settings {
            edges_count: 1,
            homes_count: 1,
            node_name: "test".into(),
            ..Settings::default()
        };
        Edge::new(Arc::new(settings), EdgeId(0), Now::default())
    }

    fn question(number: u32, bytes: usize) -> Question {
        let mut credential = vec![0; bytes];
        credential[..4].copy_from_slice(&number.to_le_bytes());
        Question {
            connection: Key { index: number, generation: 0 },
            purpose: Purpose::Hello,
            kind: CredentialKind::Token,
            digest: Digest::of(CredentialKind::Token, &credential),
            credential: credential.into(),
        }
    }

    #[test]
    fn a_turn_computes_a_bounded_number_of_signatures_and_the_rest_follows_in_order() {
        let authenticator = Arc::new(Strict::default());
        let mut authenticating = Authenticating::new(Some(authenticator.clone()), None);
        let mut edge = edge();
        edge.out.questions = (0..100).map(|number| question(number, 8)).collect();
        let answered = || authenticator.0.lock().unwrap().len();
        let mut before = 0;
        for _ in 0..4 {
            authenticating.turn(&mut edge, Now::default());
            // Every second credential has a signature.
            let count = answered() - before;
            assert!(count <= 2 * SIGNATURES_TURN_MAX as usize, "{count}");
            before += count;
        }
        assert!(!authenticating.has_more() && authenticating.waiting_bytes == 0);
        assert!(authenticator.0.lock().unwrap().iter().copied().eq(0..100));
    }

    /// There are four keys without names, and none of them has signed the tokens.
    #[test]
    fn each_tried_key_counts_in_a_turn() {
        let authenticator = Arc::new(Strict(Mutex::default(), 4));
        let mut authenticating = Authenticating::new(Some(authenticator.clone()), None);
        let mut edge = edge();
        edge.out.questions = (0..20).map(|number| question(2 * number, 8)).collect();
        authenticating.turn(&mut edge, Now::default());
        let answered = authenticator.0.lock().unwrap().len();
        assert_eq!(answered, SIGNATURES_TURN_MAX as usize / 4);
    }

    #[test]
    fn waiting_credentials_have_a_bound_in_bytes() {
        let authenticator = Arc::new(Strict::default());
        let mut authenticating = Authenticating::new(Some(authenticator.clone()), None);
        let mut edge = edge();
        let bytes = 1 << 20;
        let count = (WAITING_BYTES_MAX / bytes) as u32;
        // They have signatures, so they wait.
        let many = (0..2 * count).map(|number| question(2 * number, bytes));
        edge.out.questions = many.collect();
        authenticating.turn(&mut edge, Now::default());
        assert!(authenticating.memory_bytes() <= WAITING_BYTES_MAX + (1 << 20));
        while authenticating.has_more() {
            authenticating.turn(&mut edge, Now::default());
        }
        // Only the first ones are answered.
        let answered = authenticator.0.lock().unwrap().clone();
        assert!(answered.into_iter().eq((0..count).map(|number| 2 * number)));
    }

    #[test]
    fn without_an_authenticator_every_credential_is_refused() {
        let mut authenticating = Authenticating::new(None, None);
        let mut edge = edge();
        edge.out.questions.push(question(1, 8));
        authenticating.turn(&mut edge, Now::default());
        assert!(!authenticating.has_more() && edge.out.questions.is_empty());
    }
}
