//! Admission at one I/O thread: its limits, its rate, and the answers of refusals.
//!
//! Place: between the network's `Accepted` and the edge, and at the end of connections.
//! [`crate::admission`] has the state that all threads share. A node without such limits has no
//! door. Invariant: each admitted connection leaves once.

use crate::admission::{Admission, Entrance, Pass, Refused};
use broker::now::Now;
use net::Conn;
use std::net::IpAddr;
use std::sync::Arc;
use stdx::handing::Hand;
use stdx::pages::Pages;
use stdx::rate::{Allowance, Bucket};
use wire::http::{Problem, ResponseWriter};
use wire::native::ErrorCode;

/// Number of passes in a page.
const PAGE: usize = 1_024;
/// Bit of the pass of a connection with TLS.
const TLS: u64 = 1 << 32;
/// No connection.
const ABSENT: u64 = u64::MAX;

/// The parameters of a door.
#[derive(Clone, Debug)]
pub struct DoorOptions {
    /// The table of all threads; none without limits.
    pub admission: Option<Arc<Admission>>,
    /// Number of the first listener with TLS.
    pub first_tls_listener: u8,
    /// Maximum rate of connects per second of this thread; faster ones wait in the listeners'
    /// queues.
    pub connect_rate_max: Option<u32>,
}

/// A door; see the module.
#[derive(Debug)]
pub struct Door {
    options: DoorOptions,
    /// The pass and listener kind of each connection by its index, or [`ABSENT`].
    passes: Pages<u64, PAGE>,
    pace: Bucket,
    /// Time before which no connection is accepted, in milliseconds of the monotonic clock.
    closed_until_ms: Option<u64>,
}

/// Addresses for which connections count at the previous door, by ascending index. An IPv6 address
/// stands for its network.
pub(crate) type Counted = Vec<(u32, IpAddr)>;

/// The required change of the listeners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listeners {
    /// No change.
    Keep,
    /// Stop accepting for now.
    Pause,
    /// Accept again.
    Resume,
}

impl Door {
    /// Creates a door without connections.
    pub fn new(options: DoorOptions) -> Door {
        Door { options, passes: Pages::new(), pace: Bucket::default(), closed_until_ms: None }
    }

    /// Admits a connection.
    ///
    /// # Errors
    /// The connection must get this answer and be closed.
    pub(crate) fn enter(
        &mut self,
        conn: Conn,
        address: IpAddr,
        listener: u8,
        now: Now,
    ) -> Result<(), Refused> {
        if let Some(rate_max) = self.options.connect_rate_max {
            let allowance = Allowance::per_second(rate_max.into());
            self.pace.force(allowance, now.monotonic_ms, 1);
        }
        let Some(admission) = &self.options.admission else {
            return Ok(());
        };
        let entrance = if listener >= self.options.first_tls_listener {
            Entrance::Tls
        } else {
            Entrance::Plain
        };
        let pass = admission.enter(entrance, address, now.monotonic_ms)?;
        self.hold(conn, entrance, pass);
        Ok(())
    }

    /// Counts a connection that the old process has admitted; it is never refused.
    pub(crate) fn count_again(&mut self, conn: Conn, address: Option<IpAddr>, is_encrypted: bool) {
        let Some(admission) = &self.options.admission else {
            return;
        };
        let entrance = if is_encrypted { Entrance::Tls } else { Entrance::Plain };
        let pass = admission.count_again(entrance, address);
        self.hold(conn, entrance, pass);
    }

    fn hold(&mut self, conn: Conn, entrance: Entrance, pass: Pass) {
        self.passes.grow_to(conn.index, || ABSENT);
        let tls = if entrance == Entrance::Tls { TLS } else { 0 };
        self.passes[conn.index] = tls | u64::from(pass.number());
    }

