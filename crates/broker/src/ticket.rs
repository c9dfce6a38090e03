//! Resume tickets as bytes: the state of a session, signed, so that a client can bring it back and
//! no node has to remember it.
//!
//! Beside the path: `edge::tickets` makes a ticket of a session and subscribes to the topics of one
//! that came back. The format stands in `docs/formats.md`; clients see only bytes. Invariants: no
//! part of a ticket is read before its signature holds, and signatures are compared in constant
//! time; a ticket is at most [`wire::native::TICKET_BYTES_MAX`] bytes; decoded tickets encode to
//! the same bytes.

use crate::entitlement::Entitlement;
use crate::mail::PartitionId;
use crate::position::Position;
use crate::session::identity;
use crate::settings::{LagPolicy, TicketKey, TicketSettings};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use wire::native::{TICKET_BYTES_MAX, varint};

/// The state of a session at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ticket {
    /// The time of issue, milliseconds since 1970.
    pub issued_ms: u64,
    /// The time of expiry, milliseconds since 1970.
    pub expires_ms: u64,
    /// The identity of the client, as `session::identity` writes it; empty for an anonymous one.
    pub identity: Vec<u8>,
    /// The position that was sent of each partition, for the filters; ascending.
    pub positions: Vec<(PartitionId, Position)>,
    /// In no order.
    pub subscriptions: Vec<TicketSubscription>,
}

/// One subscription of a ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TicketSubscription {
    /// The client's own number for it.
    pub client: u32,
    /// A topic or a filter; 1 to 255 bytes.
    pub filter: String,
    /// To be refused rather than to begin behind a gap.
    pub fail_on_gap: bool,
    /// Without one the rule's holds.
    pub policy: Option<LagPolicy>,
    /// The cursor up to which everything is settled.
    pub cursor: TicketCursor,
}

/// The cursor of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TicketCursor {
    /// The cursor of a plain topic.
    Plain(Position),
    /// The cursor of a filter: as the ticket's positions, but in these partitions; ascending.
    Filter(Vec<(PartitionId, Position)>),
}

/// The reason why bytes are not a ticket of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TicketRefusal {
    /// Not a ticket, or of another version.
    Malformed,
    /// Signed by none of our keys, or changed.
    Forged,
    /// The ticket has expired.
    Expired,
    /// Issued before the moment from which tickets count.
    Revoked,
}

/// The session does not fit into a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TicketTooLarge;

const VERSION: u8 = 1;
/// Version and key.
const HEAD_BYTES: usize = 5;
const SIGNATURE_BYTES: usize = 32;
/// Signed with each ticket, so that a signature under the same secret for anything else is none of
/// a ticket.
const PURPOSE: &[u8] = b"crore resume ticket";

const FAIL_ON_GAP: u8 = 1;
const FILTER: u8 = 1 << 1;
/// Above this: no policy, or one more than its number.
const POLICY_SHIFT: u32 = 2;

impl TicketKey {
    /// The key of a secret. Its id is made of the secret, so that keys can change places.
    pub fn new(secret: [u8; 32]) -> TicketKey {
        let hash = Sha256::digest(secret);
        TicketKey { id: u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]), secret }
    }

    fn mac(&self) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        mac.update(PURPOSE);
        Some(mac)
    }
}

impl Ticket {
    /// The signed bytes, by the first key. None without keys.
    pub fn issue(&self, settings: &TicketSettings) -> Option<Result<Vec<u8>, TicketTooLarge>> {
        let key = settings.keys.first()?;
        let mut bytes = Vec::with_capacity(256);
        bytes.push(VERSION);
        bytes.extend_from_slice(&key.id.to_le_bytes());
        self.encode(&mut bytes);
        if bytes.len() + SIGNATURE_BYTES > TICKET_BYTES_MAX {
            return Some(Err(TicketTooLarge));
        }
        let mut mac = key.mac()?;
        mac.update(&bytes);
        bytes.extend_from_slice(&mac.finalize().into_bytes());
        Some(Ok(bytes))
    }

    /// The ticket of bytes that a client has brought. `now_ms` is the wall clock, milliseconds
    /// since 1970.
    pub fn open(
        bytes: &[u8],
        settings: &TicketSettings,
        now_ms: u64,
    ) -> Result<Ticket, TicketRefusal> {
        if bytes.len() > TICKET_BYTES_MAX || bytes.len() < HEAD_BYTES + SIGNATURE_BYTES {
            return Err(TicketRefusal::Malformed);
        }
        let (signed, signature) = bytes.split_at(bytes.len() - SIGNATURE_BYTES);
        if signed[0] != VERSION {
            return Err(TicketRefusal::Malformed);
        }
        let id = u32::from_le_bytes([signed[1], signed[2], signed[3], signed[4]]);
        let is_ours = settings.keys.iter().filter(|key| key.id == id).any(|key| {
            key.mac().is_some_and(|mut mac| {
                mac.update(signed);
                mac.verify_slice(signature).is_ok()
            })
        });
        if !is_ours {
            return Err(TicketRefusal::Forged);
        }
        let ticket = Ticket::decode(&signed[HEAD_BYTES..]).ok_or(TicketRefusal::Malformed)?;
        if ticket.expires_ms <= now_ms {
            return Err(TicketRefusal::Expired);
        }
        if ticket.issued_ms < settings.not_before_ms {
            return Err(TicketRefusal::Revoked);
        }
        Ok(ticket)
    }

