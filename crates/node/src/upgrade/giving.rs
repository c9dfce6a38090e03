//! Live upgrade in the old process: the coordinator, which asks all shards and communicates with
//! the new process.
//!
//! It runs on a thread of the process, never on an I/O thread. Invariant: after any failure before
//! the new process's answer to the commit, all shards continue to serve; after the answer, this
//! process ends.

use super::messages::{
    COPY_PATIENCE, HANDSHAKES_PATIENCE, Hello, Message, START_PATIENCE, STEP_PATIENCE, kind,
    receive, send,
};
use crate::engine_thread::ToEngine;
use crate::mailbox::{Address, Control, Post, ToLog};
use crate::orders::{EngineOrder, HandedOver, LogOrder, Order};
use net::system::{Passage, monotonic_ns};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use stdx::handing::Hand;
use zeroize::Zeroizing;

/// The reason of a failed upgrade. The node continues to serve.
#[derive(Debug)]
pub enum UpgradeError {
    /// The node is draining.
    Draining,
    /// The new process refused, for this reason.
    Refused(String),
    /// The new process has ended, or did not answer in time.
    Lost(&'static str, io::Error),
    /// A thread of this node failed.
    Thread(&'static str, String),
    /// A thread of this node did not answer in time.
    Slow(&'static str),
    /// The log on disk with this name could not be handed over, for this reason.
    Log(String, String),
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpgradeError::Draining => {
                formatter.write_str("the node is draining, so it is not handed over")
            }
            UpgradeError::Refused(why) => write!(formatter, "the new process refused: {why}"),
            UpgradeError::Lost(step, error) => {
                write!(formatter, "the new process was lost while {step}: {error}")
            }
            UpgradeError::Thread(step, error) => {
                write!(formatter, "an I/O thread failed while {step}: {error}")
            }
            UpgradeError::Slow(step) => {
                write!(formatter, "an I/O thread did not answer in time while {step}")
            }
            UpgradeError::Log(name, why) => write!(formatter, "log \"{name}\": {why}"),
        }
    }
}

impl std::error::Error for UpgradeError {}

/// The result of a hand-over.
#[derive(Clone, Copy, Debug)]
pub struct Giving {
    /// Time without service.
    pub frozen: Duration,
    /// Whether connections that are being closed still need this process for a moment.
    pub is_lingering: bool,
}

/// The shards of the old process, and the channel to the new one.
pub(crate) struct Coordinator<'a> {
    pub shards: &'a [Address],
    /// The channels to the shards' threads.
    pub own: &'a [Passage],
    pub control: &'a Passage,
    /// Logs on disk: index, name, and the channel to the thread.
    pub logs: Vec<(u16, &'a str, &'a Sender<ToLog>)>,
    /// The channel to the engine's thread, if there is one.
    pub engine: Option<&'a Sender<ToEngine>>,
    /// Time limit from the end of service to the commit.
    pub freeze_patience: Duration,
    /// Creates the authenticator's state for the hand-over.
    pub authenticator: &'a dyn Fn() -> Vec<u8>,
}

