//! The record layer by itself: the published trace, and everything that may not come.

use super::*;
use crate::keys::testing;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter_map(|byte| char::from(byte).to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// RFC 8448, section 3: `client_application_traffic_secret_0` and
/// `server_application_traffic_secret_0`.
const CLIENT_SECRET: &str = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
const SERVER_SECRET: &str = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";

fn ends() -> (RecordLayer, RecordLayer) {
    let keys = |secret| testing::aes_128_gcm(&hex(secret));
    (
        RecordLayer::new(Version::Tls13, Side::Client, keys(SERVER_SECRET), keys(CLIENT_SECRET)),
        RecordLayer::new(Version::Tls13, Side::Server, keys(CLIENT_SECRET), keys(SERVER_SECRET)),
    )
}

/// Seals one record of any type, padded.
fn seal(layer: &mut RecordLayer, kind: u8, text: &[u8], padding: usize) -> Vec<u8> {
    let context = layer.sealing_context().unwrap();
    let mut padded = text.to_vec();
    let mut out = Vec::new();
    if padding == 0 {
        let parts = [IoSlice::new(&padded)];
        layer.seal(&context, kind, &mut Text::of(&parts), text.len(), &mut out).unwrap();
    } else {
        // The type goes into the text, and the one that `seal` appends is the last byte of the
        // padding.
        padded.push(kind);
        padded.resize(text.len() + padding, 0);
        let parts = [IoSlice::new(&padded)];
        layer.seal(&context, 0, &mut Text::of(&parts), padded.len(), &mut out).unwrap();
    }
    out
}

fn open(
    layer: &mut RecordLayer,
    mut record: Vec<u8>,
) -> Result<Vec<u8>, Result<&'static str, Fault>> {
    assert_eq!(layer.record_len(&record).map_err(Err)?, Some(record.len()));
    match layer.open(&mut None, &mut record, &mut Inbox::default()) {
        Ok(Opened::Data(text)) => Ok(text.to_vec()),
        Ok(Opened::Nothing) => Err(Ok("nothing")),
        Ok(Opened::Ended) => Err(Ok("ended")),
        Ok(Opened::Renegotiation) => Err(Ok("renegotiation")),
        Err(fault) => Err(Err(fault)),
    }
}