    /// The entitlement of the client. None for an anonymous one, or for an identity of another
    /// version.
    pub fn entitlement(&self) -> Option<Entitlement> {
        identity::decode(&self.identity)
    }

    /// Sets the identity of the client.
    pub fn set_entitlement(&mut self, entitlement: &Entitlement) {
        self.identity = identity::encode(entitlement);
    }

    /// Appends the signed part, after version and key.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::encode(self.issued_ms, out);
        varint::encode(self.expires_ms, out);
        write_bytes(&self.identity, out);
        let mut epochs = Epochs::default();
        epochs.write_all(&self.positions, out);
        varint::encode(self.subscriptions.len() as u64, out);
        for subscription in &self.subscriptions {
            varint::encode(u64::from(subscription.client), out);
            let mut flags = subscription.policy.map_or(0, number_of) << POLICY_SHIFT;
            if subscription.fail_on_gap {
                flags |= FAIL_ON_GAP;
            }
            if matches!(subscription.cursor, TicketCursor::Filter(_)) {
                flags |= FILTER;
            }
            out.push(flags);
            write_bytes(subscription.filter.as_bytes(), out);
            match &subscription.cursor {
                TicketCursor::Plain(position) => epochs.write(*position, out),
                TicketCursor::Filter(positions) => epochs.write_all(positions, out),
            }
        }
    }

    /// The reverse; none for anything that `encode` does not write.
    pub fn decode(bytes: &[u8]) -> Option<Ticket> {
        let mut reader = Reader(bytes);
        let (issued_ms, expires_ms) = (reader.number()?, reader.number()?);
        let identity = reader.bytes()?.to_vec();
        let mut epochs = Epochs::default();
        let positions = epochs.read_all(&mut reader)?;
        let mut subscriptions = Vec::new();
        for _ in 0..reader.number()? {
            let client = reader.number()?.try_into().ok()?;
            let flags = reader.byte()?;
            let policy = match flags >> POLICY_SHIFT {
                0 => None,
                number => Some(policy_of(number)?),
            };
            let filter = std::str::from_utf8(reader.bytes()?).ok()?;
            if filter.is_empty() || filter.len() > FILTER_BYTES_MAX {
                return None;
            }
            let cursor = match flags & FILTER {
                0 => TicketCursor::Plain(epochs.read(&mut reader)?),
                _ => TicketCursor::Filter(epochs.read_all(&mut reader)?),
            };
            subscriptions.push(TicketSubscription {
                client,
                filter: filter.to_owned(),
                fail_on_gap: flags & FAIL_ON_GAP != 0,
                policy,
                cursor,
            });
        }
        reader.0.is_empty().then_some(Ticket {
            issued_ms,
            expires_ms,
            identity,
            positions,
            subscriptions,
        })
    }
}

const FILTER_BYTES_MAX: usize = 255;

fn number_of(policy: LagPolicy) -> u8 {
    match policy {
        LagPolicy::Replay => 1,
        LagPolicy::Conflate => 2,
        LagPolicy::Drop => 3,
        LagPolicy::Disconnect => 4,
    }
}

fn policy_of(number: u8) -> Option<LagPolicy> {
    [LagPolicy::Replay, LagPolicy::Conflate, LagPolicy::Drop, LagPolicy::Disconnect]
        .into_iter()
        .find(|&policy| number_of(policy) == number)
}

/// Positions mostly belong to one log: an epoch is written once, and 0 where it is that of the
/// position before.
#[derive(Default)]
struct Epochs {
    before: u64,
}

