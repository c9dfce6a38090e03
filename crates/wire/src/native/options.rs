//! The options block: a count, then key, length and value of each option.
//!
//! Unknown even keys are skipped; unknown odd ones are reported to the caller, which refuses their
//! frame, item or record.

use super::reader::{Reader, write_bytes};
use super::{FrameError, flag, option_key, varint};

/// The options of one frame, item or record, already checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Options<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Options<'a> {
    /// Reads the block if `flags` announce one. The reader then stands behind it.
    pub(super) fn read(reader: &mut Reader<'a>, flags: u8) -> Result<Self, FrameError> {
        if flags & flag::OPTIONS == 0 {
            return Ok(Self::default());
        }
        let count = usize::try_from(reader.varint()?).map_err(|_| FrameError::Truncated)?;
        let start = *reader;
        for _ in 0..count {
            reader.varint()?;
            reader.bytes()?;
        }
        let bytes = &start.rest[..start.rest.len() - reader.rest.len()];
        Ok(Self { count, bytes })
    }

    /// Reads a block where no options are defined: even keys are skipped. Returns the first odd
    /// key.
    pub(super) fn read_none(reader: &mut Reader<'a>, flags: u8) -> Result<Option<u64>, FrameError> {
        let options = Self::read(reader, flags)?;
        Ok(options.iter().map(|(key, _)| key).find(|key| key % 2 == 1))
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.count == 0
    }

    pub(super) fn iter(self) -> OptionsIter<'a> {
        OptionsIter { count: self.count, reader: Reader::new(self.bytes) }
    }
}

/// Iterates over keys and values in their order on the wire.
#[derive(Clone)]
pub(super) struct OptionsIter<'a> {
    count: usize,
    reader: Reader<'a>,
}

impl<'a> Iterator for OptionsIter<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let key = self.reader.varint().ok()?;
        let value = self.reader.bytes().ok()?;
        Some((key, value))
    }
}

/// Stores `value` in `slot`; an error if the slot is already set.
pub(super) fn set_once<T>(slot: &mut Option<T>, key: u64, value: T) -> Result<(), FrameError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(FrameError::RepeatedOption(key)),
    }
}

/// The lineage among the options of a server frame.
pub(super) fn lineage(options: Options<'_>) -> Result<Option<u8>, FrameError> {
    let mut lineage = None;
    for (key, value) in options.iter() {
        if key == option_key::LINEAGE {
            let mut value = Reader::new(value);
            set_once(&mut lineage, key, value.byte()?)?;
            value.end()?;
        }
    }
    Ok(lineage)
}

/// Appends the option of a lineage, without a count.
pub(super) fn write_lineage(lineage: Option<u8>, out: &mut Vec<u8>) {
    if let Some(lineage) = lineage {
        write_option(option_key::LINEAGE, &[lineage], out);
    }
}

pub(super) fn write_option(key: u64, value: &[u8], out: &mut Vec<u8>) {
    varint::encode(key, out);
    write_bytes(value, out);
}
