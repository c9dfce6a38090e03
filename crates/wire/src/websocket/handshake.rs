//! The opening handshake (RFC 6455 section 4), for both ends.
//!
//! Place on the path: between an HTTP head and the first frame.
//!
//! Invariants: an [`Upgrade`] satisfies every requirement of section 4.2.1; each refusal is typed
//! and has its status. The only extension is compression, and only if the caller asks for it
//! ([`extension`]). The caller provides the nonce: no entropy here.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD as BASE64_URL};
use sha1::{Digest, Sha1};

use super::extension::{self, Agreement};
use super::frame::{self, Opcode};
use crate::http::head::{Version, is_token_byte};
use crate::http::problem::Problem;
use crate::http::request::{Request, RequestWriter};
use crate::http::response::{Response, ResponseWriter, reason_phrase};
use crate::http::{BodyFraming, response};
use crate::native::ErrorCode;

/// Length of the nonce that a client chooses.
pub const NONCE_BYTES: usize = 16;
/// Length of `Sec-WebSocket-Accept`.
pub const ACCEPT_BYTES: usize = 28;

/// The suffix that the server appends to the key before hashing (section 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The reason why a request is not upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A method other than GET.
    Method,
    /// HTTP/1.0, which cannot upgrade.
    HttpVersion,
    /// A GET that does not ask for an upgrade to `websocket`.
    NotAnUpgrade,
    /// `Sec-WebSocket-Version` is missing or not 13.
    Version,
    /// `Sec-WebSocket-Key` is missing, repeated, or not 16 bytes in base64.
    Key,
    /// The request has a body.
    Body,
    /// `Sec-WebSocket-Protocol` is malformed.
    BadSubprotocol,
    /// `Sec-WebSocket-Extensions` is malformed.
    BadExtensions,
    /// None of the subprotocols that the resource requires is offered.
    Subprotocol,
    /// The page's origin is not allowed.
    Origin,
}

impl Refusal {
    /// The status of the response.
    pub const fn status(self) -> u16 {
        match self {
            Refusal::Method => 405,
            Refusal::NotAnUpgrade | Refusal::Version => 426,
            Refusal::Origin => 403,
            _ => 400,
        }
    }

    /// The error code in the response.
    pub const fn code(self) -> ErrorCode {
        match self {
            Refusal::Method => ErrorCode::MethodNotAllowed,
            Refusal::HttpVersion => ErrorCode::UnsupportedHttpVersion,
            Refusal::NotAnUpgrade => ErrorCode::UpgradeRequired,
            Refusal::Version => ErrorCode::UnsupportedWebsocketVersion,
            Refusal::Key | Refusal::Body | Refusal::BadSubprotocol | Refusal::BadExtensions => {
                ErrorCode::MalformedHandshake
            }
            Refusal::Subprotocol => ErrorCode::SubprotocolRequired,
            Refusal::Origin => ErrorCode::OriginForbidden,
        }
    }

