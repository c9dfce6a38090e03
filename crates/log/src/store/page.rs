//! Pages of index files: each has a checksum of its own, so that damage is found where it is.

use super::checksum::crc32c_of;

/// Bytes of a page with its checksum.
pub(super) const PAGE_BYTES: usize = 4096;
/// The data bytes of a page.
pub(super) const PAGE_DATA_BYTES: usize = PAGE_BYTES - 4;

/// The checksum of a page's data.
pub(super) fn page_crc(data: &[u8], sequence: u64, page: u64) -> u32 {
    crc32c_of(&[data, &sequence.to_le_bytes(), &page.to_le_bytes()])
}
