//! Live upgrade on an I/O thread: the orders to the thread of the old process, and the start of the
//! thread of the new one.

use super::messages::{STEP_PATIENCE, kind, receive, send};
use crate::fail::fail_at;
use crate::mailbox::Mailbox;
use crate::memory::MemfdMemory;
use crate::orders::Order;
use crate::reactor::{Clock, Reactor, ReactorParts, Turn};
use net::system::Passage;
use net::{Copying, Counters, Net, Passing};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;
use stdx::handing::{Hand, Input};
use zeroize::Zeroizing;

/// An I/O thread's part of a hand-over to another process.
pub(crate) struct Given<N: Passing> {
    /// The thread's own channel to the coordinator; in a private table, descriptors arrive only
    /// over a channel.
    own: Passage,
    memory: MemfdMemory,
    counters: Arc<Counters>,
    /// The channel to the new process's thread.
    way: Option<Passage>,
    copied: N::Copied,
    /// The coordinator waits here for the end of copying.
    copying: Option<Sender<Result<(), String>>>,
    /// The coordinator waits here for the end of running handshakes.
    finishing: Option<Sender<()>>,
    is_frozen: bool,
}

/// Time for which a frozen thread waits for posts at once.
const FROZEN_WAIT: Duration = Duration::from_millis(50);

impl<N: Passing> Given<N> {
    pub fn new(own: Passage, memory: MemfdMemory, counters: Arc<Counters>) -> Given<N> {
        Given {
            own,
            memory,
            counters,
            way: None,
            copied: N::Copied::default(),
            copying: None,
            finishing: None,
            is_frozen: false,
        }
    }

    /// Takes turns until it must stop.
    ///
    /// # Errors
    /// The network as a whole fails.
    pub fn run<M: Mailbox, C: Clock>(mut self, mut reactor: Reactor<N, M, C>) -> io::Result<()> {
        loop {
            let turn =
                if self.is_frozen { reactor.frozen_turn(FROZEN_WAIT) } else { reactor.turn()? };
            if turn == Turn::Stop {
                return Ok(());
            }
            while let Some(order) = reactor.take_order() {
                self.obey(&mut reactor, order)?;
            }
            if self.copying.is_some() {
                self.copy_some(&mut reactor);
            }
            if self.finishing.is_some() && reactor.net_mut().begun_count() == 0 {
                // The coordinator may have stopped waiting.
                self.finishing.take().map(|answer| answer.send(()));
            }
        }
    }

