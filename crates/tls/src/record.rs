//! The record layer after the handshake (RFC 8446, section 5; RFC 5246, section 6.2): records in,
//! text out, and back.
//!
//! Place: between the adaptor, which owns the bytes, and `keys`. No I/O; the state is the keys, a
//! few flags and, in the caller's [`Inbox`], an unfinished message of the handshake protocol.
//! Invariants: any input is opened in place or is a [`Fault`]; nothing follows a fault; too many
//! records without data in a row are a fault, so that a peer cannot keep the node busy for nothing.

use aws_lc_rs::aead::LessSafeKey;
use std::io::IoSlice;
use stdx::handing::Hand;

use crate::alert::{FATAL, Fault, WARNING, description};
use crate::keys::{self, Keys, TAG_BYTES};

/// Type, version, length.
pub(crate) const HEADER_BYTES: usize = 5;
/// Maximum length of the text of one record: 2^14.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 14;
/// Maximum number of bytes that the peer may add to it: in TLS 1.3 the type, padding and tag; TLS
/// 1.2 allows more.
const EXPANSION_13_MAX: usize = 256;
const EXPANSION_12_MAX: usize = 2048;
/// The longest record of either version.
pub(crate) const RECORD_BYTES_MAX: usize = HEADER_BYTES + TEXT_BYTES_MAX + EXPANSION_12_MAX;
/// Maximum number of records without data in a row.
const QUIET_RECORDS_MAX: u8 = 32;
/// Maximum length of a handshake message after the handshake: a ticket is a little over 2^16.
const MESSAGE_BYTES_MAX: usize = (1 << 16) + 512;
const EXPLICIT_BYTES: usize = 8;

/// The numbers of record types.
pub(crate) mod kind {
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const DATA: u8 = 23;
}

const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// The negotiated version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Version {
    Tls12,
    Tls13,
}

/// Our end of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Side {
    Server,
    Client,
}

/// An established connection: keys of both directions, and little else.
#[derive(Hand)]
pub(crate) struct RecordLayer {
    read: Keys,
    write: Keys,
    version: Version,
    side: Side,
    /// Records without data since the last with data.
    quiet: u8,
    /// The peer has requested new keys before our next data.
    update_due: bool,
}

/// The content of one record.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Opened<'a> {
    /// Application data, at least one byte.
    Data(&'a [u8]),
    /// Nothing for the caller.
    Nothing,
    /// The peer ends its stream here.
    Ended,
    /// The peer asks for a new handshake (TLS 1.2), which is refused with a warning.
    Renegotiation,
}

/// The rare state between two records: its owner keeps it only while it is not empty.
#[derive(Default, Hand)]
pub(crate) struct Inbox {
    /// An incomplete message of the handshake protocol.
    pub(crate) message: Vec<u8>,
    /// Bodies of session tickets for the client.
    pub(crate) tickets: Vec<Vec<u8>>,
}