#[test]
fn the_trace_of_rfc_8448() {
    let record = hex("17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc
        ab 3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a
        ee bb 21 69 49 15 e4");
    let alert = hex("17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3");
    let text: Vec<u8> = (0..0x32).collect();

    let (mut client, mut server) = ends();
    assert_eq!(open(&mut server, record.clone()), Ok(text.clone()));
    assert_eq!(open(&mut server, alert.clone()), Err(Ok("ended")));

    assert_eq!(seal(&mut client, kind::DATA, &text, 0), record);
    let mut sealed = Vec::new();
    client.seal_alert(description::CLOSE_NOTIFY, &mut sealed).unwrap();
    assert_eq!(sealed, alert);
}

#[test]
fn unexpected_records_are_faults() {
    fn check(kind: u8, text: &[u8], padding: usize, expected: Result<&'static str, Fault>) {
        let (mut client, mut server) = ends();
        let record = seal(&mut client, kind, text, padding);
        assert_eq!(open(&mut server, record), Err(expected), "{kind} {text:?}");
    }
    let unexpected = Err(Fault::UnexpectedMessage);
    check(kind::DATA, &[], 0, Ok("nothing"));
    check(kind::DATA, &[], 100, Ok("nothing"));
    // No type at all; a change of cipher; types that do not exist.
    check(0, &[], 0, unexpected);
    check(0, &[0; 50], 0, unexpected);
    check(20, &[1], 0, unexpected);
    check(24, b"heartbeat", 0, unexpected);
    check(255, b"x", 3, unexpected);
    // Alerts.
    check(kind::ALERT, &[], 0, unexpected);
    check(kind::ALERT, &[1], 0, Err(Fault::Decode));
    check(kind::ALERT, &[1, 0, 1, 0], 0, Err(Fault::Decode));
    check(kind::ALERT, &[2, 0], 0, Ok("ended"));
    check(kind::ALERT, &[1, 90], 7, Ok("nothing"));
    check(kind::ALERT, &[1, 10], 0, Err(Fault::Alerted(10)));
    check(kind::ALERT, &[2, 40], 0, Err(Fault::Alerted(40)));
    // Messages of the handshake protocol.
    check(kind::HANDSHAKE, &[], 0, unexpected);
    check(kind::HANDSHAKE, &[1, 0, 0, 1, 0], 0, unexpected);
    check(kind::HANDSHAKE, &[4, 0, 0, 1, 0], 0, unexpected);
    check(kind::HANDSHAKE, &[20, 0, 0, 1, 0], 0, unexpected);
    check(kind::HANDSHAKE, &[24, 0, 0, 1, 0], 0, Ok("nothing"));
    check(kind::HANDSHAKE, &[24, 0, 0, 1, 1], 9, Ok("nothing"));
    check(kind::HANDSHAKE, &[24, 0, 0, 1, 2], 0, Err(Fault::Decode));
    check(kind::HANDSHAKE, &[24, 0, 0, 2, 0, 0], 0, Err(Fault::Decode));
    check(kind::HANDSHAKE, &[24, 0, 0, 0], 0, Err(Fault::Decode));
    check(kind::HANDSHAKE, &[24, 0xff, 0xff, 0xff], 0, Err(Fault::Decode));
    // Nothing stands behind new keys.
    check(kind::HANDSHAKE, &[24, 0, 0, 1, 0, 24], 0, unexpected);
}

#[test]
fn headers() {
    fn check(layer: &RecordLayer, header: [u8; 5], expected: Result<usize, Fault>) {
        assert_eq!(layer.record_len(&header), expected.map(Some), "{header:?}");
        assert_eq!(layer.record_len(&header[..4]), Ok(None));
    }
    let (_, server) = ends();
    check(&server, [23, 3, 3, 0x41, 0], Ok(5 + 0x4100));
    check(&server, [23, 3, 3, 0x41, 1], Err(Fault::RecordOverflow));
    // The version is ignored, and only data is seen from outside.
    check(&server, [23, 9, 9, 0, 0], Ok(5));
    for kind in [0, 20, 21, 22, 24, 255] {
        check(&server, [kind, 3, 3, 0, 1], Err(Fault::UnexpectedMessage));
    }
    let key = testing::gcm_of_tls12();
    let old = RecordLayer::new(Version::Tls12, Side::Server, key, testing::gcm_of_tls12());
    check(&old, [23, 3, 3, 0x48, 0], Ok(5 + 0x4800));
    check(&old, [21, 3, 3, 0x48, 1], Err(Fault::RecordOverflow));
    check(&old, [22, 3, 1, 0, 5], Err(Fault::Version));
    check(&old, [20, 3, 3, 0, 1], Err(Fault::UnexpectedMessage));
}

#[test]
fn lengths() {
    // The text alone, and the text with its type and padding, have limits of their own.
    for (length, padding, fits) in
        [(TEXT_BYTES_MAX, 0, true), (TEXT_BYTES_MAX - 9, 9, true), (1, TEXT_BYTES_MAX - 1, true)]
    {
        let (mut client, mut server) = ends();
        let text = vec![b'x'; length];
        let record = seal(&mut client, kind::DATA, &text, padding);
        assert_eq!(open(&mut server, record).is_ok(), fits);
    }
    // A record that `seal` refuses: one byte too many, sealed by hand.
    for (length, expected) in
        [(TEXT_BYTES_MAX + 1, Ok(())), (TEXT_BYTES_MAX + 2, Err(Err(Fault::RecordOverflow)))]
    {
        let (_, mut server) = ends();
        let mut inner = vec![b'x'; length];
        inner[length - 1] = kind::DATA;
        let sealed = testing::seal_13(&hex(CLIENT_SECRET), &mut inner);
        assert_eq!(open(&mut server, sealed).map(|_| ()), expected);
    }
    for length in [0, 1, 15, 16] {
        let (_, mut server) = ends();
        let mut record = vec![23, 3, 3, 0, length];
        record.resize(5 + usize::from(length), 0);
        assert_eq!(open(&mut server, record), Err(Err(Fault::BadRecordMac)));
    }
}

#[test]
fn a_message_may_span_records_and_nothing_may_come_between() {
    let (mut client, mut server) = ends();
    let mut inbox = Inbox::default();
    for byte in [24, 0, 0, 1] {
        let mut record = seal(&mut client, kind::HANDSHAKE, &[byte], 0);
        let opened = server.open(&mut None, &mut record, &mut inbox);
        assert_eq!(opened, Ok(Opened::Nothing));
    }
    let mut last = seal(&mut client, kind::HANDSHAKE, &[1], 0);
    assert_eq!(server.open(&mut None, &mut last, &mut inbox), Ok(Opened::Nothing));
    assert!(server.wants_update(1, u64::MAX), "the peer asked for ours");
    client.write.update().unwrap();
    let mut data = seal(&mut client, kind::DATA, b"new keys", 0);
    assert_eq!(server.open(&mut None, &mut data, &mut inbox), Ok(Opened::Data(b"new keys")));

    let mut begun = seal(&mut client, kind::HANDSHAKE, &[24, 0], 0);
    assert_eq!(server.open(&mut None, &mut begun, &mut inbox), Ok(Opened::Nothing));
    let mut data = seal(&mut client, kind::DATA, b"between", 0);
    assert_eq!(server.open(&mut None, &mut data, &mut inbox), Err(Fault::UnexpectedMessage));
}

#[test]
fn nothing_at_all_is_bounded() {
    let (mut client, mut server) = ends();
    for round in 0..2 {
        for _ in 0..QUIET_RECORDS_MAX {
            let record = seal(&mut client, kind::DATA, &[], 3);
            assert_eq!(open(&mut server, record), Err(Ok("nothing")));
        }
        let data = round == 0;
        let record = seal(&mut client, kind::DATA, if data { b"x" } else { b"" }, 3);
        let expected = if data { Ok(b"x".to_vec()) } else { Err(Err(Fault::UnexpectedMessage)) };
        assert_eq!(open(&mut server, record), expected);
    }
}

#[test]
fn a_client_takes_tickets() {
    let (mut client, mut server) = ends();
    let mut inbox = Inbox::default();
    let messages = [4, 0, 0, 3, b'a', b'b', b'c', 4, 0, 0, 1, b'd', 4, 0];
    let mut record = seal(&mut server, kind::HANDSHAKE, &messages, 0);
    assert_eq!(client.open(&mut None, &mut record, &mut inbox), Ok(Opened::Nothing));
    assert_eq!(inbox.tickets, [b"abc".to_vec(), b"d".to_vec()]);
    assert_eq!(inbox.message, [4, 0]);
}

#[test]
fn tls12_warnings_and_renegotiation() {
    let both = || {
        let layer = |side| {
            let (read, write) = (testing::gcm_of_tls12(), testing::gcm_of_tls12());
            RecordLayer::new(Version::Tls12, side, read, write)
        };
        (layer(Side::Client), layer(Side::Server))
    };
    fn check(
        ends: (RecordLayer, RecordLayer),
        kind: u8,
        text: &[u8],
        expected: Result<&'static str, Fault>,
    ) {
        let (mut from, mut to) = ends;
        let record = seal(&mut from, kind, text, 0);
        assert_eq!(open(&mut to, record), Err(expected));
    }
    let swapped = || {
        let (client, server) = both();
        (server, client)
    };
    check(both(), kind::ALERT, &[1, 100], Ok("nothing"));
    check(both(), kind::ALERT, &[1, 0], Ok("ended"));
    check(both(), kind::ALERT, &[2, 100], Err(Fault::Alerted(100)));
    check(both(), kind::HANDSHAKE, &[1, 0, 0, 1, 0], Ok("renegotiation"));
    check(both(), kind::HANDSHAKE, &[0, 0, 0, 0], Err(Fault::UnexpectedMessage));
    check(swapped(), kind::HANDSHAKE, &[0, 0, 0, 0], Ok("renegotiation"));
    check(swapped(), kind::HANDSHAKE, &[2, 0, 0, 0], Err(Fault::UnexpectedMessage));
    check(both(), kind::HANDSHAKE, &[], Err(Fault::UnexpectedMessage));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any change of any byte of a record is seen.
    #[test]
    fn damage_never_opens(text in prop::collection::vec(any::<u8>(), 0..200), place in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let (mut client, mut server) = ends();
        let mut record = seal(&mut client, kind::DATA, &text, 5);
        let place = place.index(record.len());
        record[place] ^= change;
        if let Ok(Some(length)) = server.record_len(&record) {
            let length = length.min(record.len());
            let opened = server.open(&mut None, &mut record[..length], &mut Inbox::default());
            prop_assert_eq!(opened, Err(Fault::BadRecordMac));
        }
    }

    /// Bytes that are no record at all.
    #[test]
    fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let (_, mut server) = ends();
        if let Ok(Some(length)) = server.record_len(&bytes) {
            let length = length.min(bytes.len());
            prop_assert!(server.open(&mut None, &mut bytes[..length], &mut Inbox::default()).is_err());
        }
    }
}
