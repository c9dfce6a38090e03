//! The protocols of publishing connections.
//!
//! Place: between [`super::publishers`], which decides on every message, and the bytes. A protocol
//! knows neither the load nor what becomes of an answer.

use wire::native::{
    Attributes, ClientFrame, Hello, Once, Producer, PublishOptions, Reference, ServerFrame,
    encode_publish_head,
};
use wire::websocket::Opcode;

use super::native::send;
use super::protocol::Turn;
use super::sockets::{Incoming, Sockets};

/// The bytes of publications and of their answers.
pub(super) trait Publishing: Send + 'static {
    /// A connection is established: its first bytes.
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>);

    /// The next unit at the front of `bytes` and its length; `None` while it is unfinished.
    fn next(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<(Meaning, usize)>, String>;

    /// The connection is gone.
    fn lost(&mut self, place: u32);

    /// Sends a publication.
    fn publish(&mut self, place: u32, publication: &Publication<'_>, turn: &mut Turn<'_>);

    /// Number of unanswered publications that the server permits on this connection.
    fn inflight_max(&self, _place: u32) -> usize {
        usize::MAX
    }

    /// The time of the next [`Publishing::tick`].
    fn wake_ns(&self) -> Option<u64> {
        None
    }

    /// Its time may have come.
    fn tick(&mut self, _turn: &mut Turn<'_>) {}
}

/// A message to send.
pub(super) struct Publication<'a> {
    /// The number that its answer names; 0 for none.
    pub(super) request: u32,
    pub(super) topic: &'a str,
    /// Its number among those of the connection, if it is to be appended once.
    pub(super) producer_sequence: Option<u64>,
    pub(super) payload: &'a [u8],
}

/// The meaning of a unit for a publisher.
pub(super) enum Meaning {
    /// Publications may follow.
    Opened,
    /// The request has its answer: whether it was accepted.
    Answer { request: u32, is_good: bool },
    /// Nothing to do.
    Nothing,
}

/// The native protocol over WebSocket.
pub(super) struct NativePublishing {
    sockets: Sockets,
    /// This run's number.
    publisher: u32,
    worker: u64,
    exactly_once: bool,
    frame: Vec<u8>,
}

impl NativePublishing {
    pub(super) fn new(sockets: Sockets, publisher: u32, worker: u64, exactly_once: bool) -> Self {
        NativePublishing { sockets, publisher, worker, exactly_once, frame: Vec::new() }
    }
}

impl Publishing for NativePublishing {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.sockets.begin(place, turn.route, turn.to(place));
    }

    fn next(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<(Meaning, usize)>, String> {
        let Some((incoming, length)) = self.sockets.next(place, bytes)? else {
            return Ok(None);
        };
        let meaning = match incoming {
            Incoming::Opened => {
                let mut frame = Vec::new();
                let name = Some("crore bench");
                ClientFrame::Hello(Hello { name, ..Hello::default() }).encode(&mut frame);
                send(Opcode::Binary, &frame, place, turn);
                Meaning::Nothing
            }
            Incoming::Binary(payload) => {
                let frame = ServerFrame::decode(payload).map_err(|error| error.to_string())?;
                understood(&frame, self.exactly_once, place, turn)?
            }
            Incoming::Ping(payload) => {
                let payload = payload.to_vec();
                send(Opcode::Pong, &payload, place, turn);
                Meaning::Nothing
            }
            Incoming::Text(_) => return Err("unexpected text message".to_owned()),
            Incoming::Other => Meaning::Nothing,
        };
        Ok(Some((meaning, length)))
    }

    fn lost(&mut self, place: u32) {
        self.sockets.lost(place);
    }

    fn publish(&mut self, place: u32, publication: &Publication<'_>, turn: &mut Turn<'_>) {
        // Each connection is a producer, so that the numbers of one are in order on the wire.
        let id = producer_id(self.publisher, self.worker, place);
        let producer = |sequence| Once::Producer(Producer { id: &id, sequence });
        let options = PublishOptions {
            once: publication.producer_sequence.map(producer),
            ..PublishOptions::default()
        };
        let (request, topic) = (publication.request, publication.topic);
        self.frame.clear();
        encode_publish_head(request, topic, &options, &Attributes::default(), &mut self.frame);
        self.frame.extend_from_slice(publication.payload);
        send(Opcode::Binary, &self.frame, place, turn);
    }
}

/// Counts a frame, and answers it if it is a ping.
fn understood(
    frame: &ServerFrame<'_>,
    exactly_once: bool,
    place: u32,
    turn: &mut Turn<'_>,
) -> Result<Meaning, String> {
    match frame {
        ServerFrame::Welcome(_) => Ok(Meaning::Opened),
        ServerFrame::Published(published) => {
            turn.tally.duplicates += u64::from(published.duplicate);
            Ok(Meaning::Answer { request: published.request, is_good: true })
        }
        ServerFrame::Error(error) => {
            let why = format!("refused: {} ({})", error.message, error.code);
            if exactly_once && error.temporary {
                // Later publications must be sent again after it.
                return Err(why);
            }
            turn.tally.refused += 1;
            turn.tally.trouble = Some(why);
            match error.reference {
                Reference::Request(request) => Ok(Meaning::Answer { request, is_good: false }),
                _ => Ok(Meaning::Nothing),
            }
        }
        ServerFrame::Ping(token) => {
            let mut frame = Vec::new();
            ClientFrame::Pong(*token).encode(&mut frame);
            send(Opcode::Binary, &frame, place, turn);
            Ok(Meaning::Nothing)
        }
        ServerFrame::GoAway(go_away) => {
            Err(format!("the server asked the client to disconnect ({})", go_away.code))
        }
        _ => Ok(Meaning::Nothing),
    }
}

/// The name of a connection's producer: 20 hexadecimal digits; the run's number is random.
fn producer_id(publisher: u32, worker: u64, place: u32) -> [u8; 20] {
    let mut id = [0; 20];
    let number =
        u128::from(publisher) << 48 | u128::from(worker & 0xffff) << 32 | u128::from(place);
    for (place, digit) in id.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place) & 15) as usize];
    }
    id
}