    const fn detail(self) -> &'static str {
        match self {
            Refusal::Method => "a WebSocket is opened with GET",
            Refusal::HttpVersion => "a WebSocket needs HTTP/1.1",
            Refusal::NotAnUpgrade => {
                "this resource is a WebSocket: send Upgrade: websocket and Connection: Upgrade"
            }
            Refusal::Version => "only Sec-WebSocket-Version 13 is supported",
            Refusal::Key => "Sec-WebSocket-Key is not 16 bytes in base64",
            Refusal::Body => "a WebSocket handshake has no body",
            Refusal::BadSubprotocol => "malformed Sec-WebSocket-Protocol",
            Refusal::BadExtensions => "malformed Sec-WebSocket-Extensions",
            Refusal::Subprotocol => "none of the offered subprotocols is supported",
            Refusal::Origin => "this origin is not allowed",
        }
    }

    /// Appends the complete response, with the fields that its status requires (RFC 9110 section
    /// 15.5.22, RFC 6455 section 4.4). It contains `Connection: close`; the caller closes after
    /// writing it.
    pub fn encode(self, out: &mut Vec<u8>) {
        let status = self.status();
        let mut writer = ResponseWriter::new(out, status);
        writer = match self {
            Refusal::Method => writer.header("Allow", "GET").header("Connection", "close"),
            Refusal::NotAnUpgrade | Refusal::Version => writer
                .header("Upgrade", "websocket")
                .header("Connection", "Upgrade, close")
                .header("Sec-WebSocket-Version", "13"),
            _ => writer.header("Connection", "close"),
        };
        Problem {
            title: reason_phrase(status),
            status,
            detail: self.detail(),
            code: self.code().name(),
            ..Problem::default()
        }
        .finish(writer);
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

impl std::error::Error for Refusal {}

/// Computes `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (section 4.2.2).
pub fn accept_key(key: &[u8]) -> [u8; ACCEPT_BYTES] {
    let digest = Sha1::new().chain_update(key).chain_update(KEY_SUFFIX).finalize();
    let mut accept = [0; ACCEPT_BYTES];
    // Twenty bytes always fill 28 characters.
    let written = BASE64.encode_slice(digest, &mut accept);
    debug_assert_eq!(written, Ok(ACCEPT_BYTES));
    accept
}

/// A valid upgrade request. The caller then checks the origin and the subprotocol, and writes the
/// response.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade<'r, 'a> {
    request: &'r Request<'a>,
    key: &'a [u8],
}

