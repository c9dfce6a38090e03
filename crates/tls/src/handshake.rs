//! The handshake: rustls, driven over bytes until the keys are known.
//!
//! Place: between the adaptor, which reads and writes the bytes, and rustls's state machine. It
//! gets one record at a time, so that rustls never opens a record behind the handshake: those
//! belong to our record layer. The state is large (tens of kilobytes with all its allocations) and
//! lives for a round trip or two.
//!
//! Traffic secrets come from rustls's key log, on the driving thread: beside the extracted keys,
//! they suffice for the key updates of TLS 1.3, in 96 bytes instead of about 800.

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
use crate::x509;

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
    /// A client, and whether it stores tickets.
    Client(Box<UnbufferedClientConnection>, bool),
}

/// The stage of a handshake.
pub(crate) enum Progress {
    /// The peer's next bytes are needed; the output is sent.
    Waits(Box<Handshake>),
    /// Established, once these last records are sent.
    Done(Box<Established>, Vec<u8>),
    /// It has failed; these bytes are the alert for the peer.
    Failed(Failure, Vec<u8>),
}

/// The result of a handshake.
pub(crate) struct Established {
    pub(crate) layer: RecordLayer,
    pub(crate) is_resumed: bool,
    /// The store of session tickets, on a client that resumes.
    pub(crate) tickets: Option<Box<KernelConnection<ClientConnectionData>>>,
    /// The name in the certificate of a server's peer, and the end of its validity in seconds since
    /// 1970.
    pub(crate) identity: Option<(String, u64)>,
    /// Received records behind the handshake.
    pub(crate) input: Vec<u8>,
}

/// The reason of a failed handshake.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Plain HTTP on a TLS port.
    PlainHttp,
    /// More input than a handshake needs.
    TooLong,
    /// The error of rustls.
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
    /// Bytes of a handshake, without buffers and without the inner allocations of rustls.
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

    /// Our end of the connection.
    pub(crate) fn side(&self) -> Side {
        match self.rustls {
            Rustls::Server(_) => Side::Server,
            Rustls::Client(..) => Side::Client,
        }
    }

    /// Number of bytes for which there is room.
    pub(crate) fn room(&self) -> usize {
        let max = match self.rustls {
            Rustls::Server(_) => SERVER_INPUT_BYTES_MAX,
            Rustls::Client(..) => CLIENT_INPUT_BYTES_MAX,
        };
        max.saturating_sub(self.input.len())
    }

    /// Bytes of the buffers.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// Receives the peer's bytes (none at the start of a client), and processes all whole records.
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
        // For bytes that are not records it has the alert alone, and returns that before it would
        // examine them again.
        let is_of_records = matches!(
            error,
            Error::InvalidMessage(_) | Error::PeerSentOversizedRecord | Error::DecryptError
        );
        while matches!(self.step(), Ok(Step::Again)) && !is_of_records {}
    }

    /// Passes one more record to rustls, if it is complete; a malformed header is passed, too,
    /// because rustls has the alert for it.
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
            // A server may write before the client has finished; this one does not.
            Step::Done if is_handshaking => Ok(Step::Waits),
            step => Ok(step),
        }
    }

    /// Takes over the keys, and drops everything else.
    fn finish(self) -> Progress {
        let Handshake { rustls, input, output, secrets: [of_client, of_server], .. } = self;
        let mut identity = None;
        let finished = match rustls {
            Rustls::Server(connection) => {
                let chain = connection.peer_certificates();
                identity = chain.and_then(<[_]>::first).and_then(|first| x509::identity(first));
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
                    // In TLS 1.2 the ticket is part of the handshake.
                    let takes_tickets = resumes && version == Version::Tls13;
                    Ok((layer, is_resumed, takes_tickets.then(|| Box::new(kernel))))
                })
            }
        };
        match finished {
            Ok((layer, is_resumed, tickets)) => {
                let established = Established { layer, is_resumed, tickets, identity, input };
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

/// Carries out the request of one state of rustls.
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
            // From here on the caller sends them.
            data.done();
            Ok(Step::Again)
        }
        ConnectionState::WriteTraffic(_) => Ok(Step::Done),
        ConnectionState::BlockedHandshake => Ok(Step::Waits),
        // It has seen no record behind the handshake, and early data is not accepted.
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

/// The answer to plain HTTP on a TLS port.
const PLAIN_HTTP_ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\
Content-Length: 58\r\n\r\nThis port speaks TLS: use a URL with https:// or wss://.\r\n";

/// Whether the bytes begin like an HTTP request: capital letters where a record has its type and
/// version.
fn is_plain_http(input: &[u8]) -> bool {
    input.len() >= 3 && input[..3].iter().all(u8::is_ascii_uppercase)
}

thread_local! {
    /// The latest secrets of the key log, of the client and of the server.
    static CAPTURED: RefCell<[Option<Secret>; 2]> = const { RefCell::new([None, None]) };
}

/// A key log that passes traffic secrets to the handshake that this thread drives, and to nothing
/// else.
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
