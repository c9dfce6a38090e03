//! Raw bytes, which no correct client would send.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// A connection of plain bytes.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Raw {
    /// Connects to `address:port`.
    pub fn connect(address: &str) -> Raw {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_nodelay(true).expect("an open socket");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("an open socket");
        Raw { stream, received: Vec::new() }
    }

    /// Connects and upgrades to a WebSocket at `path`, offering `subprotocol` if it is not empty.
    pub fn web_socket(address: &str, path: &str, subprotocol: &str) -> Raw {
        let (raw, head) = Raw::upgrade(address, path, subprotocol, "");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        raw
    }

    /// Requests an upgrade with these further fields, each with its line end, and returns the head
    /// of the answer.
    pub fn upgrade(address: &str, path: &str, subprotocol: &str, fields: &str) -> (Raw, String) {
        let mut raw = Raw::connect(address);
        let offer = match subprotocol {
            "" => String::new(),
            name => format!("Sec-WebSocket-Protocol: {name}\r\n"),
        };
        raw.send(
            format!(
                "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{offer}{fields}\r\n"
            )
            .as_bytes(),
        );
        let head = raw.read_until(b"\r\n\r\n");
        (raw, head)
    }

    /// Sends bytes. A closed peer is not a failure here: the answer counts.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a client's frame, final and masked, with this opcode and a payload of less than 64
    /// KiB.
    pub fn send_frame(&mut self, opcode: u8, payload: &[u8]) {
        self.send(&frame(opcode, payload));
    }

    /// Reads up to and including `end`; later bytes stay for the next read.
    pub fn read_until(&mut self, end: &[u8]) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut searched = 0;
        loop {
            let found = self.received[searched..].windows(end.len()).position(|bytes| bytes == end);
            if let Some(start) = found {
                let bytes = self.received.drain(..searched + start + end.len()).collect();
                return String::from_utf8(bytes).expect("the answer is UTF-8");
            }
            searched = self.received.len().saturating_sub(end.len() - 1);
            assert!(self.read(deadline), "closed or too late, after {:?}", self.text());
        }
    }

    /// Reads an HTTP answer with a length: its status and its body.
    pub fn read_answer(&mut self) -> (u16, String) {
        let head = self.read_until(b"\r\n\r\n");
        let length = head.lines().find_map(|line| {
            let lower = line.to_ascii_lowercase();
            lower.strip_prefix("content-length: ")?.parse().ok()
        });
        let body = self.take(length.expect("an answer has a length"));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let body = String::from_utf8(body).expect("the body is UTF-8");
        (status.expect("a status"), body)
    }

    /// Reads an answer; None if the server has closed instead.
    pub fn answer_or_end(&mut self) -> Option<(u16, String)> {
        let deadline = Instant::now() + PATIENCE;
        let end = b"\r\n\r\n";
        while !self.received.windows(end.len()).any(|bytes| bytes == end) {
            if !self.read(deadline) {
                assert!(Instant::now() < deadline, "neither an answer nor the end");
                return None;
            }
        }
        Some(self.read_answer())
    }

    /// Reads a server's frame: opcode and payload.
    pub fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let head = self.take(2);
        let length = match head[1] {
            126 => self.take(2).iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
            127 => self.take(8).iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
            length => usize::from(length),
        };
        (head[0] & 0x0f, self.take(length))
    }

    /// Reads until a close frame and returns its code; other frames are skipped.
    pub fn close_code(&mut self) -> u16 {
        loop {
            if let (8, payload) = self.read_frame() {
                return u16::from_be_bytes([payload[0], payload[1]]);
            }
        }
    }

    /// Reads to the end of the stream and returns all unread bytes. Panics if the server does not
    /// close.
    pub fn read_to_close(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        while self.read(deadline) {}
        assert!(Instant::now() < deadline, "still open, after {:?}", self.text());
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Whether the server closes within `duration`.
    pub fn closes_within(&mut self, duration: Duration) -> bool {
        let deadline = Instant::now() + duration;
        while self.read(deadline) {}
        Instant::now() < deadline
    }

    /// Reads `count` bytes.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        while self.received.len() < count {
            assert!(self.read(deadline), "closed or too late, after {:?}", self.text());
        }
        self.received.drain(..count).collect()
    }

    /// Waits for more bytes. False at the end of the stream, or at the deadline.
    fn read(&mut self, deadline: Instant) -> bool {
        let mut bytes = [0; 65_536];
        while Instant::now() < deadline {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => {
                    self.received.extend_from_slice(&bytes[..count]);
                    return true;
                }
                // A read with a timeout is interrupted even without a handler: by a stop of this
                // process, or by the end of a child that another thread has started.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// The last bytes that were received but not read.
    fn text(&self) -> String {
        let start = self.received.len().saturating_sub(300);
        String::from_utf8_lossy(&self.received[start..]).into_owned()
    }
}

/// A client's frame as [`Raw::send_frame`] sends it, for several in one write.
pub fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(payload.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0x80 | 126);
            let length = u16::try_from(payload.len()).expect("a short payload");
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::process::Command;

    #[test]
    fn a_read_continues_after_a_stop_of_the_process() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let mut raw = Raw::connect(&address);
        let script = "kill -STOP $PPID; sleep 0.05; kill -CONT $PPID";
        let mut stops = Command::new("sh").args(["-c", script]).spawn().expect("a shell");
        assert!(!raw.closes_within(Duration::from_millis(500)));
        assert!(stops.wait().expect("our child").success());
    }
}
