//! The native codec with hostile bytes: it never panics, and accepted frames survive encoding.

mod native_json;

use native_json::{field, files};
use proptest::prelude::*;
use wire::native::{
    Attributes, ClientFrame, ErrorCode, Message, NamedHead, NamedMessage, Position, Retained,
    ServerFrame, Tag, encode_named_message_head, message_head,
};

fn survives(bytes: &[u8]) {
    if let Ok(frame) = ClientFrame::decode(bytes) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(ClientFrame::decode(&again), Ok(frame));
    }
    if let Ok(frame) = ServerFrame::decode(bytes) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(ServerFrame::decode(&again), Ok(frame));
    }
}

fn vectors() -> Vec<Vec<u8>> {
    ["client_frames.json", "server_frames.json"]
        .into_iter()
        .flat_map(|file| [(file, "valid"), (file, "invalid")])
        .flat_map(|(file, key)| files::list(file, key))
        .map(|case| files::bytes(field(&case, "hex")))
        .collect()
}

#[test]
fn a_changed_byte_never_panics() {
    for vector in vectors() {
        for index in 0..vector.len() {
            for value in [0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, vector[index] ^ 1] {
                let mut bytes = vector.clone();
                bytes[index] = value;
                survives(&bytes);
            }
        }
    }
}

#[test]
fn a_lineage_is_one_byte_and_comes_once() {
    let caught_up = |options: &[u8]| {
        let bytes = [&[0x86, 0x80, 1, 43], options].concat();
        ServerFrame::decode(&bytes).map(|_| ())
    };
    assert_eq!(caught_up(&[1, 18, 1, 7]), Ok(()));
    for malformed in [&[1, 18, 0][..], &[1, 18, 2, 7, 7]] {
        let code = caught_up(malformed).expect_err("malformed").code();
        assert_eq!(code, ErrorCode::MalformedFrame, "{malformed:?}");
    }
    assert!(caught_up(&[2, 18, 1, 7, 18, 1, 7]).is_err());
    assert!(caught_up(&[2, 18, 1, 7, 19, 0]).is_err());
}

proptest! {
    #[test]
    fn random_bytes_never_panic(kind in prop_oneof![0u8..0x10, 0x80u8..0x90], bytes: Vec<u8>) {
        survives(&[&[kind], &bytes[..]].concat());
    }

    #[test]
    fn fast_heads_equal_the_encoded_frames(
        alias: u32,
        (offset, prev) in (1..=u64::MAX).prop_flat_map(|offset| (Just(offset), 0..offset)),
        epoch: u64,
        partition: u32,
        subscription: Option<u32>,
        lineage: Option<u8>,
        is_retained: bool,
        content_type in proptest::option::of("[a-z/]{0,20}"),
        tags in proptest::collection::vec(("\\PC{0,9}", "\\PC{0,200}"), 0..4),
        payload: Vec<u8>,
    ) {
        let retained = if is_retained { Retained::Yes } else { Retained::No };
        let tags: Vec<Tag<'_>> = tags.iter().map(|(key, value)| Tag { key, value }).collect();
        let attributes = Attributes { content_type: content_type.as_deref(), tags: tags.as_slice().into() };
        let mut block = Vec::new();
        if !attributes.is_empty() {
            attributes.encode_block(&mut block);
        }
        prop_assert_eq!(Attributes::decode_block(&block), Ok(attributes));

        let plain = ServerFrame::Message(Message {
            alias, offset, prev, retained, lineage, attributes, payload: &payload,
        });
        let mut expected = Vec::new();
        plain.encode(&mut expected);
        let mut options = Vec::new();
        attributes.encode_message_block(lineage, &mut options);
        let head = message_head(alias, offset, prev, retained, !options.is_empty());
        prop_assert_eq!(&[&head[..], &options, &payload].concat(), &expected);
        prop_assert_eq!(ServerFrame::decode(&expected), Ok(plain));

        let topic = "größe/€";
        let position = Position { epoch, offset };
        let named = ServerFrame::NamedMessage(NamedMessage {
            topic, partition, position, prev, retained, subscription, lineage, attributes,
            payload: &payload,
        });
        let mut expected = Vec::new();
        named.encode(&mut expected);
        let mut bytes = Vec::new();
        let head = NamedHead { topic, partition, position, prev, retained, subscription, lineage };
        encode_named_message_head(&head, &block, &mut bytes);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(&bytes, &expected);
        prop_assert_eq!(ServerFrame::decode(&expected), Ok(named));
    }
}

#[test]
fn decoding_walks_each_byte_a_bounded_number_of_times() {
    // Lists and blocks of a megabyte: a quadratic walk would not end.
    let mut bytes = vec![0x03, 0x00];
    wire::native::varint::encode(1 << 20, &mut bytes);
    bytes.extend(std::iter::repeat_n(1, 1 << 20));
    survives(&bytes);
    let mut bytes = vec![0x04, 0x80, 0x05, 0x01, b'a'];
    wire::native::varint::encode(1 << 19, &mut bytes);
    bytes.extend([100, 0].repeat(1 << 19));
    survives(&bytes);
}
