//! The handshake: rustls, driven over bytes, until it can be let go of.
//!
//! Place: between the adaptor, which reads and writes the bytes, and rustls's state machine. Sees
//! one record at a time, so that rustls never opens a record that comes after the handshake: those
//! belong to our record layer. The state is large (tens of kilobytes with all that it points to)
//! and lives for a round trip or two.
//!
//! Traffic secrets come to us by rustls's key log, on the thread that drives: kept beside the
//! extracted keys, they are all that the key updates of TLS 1.3 need, in 96 bytes instead of about
//! 800.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{
    ClientConfig, Error, ExtractedSecrets, HandshakeKind, KeyLog, ProtocolVersion, ServerConfig,
};

use crate::keys::{Keys, Secret};
use crate::record::{HEADER_BYTES, RECORD_BYTES_MAX, RecordLayer, Side, Version};

/// Maximum number of handshake bytes that the server keeps: a client's hello fits one record.
const SERVER_INPUT_BYTES_MAX: usize = RECORD_BYTES_MAX + 2048;
/// Maximum number of handshake bytes that a client keeps: a server's chain of certificates may be
/// long.
const CLIENT_INPUT_BYTES_MAX: usize = 128 << 10;

/// A running handshake.
pub(crate) struct Handshake {
    rustls: Rustls,
    /// Received records that were not consumed.
    input: Vec<u8>,
    /// Number of bytes of `input` that rustls has seen.
    shown: usize,
    /// Records to send.
    pub(crate) output: Vec<u8>,
    /// The secrets of the client and of the server.
    secrets: [Option<Secret>; 2],
}

enum Rustls {
    Server(Box<UnbufferedServerConnection>),
    /// And whether it keeps tickets.
    Client(Box<UnbufferedClientConnection>, bool),
}

/// How far a handshake is.
pub(crate) enum Progress {
    /// The peer must say more; what is in the output goes out.
    Waits(Box<Handshake>),
    /// Established, once these last records are sent.
    Done(Box<Established>, Vec<u8>),
    /// It has failed; these bytes tell the peer.
    Failed(Failure, Vec<u8>),
}

/// What a handshake leaves.
pub(crate) struct Established {
    pub(crate) layer: RecordLayer,
    pub(crate) is_resumed: bool,
    /// Takes session tickets, on a client that resumes.
    pub(crate) tickets: Option<Box<KernelConnection<ClientConnectionData>>>,
    /// Records that came after the handshake.
    pub(crate) input: Vec<u8>,
}

/// Why a handshake failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Plain HTTP on a TLS port.
    PlainHttp,
    /// More input than any handshake needs.
    TooLong,
    /// What rustls says.
    Rustls(Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::PlainHttp => formatter.write_str("plain HTTP on a TLS port"),
            Failure::TooLong => formatter.write_str("the handshake is too long"),
            Failure::Rustls(error) => write!(formatter, "{error}"),
        }
    }
}

