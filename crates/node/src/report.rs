//! Questions to threads that may hang: a question is repeated only after the previous one was
//! answered.
//!
//! Invariant: in the channel of a hanging thread wait at most as many questions as there were
//! callers at the same time, however often callers ask.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Unanswered questions to one thread. Each call of [`Asked::ask`] uses one of them first.
#[derive(Debug)]
pub(crate) struct Asked<T>(Mutex<Vec<Receiver<T>>>);

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Asked(Mutex::new(Vec::new()))
    }
}

impl<T> Asked<T> {
    /// The receiver of an answer: to an earlier question that the thread has not reached yet, or to
    /// a new one, which `send` sends. None if the thread has stopped.
    pub fn ask(&self, send: impl FnOnce(Sender<T>) -> bool) -> Option<Receiver<T>> {
        while let Some(earlier) = self.take() {
            // An answer from the meantime has old figures.
            if let Err(TryRecvError::Empty) = earlier.try_recv() {
                return Some(earlier);
            }
        }
        let (sender, answer) = channel();
        send(sender).then_some(answer)
    }

    /// Waits for an answer; an unanswered question stays open.
    pub fn wait(&self, answer: Receiver<T>, deadline: Instant) -> Option<T> {
        let left = deadline.saturating_duration_since(Instant::now());
        match answer.recv_timeout(left) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.open().push(answer);
                None
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn take(&self) -> Option<Receiver<T>> {
        self.open().pop()
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Vec<Receiver<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_is_asked_once() {
        let asked = Asked::default();
        let (to_thread, questions) = channel::<Sender<u32>>();
        let ask = || asked.ask(|question| to_thread.send(question).is_ok());
        for _ in 0..100 {
            let answer = ask().unwrap();
            assert_eq!(asked.wait(answer, Instant::now()), None);
        }
        let first = questions.try_recv().unwrap();
        assert!(questions.try_recv().is_err(), "one question waits");

        // Two who wait at the same time ask two questions, and no more when they come again.
        for _ in 0..10 {
            let answers = [ask().unwrap(), ask().unwrap()];
            for answer in answers {
                assert_eq!(asked.wait(answer, Instant::now()), None);
            }
        }
        let second = questions.try_recv().unwrap();
        assert!(questions.try_recv().is_err());

        // The thread continues. Earlier questions are old.
        first.send(1).unwrap();
        second.send(2).unwrap();
        let answer = ask().unwrap();
        questions.try_recv().unwrap().send(3).unwrap();
        assert_eq!(asked.wait(answer, Instant::now()), Some(3));
        let answer = ask().unwrap();
        questions.try_recv().unwrap().send(4).unwrap();
        assert_eq!(asked.wait(answer, Instant::now()), Some(4));

        // It ends, with a question that it has not answered.
        let answer = ask().unwrap();
        drop(questions);
        assert_eq!(asked.wait(answer, Instant::now()), None);
        assert!(ask().is_none());
    }
}