impl Epochs {
    fn write(&mut self, position: Position, out: &mut Vec<u8>) {
        let epoch = if position.epoch == self.before { 0 } else { position.epoch };
        self.before = position.epoch;
        varint::encode(epoch, out);
        varint::encode(position.offset, out);
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Option<Position> {
        match reader.number()? {
            0 => {}
            epoch if epoch == self.before => return None,
            epoch => self.before = epoch,
        }
        Some(Position { epoch: self.before, offset: reader.number()? })
    }

    /// Partitions ascend: each is written as its distance from the least that it can be.
    fn write_all(&mut self, positions: &[(PartitionId, Position)], out: &mut Vec<u8>) {
        varint::encode(positions.len() as u64, out);
        let mut least = 0;
        for &(partition, position) in positions {
            debug_assert!(u64::from(partition.0) >= least, "partitions ascend");
            varint::encode(u64::from(partition.0).saturating_sub(least), out);
            least = u64::from(partition.0) + 1;
            self.write(position, out);
        }
    }

    fn read_all(&mut self, reader: &mut Reader<'_>) -> Option<Vec<(PartitionId, Position)>> {
        let mut positions = Vec::new();
        let mut least: u64 = 0;
        for _ in 0..reader.number()? {
            let partition = least.checked_add(reader.number()?)?;
            let partition = PartitionId(partition.try_into().ok()?);
            least = u64::from(partition.0) + 1;
            positions.push((partition, self.read(reader)?));
        }
        Some(positions)
    }
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::encode(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = varint::decode(self.0).ok()?;
        self.0 = rest;
        Some(number)
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(epoch: u64, offset: u64) -> Position {
        Position { epoch, offset }
    }

    fn ticket() -> Ticket {
        Ticket {
            issued_ms: 1_000,
            expires_ms: 9_000,
            identity: b"who".to_vec(),
            positions: vec![
                (PartitionId(0), at(7, 3)),
                (PartitionId(5), at(7, 9)),
                (PartitionId(64), at(8, 1 << 60)),
            ],
            subscriptions: vec![
                TicketSubscription {
                    client: 1,
                    filter: "news".into(),
                    fail_on_gap: true,
                    policy: None,
                    cursor: TicketCursor::Plain(at(8, 40)),
                },
                TicketSubscription {
                    client: u32::MAX,
                    filter: "x/#".into(),
                    fail_on_gap: false,
                    policy: Some(LagPolicy::Drop),
                    cursor: TicketCursor::Filter(vec![(PartitionId(5), at(7, 2))]),
                },
            ],
        }
    }

    fn settings(secrets: &[u8]) -> TicketSettings {
        TicketSettings {
            keys: secrets.iter().map(|&byte| TicketKey::new([byte; 32])).collect(),
            lifetime_ms: 8_000,
            not_before_ms: 0,
        }
    }

    #[test]
    fn comes_back() {
        let settings = settings(&[1]);
        let bytes = ticket().issue(&settings).unwrap().unwrap();
        assert_eq!(Ticket::open(&bytes, &settings, 8_999), Ok(ticket()));
        assert_eq!(Ticket::open(&bytes, &settings, 9_000), Err(TicketRefusal::Expired));
    }

    #[test]
    fn any_changed_byte_is_found() {
        let settings = settings(&[1, 2]);
        let bytes = ticket().issue(&settings).unwrap().unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut forged = bytes.clone();
                forged[at] ^= 1 << bit;
                let refusal = Ticket::open(&forged, &settings, 5_000).unwrap_err();
                let expected = match at {
                    0 => TicketRefusal::Malformed,
                    _ => TicketRefusal::Forged,
                };
                assert_eq!(refusal, expected, "byte {at}, bit {bit}");
            }
        }
        for len in 0..bytes.len() {
            assert!(Ticket::open(&bytes[..len], &settings, 5_000).is_err());
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Ticket::open(&longer, &settings, 5_000).is_err());
    }

    #[test]
    fn keys_rotate() {
        let bytes = ticket().issue(&settings(&[1])).unwrap().unwrap();
        assert!(Ticket::open(&bytes, &settings(&[2, 1]), 5_000).is_ok());
        assert_eq!(Ticket::open(&bytes, &settings(&[2, 3]), 5_000), Err(TicketRefusal::Forged));
        let newer = ticket().issue(&settings(&[2, 1])).unwrap().unwrap();
        assert!(Ticket::open(&newer, &settings(&[2]), 5_000).is_ok());
        assert_eq!(ticket().issue(&settings(&[])), None);
    }

    #[test]
    fn revoked() {
        let mut settings = settings(&[1]);
        let bytes = ticket().issue(&settings).unwrap().unwrap();
        settings.not_before_ms = 1_000;
        assert!(Ticket::open(&bytes, &settings, 5_000).is_ok());
        settings.not_before_ms = 1_001;
        assert_eq!(Ticket::open(&bytes, &settings, 5_000), Err(TicketRefusal::Revoked));
    }

    #[test]
    fn a_session_that_does_not_fit() {
        let settings = settings(&[1]);
        let of = |count: u32| Ticket {
            subscriptions: (0..count)
                .map(|client| TicketSubscription {
                    client,
                    filter: "x".repeat(100),
                    ..ticket().subscriptions[0].clone()
                })
                .collect(),
            ..ticket()
        };
        let bytes = of(150).issue(&settings).unwrap().unwrap();
        assert!(bytes.len() <= TICKET_BYTES_MAX);
        assert!(Ticket::open(&bytes, &settings, 5_000).is_ok());
        assert_eq!(of(200).issue(&settings), Some(Err(TicketTooLarge)));
    }

    proptest! {
        #[test]
        fn decoded_bytes_encode_to_the_same(bytes in proptest::collection::vec(0u8..6, 0..60)) {
            if let Some(ticket) = Ticket::decode(&bytes) {
                let mut again = Vec::new();
                ticket.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