    /// Moves the connection to another client.
    ///
    /// # Errors
    /// The refusal, as for [`Door::enter`]; the connection then counts for no address, and must be
    /// closed.
    pub(crate) fn change(&mut self, conn: Conn, address: IpAddr, now: Now) -> Result<(), Refused> {
        let Some(admission) = &self.options.admission else {
            return Ok(());
        };
        let Some(held) = self.passes.get_mut(conn.index).filter(|held| **held != ABSENT) else {
            return Ok(());
        };
        let changed = admission.change(Pass::of(*held as u32), address, now.monotonic_ms);
        let pass = changed.unwrap_or(Pass::FREE);
        *held = *held & TLS | u64::from(pass.number());
        changed.map(|_| ())
    }

    /// Counts the end of the connection. A second call has no effect.
    pub(crate) fn leave(&mut self, conn: Conn, now: Now) {
        let (Some(admission), Some(held)) =
            (&self.options.admission, self.passes.get_mut(conn.index))
        else {
            return;
        };
        let held = std::mem::replace(held, ABSENT);
        if held != ABSENT {
            let entrance = match held & TLS {
                0 => Entrance::Plain,
                _ => Entrance::Tls,
            };
            admission.leave(entrance, Pass::of(held as u32), now.monotonic_ms);
        }
    }

    /// Appends the rate of connects, and the addresses for which they count.
    pub(crate) fn hand_over(&self, out: &mut Vec<u8>) {
        self.pace.give(out);
        let mut counted = Counted::new();
        if let Some(admission) = &self.options.admission {
            for (index, held) in (0..).zip(self.passes.iter()) {
                let is_held = *held != ABSENT;
                let address = is_held.then(|| admission.address_of(Pass::of(*held as u32)));
                counted.extend(address.flatten().map(|address| (index, address)));
            }
        }
        counted.give(out);
    }

    /// Takes over the rate of the previous door. Listeners are open at first, until
    /// [`Door::listeners`] decides otherwise.
    pub(crate) fn set_pace(&mut self, pace: Bucket) {
        self.pace = pace;
    }

    /// Called once a turn, after all admissions.
    pub(crate) fn listeners(&mut self, now: Now) -> Listeners {
        let Some(rate_max) = self.options.connect_rate_max else {
            return Listeners::Keep;
        };
        let allowance = Allowance::per_second(rate_max.into());
        let next_ms = self.pace.next_ms(allowance, now.monotonic_ms);
        let is_open = next_ms <= now.monotonic_ms;
        let was_open = self.closed_until_ms.is_none();
        self.closed_until_ms = (!is_open).then_some(next_ms);
        match (was_open, is_open) {
            (true, false) => Listeners::Pause,
            (false, true) => Listeners::Resume,
            _ => Listeners::Keep,
        }
    }

    /// Time of the next check of the listeners.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.closed_until_ms
    }

    /// Touched bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.passes.memory_bytes()
    }
}

/// The answer to a refused connection.
pub(crate) fn refusal(code: ErrorCode, retry_after_s: u32) -> Vec<u8> {
    let status = code.http_status();
    let mut out = Vec::with_capacity(384);
    let writer = ResponseWriter::new(&mut out, status)
        .keep_alive(false)
        .header("Retry-After", &retry_after_s.to_string());
    let problem = Problem {
        type_uri: "",
        title: wire::http::response::reason_phrase(status),
        status,
        detail: code.text(),
        code: code.name(),
        present: None,
    };
    problem.finish(writer);
    out
}

/// The refusal of new connections during a shortage of memory, and the seconds until another
/// attempt.
pub(crate) fn without_memory() -> (ErrorCode, u32) {
    (ErrorCode::MemoryFull, RETRY_MEMORY_S)
}

