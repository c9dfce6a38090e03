//! The record layer of TLS, after the handshake: records from a peer with the keys, and forged
//! bytes.

use stdx::prng::Prng;
use tls::fuzzing::Direction;

use crate::split_seed;

/// The target `tls_record`. The first byte selects version and side. Records follow: type, length
/// (two bytes, modulo 1,000), and the content, sealed with the true keys; a type of 0xff ends them,
/// and the rest arrives unsealed. Splitting the stream changes nothing.
pub fn tls_record(data: &[u8]) {
    let (seed, data) = split_seed(data);
    let Some((&first, mut rest)) = data.split_first() else {
        return;
    };
    let make = || Direction::new(first & 1 == 0, first & 2 == 0);
    let mut whole = make();
    let mut stream = Vec::new();
    while let Some((&[kind, high, low], after)) = rest.split_first_chunk::<3>()
        && kind != 0xff
    {
        let length = usize::from(u16::from_be_bytes([high, low])) % 1_000;
        let (text, after) = after.split_at(length.min(after.len()));
        stream.extend(whole.seal(kind, text));
        rest = after;
    }
    stream.extend_from_slice(rest.strip_prefix(&[0xff]).unwrap_or(rest));

    whole.receive(&stream);
    let mut cut = make();
    let mut random = Prng::new(seed);
    let mut left = &stream[..];
    while !left.is_empty() {
        let (piece, after) = left.split_at(1 + random.below(left.len() as u64) as usize);
        cut.receive(piece);
        left = after;
    }
    assert_eq!(whole.outcome(), cut.outcome());
}
