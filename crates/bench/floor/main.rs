//! The floor: what a delivery costs when a server does nothing but `send`.
//!
//! One thread, one loop, no topics, no log, no rings. It speaks just enough of the native protocol for the benchmark:
//! everybody who subscribes gets WELCOME and SUBSCRIBED, and whatever anybody publishes is sent once to each of them.
//! What a socket does not take at once is dropped, and the connection with it. Compare its processor time per delivery
//! with the node's.
//!
//! ```text
//! floor 127.0.0.1:8900
//! crore bench sub --url ws://127.0.0.1:8900 --topics t --choice common --clients 10000
//! crore bench pub --url ws://127.0.0.1:8900 --topics t --rate 20
//! ```
#![forbid(unsafe_code)]

use std::io::IoSlice;

use net::kernel::{Handover, Kernel, KernelOptions, ListenOptions, Waker, raise_nofile_limit};
use net::{Close, Conn, Event, Net, Read, Write};
use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request};
use wire::native::{
    Beginning, ClientFrame, Message, PlainTopic, Position, Published, SUBPROTOCOL, ServerFrame,
    Subscribed, SubscribedTo, Welcome,
};
use wire::websocket::handshake::Upgrade;
use wire::websocket::{Frame, Opcode, Role, frame};

const FRAME_BYTES_MAX: usize = 1024 * 1024;

#[derive(Default)]
struct Floor {
    /// By the connection's index: what is unfinished, and whether it is upgraded.
    peers: Vec<(Vec<u8>, bool)>,
    subscribers: Vec<Conn>,
    offset: u64,
    out: Vec<u8>,
    broadcast: Vec<u8>,
    scratch: Vec<u8>,
}

fn main() -> anyhow::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8900".to_owned())
        .parse()?;
    raise_nofile_limit();
    let mut kernel = Kernel::new(KernelOptions::default(), Waker::new()?, Handover::alone())?;
    let (_, address) = kernel.listen(&ListenOptions::new(address))?;
    println!("listening {address}");
    let mut floor = Floor::default();
    let mut events = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        kernel.poll(None, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Accepted { conn, .. } => {
                    let index = conn.index as usize;
                    if floor.peers.len() <= index {
                        floor.peers.resize_with(index + 1, Default::default);
                    }
                    floor.peers[index] = Default::default();
                }
                Event::Readable(conn) => floor.readable(&mut kernel, conn, &mut buffer),
                Event::Closed { conn, .. } => floor.subscribers.retain(|other| *other != conn),
                _ => {}
            }
        }
    }
}

impl Floor {
    fn readable(&mut self, kernel: &mut Kernel, conn: Conn, buffer: &mut [u8]) {
        loop {
            let count = match kernel.read(conn, buffer) {
                Read::Data(count) => count,
                Read::Blocked => return,
                Read::Ended | Read::Failed(_) => return self.close(kernel, conn),
            };
            let (mut input, mut is_upgraded) = std::mem::take(&mut self.peers[conn.index as usize]);
            input.extend_from_slice(&buffer[..count]);
            let taken = self.take(kernel, conn, &mut input, &mut is_upgraded);
            let Some(taken) = taken else {
                return self.close(kernel, conn);
            };
            input.drain(..taken);
            if input.is_empty() {
                input = Vec::new();
            }
            self.peers[conn.index as usize] = (input, is_upgraded);
            if !self.out.is_empty() {
                let out = std::mem::take(&mut self.out);
                let is_whole = matches!(kernel.write(conn, &[IoSlice::new(&out)]), Write::Wrote(n) if n == out.len());
                if !is_whole {
                    return self.close(kernel, conn);
                }
            }
            if count < buffer.len() {
                return;
            }
        }
    }

    /// Takes whole units; `None` when the peer is not understood.
    fn take(
        &mut self,
        kernel: &mut Kernel,
        conn: Conn,
        input: &mut [u8],
        is_upgraded: &mut bool,
    ) -> Option<usize> {
        let mut taken = 0;
        if !*is_upgraded {
            let limits = HeadLimits::default();
            let step = Request::decode(input, &mut HeadScan::new(), &limits).ok()?;
            let Step::Done { value, consumed } = step else {
                return Some(0);
            };
            Upgrade::check(&value)
                .ok()?
                .encode_response(&mut self.out, Some(SUBPROTOCOL));
            *is_upgraded = true;
            taken = consumed;
        }
        loop {
            let step = Frame::decode(&mut input[taken..], Role::Server, FRAME_BYTES_MAX).ok()?;
            let Step::Done { value, consumed } = step else {
                return Some(taken);
            };
            taken += consumed;
            if value.opcode == Opcode::Close {
                return None;
            }
            self.frame(kernel, conn, ClientFrame::decode(value.payload).ok()?);
        }
    }

    fn frame(&mut self, kernel: &mut Kernel, conn: Conn, client_frame: ClientFrame<'_>) {
        match client_frame {
            ClientFrame::Hello(_) => self.answer(&ServerFrame::Welcome(Welcome {
                connection: 1,
                ping_interval_s: 0,
                time_ms: 0,
                frame_bytes_max: FRAME_BYTES_MAX as u64,
                message_bytes_max: FRAME_BYTES_MAX as u64,
                subscriptions_per_session_max: 1,
                node: Some("floor"),
                resumed: None,
                ticket_lifetime_s: None,
            })),
            ClientFrame::Subscribe(subscribe) => {
                let through = Position {
                    epoch: 1,
                    offset: self.offset,
                };
                let beginning = Beginning {
                    through,
                    ..Beginning::default()
                };
                for item in subscribe.items {
                    self.answer(&ServerFrame::Subscribed(Subscribed {
                        subscription: item.subscription,
                        to: SubscribedTo::Topic(PlainTopic {
                            alias: 1,
                            beginning,
                        }),
                    }));
                }
                self.subscribers.push(conn);
            }
            ClientFrame::Publish(publish) => {
                self.offset += 1;
                self.broadcast.clear();
                self.scratch.clear();
                ServerFrame::Message(Message {
                    alias: 1,
                    offset: self.offset,
                    prev: self.offset - 1,
                    retained: Default::default(),
                    attributes: publish.attributes,
                    payload: publish.payload,
                })
                .encode(&mut self.scratch);
                frame::encode(
                    &mut self.broadcast,
                    true,
                    Opcode::Binary,
                    &self.scratch,
                    None,
                );
                let bytes = [IoSlice::new(&self.broadcast)];
                self.subscribers.retain(|subscriber| {
                    let sent = kernel.write(*subscriber, &bytes);
                    let is_whole = matches!(sent, Write::Wrote(count) if count == bytes[0].len());
                    if !is_whole {
                        kernel.close(*subscriber, Close::Reset);
                    }
                    is_whole
                });
                if publish.request != 0 {
                    let position = Position {
                        epoch: 1,
                        offset: self.offset,
                    };
                    let request = publish.request;
                    self.answer(&ServerFrame::Published(Published {
                        request,
                        position,
                        duplicate: false,
                    }));
                }
            }
            ClientFrame::Ping(token) => self.answer(&ServerFrame::Pong(token)),
            _ => {}
        }
    }

    fn answer(&mut self, server_frame: &ServerFrame<'_>) {
        self.scratch.clear();
        server_frame.encode(&mut self.scratch);
        frame::encode(&mut self.out, true, Opcode::Binary, &self.scratch, None);
    }

    fn close(&mut self, kernel: &mut Kernel, conn: Conn) {
        self.subscribers.retain(|other| *other != conn);
        self.out.clear();
        kernel.close(conn, Close::Graceful);
    }
}