impl RecordLayer {
    pub(crate) fn new(version: Version, side: Side, read: Keys, write: Keys) -> RecordLayer {
        RecordLayer { read, write, version, side, quiet: 0, update_due: false }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The length of the record at the start of `input`; none while its header is incomplete.
    /// Checks the header.
    ///
    /// # Errors
    /// The header is not allowed after the handshake.
    pub(crate) fn record_len(&self, input: &[u8]) -> Result<Option<usize>, Fault> {
        let Some(&[kind, major, minor, high, low]) = input.first_chunk() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let longest = match self.version {
            Version::Tls13 => {
                // Every record has the type of data, and a fixed version (section 5.2).
                if kind != kind::DATA {
                    return Err(Fault::UnexpectedMessage);
                }
                TEXT_BYTES_MAX + EXPANSION_13_MAX
            }
            Version::Tls12 => {
                if !(kind::ALERT..=kind::DATA).contains(&kind) {
                    return Err(Fault::UnexpectedMessage);
                }
                if (major, minor) != (3, 3) {
                    return Err(Fault::Version);
                }
                TEXT_BYTES_MAX + EXPANSION_12_MAX
            }
        };
        if length > longest {
            return Err(Fault::RecordOverflow);
        }
        Ok(Some(HEADER_BYTES + length))
    }

    /// Opens one whole record in place. `context` is the expanded key of the batch, created if
    /// there is none.
    ///
    /// # Errors
    /// The connection must end.
    pub(crate) fn open<'a>(
        &mut self,
        context: &mut Option<LessSafeKey>,
        record: &'a mut [u8],
        inbox: &mut Inbox,
    ) -> Result<Opened<'a>, Fault> {
        let (kind, text) = self.unseal(context, record)?;
        // A message of the handshake protocol may span records, without others in between
        // (section 5.1).
        if kind != kind::HANDSHAKE && !inbox.message.is_empty() {
            return Err(Fault::UnexpectedMessage);
        }
        if kind == kind::DATA && !text.is_empty() {
            self.quiet = 0;
            return Ok(Opened::Data(text));
        }
        self.quiet += 1;
        if self.quiet > QUIET_RECORDS_MAX {
            return Err(Fault::UnexpectedMessage);
        }
        match kind {
            kind::DATA => Ok(Opened::Nothing),
            kind::ALERT => self.alert(text),
            kind::HANDSHAKE => self.handshake(context, text, inbox),
            _ => Err(Fault::UnexpectedMessage),
        }
    }

    /// Verifies and decrypts; returns the true type and the text.
    fn unseal<'a>(
        &mut self,
        context: &mut Option<LessSafeKey>,
        record: &'a mut [u8],
    ) -> Result<(u8, &'a [u8]), Fault> {
        let context = match context {
            Some(context) => context,
            None => context.insert(self.read.context()?),
        };
        let Some((header, body)) = record.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Err(Fault::Decode);
        };
        let (kind, text) = match self.version {
            Version::Tls13 => {
                let text = keys::open(context, self.read.nonce(), header, body)?;
                if text.len() > TEXT_BYTES_MAX + 1 {
                    return Err(Fault::RecordOverflow);
                }
                // The type is the last byte before the padding.
                let Some(end) = text.iter().rposition(|byte| *byte != 0) else {
                    return Err(Fault::UnexpectedMessage);
                };
                (text[end], &text[..end])
            }
            Version::Tls12 => {
                let (nonce, sealed) = if self.read.has_explicit_nonce() {
                    let Some((explicit, sealed)) = body.split_first_chunk_mut::<EXPLICIT_BYTES>()
                    else {
                        return Err(Fault::BadRecordMac);
                    };
                    (self.read.nonce_with(*explicit), sealed)
                } else {
                    (self.read.nonce(), body)
                };
                let Some(length) = sealed.len().checked_sub(TAG_BYTES) else {
                    return Err(Fault::BadRecordMac);
                };
                let additional = additional_12(self.read.sequence(), header[0], length);
                let text = keys::open(context, nonce, &additional, sealed)?;
                if text.len() > TEXT_BYTES_MAX {
                    return Err(Fault::RecordOverflow);
                }
                (header[0], &*text)
            }
        };
        self.read.advance();
        Ok((kind, text))
    }

    fn alert(&self, text: &[u8]) -> Result<Opened<'static>, Fault> {
        let &[level, number] = text else {
            return Err(if text.is_empty() { Fault::UnexpectedMessage } else { Fault::Decode });
        };
        if number == description::CLOSE_NOTIFY {
            return Ok(Opened::Ended);
        }
        let is_warning = match self.version {
            // The level has no meaning; all alerts but these two are errors (section 6).
            Version::Tls13 => number == description::USER_CANCELED,
            Version::Tls12 => level == WARNING,
        };
        if is_warning { Ok(Opened::Nothing) } else { Err(Fault::Alerted(number)) }
    }

    fn handshake(
        &mut self,
        context: &mut Option<LessSafeKey>,
        text: &[u8],
        inbox: &mut Inbox,
    ) -> Result<Opened<'static>, Fault> {
        if text.is_empty() {
            return Err(Fault::UnexpectedMessage);
        }
        if self.version == Version::Tls12 {
            let asks = match self.side {
                Side::Server => text[0] == CLIENT_HELLO,
                Side::Client => text == [HELLO_REQUEST, 0, 0, 0],
            };
            return if asks { Ok(Opened::Renegotiation) } else { Err(Fault::UnexpectedMessage) };
        }
        inbox.message.extend_from_slice(text);
        loop {
            let message = &inbox.message[..];
            let Some(&kind) = message.first() else {
                break;
            };
            let may_come = match self.side {
                Side::Server => kind == KEY_UPDATE,
                Side::Client => kind == KEY_UPDATE || kind == NEW_SESSION_TICKET,
            };
            if !may_come {
                return Err(Fault::UnexpectedMessage);
            }
            let Some(&[_, a, b, c]) = message.first_chunk() else {
                break;
            };
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if (kind == KEY_UPDATE && length != 1) || length > MESSAGE_BYTES_MAX {
                return Err(Fault::Decode);
            }
            let Some(body) = message.get(4..4 + length) else {
                break;
            };
            if kind == KEY_UPDATE {
                let request = body[0];
                // The next record has other keys: nothing may follow in this one (section 5.1).
                if message.len() != 4 + length {
                    return Err(Fault::UnexpectedMessage);
                }
                match request {
                    0 => {}
                    1 => self.update_due = true,
                    _ => return Err(Fault::Decode),
                }
                self.read.update()?;
                *context = None;
                inbox.message = Vec::new();
                break;
            }
            inbox.tickets.push(body.to_vec());
            inbox.message.drain(..4 + length);
        }
        if inbox.message.is_empty() {
            inbox.message = Vec::new();
        }
        Ok(Opened::Nothing)
    }

    /// The expanded key for a batch of records to seal.
    ///
    /// # Errors
    /// The library refuses.
    pub(crate) fn sealing_context(&self) -> Result<LessSafeKey, Fault> {
        self.write.context()
    }

    /// Whether new keys must be announced before `records` more are sealed.
    pub(crate) fn wants_update(&self, records: u64, records_max: u64) -> bool {
        self.write.can_update()
            && (self.update_due || self.write.records_left(records_max) <= records)
    }

    /// Whether the key is used up and there is no other (TLS 1.2): one more record may close the
    /// connection.
    pub(crate) fn is_used_up(&self, records: u64, records_max: u64) -> bool {
        !self.write.can_update() && self.write.records_left(records_max) <= records
    }

    /// Seals the announcement of new keys with the old ones, and then uses the new ones. The record
    /// must be sent.
    pub(crate) fn update_keys(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let context = self.write.context()?;
        // `update_not_requested`: the peer renews its keys by itself.
        let message = [KEY_UPDATE, 0, 0, 1, 0];
        self.seal(&context, kind::HANDSHAKE, &mut Text::of(&[IoSlice::new(&message)]), 5, out)?;
        self.write.update()?;
        self.update_due = false;
        Ok(())
    }

    /// Seals an alert.
    pub(crate) fn seal_alert(&mut self, number: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
        let context = self.write.context()?;
        let is_warning =
            matches!(number, description::CLOSE_NOTIFY | description::NO_RENEGOTIATION);
        let alert = [if is_warning { WARNING } else { FATAL }, number];
        self.seal(&context, kind::ALERT, &mut Text::of(&[IoSlice::new(&alert)]), 2, out)
    }

    /// Seals the next `length` bytes of `text` as one record, appended to `out`.
    pub(crate) fn seal(
        &mut self,
        context: &LessSafeKey,
        kind: u8,
        text: &mut Text<'_>,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        debug_assert!(length <= TEXT_BYTES_MAX);
        let nonce = self.write.nonce();
        let explicit = if self.write.has_explicit_nonce() { EXPLICIT_BYTES } else { 0 };
        let inner = length + usize::from(self.version == Version::Tls13);
        let [high, low] = ((explicit + inner + TAG_BYTES) as u16).to_be_bytes();
        let outer_kind = match self.version {
            Version::Tls13 => kind::DATA,
            Version::Tls12 => kind,
        };
        let header = [outer_kind, 3, 3, high, low];
        out.extend_from_slice(&header);
        out.extend_from_slice(&nonce[nonce.len() - explicit..]);
        let begin = out.len();
        text.take(length, out);
        let tag = match self.version {
            Version::Tls13 => {
                out.push(kind);
                keys::seal(context, nonce, &header, &mut out[begin..])?
            }
            Version::Tls12 => {
                let additional = additional_12(self.write.sequence(), kind, length);
                keys::seal(context, nonce, &additional, &mut out[begin..])?
            }
        };
        out.extend_from_slice(&tag);
        self.write.advance();
        Ok(())
    }

    /// The number of the next record that is sealed.
    pub(crate) fn sealed(&self) -> u64 {
        self.write.sequence()
    }

    /// Takes back records of which no byte was sent.
    pub(crate) fn unseal_back_to(&mut self, sequence: u64) {
        self.write.rewind(sequence);
    }
}

