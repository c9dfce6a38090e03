//! The server's side over real sockets: connections of one scenario, one after another.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use tungstenite::protocol::{CloseFrame, Role};
use tungstenite::{Message, WebSocket};
use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request};
use wire::native::EARLY_FRAME_PREFIX;
use wire::websocket::frame::Opcode;
use wire::websocket::handshake::Upgrade;

/// An act of the client.
#[derive(Debug)]
pub enum Arrival {
    /// It wants a connection to this path.
    Connect(String),
    /// It has sent a frame.
    Frame(Vec<u8>),
    /// It has ended the connection; 1006 without a close frame.
    Closed(u16),
    /// It has broken the rules of WebSocket.
    Broken(String),
}

/// A listener on an ephemeral port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Streams that have not sent a whole request yet.
    young: Vec<(TcpStream, Vec<u8>)>,
    /// Requests that no step has answered yet.
    asking: VecDeque<(TcpStream, Vec<u8>)>,
    /// Streams that are never answered.
    hanging: Vec<TcpStream>,
    open: Option<WebSocket<TcpStream>>,
    /// The server has ended `open`.
    has_ended: bool,
    run: u64,
}

impl Server {
    /// Listens on loopback.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub fn listen() -> std::io::Result<Server> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        listener.set_nonblocking(true)?;
        Ok(Server {
            listener,
            young: Vec::new(),
            asking: VecDeque::new(),
            hanging: Vec::new(),
            open: None,
            has_ended: false,
            run: 0,
        })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().map_or(0, |address| address.port())
    }

    /// Begins another scenario: connections of the last one are refused from now on.
    pub(crate) fn begin(&mut self) {
        self.run += 1;
        self.young.clear();
        self.asking.clear();
        self.hanging.clear();
        self.open = None;
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("ws://127.0.0.1:{}/run-{}/{name}", self.port(), self.run)
    }

    /// Everything that has arrived.
    pub(crate) fn arrivals(&mut self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok() {
                self.young.push((stream, Vec::new()));
            }
        }
        let marker = format!("/run-{}/", self.run);
        let mut young = std::mem::take(&mut self.young);
        young.retain_mut(|(stream, head)| match read_head(stream, head) {
            Head::More => true,
            Head::Gone => false,
            Head::Path(path) => {
                if let Some(name) = path.strip_prefix(&marker)
                    && let Ok(stream) = stream.try_clone()
                {
                    arrivals.push(Arrival::Connect(name.to_owned()));
                    self.asking.push_back((stream, std::mem::take(head)));
                }
                false
            }
        });
        self.young.append(&mut young);
        self.receive(&mut arrivals);
        arrivals
    }

    fn receive(&mut self, arrivals: &mut Vec<Arrival>) {
        while let Some(socket) = &mut self.open {
            match socket.read() {
                Ok(Message::Binary(bytes)) => arrivals.push(Arrival::Frame(bytes.to_vec())),
                Ok(Message::Text(text)) => {
                    arrivals.push(Arrival::Broken(format!("a text message: {text}")));
                }
                Ok(Message::Close(frame)) => {
                    let code = frame.map_or(1005, |frame| frame.code.into());
                    self.ended_by_client(code, arrivals);
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    return;
                }
                Err(tungstenite::Error::ConnectionClosed) => {
                    self.open = None;
                }
                Err(_) => {
                    self.ended_by_client(1006, arrivals);
                    self.open = None;
                }
            }
        }
    }

    fn ended_by_client(&mut self, code: u16, arrivals: &mut Vec<Arrival>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            arrivals.push(Arrival::Closed(code));
        }
    }

    /// Answers the oldest request with 101.
    pub(crate) fn accept(&mut self) -> Result<(), String> {
        let (mut stream, head) = self.asking.pop_front().ok_or("nobody connects")?;
        let mut scan = HeadScan::new();
        let step = Request::decode(&head, &mut scan, &HeadLimits::default());
        let Ok(Step::Done { value: request, consumed }) = step else {
            return Err("the client's handshake is malformed".to_owned());
        };
        let upgrade = Upgrade::check(&request)
            .map_err(|refusal| format!("the client's handshake: {refusal:?}"))?;
        let chosen = upgrade
            .choose_subprotocol(&["crore.v1"])
            .map_err(|_| "the client does not offer the subprotocol crore.v1")?;
        let mut answer = Vec::new();
        upgrade.encode_response(&mut answer, Some(chosen));
        stream.write_all(&answer).map_err(|error| error.to_string())?;
        let mut rest = upgrade
            .early_messages(EARLY_FRAME_PREFIX, Opcode::Binary)
            .map_err(|_| "a frame in the client's handshake is malformed")?;
        rest.extend_from_slice(&head[consumed..]);
        self.open = Some(WebSocket::from_partially_read(stream, rest, Role::Server, None));
        self.has_ended = false;
        Ok(())
    }

    /// Answers the oldest request with this status.
    pub(crate) fn refuse(&mut self, status: u64, retry_after_s: Option<u64>) -> Result<(), String> {
        let (mut stream, _) = self.asking.pop_front().ok_or("nobody connects")?;
        let retry = retry_after_s.map_or_else(String::new, |s| format!("Retry-After: {s}\r\n"));
        let answer = format!(
            "HTTP/1.1 {status} refused\r\n{retry}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).map_err(|error| error.to_string())
    }

    /// Never answers the oldest request, or drops its connection.
    pub(crate) fn ignore(&mut self, hangs: bool) -> Result<(), String> {
        let (stream, _) = self.asking.pop_front().ok_or("nobody connects")?;
        if hangs {
            self.hanging.push(stream);
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, message: Message) -> Result<(), String> {
        let socket = self.open.as_mut().ok_or("there is no connection")?;
        socket.send(message).map_err(|error| format!("the connection is gone: {error}"))
    }

    /// Ends the connection with a close code.
    pub(crate) fn close(&mut self, code: u16, reason: &str) -> Result<(), String> {
        let socket = self.open.as_mut().ok_or("there is no connection")?;
        self.has_ended = true;
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        socket.close(Some(frame)).map_err(|error| format!("the connection is gone: {error}"))?;
        // The connection stays until the client has answered, or the next one begins.
        let _ = socket.flush();
        Ok(())
    }

    /// Ends the connection without a close frame.
    pub(crate) fn cut(&mut self) -> Result<(), String> {
        self.open.take().map(|_| ()).ok_or_else(|| "there is no connection".to_owned())
    }
}

enum Head {
    More,
    Gone,
    Path(String),
}

/// Reads a request's head, as far as it has come.
fn read_head(stream: &mut TcpStream, head: &mut Vec<u8>) -> Head {
    let mut buffer = [0; 4096];
    loop {
        if head.windows(4).any(|four| four == b"\r\n\r\n") {
            let line = String::from_utf8_lossy(head);
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            return Head::Path(path);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Head::Gone,
            Ok(bytes) => head.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Head::More,
            Err(_) => return Head::Gone,
        }
    }
}
