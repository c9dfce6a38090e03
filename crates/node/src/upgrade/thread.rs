//! Live upgrade on an I/O thread: what is asked of the old process's, and how one of the new
//! process begins.

use super::passing::Passing;
use super::{STEP_PATIENCE, fail_at, kind, receive, send};
use crate::mailbox::Mailbox;
use crate::memory::MemfdMemory;
use crate::reactor::{Clock, Reactor, Turn};
use net::kernel::{AdoptedListener, Copied, CopiedOut, Kernel, Roster};
use net::system::Passage;
use std::io;
use std::sync::mpsc::Sender;
use std::time::Duration;
use stdx::handing::{Hand, Input};
use zeroize::Zeroizing;

/// What the coordinator asks of an I/O thread, one after the other. Each is answered.
#[derive(Debug)]
pub enum Order {
    /// Take the way to the new process's thread from the thread's own, and send copies of all
    /// sockets over it. Answered when all there were have been sent. The number is that of the
    /// attempt.
    Copy(u64, Sender<Result<(), String>>),
    /// Begin no handshake of TLS, for now. Answered when those that have begun are done.
    FinishHandshakes(Sender<()>),
    /// Accept nobody, for now.
    Pause(Sender<Result<(), String>>),
    /// Serve nobody, for now: only what other shards have sent is dealt with.
    Freeze(Sender<Result<(), String>>),
    /// How many batches have been sent to other threads and come from them.
    Count(Sender<(u64, u64)>),
    /// Send everything. Answered with whether connections that are being closed still need this
    /// process.
    HandOver(Sender<Result<bool, String>>),
    /// Serve on as if nothing had been.
    Thaw,
}

/// What an I/O thread knows of an upgrade.
pub(crate) struct Given {
    /// The thread's own way to the coordinator; numbers in private tables cannot be told otherwise.
    own: Passage,
    memory: MemfdMemory,
    way: Option<Passage>,
    copied: Copied,
    /// Who waits until all is copied.
    copying: Option<Sender<Result<(), String>>>,
    /// Who waits until no handshake is left.
    finishing: Option<Sender<()>>,
    is_frozen: bool,
}

/// How long a frozen thread waits for posts at a time.
const FROZEN_WAIT: Duration = Duration::from_millis(50);

impl Given {
    pub fn new(own: Passage, memory: MemfdMemory) -> Given {
        Given {
            own,
            memory,
            way: None,
            copied: Copied::default(),
            copying: None,
            finishing: None,
            is_frozen: false,
        }
    }

    /// Takes turns until told to stop.
    ///
    /// # Errors
    /// When the network as a whole fails.
    pub fn run<N: Passing, M: Mailbox, C: Clock>(
        mut self,
        mut reactor: Reactor<N, M, C>,
    ) -> io::Result<()> {
        loop {
            let turn = match self.is_frozen {
                true => reactor.frozen_turn(FROZEN_WAIT),
                false => reactor.turn()?,
            };
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
                // Who asked may not wait any more.
                self.finishing.take().map(|answer| answer.send(()));
            }
        }
    }

    fn obey<N: Passing, M: Mailbox, C: Clock>(
        &mut self,
        reactor: &mut Reactor<N, M, C>,
        order: Order,
    ) -> io::Result<()> {
        // Who asked and does not wait any more thaws the thread.
        match order {
            Order::Copy(number, answer) => match self.begin(number, reactor) {
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
                // What other threads have passed on comes in; nobody passes on any more.
                loop {
                    let before = reactor.net_mut().kernel().statistics().taken_over;
                    reactor.turn_at_once()?;
                    if reactor.net_mut().kernel().statistics().taken_over == before {
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
                self.copying = None;
                self.finishing = None;
                self.is_frozen = false;
                reactor.net_mut().release();
                reactor.thaw();
            }
        }
        Ok(())
    }

    fn begin<N: Passing, M: Mailbox, C: Clock>(
        &mut self,
        number: u64,
        reactor: &mut Reactor<N, M, C>,
    ) -> io::Result<()> {
        self.own.give_up_after(STEP_PATIENCE)?;
        let mut bytes = Vec::new();
        let mut descriptors = Vec::new();
        while bytes != number.to_le_bytes() {
            descriptors.clear();
            self.own.receive(&mut bytes, &mut descriptors)?;
        }
        let way = Passage::of(descriptors.pop().ok_or(io::ErrorKind::InvalidData)?);
        way.give_up_after(STEP_PATIENCE)?;
        let kernel = reactor.net_mut().kernel();
        let listeners: Vec<_> = kernel.listeners().collect();
        send(&way, kind::LISTENERS, &[], &listeners)?;
        self.way = Some(way);
        self.copied = Copied::default();
        Ok(())
    }

    /// One message; clients are served between two of them.
    fn copy_some<N: Passing, M: Mailbox, C: Clock>(&mut self, reactor: &mut Reactor<N, M, C>) {
        let (Some(way), Some(answer)) = (&self.way, &self.copying) else {
            return;
        };
        let head = [kind::CONNECTIONS, 1];
        let kernel = reactor.net_mut().kernel();
        let told = match kernel.copy_out(&mut self.copied, way, &head) {
            Ok(CopiedOut::Some | CopiedOut::Full) => return reactor.turn_soon(),
            Ok(CopiedOut::All) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        drop(answer.send(told));
        self.copying = None;
    }

    /// Sends what has not been sent before, and the state.
    fn hand_over<N: Passing, M: Mailbox, C: Clock>(
        &mut self,
        reactor: &mut Reactor<N, M, C>,
    ) -> io::Result<bool> {
        let Some(way) = &self.way else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // Credentials that wait for a verdict are in it, and the keys of tickets.
        let mut state = Zeroizing::new(Vec::new());
        let kernel = reactor.net_mut().kernel();
        kernel.roster().give(&mut state);
        let is_lingering = kernel.is_lingering();
        Kernel::copy_again(&mut self.copied);
        let mut tries_left = STEP_PATIENCE.as_millis();
        loop {
            match kernel.copy_out(&mut self.copied, way, &[kind::CONNECTIONS, 1])? {
                CopiedOut::All => break,
                CopiedOut::Some => {}
                CopiedOut::Full if tries_left == 0 => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                CopiedOut::Full => {
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

/// Takes everything over that the old process's thread sends, and gives the state of the shard.
pub(crate) fn adopt(
    net: &mut impl Passing,
    memory: &MemfdMemory,
    way: &Passage,
    listeners: &[AdoptedListener],
) -> io::Result<Zeroizing<Vec<u8>>> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    loop {
        let message = receive(way)?;
        let mut input = Input::new(&message.bytes);
        let kernel = net.kernel();
        match message.kind {
            kind::LISTENERS => {
                fail_at(6);
                if message.descriptors.len() != listeners.len() {
                    return Err(damaged());
                }
                kernel.adopt_listeners(message.descriptors, listeners)?;
            }
            kind::CONNECTIONS => {
                fail_at(7);
                let keys: Vec<net::Conn> = Hand::take(&mut input).ok_or_else(damaged)?;
                if keys.len() != message.descriptors.len() {
                    return Err(damaged());
                }
                for (conn, socket) in keys.into_iter().zip(message.descriptors) {
                    kernel.adopt(conn, socket)?;
                }
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
                let roster = Roster::take(&mut input).ok_or_else(damaged)?;
                kernel.settle(&roster)?;
                let rest = message.bytes.len() - input.left();
                return Ok(Zeroizing::new(message.bytes[rest..].to_vec()));
            }
            _ => return Err(damaged()),
        }
    }
}