impl Coordinator<'_> {
    /// Hands everything over. `kill` ends the new process at once.
    pub fn run(
        &self,
        hello: &Hello,
        descriptors: &[BorrowedFd<'_>],
        kill: &mut dyn FnMut(),
    ) -> Result<Giving, UpgradeError> {
        let handed = self
            .copy(hello, descriptors)
            .map(|()| self.finish_handshakes())
            .and_then(|()| self.freeze_and_commit(kill));
        if handed.is_err() {
            kill();
            self.tell_logs(|| LogOrder::Thaw);
            self.tell_engine(EngineOrder::Thaw);
            self.tell(|| Order::Thaw);
        }
        handed
    }

    /// Runs the first phase.
    fn copy(&self, hello: &Hello, descriptors: &[BorrowedFd<'_>]) -> Result<(), UpgradeError> {
        let lost = |step| move |error| UpgradeError::Lost(step, error);
        let set = self.control.give_up_after(START_PATIENCE);
        set.map_err(lost("beginning"))?;
        // It contains the keys of tickets.
        let mut bytes = Zeroizing::new(Vec::new());
        hello.give(&mut bytes);
        send(self.control, kind::HELLO, &bytes, descriptors).map_err(lost("beginning"))?;
        self.expect(kind::ACCEPT, "it read its configuration")?;
        // A failed attempt may have left its channels there.
        let number = monotonic_ns();
        let mut ways = Vec::new();
        for own in self.own {
            let (ours, theirs) = Passage::pair().map_err(lost("preparing"))?;
            own.send(&number.to_le_bytes(), &[ours.as_fd()]).map_err(lost("preparing"))?;
            ways.push(theirs);
        }
        let ends: Vec<BorrowedFd<'_>> = ways.iter().map(AsFd::as_fd).collect();
        send(self.control, kind::THREADS, &[], &ends).map_err(lost("its threads began"))?;
        drop(ends);
        drop(ways);
        let deadline = Instant::now() + COPY_PATIENCE;
        let copy = |answer| Order::Copy(number, answer);
        self.ask("copying sockets", deadline, copy)?;
        Ok(())
    }

    /// Waits for running handshakes for a limited time; the remaining ones are lost.
    fn finish_handshakes(&self) {
        let deadline = Instant::now() + HANDSHAKES_PATIENCE;
        for answer in self.tell_each(Order::FinishHandshakes) {
            let left = deadline.saturating_duration_since(Instant::now());
            let _ = answer.recv_timeout(left);
        }
    }

    /// Runs the second phase.
    fn freeze_and_commit(&self, kill: &mut dyn FnMut()) -> Result<Giving, UpgradeError> {
        let began = Instant::now();
        let deadline = began + self.freeze_patience;
        // No thread passes sockets to a stopped thread.
        self.ask("pausing", deadline, Order::Pause)?;
        self.ask("freezing", deadline, Order::Freeze)?;
        self.tell_logs(|| LogOrder::Freeze);
        self.tell_engine(EngineOrder::Freeze);
        self.settle(deadline)?;
        // Logs are closed while shards write their state.
        let handed = self.ask_logs(LogOrder::HandOver);
        let engine = self.ask_engine(EngineOrder::HandOver);
        let lingering = self.ask("handing over", deadline, Order::HandOver)?;
        self.hand_over_logs(&handed, deadline)?;
        if let Some(answer) = engine {
            let state = wait(&answer, deadline, "handing over the engine")?;
            self.say(kind::ENGINE, &state, &[])?;
        }
        self.say(kind::JUDGE, &(self.authenticator)(), &[])?;
        let patience = deadline.saturating_duration_since(Instant::now());
        let set = self.control.give_up_after(patience.max(STEP_PATIENCE));
        set.map_err(|error| UpgradeError::Lost("taking over", error))?;
        self.expect(kind::READY, "taking over")?;
        let committed = send(self.control, kind::COMMIT, &[], &[])
            .map_err(|error| UpgradeError::Lost("committing", error))
            .and_then(|()| self.expect(kind::COMMITTED, "committing"));
        if let Err(error) = committed {
            // The new process may have answered and be the node: only after its death no answer can
            // arrive.
            kill();
            // Its end may be reported before its messages.
            let answer = || self.expect(kind::COMMITTED, "committing");
            answer().or_else(|_| answer()).map_err(|_| error)?;
        }
        Ok(Giving { frozen: began.elapsed(), is_lingering: lingering.contains(&true) })
    }

    /// Waits until nothing is in flight between threads: the counts are the same twice, and as much
    /// was received as sent.
    fn settle(&self, deadline: Instant) -> Result<(), UpgradeError> {
        let mut before = None;
        loop {
            let answers: Vec<Receiver<(u64, u64)>> = self.tell_each(Order::Count);
            let mut total = (0, 0);
            for answer in answers {
                let (sent, received) = wait(&answer, deadline, "settling")?;
                total = (total.0 + sent, total.1 + received);
            }
            for ((_, name, _), answer) in self.logs.iter().zip(self.ask_logs(LogOrder::Count)) {
                let (sent, received) = wait_for_log(name, &answer, deadline)?;
                total = (total.0 + sent, total.1 + received);
            }
            if let Some(answer) = self.ask_engine(EngineOrder::Count) {
                let (sent, received) = wait(&answer, deadline, "settling")?;
                total = (total.0 + sent, total.1 + received);
            }
            if total.0 == total.1 && before == Some(total) {
                return Ok(());
            }
            before = Some(total);
            if Instant::now() > deadline {
                return Err(UpgradeError::Slow("settling"));
            }
        }
    }

    /// Sends all threads the same order, and waits for all answers.
    fn ask<T>(
        &self,
        step: &'static str,
        deadline: Instant,
        order: impl Fn(Sender<Result<T, String>>) -> Order,
    ) -> Result<Vec<T>, UpgradeError> {
        let answers = self.tell_each(order);
        let mut all = Vec::new();
        for answer in answers {
            let answered = wait(&answer, deadline, step)?;
            all.push(answered.map_err(|error| UpgradeError::Thread(step, error))?);
        }
        Ok(all)
    }

    fn tell_each<T>(&self, order: impl Fn(Sender<T>) -> Order) -> Vec<Receiver<T>> {
        let ask = |shard: &Address| {
            let (answer, is_answered) = channel();
            shard.send(Post::Control(Control::Upgrade(order(answer))));
            is_answered
        };
        self.shards.iter().map(ask).collect()
    }

    /// Sends the states from the logs' threads.
    fn hand_over_logs(
        &self,
        answers: &[Receiver<Result<HandedOver, String>>],
        deadline: Instant,
    ) -> Result<(), UpgradeError> {
        for ((log, name, _), answer) in self.logs.iter().zip(answers) {
            let handed = wait_for_log(name, answer, deadline)?;
            let handed = handed.map_err(|why| UpgradeError::Log((*name).to_owned(), why))?;
            let mut bytes = Vec::new();
            log.give(&mut bytes);
            bytes.extend_from_slice(&handed.state);
            self.say(kind::LOG, &bytes, &[handed.lock.as_fd()])?;
        }
        Ok(())
    }

    /// Sends a message during the hand-over. If the process has ended, its last message may have
    /// the reason.
    fn say(
        &self,
        kind: u8,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), UpgradeError> {
        let step = "handing over";
        send(self.control, kind, bytes, descriptors).map_err(|error| {
            let is_end = error.kind() != io::ErrorKind::WouldBlock;
            match is_end.then(|| self.expect(kind::READY, step)) {
                Some(Err(UpgradeError::Refused(why))) => UpgradeError::Refused(why),
                _ => UpgradeError::Lost(step, error),
            }
        })
    }

    fn ask_logs<T>(&self, order: impl Fn(Sender<T>) -> LogOrder) -> Vec<Receiver<T>> {
        let ask = |(_, _, log): &(u16, &str, &Sender<ToLog>)| {
            let (answer, is_answered) = channel();
            // A stopped thread does not answer.
            let _ = log.send(ToLog::Upgrade(order(answer)));
            is_answered
        };
        self.logs.iter().map(ask).collect()
    }

    fn tell_logs(&self, order: impl Fn() -> LogOrder) {
        for (_, _, log) in &self.logs {
            // It ends with the node.
            let _ = log.send(ToLog::Upgrade(order()));
        }
    }

    fn ask_engine<T>(&self, order: impl FnOnce(Sender<T>) -> EngineOrder) -> Option<Receiver<T>> {
        self.engine?;
        let (answer, is_answered) = channel();
        self.tell_engine(order(answer));
        Some(is_answered)
    }

    fn tell_engine(&self, order: EngineOrder) {
        if let Some(engine) = self.engine {
            // It ends with the node.
            let _ = engine.send(ToEngine::Upgrade(order));
        }
    }

    fn tell(&self, order: impl Fn() -> Order) {
        for shard in self.shards {
            shard.send(Post::Control(Control::Upgrade(order())));
        }
    }

    fn expect(&self, wanted: u8, step: &'static str) -> Result<(), UpgradeError> {
        let received = receive(self.control).or_else(|error| match error.kind() {
            // The end of a process with unread input is reported before its messages.
            io::ErrorKind::UnexpectedEof => receive(self.control),
            _ => Err(error),
        });
        let message: Message = received.map_err(|error| UpgradeError::Lost(step, error))?;
        match message.kind {
            kind::REFUSE => {
                let why = String::from_utf8_lossy(&message.bytes).into_owned();
                Err(UpgradeError::Refused(why))
            }
            kind if kind == wanted => Ok(()),
            _ => Err(UpgradeError::Lost(step, io::ErrorKind::InvalidData.into())),
        }
    }
}

fn wait<T>(answer: &Receiver<T>, deadline: Instant, step: &'static str) -> Result<T, UpgradeError> {
    let left = deadline.saturating_duration_since(Instant::now());
    answer.recv_timeout(left).map_err(|_| UpgradeError::Slow(step))
}

fn wait_for_log<T>(name: &str, answer: &Receiver<T>, deadline: Instant) -> Result<T, UpgradeError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let slow = "the log's disk did not finish in time".to_owned();
    answer.recv_timeout(left).map_err(|_| UpgradeError::Log(name.to_owned(), slow))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that hangs, before the log is quiet and when it is to be closed: the upgrade ends by
    /// the log's name.
    #[test]
    fn a_log_that_hangs_is_named() {
        for is_quiet in [false, true] {
            let mut patience = Duration::from_millis(50);
            // On a busy machine the log's thread may come too late to what it does not hang in.
            while orders_left_hanging(is_quiet, patience) != 2 {
                assert!(patience < Duration::from_secs(60), "freezing, and what hangs");
                patience *= 2;
            }
        }
    }

    /// Freezes a node whose log hangs, and says how many orders the log has not carried out.
    fn orders_left_hanging(is_quiet: bool, freeze_patience: Duration) -> usize {
        let (control, _other) = Passage::pair().unwrap();
        let (log, incoming) = channel();
        let thread = std::thread::spawn(move || {
            // Kept: an answer that is dropped would be one.
            let mut hanging = Vec::new();
            for message in incoming {
                match message {
                    ToLog::Upgrade(LogOrder::Count(answer)) if is_quiet => {
                        // A late answer has no receiver.
                        let _ = answer.send((0, 0));
                    }
                    message => hanging.push(message),
                }
            }
            hanging.len()
        });
        let coordinator = Coordinator {
            shards: &[],
            own: &[],
            control: &control,
            logs: vec![(0, "kept", &log)],
            engine: None,
            freeze_patience,
            authenticator: &Vec::new,
        };
        let given = coordinator.freeze_and_commit(&mut || panic!("nothing was committed"));
        let is_named = matches!(&given, Err(UpgradeError::Log(name, _)) if name == "kept");
        assert!(is_named || matches!(given, Err(UpgradeError::Slow("settling"))), "{given:?}");
        drop(coordinator);
        drop(log);
        let count = thread.join().unwrap();
        assert!(is_named || count < 2, "{given:?}");
        count
    }
}
