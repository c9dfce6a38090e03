//! Further fields of a record, which publishers of MQTT set: encoded once, where a message comes
//! in, and copied into the record as they are.
//!
//! Field kinds: 5 expiry (u64, milliseconds since 1970); 6 reply (topic length u16, topic,
//! correlation data); 7 origin (u64, which stands for the publisher). Each has the form of
//! [`crate::record`].

/// The kinds of the fields.
pub(crate) const EXPIRY: u8 = 5;
pub(crate) const REPLY: u8 = 6;
pub(crate) const ORIGIN: u8 = 7;

/// Fields under construction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FurtherFields {
    bytes: Vec<u8>,
}

impl FurtherFields {
    /// The encoded fields.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The message is of no use from this time on, in milliseconds since 1970.
    pub fn expiry(&mut self, expires_ms: u64) {
        self.put(EXPIRY, &[&expires_ms.to_le_bytes()]);
    }

    /// Answers go to this topic, with this data; either may be empty. False, and no change, if they
    /// exceed 65,535 bytes together.
    pub fn reply(&mut self, topic: &[u8], correlation: &[u8]) -> bool {
        match u16::try_from(topic.len()) {
            Ok(length) => self.put(REPLY, &[&length.to_le_bytes(), topic, correlation]),
            Err(_) => false,
        }
    }

    /// A number that stands for the publisher.
    pub fn origin(&mut self, origin: u64) {
        self.put(ORIGIN, &[&origin.to_le_bytes()]);
    }

    /// Whether bytes are whole fields of these kinds, and nothing else.
    pub fn are_valid(bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some(([kind, low, high], after)) = rest.split_first_chunk() {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let is_known = matches!(*kind, EXPIRY | REPLY | ORIGIN);
            match after.split_at_checked(length) {
                Some((_, after)) if is_known => rest = after,
                _ => return false,
            }
        }
        rest.is_empty()
    }

    fn put(&mut self, kind: u8, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(length) = u16::try_from(length) else {
            return false;
        };
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewRecord, RecordView};

    #[test]
    fn further_fields_come_back_from_the_record() {
        let mut fields = FurtherFields::default();
        fields.expiry(7);
        assert!(fields.reply(b"answers", b"\x00\x01"));
        fields.origin(u64::MAX);
        assert!(!fields.reply(&[0; 70_000], b""));
        assert!(FurtherFields::are_valid(fields.as_bytes()));
        assert!(!FurtherFields::are_valid(&fields.as_bytes()[1..]));
        assert!(!FurtherFields::are_valid(&[1, 0, 0]));
        let record =
            NewRecord { payload: b"x", further: fields.as_bytes(), ..NewRecord::default() };
        let mut bytes = Vec::new();
        record.encode_head(1, &mut bytes).unwrap();
        bytes.extend_from_slice(record.payload);
        let view = RecordView::parse(&bytes).unwrap();
        assert_eq!(view.expires_ms(), Some(7));
        assert_eq!(view.reply(), Some((&b"answers"[..], &b"\x00\x01"[..])));
        assert_eq!(view.origin(), Some(u64::MAX));
        assert_eq!(view.payload(), b"x");
    }
}
