//! Subscribers of the native protocol over WebSocket.
//!
//! Place: a [`Protocol`] of the pool. It runs the server's own proof beside the publisher's
//! sequence numbers, and resumes from its cursors after a loss.

use std::collections::HashMap;

use wire::native::{
    ClientFrame, EARLY_FRAME_PREFIX, Hello, Position, SUBPROTOCOL, ServerFrame, Subscribe,
    SubscribeItem, SubscribeRequest,
};
use wire::websocket::Opcode;
use wire::websocket::handshake::early_message;

use super::protocol::{Protocol, Turn};
use super::sockets::{Incoming, Sockets, encode};
use super::subscriptions::{Share, Subscriptions};

/// Bytes of items in one SUBSCRIBE frame.
const SUBSCRIBE_FRAME_BYTES: usize = 12 * 1024;
/// Subscriptions that a handshake carries at most: names of 255 bytes leave room in a head of 16
/// KiB.
const EARLY_SUBSCRIPTIONS_MAX: u32 = 8;
/// Up to so many topics per client an alias is searched; beyond, a map is kept.
const SEARCHED_MAX: u32 = 16;

/// All subscribers of a worker.
pub(super) struct NativeSubscribers {
    sockets: Sockets,
    streams: Streams,
}

struct Streams {
    subscriptions: Subscriptions,
    /// The first frames go with the handshake.
    is_hello_early: bool,
    aliases: HashMap<(u32, u32), u32>,
}

/// The subprotocols to offer.
pub(super) const SUBPROTOCOLS: &[&str] = &[SUBPROTOCOL];

impl NativeSubscribers {
    pub(super) fn new(sockets: Sockets, share: Share, is_hello_early: bool) -> NativeSubscribers {
        let subscriptions = Subscriptions::new(share);
        NativeSubscribers {
            sockets,
            streams: Streams { subscriptions, is_hello_early, aliases: HashMap::new() },
        }
    }
}

impl Protocol for NativeSubscribers {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.streams.subscriptions.ensure(place);
        let early = self.streams.early_frames(place);
        self.sockets.begin_with(place, turn.route, &early, turn.to(place));
    }

    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let mut consumed = 0;
        while let Some((incoming, length)) = self.sockets.next(place, &mut bytes[consumed..])? {
            consumed += length;
            match incoming {
                Incoming::Opened => {
                    if self.streams.early_frames(place).is_empty() {
                        self.streams.greet(place, turn);
                    }
                }
                Incoming::Binary(payload) => {
                    let frame = ServerFrame::decode(payload).map_err(|error| error.to_string())?;
                    self.streams.frame(place, &frame, turn)?;
                }
                Incoming::Ping(payload) => {
                    let payload = payload.to_vec();
                    send(Opcode::Pong, &payload, place, turn);
                }
                Incoming::Text(_) => return Err("unexpected text message".to_owned()),
                Incoming::Other => {}
            }
        }
        Ok(consumed)
    }

    fn lost(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.sockets.lost(place);
        let streams = &mut self.streams;
        if streams.subscriptions.per_client() > SEARCHED_MAX {
            streams.aliases.retain(|(of, _), _| *of != place);
        }
        streams.subscriptions.disconnected(place, turn);
    }

    fn look(&mut self, turn: &mut Turn<'_>) {
        self.streams.subscriptions.look(turn);
    }
}

impl Streams {
    /// The first frames as offers of the handshake; none where they are to follow it, or are too
    /// long for a head. The cursors that they name do not move before they are answered.
    fn early_frames(&self, place: u32) -> Vec<String> {
        if !self.is_hello_early || self.subscriptions.per_client() > EARLY_SUBSCRIPTIONS_MAX {
            return Vec::new();
        }
        let mut offers = Vec::new();
        self.first_frames(place, |frame| {
            offers.push(early_message(EARLY_FRAME_PREFIX, frame));
        });
        offers
    }

    fn greet(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.first_frames(place, |frame| send(Opcode::Binary, frame, place, turn));
    }

