//! Admission in the reactor: it calls the door for each connection, and answers refused ones.
//!
//! Beside step 1 of the path. For a node without limits and with enough memory, this costs one or
//! two branches.

use super::Reactor;
use crate::door::{self, Listeners};
use crate::mailbox::Mailbox;
use crate::reactor::Clock;
use broker::edge::{Pressure, UserChange};
use net::{Close, Conn, Net, Write};
use std::io::IoSlice;
use std::net::IpAddr;

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    /// Admits a connection, or answers with the refusal.
    pub(super) fn accept(&mut self, conn: Conn, peer: IpAddr, listener: u8) {
        let refusal = match &mut self.door {
            _ if self.pressed >= Pressure::Newcomers => {
                self.pressure.count_refused();
                Some(door::without_memory())
            }
            None => None,
            Some(door) => door
                .enter(conn, peer, listener, self.now)
                .err()
                .map(|refused| (refused.code, refused.retry_after_s)),
        };
        match refusal {
            None => {
                self.edge.accepted(conn, peer);
                if self.net.is_encrypted(conn) {
                    self.edge.came_by_tls(conn);
                }
                if self.edge.notes_origins() {
                    self.edge.accepted_through(conn, peer, listener);
                }
            }
            Some((code, retry_after_s)) => {
                let refusal = door::refusal(code, retry_after_s);
                // The buffer of a new socket takes the whole answer. With TLS, no answer is
                // possible yet.
                if let Write::Wrote(_) = self.net.write(conn, &[IoSlice::new(&refusal)]) {
                    self.edge.count_code(code);
                }
                self.net.close(conn, Close::Graceful);
            }
        }
    }

    /// Sends the events of clients to the writer of the log.
    #[cold]
    pub(super) fn hand_over_journal(&mut self) {
        let entries = std::mem::take(&mut self.edge.out.journal);
        if let Some(journal) = &self.journal {
            journal.send(entries);
        }
    }

    /// Handles the end of a connection.
    pub(super) fn leave(&mut self, conn: Conn) {
        if let Some(door) = &mut self.door {
            door.leave(conn, self.now);
        }
    }

    /// Delays later connections if too many were admitted.
    pub(super) fn pace_listeners(&mut self) {
        let Some(door) = &mut self.door else {
            return;
        };
        match door.listeners(self.now) {
            _ if self.is_draining || self.is_held => {}
            Listeners::Keep => {}
            Listeners::Pause => self.net.pause_accepting(),
            Listeners::Resume => self.net.resume_accepting(),
        }
    }

    /// Moves connections of proxies to other clients.
    pub(super) fn change_clients(&mut self) {
        for (conn, client) in std::mem::take(&mut self.edge.out.clients) {
            let door = self.door.as_mut();
            match door.map_or(Ok(()), |door| door.change(conn, client, self.now)) {
                Ok(()) => self.edge.client_admitted(conn, client),
                Err(refused) => self.edge.client_refused(conn, refused.code),
            }
        }
    }

    /// Processes connections that begin and end for users in their order: an ended connection makes
    /// room for the next.
    #[cold]
    pub(super) fn change_users(&mut self) {
        // An answer may close another connection.
        while !self.edge.out.users.is_empty() {
            for change in std::mem::take(&mut self.edge.out.users) {
                match change {
                    UserChange::Leaves { user } => self.users.leave(&user),
                    UserChange::Comes { connection, user, connections_max } => {
                        if self.users.enter(&user, connections_max) {
                            self.edge.user_admitted(connection, &user)
                        } else {
                            self.edge.user_refused(connection)
                        }
                    }
                }
            }
        }
    }

    pub(super) fn feel_pressure(&mut self) {
        let pressure = self.pressure.get();
        if pressure != self.pressed {
            self.pressed = pressure;
            self.edge.set_pressure(pressure);
        }
    }
}
