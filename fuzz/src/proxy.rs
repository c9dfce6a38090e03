//! The target of the PROXY protocol.

use crate::drive::{self, check_cuts};
use crate::split_seed;
use wire::Step;
use wire::proxy::{Announced, HEADER_BYTES_MAX, decode, encode_binary};

/// Headers of both versions: cuts, bounds, and re-encoding of the decoded addresses.
pub fn proxy(data: &[u8]) {
    let (seed, input) = split_seed(data);
    check_cuts(seed, |cuts| drive::proxy(input, cuts));
    match decode(input) {
        Ok(Step::Done { value, consumed }) => {
            assert!(consumed <= HEADER_BYTES_MAX);
            let mut header = Vec::new();
            encode_binary(&mut header, &value, seed % 2 == 0);
            let again = decode(&header);
            let Ok(Step::Done { value: said, .. }) = again else {
                panic!("{value:?} became {again:?}");
            };
            // A mix of IPv4 and IPv6 is written as IPv6.
            if let (Announced::Tcp { source, .. }, Announced::Tcp { source: from, .. }) =
                (value, said)
            {
                assert_eq!(source.ip().to_canonical(), from.ip().to_canonical());
            } else {
                assert_eq!(value, said);
            }
        }
        Ok(Step::More { needed }) => assert!(needed <= HEADER_BYTES_MAX),
        Err(_) => {}
    }
}
