//! Credentials that an edge wants judged: a bounded part of them in each turn, the others in order after it.
//!
//! Beside the path of messages, after what was read and before the answers go out. Invariants: a turn computes at most
//! [`SIGNATURES_TURN_MAX`] signatures, so that a storm of clients with new tokens takes nothing from those that are here; at
//! most one question of a connection waits, and of all together so many bytes; an edge that asks nothing costs a look at an
//! empty list.

use broker::edge::Edge;
use broker::entitlement::{Entitlement, Judge, Question};
use broker::now::Now;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::memory::vector_bytes;
use wire::native::ErrorCode;

/// Signatures that one turn computes; at 75 microseconds for the slowest kind they take about a millisecond.
pub const SIGNATURES_TURN_MAX: usize = 16;
/// Questions that one turn answers without a signature, each in a microsecond or two.
pub const QUESTIONS_TURN_MAX: usize = 1_024;

/// Bytes of credentials that wait; whoever comes then is told that the node is overloaded.
pub const WAITING_BYTES_MAX: usize = 64 << 20;

/// The questions of one edge, and who answers them.
pub(crate) struct Judging {
    judge: Option<Arc<dyn Judge>>,
    waiting: VecDeque<Question>,
    /// Of the credentials that wait.
    waiting_bytes: usize,
}

impl Judging {
    pub fn new(judge: Option<Arc<dyn Judge>>) -> Judging {
        Judging {
            judge,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Whether questions wait that could be answered now.
    pub fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the edge's questions, and answers the next ones.
    #[inline]
    pub fn turn(&mut self, edge: &mut Edge, now: Now) {
        if !edge.out.questions.is_empty() || !self.waiting.is_empty() {
            self.answer(edge, now);
        }
        // Last, so that what a ticket brought is looked at in the turn in which its session begins.
        if let Some(judge) = &self.judge {
            edge.recheck(&**judge);
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
            if signatures_count == SIGNATURES_TURN_MAX {
                break;
            }
            let Some(question) = self.waiting.pop_front() else {
                break;
            };
            self.waiting_bytes -= question.credential.len();
            let verdict = match &self.judge {
                Some(judge) => {
                    let judged = judge.judge(
                        question.kind,
                        &question.credential,
                        question.digest,
                        now.unix_ms / 1_000,
                    );
                    signatures_count += usize::from(judged.was_computed);
                    judged.verdict
                }
                // A node whose settings have entitlement has a judge.
                None => Err(ErrorCode::Unauthorized),
            };
            tell(edge, &question, verdict);
        }
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_LEN_MAX {
            self.waiting = VecDeque::new();
        }
    }

    /// What waits, in bytes, the credentials included.
    pub fn memory_bytes(&self) -> usize {
        vector_bytes::<Question>(self.waiting.capacity()) + self.waiting_bytes
    }
}

fn tell(edge: &mut Edge, question: &Question, verdict: Result<Entitlement, ErrorCode>) {
    let Question {
        connection,
        purpose,
        digest,
        ..
    } = *question;
    edge.judged(connection, purpose, digest, verdict);
}

/// A list that a storm has made longer is given back after it.
const KEPT_LEN_MAX: usize = 1_024;
