//! Decisions on credentials that take long, such as those on passwords: a thread beside the I/O
//! thread makes them.
//!
//! Beside the path of messages. The thread starts with the first such question, and ends with its
//! I/O thread. Invariants: the thread has at most [`UNDER_WAY_MAX`] questions and answers them in
//! order; a question whose connection has gone by its turn costs nothing; a live upgrade hands over
//! all questions without an answer.

use crate::mailbox::{Address, Control, Post};
use crate::vital::Vital;
use broker::edge::Edge;
use broker::entitlement::{Authenticator, CredentialKind, Digest, Entitlement, Purpose, Question};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use stdx::handing::{Hand, Input};
use stdx::key::Key;
use stdx::memory::vector_bytes;
use wire::native::ErrorCode;
use zeroize::Zeroizing;

/// Maximum number of questions that the thread has at a time.
const UNDER_WAY_MAX: usize = 64;

/// An answer of the thread.
#[derive(Debug)]
pub struct Decided {
    /// The connection that waits.
    pub connection: Key,
    /// The purpose of the question.
    pub purpose: Purpose,
    /// The hash of the credential.
    pub digest: Digest,
    /// The entitlement, or the code of the refusal.
    pub result: Result<Entitlement, ErrorCode>,
}

/// A question for the thread.
struct Task {
    connection: Key,
    purpose: Purpose,
    kind: CredentialKind,
    credential: Zeroizing<Vec<u8>>,
    digest: Digest,
    now_s: u64,
}

/// The slow questions of one edge.
pub(crate) struct SlowDecisions {
    authenticator: Arc<dyn Authenticator>,
    /// The shard's address, for the answers.
    address: Address,
    waiting: VecDeque<Question>,
    /// The questions that the thread has.
    under_way: VecDeque<Question>,
    thread: Option<Sender<Task>>,
}

impl SlowDecisions {
    pub fn new(authenticator: Arc<dyn Authenticator>, address: Address) -> SlowDecisions {
        SlowDecisions {
            authenticator,
            address,
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            thread: None,
        }
    }

    /// Takes a question.
    pub fn push(&mut self, question: Question) {
        self.waiting.push_back(question);
    }

    /// Gives the thread its next questions. Returns the bytes of credentials that wait no longer.
    pub fn feed(&mut self, edge: &mut Edge, now_s: u64) -> usize {
        let mut bytes = 0;
        while self.under_way.len() < UNDER_WAY_MAX
            && let Some(question) = self.waiting.pop_front()
        {
            let Question { connection, purpose, kind, digest, .. } = question;
            if !edge.waits_for_decision(connection) {
                bytes += question.credential.len();
                continue;
            }
            let credential = Zeroizing::new(question.credential.to_vec());
            let task = Task { connection, purpose, kind, credential, digest, now_s };
            let is_sent = self.thread().is_ok_and(|thread| thread.send(task).is_ok());
            if is_sent {
                self.under_way.push_back(question);
            } else {
                bytes += question.credential.len();
                edge.decided(connection, purpose, digest, Err(ErrorCode::Overloaded));
            }
        }
        bytes
    }

    /// Takes an answer of the thread. Returns the bytes of the credential.
    pub fn answered(&mut self, edge: &mut Edge, decided: Decided) -> usize {
        let question = self.under_way.pop_front();
        let Decided { connection, purpose, digest, result } = decided;
        let is_over = |entitlement| self.authenticator.is_revoked(entitlement);
        if result.as_ref().is_ok_and(is_over)
            && let Some(question) = question
        {
            // A reload came between the decision and this turn: the question is asked again.
            self.waiting.push_front(question);
            return 0;
        }
        edge.decided(connection, purpose, digest, result);
        question.map_or(0, |question| question.credential.len())
    }

    fn thread(&mut self) -> io::Result<&Sender<Task>> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => spawn(Arc::clone(&self.authenticator), self.address.clone())?,
        };
        Ok(self.thread.insert(thread))
    }

    /// Appends all questions without an answer.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        self.under_way.give(out);
        self.waiting.give(out);
    }

    /// Bytes of the questions, without their credentials.
    pub fn memory_bytes(&self) -> usize {
        vector_bytes::<Question>(self.waiting.capacity() + self.under_way.capacity())
    }
}

