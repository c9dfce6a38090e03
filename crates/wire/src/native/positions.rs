//! Positions by partition, in filters and tickets: a cursor for each partition.

use super::list::Element;
use super::options::Options;
use super::reader::{Reader, write_position};
use super::{FrameError, Position, Reference, flag, varint};

/// A position of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PartitionPosition {
    /// The partition's number, among all of the node.
    pub partition: u32,
    /// A position in it.
    pub position: Position,
}

/// The beginning of a subscription, or of its part, in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beginning {
    /// The log's epoch, and the last settled offset.
    pub through: Position,
    /// A replay follows, up to CAUGHT_UP.
    pub replaying: bool,
    /// The requested position is valid, and everything after it follows, even if the epoch has
    /// changed.
    pub continued: bool,
}

/// The beginning of a filter's subscription in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartitionBeginning {
    /// The partition's number, among all of the node.
    pub partition: u32,
    /// The beginning in this partition.
    pub beginning: Beginning,
}

/// A cursor of a returning client that is newer than its ticket's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResumeCursor {
    /// The subscription's number in the ticket.
    pub subscription: u32,
    /// The cursor's partition for a filter; below 2^32 - 1. None for a plain topic.
    pub partition: Option<u32>,
    /// The last position that the client has received.
    pub position: Position,
}

impl Beginning {
    pub(super) const FLAGS: u8 = flag::REPLAYING | flag::CONTINUED;

    pub(super) fn flags(&self) -> u8 {
        let replaying = if self.replaying { flag::REPLAYING } else { 0 };
        let continued = if self.continued { flag::CONTINUED } else { 0 };
        replaying | continued
    }

    pub(super) fn read(flags: u8, reader: &mut Reader<'_>) -> Result<Self, FrameError> {
        Ok(Self {
            through: reader.position()?,
            replaying: flags & flag::REPLAYING != 0,
            continued: flags & flag::CONTINUED != 0,
        })
    }
}

#[allow(private_interfaces)]
impl<'a> Element<'a> for PartitionPosition {
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        Ok(Self { partition: reader.varint_u32()?, position: reader.position()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        varint::encode(u64::from(self.partition), out);
        write_position(self.position, out);
    }
}

#[allow(private_interfaces)]
impl<'a> Element<'a> for PartitionBeginning {
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        let flags = reader.flags(Beginning::FLAGS)?;
        let partition = reader.varint_u32()?;
        let beginning = Beginning::read(flags, reader)?;
        if let Some(key) = Options::read_none(reader, flags)? {
            let reference = Reference::Connection;
            return Err(FrameError::UnsupportedOption { key, reference });
        }
        Ok(Self { partition, beginning })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.beginning.flags());
        varint::encode(u64::from(self.partition), out);
        write_position(self.beginning.through, out);
    }
}

#[allow(private_interfaces)]
impl<'a> Element<'a> for ResumeCursor {
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        Ok(Self {
            subscription: reader.varint_u32()?,
            partition: reader.varint_u32()?.checked_sub(1),
            position: reader.position()?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        varint::encode(u64::from(self.subscription), out);
        let plus_one = self.partition.map_or(0, |partition| u64::from(partition) + 1);
        varint::encode(plus_one, out);
        write_position(self.position, out);
    }
}
