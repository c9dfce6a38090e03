//! The turn of handshakes: their received bytes are read, and a bounded number advances.
//!
//! Place: the end of [`crate::Tls`]'s poll. Invariants: first come, first served; a connection
//! waits in the list at most once; a handshake ends in `Open`, or in an alert and a `Closed`.

use net::{Certified, Close, Conn, Event, Net, Read};
use rustls::{CertificateError, Error};
use std::io::{self, IoSlice};
use std::sync::atomic::AtomicU64;

use crate::connection::{Buffers, Flags, Open, State};
use crate::counters::{Counters, add};
use crate::handshake::{Established, Failure, Handshake, Progress};
use crate::writing::send;
use crate::{HANDSHAKES_TURN_MAX, Tls, tell_readable};

impl<N: Net> Tls<N> {
    /// Adds a connection with work to do to the list.
    pub(crate) fn queue(&mut self, place: u32) {
        let connection = &mut self.connections[place];
        if !connection.flags.has(Flags::QUEUED) {
            connection.flags.set(Flags::QUEUED);
            self.handshakes.push_back(connection.conn);
        }
    }

    pub(crate) fn handshake_turn(&mut self, events: &mut Vec<Event>) {
        let mut steps = 0;
        while steps < HANDSHAKES_TURN_MAX
            && let Some(conn) = self.handshakes.pop_front()
        {
            // Connections that have ended meanwhile cost nothing.
            if let Some(place) = self.place(conn) {
                self.connections[place].flags.clear(Flags::QUEUED);
                self.handshake_step(place, conn, events);
                steps += 1;
            }
        }
    }

    fn handshake_step(&mut self, place: u32, conn: Conn, events: &mut Vec<Event>) {
        let connection = &self.connections[place];
        if matches!(connection.state, State::Fresh) {
            if connection.flags.has(Flags::FAILED) {
                return self.gone(place, conn, io::ErrorKind::ConnectionAborted, events);
            }
            if self.is_held {
                // The received bytes wait in the network.
                return;
            }
        }
        let taken = self.put(place, State::Fresh);
        let handshake = match (taken, &self.accepts) {
            (State::Handshake(handshake), _) => handshake,
            (State::Fresh, Some(accepts)) => match Handshake::server(accepts.current.get()) {
                Ok(handshake) => Box::new(handshake),
                Err(error) => {
                    let failure = Failure::Rustls(error);
                    return self.handshake_failed(place, conn, failure, &[], events);
                }
            },
            (state, _) => {
                self.put(place, state);
                return;
            }
        };
        let mut incoming = self.take_incoming();
        let room = handshake.room().min(incoming.len());
        let flags = &mut self.connections[place].flags;
        let mut have = 0;
        let mut end = None;
        if flags.has(Flags::NET_READY) {
            match self.net.read(conn, &mut incoming[..room]) {
                Read::Data(count) => {
                    have = count;
                    if count < room {
                        flags.clear(Flags::NET_READY);
                    }
                }
                Read::Blocked => flags.clear(Flags::NET_READY),
                Read::Ended => end = Some(io::ErrorKind::UnexpectedEof),
                Read::Failed(kind) => end = Some(kind),
            }
        }
        let progress = match end {
            None => Ok(handshake.advance(&incoming[..have])),
            Some(kind) => Err(kind),
        };
        self.give_incoming(incoming, have);
        match progress {
            Err(kind) => self.gone(place, conn, kind, events),
            Ok(Progress::Waits(mut handshake)) => {
                send(&mut self.net, conn, &mut handshake.output);
                self.put(place, State::Handshake(handshake));
                if self.connections[place].flags.has(Flags::NET_READY) {
                    self.queue(place);
                }
            }
            Ok(Progress::Done(established, output)) => {
                self.established(place, *established, output, events);
            }
            Ok(Progress::Failed(failure, output)) => {
                self.handshake_failed(place, conn, failure, &output, events);
            }
        }
    }

    fn established(
        &mut self,
        place: u32,
        established: Established,
        output: Vec<u8>,
        events: &mut Vec<Event>,
    ) {
        let Established { layer, is_resumed, tickets, identity, input } = established;
        let conn = self.connections[place].conn;
        if let Some((name, expires_s)) = identity {
            self.certified.push(Certified { conn, name, expires_s });
        }
        let mut open = Open { layer, tickets, buffers: None };
        let has_input = !input.is_empty();
        let has_output = !output.is_empty();
        open.give_buffers(Buffers { records: input, tail: output, ..Buffers::default() });
        self.put(place, State::Open(Box::new(open)));
        add(
            if is_resumed {
                &self.counters.handshakes_resumed
            } else {
                &self.counters.handshakes_full
            },
            1,
        );
        let connection = &mut self.connections[place];
        if connection.flags.has(Flags::CLIENT) {
            events.push(Event::Connected(conn));
        }
        if has_input || connection.flags.has(Flags::NET_READY) {
            tell_readable(connection, events);
        }
        if connection.flags.has(Flags::WRITE_BLOCKED) {
            connection.flags.clear(Flags::WRITE_BLOCKED);
            events.push(Event::Writable(conn));
        }
        if has_output {
            // The caller most often writes now: a client its request, a server the answer.
            connection.flags.set(Flags::HELD);
            self.held.push(conn);
        }
    }

    /// The peer ended or lost the connection before the handshake was done.
    fn gone(&mut self, place: u32, conn: Conn, reason: io::ErrorKind, events: &mut Vec<Event>) {
        add(&self.counters.failed_gone, 1);
        self.note_failure(
            place,
            conn,
            "the peer closed the connection in the TLS handshake".into(),
        );
        self.net.close(conn, Close::Graceful);
        self.remove(place);
        events.push(Event::Closed { conn, reason });
    }

    fn handshake_failed(
        &mut self,
        place: u32,
        conn: Conn,
        failure: Failure,
        alert: &[u8],
        events: &mut Vec<Event>,
    ) {
        let counters = &self.counters;
        let counter = match &failure {
            Failure::PlainHttp => &counters.failed_plain_http,
            Failure::Rustls(Error::AlertReceived(_)) => &counters.failed_refused_by_peer,
            Failure::Rustls(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => {
                &counters.failed_no_agreement
            }
            Failure::Rustls(Error::NoCertificatesPresented) => &counters.failed_certificate_missing,
            Failure::Rustls(Error::InvalidCertificate(error)) => {
                counter_of_certificate(counters, error)
            }
            Failure::TooLong | Failure::Rustls(_) => &counters.failed_malformed,
        };
        add(counter, 1);
        self.note_failure(place, conn, failure.to_string());
        // If it does not fit, the peer sees only the end.
        let _ = self.net.write(conn, &[IoSlice::new(alert)]);
        self.net.close(conn, Close::Graceful);
        self.remove(place);
        events.push(Event::Closed { conn, reason: io::ErrorKind::InvalidData });
    }

    pub(crate) fn note_failure(&mut self, place: u32, conn: Conn, failure: String) {
        if self.connections[place].flags.has(Flags::CLIENT) {
            self.failure = Some((conn, failure));
        }
    }
}

/// The counter of a peer's certificate that is refused for this reason.
fn counter_of_certificate<'a>(counters: &'a Counters, error: &CertificateError) -> &'a AtomicU64 {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => &counters.failed_certificate_expired,
        // An authority of the same name has another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            &counters.failed_certificate_unknown
        }
        CertificateError::Revoked | CertificateError::UnknownRevocationStatus => {
            &counters.failed_certificate_revoked
        }
        _ => &counters.failed_certificate_invalid,
    }
}