/// The handed-over questions, to be asked again.
pub(crate) fn take_over(input: &mut Input<'_>) -> Option<VecDeque<Question>> {
    let mut questions: VecDeque<Question> = Hand::take(input)?;
    let mut waiting: VecDeque<Question> = Hand::take(input)?;
    questions.append(&mut waiting);
    Some(questions)
}

fn spawn(authenticator: Arc<dyn Authenticator>, address: Address) -> io::Result<Sender<Task>> {
    let (sender, tasks) = channel();
    std::thread::Builder::new().name("crore-passwords".into()).spawn(move || {
        let _vital = Vital;
        decide(&*authenticator, &address, &tasks);
    })?;
    Ok(sender)
}

fn decide(authenticator: &dyn Authenticator, address: &Address, tasks: &Receiver<Task>) {
    for task in tasks {
        let Task { connection, purpose, kind, credential, digest, now_s } = task;
        let decision = authenticator.authenticate(kind, &credential, digest, now_s);
        let decided = Decided { connection, purpose, digest, result: decision.result };
        address.send(Post::Control(Control::Decided(decided)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{Mailbox, ThreadMailbox};
    use broker::entitlement::Decision;
    use broker::mail::EdgeId;
    use broker::now::Now;
    use broker::settings::Settings;
    use net::Wake;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Refuses, and counts.
    #[derive(Default)]
    struct Strict(AtomicU32);

    impl Authenticator for Strict {
        fn authenticate(&self, _: CredentialKind, _: &[u8], _: Digest, now_s: u64) -> Decision {
            assert_eq!(now_s, 7);
            self.0.fetch_add(1, Ordering::Relaxed);
            Decision { result: Err(ErrorCode::Unauthorized), signatures_count: 1 }
        }

        fn is_revoked(&self, _: &Entitlement) -> bool {
            false
        }
    }

    #[derive(Debug)]
    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn mailbox() -> ThreadMailbox {
        let logs: Vec<Option<Sender<crate::mailbox::ToLog>>> = Vec::new();
        let (mut mailboxes, _) = ThreadMailbox::mesh(vec![Arc::new(Nobody)], logs.into(), None);
        mailboxes.remove(0)
    }

    fn task(number: u32) -> Task {
        Task {
            connection: Key { index: number, generation: 0 },
            purpose: Purpose::Hello,
            kind: CredentialKind::Password,
            credential: Zeroizing::new(vec![0]),
            digest: Digest([0; 16]),
            now_s: 7,
        }
    }

    #[test]
    fn answers_come_by_the_mailbox_in_order() {
        let mut mailbox = mailbox();
        let thread = spawn(Arc::new(Strict::default()), mailbox.address().unwrap()).unwrap();
        (0..100).for_each(|number| thread.send(task(number)).unwrap());
        let mut posts = Vec::new();
        while posts.len() < 100 {
            mailbox.wait(&mut posts, Duration::from_secs(60));
        }
        let connections = posts.iter().map(|post| match post {
            Post::Control(Control::Decided(decided)) => decided.connection.index,
            other => panic!("{other:?}"),
        });
        assert!(connections.eq(0..100));
        assert_eq!(mailbox.counts(), (0, 0), "a live upgrade counts letters between shards only");
    }

    #[test]
    fn questions_of_lost_connections_cost_nothing() {
        let authenticator = Arc::new(Strict::default());
        let mut slow = SlowDecisions::new(authenticator.clone(), mailbox().address().unwrap());
        let settings = Settings {
            edges_count: 1,
            homes_count: 1,
            node_name: "test".into(),
            ..Settings::default()
        };
        let mut edge = Edge::new(Arc::new(settings), EdgeId(0), Now::default());
        for number in 0..200 {
            let Task { connection, purpose, kind, digest, .. } = task(number);
            let credential = vec![0; 10].into();
            slow.push(Question { connection, purpose, kind, credential, digest });
        }
        assert_eq!(slow.feed(&mut edge, 7), 2_000);
        assert!(slow.thread.is_none() && authenticator.0.load(Ordering::Relaxed) == 0);
    }
}