impl Handshake {
    /// What one takes, without buffers and without what rustls allocates behind its own.
    pub(crate) const BYTES: usize =
        size_of::<Handshake>() + size_of::<UnbufferedServerConnection>();

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Handshake, Error> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Handshake::new(Rustls::Server(Box::new(connection))))
    }

    pub(crate) fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        resumes: bool,
    ) -> Result<Handshake, Error> {
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Handshake::new(Rustls::Client(Box::new(connection), resumes)))
    }

    fn new(rustls: Rustls) -> Handshake {
        Handshake { rustls, input: Vec::new(), shown: 0, output: Vec::new(), secrets: [None, None] }
    }

    /// Which end we are.
    pub(crate) fn side(&self) -> Side {
        match self.rustls {
            Rustls::Server(_) => Side::Server,
            Rustls::Client(..) => Side::Client,
        }
    }

    /// How many more bytes may be taken in now.
    pub(crate) fn room(&self) -> usize {
        let max = match self.rustls {
            Rustls::Server(_) => SERVER_INPUT_BYTES_MAX,
            Rustls::Client(..) => CLIENT_INPUT_BYTES_MAX,
        };
        max.saturating_sub(self.input.len())
    }

    /// Bytes of buffers, for the account of memory.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// Takes bytes of the peer in, none at the start of a client, and goes on as far as they reach.
    pub(crate) fn advance(mut self: Box<Self>, bytes: &[u8]) -> Progress {
        self.input.extend_from_slice(bytes);
        if self.side() == Side::Server && self.shown == 0 && is_plain_http(&self.input) {
            return Progress::Failed(Failure::PlainHttp, PLAIN_HTTP_ANSWER.to_vec());
        }
        loop {
            match self.step() {
                Ok(Step::Again) => {}
                Ok(Step::Waits) => {
                    if self.show_next() {
                        continue;
                    }
                    if self.room() == 0 {
                        return Progress::Failed(Failure::TooLong, self.output);
                    }
                    return Progress::Waits(self);
                }
                Ok(Step::Done) => return self.finish(),
                Err(error) => {
                    self.take_last_words(&error);
                    return Progress::Failed(Failure::Rustls(error), self.output);
                }
            }
        }
    }

    /// After an error rustls has an alert for the peer, perhaps behind a part of its flight.
    fn take_last_words(&mut self, error: &Error) {
        // Of bytes that are no records it has the alert alone. It gives that before it looks at
        // them again, which would be an error of ours.
        let is_of_records = matches!(
            error,
            Error::InvalidMessage(_) | Error::PeerSentOversizedRecord | Error::DecryptError
        );
        while matches!(self.step(), Ok(Step::Again)) && !is_of_records {}
    }

    /// Shows rustls one record more, if it is there; a header that is none is shown too, to be
    /// judged.
    fn show_next(&mut self) -> bool {
        let unseen = &self.input[self.shown..];
        let Some(&[kind, major, _, high, low]) = unseen.first_chunk() else {
            return false;
        };
        let length = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        let is_record = (20..=23).contains(&kind) && major == 3 && length <= RECORD_BYTES_MAX;
        let show = if is_record { length } else { unseen.len() };
        if unseen.len() < show {
            return false;
        }
        self.shown += show;
        true
    }

    fn step(&mut self) -> Result<Step, Error> {
        let shown = &mut self.input[..self.shown];
        let (discard, step) = match &mut self.rustls {
            Rustls::Server(connection) => {
                let UnbufferedStatus { discard, state } = connection.process_tls_records(shown);
                (discard, state.and_then(|state| settle(state, &mut self.output)))
            }
            Rustls::Client(connection, _) => {
                let UnbufferedStatus { discard, state } = connection.process_tls_records(shown);
                (discard, state.and_then(|state| settle(state, &mut self.output)))
            }
        };
        self.input.drain(..discard);
        self.shown -= discard;
        for (kept, captured) in self.secrets.iter_mut().zip(Captured::take()) {
            if captured.is_some() {
                *kept = captured;
            }
        }
        let is_handshaking = match &self.rustls {
            Rustls::Server(connection) => connection.is_handshaking(),
            Rustls::Client(connection, _) => connection.is_handshaking(),
        };
        match step? {
            // A server may write before the client has finished; we do not.
            Step::Done if is_handshaking => Ok(Step::Waits),
            step => Ok(step),
        }
    }

    /// Takes the keys over and lets go of everything else.
    fn finish(self) -> Progress {
        let Handshake { rustls, input, output, secrets: [of_client, of_server], .. } = self;
        let finished = match rustls {
            Rustls::Server(connection) => {
                let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
                connection.dangerous_into_kernel_connection().and_then(|(keys, kernel)| {
                    let version = version_of(kernel.protocol_version())?;
                    let layer = layer(version, Side::Server, keys, of_client, of_server)?;
                    Ok((layer, is_resumed, None))
                })
            }
            Rustls::Client(connection, resumes) => {
                let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
                connection.dangerous_into_kernel_connection().and_then(|(keys, kernel)| {
                    let version = version_of(kernel.protocol_version())?;
                    let layer = layer(version, Side::Client, keys, of_server, of_client)?;
                    // In TLS 1.2 the ticket came with the handshake.
                    let takes_tickets = resumes && version == Version::Tls13;
                    Ok((layer, is_resumed, takes_tickets.then(|| Box::new(kernel))))
                })
            }
        };
        match finished {
            Ok((layer, is_resumed, tickets)) => {
                let established = Established { layer, is_resumed, tickets, input };
                Progress::Done(Box::new(established), output)
            }
            Err(error) => Progress::Failed(Failure::Rustls(error), output),
        }
    }
}

