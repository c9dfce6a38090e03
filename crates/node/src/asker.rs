//! The queue of operators' questions at a shard, and its bound.

use broker::inspect::Answer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of waiting questions at one shard.
pub const QUESTIONS_MAX: u32 = 16;

/// The destination of an answer. The question counts as waiting while this exists.
#[derive(Debug)]
pub struct Asker {
    answer: Sender<Answer>,
    waiting: Arc<AtomicU32>,
}

impl Asker {
    /// Sends the answer. If the caller has stopped waiting, nothing is lost.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An entry in the queue of a shard, and the receiver of its answer.
pub(crate) fn enter(waiting: &Arc<AtomicU32>) -> Option<(Asker, Receiver<Answer>)> {
    let more = |count: u32| (count < QUESTIONS_MAX).then_some(count + 1);
    waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
    let (answer, answered) = channel();
    let waiting = Arc::clone(waiting);
    Some((Asker { answer, waiting }, answered))
}