    /// HELLO and all subscriptions, from the cursors where there are any.
    fn first_frames(&self, place: u32, mut give: impl FnMut(&[u8])) {
        let mut frame = Vec::new();
        ClientFrame::Hello(Hello {
            name: Some("crore bench"),
            ping_interval_s: self.subscriptions.ping_interval_s(),
            ..Hello::default()
        })
        .encode(&mut frame);
        give(&frame);
        let per_client = self.subscriptions.per_client();
        let mut names: Vec<String> = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for number in 0..per_client {
            names.push(self.subscriptions.name(place, number));
            bytes += names.last().map_or(0, String::len) + 32;
            if bytes < SUBSCRIBE_FRAME_BYTES && number + 1 < per_client {
                continue;
            }
            let items: Vec<SubscribeItem<'_>> = names
                .iter()
                .zip(first..)
                .map(|(name, number)| {
                    let start = self.subscriptions.start(place, number);
                    SubscribeItem::new(number + 1, SubscribeRequest::new(name, start))
                })
                .collect();
            frame.clear();
            ClientFrame::Subscribe(Subscribe { items: items.as_slice().into() }).encode(&mut frame);
            give(&frame);
            first = number + 1;
            bytes = 0;
            names.clear();
        }
    }

    fn frame(
        &mut self,
        place: u32,
        frame: &ServerFrame<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        match frame {
            ServerFrame::Message(message) => {
                let Some(number) = self.number_of(place, message.alias) else {
                    return Err("a message with an unknown alias".to_owned());
                };
                let offsets = (message.prev, message.offset);
                self.subscriptions.delivered(place, number, offsets, message.payload, turn);
            }
            ServerFrame::NamedMessage(message) => {
                self.subscriptions.received(place, None, message.payload, turn);
            }
            ServerFrame::Subscribed(subscribed) => {
                let Some(plain) = subscribed.topic() else {
                    return Ok(());
                };
                let number = self.number(subscribed.subscription)?;
                if self.subscriptions.per_client() > SEARCHED_MAX {
                    self.aliases.insert((place, plain.alias), number);
                }
                self.subscriptions.subscribed(place, number, plain.alias, plain.beginning, turn)?;
            }
            ServerFrame::CaughtUp(caught_up) => {
                let number = self.number(caught_up.subscription)?;
                self.subscriptions.caught_up(place, number, caught_up.through, turn);
            }
            ServerFrame::Gap(gap) => {
                let number = self.number(gap.subscription)?;
                let to = Position { epoch: gap.epoch, offset: gap.to };
                self.subscriptions.gap(place, number, to, turn)?;
            }
            ServerFrame::Skipped(skipped) => {
                let number = self.number(skipped.subscription)?;
                let (from, through) = (skipped.from, skipped.through);
                self.subscriptions.skipped(place, number, from, through, turn);
            }
            ServerFrame::Welcome(_) => turn.opened(),
            ServerFrame::Ping(token) => {
                let mut frame = Vec::new();
                ClientFrame::Pong(*token).encode(&mut frame);
                send(Opcode::Binary, &frame, place, turn);
            }
            ServerFrame::Error(error) => {
                turn.tally.refused += 1;
                turn.tally.trouble = Some(format!("refused: {} ({})", error.message, error.code));
            }
            ServerFrame::Unsubscribed(ended) => {
                return Err(format!("the server ended a subscription ({})", ended.code));
            }
            ServerFrame::GoAway(go_away) => {
                return Err(format!(
                    "the server asked the client to disconnect ({})",
                    go_away.code
                ));
            }
            ServerFrame::Pong(_)
            | ServerFrame::Published(_)
            | ServerFrame::HistoryPage(_)
            | ServerFrame::TicketIssued(_)
            | ServerFrame::Renewed(_)
            | ServerFrame::TokenExpires(_) => {}
        }
        Ok(())
    }

    /// The place of a subscription among the client's topics.
    fn number(&self, subscription: u32) -> Result<u32, String> {
        match subscription.checked_sub(1) {
            Some(number) if number < self.subscriptions.per_client() => Ok(number),
            _ => Err("a frame for an unknown subscription".to_owned()),
        }
    }

    fn number_of(&mut self, place: u32, alias: u32) -> Option<u32> {
        if self.subscriptions.per_client() > SEARCHED_MAX {
            return self.aliases.get(&(place, alias)).copied();
        }
        let wanted = alias.wrapping_add(1);
        let streams = self.subscriptions.of(place);
        streams.iter().position(|stream| stream.alias == wanted).map(|number| number as u32)
    }
}

pub(super) fn send(opcode: Opcode, payload: &[u8], place: u32, turn: &mut Turn<'_>) {
    let mut random = turn.random.clone();
    encode(opcode, payload, &mut random, turn.to(place));
    *turn.random = random;
}