impl<'r, 'a> Upgrade<'r, 'a> {
    /// Checks the requirements of section 4.2.1 for a client's handshake. (`Host` was checked with
    /// the head.)
    ///
    /// # Errors
    /// See [`Refusal`]; [`Refusal::encode`] writes the response.
    pub fn check(request: &'r Request<'a>) -> Result<Upgrade<'r, 'a>, Refusal> {
        if request.method != "GET" {
            return Err(Refusal::Method);
        }
        if !Self::is_asked_for(request) {
            return Err(Refusal::NotAnUpgrade);
        }
        if request.version != Version::Http11 {
            return Err(Refusal::HttpVersion);
        }
        if !matches!(request.body, BodyFraming::None | BodyFraming::Length(0)) {
            return Err(Refusal::Body);
        }
        let fields = &request.fields;
        let mut versions = fields.all("sec-websocket-version");
        if versions.next() != Some(b"13") || versions.next().is_some() {
            return Err(Refusal::Version);
        }
        let mut keys = fields.all("sec-websocket-key");
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return Err(Refusal::Key);
        };
        // The decoder reserves its estimate of 24 characters, which is more than 16 bytes.
        let mut nonce = [0; NONCE_BYTES + 2];
        if key.len() != 24 || BASE64.decode_slice(key, &mut nonce) != Ok(NONCE_BYTES) {
            return Err(Refusal::Key);
        }
        let is_token = |element: &[u8]| element.iter().copied().all(is_token_byte);
        if !fields.list("sec-websocket-protocol").all(is_token) {
            return Err(Refusal::BadSubprotocol);
        }
        Ok(Upgrade { request, key })
    }

    /// Whether a request asks for a WebSocket, valid or not; for resources that also answer plain
    /// HTTP.
    pub fn is_asked_for(request: &Request<'_>) -> bool {
        request.fields.list_contains("upgrade", "websocket")
            && request.fields.list_contains("connection", "upgrade")
    }

    /// The request.
    pub fn request(&self) -> &'r Request<'a> {
        self.request
    }

    /// The page's origin; `None` for clients other than browsers.
    pub fn origin(&self) -> Option<&'a [u8]> {
        self.request.header("origin")
    }

    /// Refuses a browser whose origin is not allowed. Other clients send none and pass.
    ///
    /// # Errors
    /// [`Refusal::Origin`].
    pub fn check_origin(&self, is_allowed: impl Fn(&[u8]) -> bool) -> Result<(), Refusal> {
        match self.origin() {
            Some(origin) if !is_allowed(origin) => Err(Refusal::Origin),
            _ => Ok(()),
        }
    }

    /// The subprotocols that the client offers, in its order of preference.
    pub fn subprotocols(&self) -> impl Iterator<Item = &'a str> {
        // All are tokens, as checked before, so none is left out.
        self.request
            .fields
            .list("sec-websocket-protocol")
            .filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// Chooses the first subprotocol in the client's order that is among `supported`.
    ///
    /// # Errors
    /// [`Refusal::Subprotocol`] if there is none.
    pub fn choose_subprotocol(&self, supported: &[&'static str]) -> Result<&'static str, Refusal> {
        self.subprotocols()
            .find_map(|offered| supported.iter().copied().find(|name| *name == offered))
            .ok_or(Refusal::Subprotocol)
    }

    /// The messages that the client sent with its handshake, as masked frames of this kind in the
    /// order of the offers. Each offered name with the prefix `prefix` carries one message: the
    /// rest of the name is its bytes in base64url without padding (RFC 4648 section 5). A head is
    /// bounded, so the messages are, too.
    ///
    /// # Errors
    /// [`Refusal::BadSubprotocol`] if a name is not base64url.
    pub fn early_messages(&self, prefix: &str, kind: Opcode) -> Result<Vec<u8>, Refusal> {
        let mut frames = Vec::new();
        for name in self.subprotocols() {
            let Some(encoded) = name.strip_prefix(prefix) else {
                continue;
            };
            let decoded = BASE64_URL.decode(encoded);
            let message = decoded.map_err(|_| Refusal::BadSubprotocol)?;
            // A mask of zeros leaves the bytes unchanged.
            frame::encode(&mut frames, true, kind, &message, Some([0; 4]));
        }
        Ok(frames)
    }

    /// Chooses the compression of messages from the client's offers; `None` means without
    /// compression.
    ///
    /// # Errors
    /// [`Refusal::BadExtensions`].
    pub fn choose_deflate(&self) -> Result<Option<Agreement>, Refusal> {
        extension::accept(&self.request.fields).map_err(|_| Refusal::BadExtensions)
    }

    /// Appends the 101 response without an extension. See [`Upgrade::encode_response_with`].
    pub fn encode_response(&self, out: &mut Vec<u8>, subprotocol: Option<&str>) {
        self.encode_response_with(out, subprotocol, None);
    }

    /// Appends the 101 response. `subprotocol` must be one of the client's offers, or `None`;
    /// `deflate` the result of [`Upgrade::choose_deflate`], or `None`.
    pub fn encode_response_with(
        &self,
        out: &mut Vec<u8>,
        subprotocol: Option<&str>,
        deflate: Option<Agreement>,
    ) {
        debug_assert!(
            subprotocol.is_none_or(|chosen| self.subprotocols().any(|name| name == chosen))
        );
        let mut writer = ResponseWriter::new(out, 101)
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade")
            .header_bytes("Sec-WebSocket-Accept", &accept_key(self.key));
        if let Some(subprotocol) = subprotocol {
            writer = writer.header("Sec-WebSocket-Protocol", subprotocol);
        }
        if let Some(deflate) = deflate {
            let mut value = Vec::new();
            deflate.append_value(&mut value);
            writer = writer.header_bytes(extension::FIELD, &value);
        }
        writer.finish_head();
    }
}

/// The subprotocol name that carries `message` with the handshake; see [`Upgrade::early_messages`].
pub fn early_message(prefix: &str, message: &[u8]) -> String {
    let mut name = prefix.to_owned();
    BASE64_URL.encode_string(message, &mut name);
    name
}

/// A client's upgrade request.
#[derive(Clone, Copy, Debug)]
pub struct ClientHandshake<'a> {
    /// The host, and the port unless it is the scheme's default.
    pub host: &'a str,
    /// The path and query, percent-encoded.
    pub target: &'a str,
    /// Fresh random bytes for each connection.
    pub nonce: [u8; NONCE_BYTES],
    /// Offered subprotocols, the preferred one first.
    pub subprotocols: &'a [&'a str],
    /// Further fields, such as `Origin` or `Authorization`.
    pub headers: &'a [(&'a str, &'a str)],
    /// Whether to offer compression.
    pub deflate: bool,
}

