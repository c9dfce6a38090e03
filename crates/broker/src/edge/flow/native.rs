//! The native protocol: a frame is decoded, and its commands are carried out; HELLO begins the
//! session.
//!
//! Step 3 of the path.

use crate::edge::{Edge, Protocol};
use crate::ids::ConnIndex;
use crate::notice::{Notice, Welcome};
use crate::protocol::Form;
use crate::session::native::PING_INTERVAL_MIN_S;
use crate::session::native::decode::{Frame, Violation, decode};
use wire::native::{self, ErrorCode, Reference};
use wire::websocket::close::CloseCode as WebSocketClose;

impl Edge {
    /// One native frame from a client.
    pub(crate) fn native_frame(&mut self, index: ConnIndex, bytes: &[u8]) {
        let has_begun = !self.connections.slots[index].facts().awaits_hello;
        match decode(bytes, has_begun) {
            Ok(Frame::Hello(hello)) => self.native_hello(index, &hello, bytes),
            Ok(Frame::Subscribe(items)) => self.subscribe_items(index, items.iter()),
            Ok(Frame::Unsubscribe(items)) => self.unsubscribe_items(index, items.iter()),
            Ok(Frame::Command(command)) => self.command(index, command),
            Err(violation) => self.native_violated(index, &violation, None),
        }
    }

    /// Refuses a frame, with this explanation or with the text of the code.
    #[cold]
    pub(crate) fn native_violated(
        &mut self,
        index: ConnIndex,
        violation: &Violation,
        message: Option<&str>,
    ) {
        self.statistics.protocol_errors += 1;
        let Violation { reference, refusal, .. } = *violation;
        self.notify(index, &Notice::Failed { reference, refusal, message });
        if let Some((code, reason)) = violation.close {
            self.close_websocket(index, WebSocketClose(code.number()), reason);
        }
    }

    fn native_hello(&mut self, index: ConnIndex, hello: &native::Hello<'_>, frame: &[u8]) {
        if self.identify(index, hello, frame) {
            self.native_welcome(index, hello);
        }
    }

    /// Begins the session of a client that is known by now.
    pub(crate) fn native_welcome(&mut self, index: ConnIndex, hello: &native::Hello<'_>) {
        let ticket = hello.ticket.map(|bytes| self.open_ticket(index, bytes));
        let connection = self.connection_number(index);
        let limits = &self.settings.limits;
        let ping_interval_s = match (hello.ping_interval_s, limits.ping_interval_s) {
            (0, server_s) => server_s.min(u32::from(u16::MAX)),
            // Below a few seconds pings are load, not liveness; above, the stamp's arithmetic ends.
            (wanted_s, _) => wanted_s.clamp(PING_INTERVAL_MIN_S, u32::from(u16::MAX)),
        };
        let frame_bytes_max = if self.is_anonymous(index) {
            limits.frame_bytes_max.min(limits.anonymous_input_bytes_max)
        } else {
            limits.frame_bytes_max
        };
        let settings = self.settings.clone();
        let welcome = Notice::Welcome(Welcome {
            connection,
            ping_interval_s,
            time_ms: self.now.unix_ms,
            frame_bytes_max: u64::from(frame_bytes_max),
            message_bytes_max: u64::from(self.payload_bytes_max(index)),
            subscriptions_per_session_max: self.subscriptions_max(index),
            node: Some(&settings.node_name)
                .filter(|name| !name.is_empty())
                .map(|name| name.as_str()),
            resumed: match &ticket {
                Some(Ok(ticket)) => Some(ticket.subscriptions.len() as u32),
                _ => None,
            },
            ticket_lifetime_s: settings.tickets.lifetime_s(),
        });
        let slot = &mut self.connections.slots[index];
        let form = slot.facts().form;
        slot.protocol = match form {
            Form::Binary => Protocol::Native,
            Form::Json => Protocol::Json,
        };
        self.set_ping_interval(index, ping_interval_s);
        self.count_handshake(index);
        self.stamp_hello(index);
        match form {
            Form::Binary => self.statistics.native_sessions += 1,
            Form::Json => self.statistics.json_sessions += 1,
        }
        self.access.certificates.remove(index);
        self.session_began(index);
        self.notify(index, &welcome);
        match ticket {
            None => {}
            Some(Ok(ticket)) => self.resume_ticket(index, &ticket, hello.cursors),
            Some(Err(_)) => {
                self.native_refuse(index, Reference::Connection, ErrorCode::TicketRefused);
            }
        }
    }
}