/// The additional data that TLS 1.2 authenticates.
fn additional_12(sequence: u64, kind: u8, length: usize) -> [u8; 13] {
    let mut additional = [0; 13];
    additional[..8].copy_from_slice(&sequence.to_be_bytes());
    additional[8..11].copy_from_slice(&[kind, 3, 3]);
    additional[11..].copy_from_slice(&(length as u16).to_be_bytes());
    additional
}

/// The parts of one write, consumed piece by piece.
pub(crate) struct Text<'a> {
    parts: &'a [IoSlice<'a>],
    /// Consumed bytes of the first part.
    taken: usize,
}

impl<'a> Text<'a> {
    pub(crate) fn of(parts: &'a [IoSlice<'a>]) -> Text<'a> {
        Text { parts, taken: 0 }
    }

    /// Appends the next `length` bytes to `out`; the parts must have as many.
    fn take(&mut self, mut length: usize, out: &mut Vec<u8>) {
        while length > 0 {
            let Some(part) = self.parts.first() else {
                debug_assert!(false, "as many bytes as were counted");
                return;
            };
            let rest = &part[self.taken..];
            let piece = rest.len().min(length);
            out.extend_from_slice(&rest[..piece]);
            length -= piece;
            self.taken += piece;
            if self.taken == part.len() {
                self.parts = &self.parts[1..];
                self.taken = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