/// The reason why a client refuses a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRefusal {
    /// The status is not 101; the body explains it.
    Status(u16),
    /// `Upgrade` or `Connection` is missing or has another value.
    NotUpgraded,
    /// `Sec-WebSocket-Accept` does not match the key.
    Accept,
    /// The subprotocol was not offered.
    Subprotocol,
    /// The extension was not offered, or not with these parameters.
    Extension,
}

impl fmt::Display for ClientRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientRefusal::Status(status) => {
                return write!(f, "server answered {status} {}", response::reason_phrase(*status));
            }
            ClientRefusal::NotUpgraded => "server did not upgrade to websocket",
            ClientRefusal::Accept => "Sec-WebSocket-Accept does not match the key",
            ClientRefusal::Subprotocol => "server chose a subprotocol that was not offered",
            ClientRefusal::Extension => "server chose an extension that was not offered",
        })
    }
}

impl std::error::Error for ClientRefusal {}

impl ClientHandshake<'_> {
    /// Appends the request (section 4.1).
    pub fn encode_request(&self, out: &mut Vec<u8>) {
        let key = self.key();
        let mut writer = RequestWriter::new(out, "GET", self.target, self.host)
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade")
            .header("Sec-WebSocket-Version", "13")
            .header_bytes("Sec-WebSocket-Key", &key);
        if !self.subprotocols.is_empty() {
            writer = writer.header("Sec-WebSocket-Protocol", &self.subprotocols.join(", "));
        }
        if self.deflate {
            writer = writer.header(extension::FIELD, extension::OFFER);
        }
        for (name, value) in self.headers {
            writer = writer.header(name, value);
        }
        writer.finish();
    }

    /// Checks the response (section 4.1, second half) and returns the server's subprotocol.
    ///
    /// # Errors
    /// See [`ClientRefusal`].
    pub fn check_response(&self, response: &Response<'_>) -> Result<Option<&str>, ClientRefusal> {
        if response.status != 101 {
            return Err(ClientRefusal::Status(response.status));
        }
        let fields = &response.fields;
        if !fields.list_contains("upgrade", "websocket")
            || !fields.list_contains("connection", "upgrade")
        {
            return Err(ClientRefusal::NotUpgraded);
        }
        let mut accepts = fields.all("sec-websocket-accept");
        if accepts.next() != Some(&accept_key(&self.key())) || accepts.next().is_some() {
            return Err(ClientRefusal::Accept);
        }
        self.check_deflate(response)?;
        let mut chosen = fields.all("sec-websocket-protocol");
        match (chosen.next(), chosen.next()) {
            (None, _) => Ok(None),
            (Some(name), None) => self
                .subprotocols
                .iter()
                .copied()
                .find(|offered| offered.as_bytes() == name)
                .map(Some)
                .ok_or(ClientRefusal::Subprotocol),
            _ => Err(ClientRefusal::Subprotocol),
        }
    }

    /// Whether messages may be compressed; for a response that has passed
    /// [`ClientHandshake::check_response`].
    ///
    /// # Errors
    /// [`ClientRefusal::Extension`].
    pub fn check_deflate(&self, response: &Response<'_>) -> Result<bool, ClientRefusal> {
        match extension::check_answer(&response.fields) {
            Ok(is_granted) if self.deflate || !is_granted => Ok(is_granted),
            _ => Err(ClientRefusal::Extension),
        }
    }

    fn key(&self) -> [u8; 24] {
        let mut key = [0; 24];
        // Sixteen bytes always fill 24 characters.
        let written = BASE64.encode_slice(self.nonce, &mut key);
        debug_assert_eq!(written, Ok(24));
        key
    }
}