enum Step {
    Again,
    Waits,
    Done,
}

/// Does what one state of rustls asks for.
fn settle<D>(state: ConnectionState<'_, '_, D>, output: &mut Vec<u8>) -> Result<Step, Error> {
    match state {
        ConnectionState::EncodeTlsData(mut data) => {
            let begin = output.len();
            let length = match data.encode(&mut []) {
                Err(EncodeError::InsufficientSize(size)) => size.required_size,
                Ok(_) | Err(EncodeError::AlreadyEncoded) => 0,
            };
            output.resize(begin + length, 0);
            let encoded = data.encode(&mut output[begin..]);
            debug_assert!(length == 0 || encoded.is_ok_and(|encoded| encoded == length));
            Ok(Step::Again)
        }
        ConnectionState::TransmitTlsData(data) => {
            // From here on they are ours to send.
            data.done();
            Ok(Step::Again)
        }
        ConnectionState::WriteTraffic(_) => Ok(Step::Done),
        ConnectionState::BlockedHandshake => Ok(Step::Waits),
        // It has seen no record that comes after the handshake, and early data is not accepted.
        _ => Err(Error::General("the peer closed the connection in the handshake".into())),
    }
}

fn version_of(version: ProtocolVersion) -> Result<Version, Error> {
    match version {
        ProtocolVersion::TLSv1_2 => Ok(Version::Tls12),
        ProtocolVersion::TLSv1_3 => Ok(Version::Tls13),
        _ => Err(Error::General("an unsupported version of TLS".into())),
    }
}

fn layer(
    version: Version,
    side: Side,
    extracted: ExtractedSecrets,
    read_secret: Option<Secret>,
    write_secret: Option<Secret>,
) -> Result<RecordLayer, Error> {
    if version == Version::Tls13 && (read_secret.is_none() || write_secret.is_none()) {
        return Err(Error::General("traffic secrets are missing".into()));
    }
    let keys = |extracted, secret| {
        Keys::new(extracted, secret).map_err(|fault| Error::General(fault.to_string()))
    };
    let (read, write) = (keys(extracted.rx, read_secret)?, keys(extracted.tx, write_secret)?);
    Ok(RecordLayer::new(version, side, read, write))
}

/// What somebody hears who speaks HTTP to a port of TLS.
const PLAIN_HTTP_ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\
Content-Length: 58\r\n\r\nThis port speaks TLS: use a URL with https:// or wss://.\r\n";

/// Whether this is how a request of HTTP begins: capital letters where a record has its type and
/// version.
fn is_plain_http(input: &[u8]) -> bool {
    input.len() >= 3 && input[..3].iter().all(u8::is_ascii_uppercase)
}

thread_local! {
    /// Secrets that the key log was given since the last look, of the client and of the server.
    static CAPTURED: RefCell<[Option<Secret>; 2]> = const { RefCell::new([None, None]) };
}

/// A key log that keeps traffic secrets for the handshake that is being driven on this thread, and
/// for nobody else.
#[derive(Debug)]
pub(crate) struct Captured;

impl Captured {
    fn take() -> [Option<Secret>; 2] {
        CAPTURED.take()
    }

    fn place(label: &str) -> Option<usize> {
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => Some(0),
            "SERVER_TRAFFIC_SECRET_0" => Some(1),
            _ => None,
        }
    }
}

impl KeyLog for Captured {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if let Some(place) = Captured::place(label) {
            CAPTURED.with_borrow_mut(|captured| captured[place] = Secret::new(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        Captured::place(label).is_some()
    }
}