    fn obey<M: Mailbox, C: Clock>(
        &mut self,
        reactor: &mut Reactor<N, M, C>,
        order: Order,
    ) -> io::Result<()> {
        // A coordinator that has stopped waiting thaws the thread.
        match order {
            Order::Copy(number, answer) => match self.begin(number) {
                Ok(()) => self.copying = Some(answer),
                Err(error) => drop(answer.send(Err(error.to_string()))),
            },
            Order::FinishHandshakes(answer) => {
                reactor.net_mut().hold();
                self.finishing = Some(answer);
            }
            Order::Pause(answer) => {
                reactor.hold_accepting();
                drop(answer.send(Ok(())));
            }
            Order::Freeze(answer) => {
                // Connections that other threads have passed on arrive; no thread passes on more.
                loop {
                    let before = self.counters.statistics().taken_over;
                    reactor.turn_at_once()?;
                    if self.counters.statistics().taken_over == before {
                        break;
                    }
                }
                self.is_frozen = true;
                drop(answer.send(Ok(())));
            }
            Order::Count(answer) => drop(answer.send(reactor.mail_counts())),
            Order::HandOver(answer) => {
                let handed = self.hand_over(reactor).map_err(|error| error.to_string());
                drop(answer.send(handed));
            }
            Order::Thaw => {
                self.way = None;
                self.copied = N::Copied::default();
                self.copying = None;
                self.finishing = None;
                self.is_frozen = false;
                reactor.net_mut().release();
                reactor.thaw();
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: u64) -> io::Result<()> {
        self.own.give_up_after(STEP_PATIENCE)?;
        let mut bytes = Vec::new();
        let mut descriptors = Vec::new();
        while bytes != number.to_le_bytes() {
            descriptors.clear();
            self.own.receive(&mut bytes, &mut descriptors)?;
        }
        let way = Passage::of(descriptors.pop().ok_or(io::ErrorKind::InvalidData)?);
        way.give_up_after(STEP_PATIENCE)?;
        self.way = Some(way);
        self.copied = N::Copied::default();
        Ok(())
    }

    /// Sends one message; clients are served between two of them.
    fn copy_some<M: Mailbox, C: Clock>(&mut self, reactor: &mut Reactor<N, M, C>) {
        let (Some(way), Some(answer)) = (&self.way, &self.copying) else {
            return;
        };
        let told = match copy_some(reactor.net_mut(), &mut self.copied, way) {
            Ok(Copying::More | Copying::Full) => return reactor.turn_soon(),
            Ok(Copying::Done) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        drop(answer.send(told));
        self.copying = None;
    }

    /// Sends the copies that are new since, and the state.
    fn hand_over<M: Mailbox, C: Clock>(
        &mut self,
        reactor: &mut Reactor<N, M, C>,
    ) -> io::Result<bool> {
        let Some(way) = &self.way else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // It contains waiting credentials, and the keys of tickets.
        let mut state = Zeroizing::new(Vec::new());
        let net = reactor.net_mut();
        let is_lingering = net.conclude(&mut self.copied, &mut state);
        let mut tries_left = STEP_PATIENCE.as_millis();
        loop {
            match copy_some(net, &mut self.copied, way)? {
                Copying::Done => break,
                Copying::More => {}
                Copying::Full if tries_left == 0 => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Copying::Full => {
                    tries_left -= 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        self.memory.hand_over(&mut |names: &[u64], descriptors| {
            let mut bytes = Vec::new();
            names.to_vec().give(&mut bytes);
            send(way, kind::SEGMENTS, &bytes, descriptors)
        })?;
        let mut layers = Zeroizing::new(Vec::new());
        reactor.net_mut().give_layers(&mut layers);
        send(way, kind::LAYERS, &layers, &[])?;
        reactor.hand_over(&mut state);
        send(way, kind::STATE, &state, &[])?;
        Ok(is_lingering)
    }
}

/// Sends one message of the network's copies, if the channel has room.
fn copy_some<N: Passing>(
    net: &mut N,
    copied: &mut N::Copied,
    way: &Passage,
) -> io::Result<Copying> {
    net.copy_some(copied, &mut |bytes: &[u8], descriptors: &[BorrowedFd<'_>]| {
        let message = [&[kind::NETWORK, 1], bytes].concat();
        way.try_send(&message, descriptors)
    })
}

/// The hand-over of one thread of the old process.
pub(crate) struct Adoption {
    /// The source of the state.
    pub way: Passage,
    /// Reports the completed hand-over.
    pub adopted: Sender<Result<(), String>>,
    /// Receives the order to begin.
    pub go: Receiver<()>,
}

impl Adoption {
    /// Creates the reactor, reports that, and waits for the order to begin. None if it does not
    /// arrive, or something is missing.
    pub fn take_over<N: Net, M: Mailbox, C: Clock>(
        self,
        parts: ReactorParts<N, M, C>,
        taken: io::Result<Zeroizing<Vec<u8>>>,
    ) -> Option<Reactor<N, M, C>> {
        let taken = taken.map_err(|error| error.to_string());
        let reactor = taken.and_then(|state| {
            Reactor::take_over(parts, &mut Input::new(&state)).map_err(|error| error.to_string())
        });
        let (adopted, reactor) = match reactor {
            Ok(reactor) => (Ok(()), Some(reactor)),
            Err(error) => (Err(error), None),
        };
        // The starter lives as long as the process.
        let _ = self.adopted.send(adopted);
        self.go.recv().ok()?;
        reactor
    }
}

/// Receives the hand-over of the old process's thread, and returns the state of the shard.
pub(crate) fn adopt(
    net: &mut impl Passing,
    memory: &MemfdMemory,
    way: &Passage,
) -> io::Result<Zeroizing<Vec<u8>>> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let mut has_copies = false;
    loop {
        let message = receive(way)?;
        let mut input = Input::new(&message.bytes);
        match message.kind {
            kind::NETWORK => {
                fail_at(if has_copies { 7 } else { 6 });
                has_copies = true;
                net.adopt(&message.bytes, message.descriptors)?;
            }
            kind::SEGMENTS => {
                fail_at(8);
                let names: Vec<u64> = Hand::take(&mut input).ok_or_else(damaged)?;
                if names.len() != message.descriptors.len() {
                    return Err(damaged());
                }
                for (name, descriptor) in names.into_iter().zip(message.descriptors) {
                    memory.adopt(name, descriptor);
                }
            }
            kind::LAYERS => {
                let taken = net.take_layers(&mut input);
                taken.filter(|()| input.left() == 0).ok_or_else(damaged)?;
            }
            kind::STATE => {
                fail_at(9);
                net.settle(&mut input)?;
                let rest = message.bytes.len() - input.left();
                return Ok(Zeroizing::new(message.bytes[rest..].to_vec()));
            }
            _ => return Err(damaged()),
        }
    }
}