/// Memory becomes available when a client leaves or a log drops records.
const RETRY_MEMORY_S: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{AdmissionOptions, EntranceLimits};
    use stdx::handing::Input;

    fn at(monotonic_ms: u64) -> Now {
        Now { monotonic_ms, unix_ms: 0 }
    }

    fn conn(index: u32) -> Conn {
        Conn { index, generation: 1 }
    }

    #[test]
    fn connections_above_the_rate_wait_in_the_queue() {
        let mut door = Door::new(DoorOptions {
            admission: None,
            first_tls_listener: 1,
            connect_rate_max: Some(10),
        });
        let address = "192.0.2.1".parse().unwrap();
        for index in 0..15 {
            door.enter(conn(index), address, 0, at(1_000)).unwrap();
        }
        assert_eq!(door.listeners(at(1_000)), Listeners::Pause);
        let until_ms = door.next_deadline_ms().unwrap();
        assert_eq!(until_ms, 1_600);
        assert_eq!(door.listeners(at(1_599)), Listeners::Keep);
        assert_eq!(door.listeners(at(1_600)), Listeners::Resume);
        assert_eq!(door.next_deadline_ms(), None);
    }

    #[test]
    fn a_connection_leaves_once() {
        let admission = Arc::new(Admission::new(AdmissionOptions {
            connections_per_address_max: Some(1),
            ..AdmissionOptions::default()
        }));
        let mut door = Door::new(DoorOptions {
            admission: Some(Arc::clone(&admission)),
            first_tls_listener: 1,
            connect_rate_max: None,
        });
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        door.enter(conn(0), one, 0, at(1)).unwrap();
        assert!(door.enter(conn(1), one, 1, at(1)).is_err());
        door.leave(conn(1), at(1));
        assert!(door.enter(conn(1), one, 0, at(1)).is_err());
        door.change(conn(0), two, at(1)).unwrap();
        door.enter(conn(1), one, 1, at(1)).unwrap();
        assert!(door.change(conn(1), two, at(1)).is_err());
        for _ in 0..2 {
            door.leave(conn(0), at(1));
            door.leave(conn(1), at(1));
        }
        assert_eq!(admission.statistics().addresses, 0);
        assert_eq!(door.listeners(at(1)), Listeners::Keep);
    }

    /// Connections of the previous process count at this door even beyond the limits, and leave
    /// like others.
    #[test]
    fn handed_over_connections_count() {
        let admission = Arc::new(Admission::new(AdmissionOptions {
            connections_per_address_max: Some(1),
            tls: EntranceLimits { connections_max: Some(2), connect_rate_max: None },
            ..AdmissionOptions::default()
        }));
        let mut door = Door::new(DoorOptions {
            admission: Some(Arc::clone(&admission)),
            first_tls_listener: 1,
            connect_rate_max: None,
        });
        let [v4, v6]: [IpAddr; 2] = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap());
        for (index, address) in [(0, Some(v4)), (1, Some(v4)), (2, Some(v6)), (3, None)] {
            door.count_again(conn(index), address, index >= 2);
        }
        // Of the address, of the network, of the listener.
        for (address, listener) in [(v4, 0), (v6, 0), ("192.0.2.9".parse().unwrap(), 1)] {
            assert!(door.enter(conn(4), address, listener, at(1)).is_err());
        }
        // And so in the next one.
        let mut bytes = Vec::new();
        door.hand_over(&mut bytes);
        let mut input = Input::new(&bytes);
        let pace: Option<Bucket> = Hand::take(&mut input);
        assert_eq!(pace, Some(Bucket::default()));
        let network = "2001:db8::".parse().unwrap();
        let expected = vec![(0, v4), (1, v4), (2, network)];
        assert_eq!(Counted::take(&mut input), Some(expected));
        assert_eq!(input.left(), 0);
        door.leave(conn(0), at(1));
        assert!(door.enter(conn(4), v4, 0, at(1)).is_err());
        door.leave(conn(1), at(1));
        assert!(door.enter(conn(4), v4, 0, at(1)).is_ok());
        door.leave(conn(3), at(1));
        assert!(door.enter(conn(3), v6, 1, at(1)).is_err());
        door.leave(conn(2), at(1));
        assert!(door.enter(conn(3), v6, 1, at(1)).is_ok());
        for index in 0..5 {
            door.leave(conn(index), at(1));
        }
        assert_eq!(admission.statistics().addresses, 0);
    }

    #[test]
    fn refusals_name_their_code() {
        let text = String::from_utf8(refusal(ErrorCode::RateLimited, 3)).unwrap();
        assert!(text.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{text}");
        assert!(text.contains("Retry-After: 3\r\n") && text.contains("Connection: close\r\n"));
        assert!(text.contains("\"code\":\"rate_limited\""), "{text}");
    }
}
