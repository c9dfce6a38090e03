//! Targets of MQTT. The first byte selects the version, the last eight are the seed of the cuts.

use crate::drive::{self, check_cuts};
use crate::rebuild::{encode_client, encode_server};
use crate::split_seed;
use crate::vectors::{all, malformed};
use wire::Step;
use wire::mqtt::{ClientPacket, ServerPacket, Version, announced_version};

/// Bounds the packets, so that the fuzzer finds the refusal of larger ones.
const PACKET_BYTES_MAX: u32 = 1024;

const VERSIONS: [Version; 3] = [Version::V3_1, Version::V3_1_1, Version::V5];

/// Packets from a client: equal results for all cuts, and a decoded packet survives encoding.
pub fn mqtt_client(data: &[u8]) {
    let (seed, input) = split_seed(data);
    let Some((&selector, mut rest)) = input.split_first() else {
        return;
    };
    let mut version = VERSIONS.get(usize::from(selector % 4)).copied();
    check_cuts(seed, |cuts| drive::mqtt_client(rest, version, PACKET_BYTES_MAX, cuts));
    while let Ok(Step::Done { value, consumed }) =
        ClientPacket::decode(version, PACKET_BYTES_MAX, rest)
    {
        assert!(consumed <= PACKET_BYTES_MAX as usize);
        let its_version = match &value {
            ClientPacket::Connect(connect) => {
                assert_eq!(announced_version(rest), Some(connect.version));
                connect.version
            }
            _ => version.expect("only CONNECT has no version"),
        };
        let again = encode_client(&value, its_version);
        assert!(again.len() <= consumed);
        let step = ClientPacket::decode(version, PACKET_BYTES_MAX, &again);
        assert_eq!(step, Ok(Step::Done { value, consumed: again.len() }));
        version = Some(its_version);
        rest = &rest[consumed..];
    }
}

/// Packets from a server, with the same assertions.
pub fn mqtt_server(data: &[u8]) {
    let (seed, input) = split_seed(data);
    let Some((&selector, mut rest)) = input.split_first() else {
        return;
    };
    let version = VERSIONS[usize::from(selector) % VERSIONS.len()];
    check_cuts(seed, |cuts| drive::mqtt_server(rest, version, PACKET_BYTES_MAX, cuts));
    while let Ok(Step::Done { value, consumed }) =
        ServerPacket::decode(version, PACKET_BYTES_MAX, rest)
    {
        assert!(consumed <= PACKET_BYTES_MAX as usize);
        let again = encode_server(&value, version);
        assert!(again.len() <= consumed);
        let step = ServerPacket::decode(version, PACKET_BYTES_MAX, &again);
        assert_eq!(step, Ok(Step::Done { value, consumed: again.len() }));
        rest = &rest[consumed..];
    }
}

/// The packets of one sender in the vectors, and every twentieth malformed one.
pub fn seeds(is_from_client: bool) -> Vec<Vec<u8>> {
    let selector = |version: Option<Version>| match version {
        Some(version) => version as u8,
        None => 3,
    };
    let valid = all().into_iter().filter(|vector| vector.is_from_client == is_from_client);
    let valid = valid.map(|vector| {
        let is_connect = vector.bytes[0] >> 4 == 1;
        (selector((!is_connect).then_some(vector.version)), vector.bytes)
    });
    let invalid = malformed().into_iter().filter(|case| case.is_from_client == is_from_client);
    let invalid = invalid.map(|case| (selector(case.version), case.bytes)).step_by(20);
    let is_short = |(_, bytes): &(u8, Vec<u8>)| bytes.len() <= PACKET_BYTES_MAX as usize;
    let seed = 0x243f_6a88_85a3_08d3_u64.to_le_bytes();
    valid
        .chain(invalid)
        .filter(is_short)
        .map(|(selector, bytes)| [&[selector], &bytes[..], &seed].concat())
        .collect()
}
