//! Targets of the HTTP codec and of the formats inside it.

use wire::Step;
use wire::http::event_stream::{EventStreamDecoder, Item, OutgoingEvent};
use wire::http::target::{QueryPairs, append_percent_encoded, percent_decode};
use wire::http::{BodyFraming, HeadLimits, Target, body};

use crate::drive::{self, Cuts, check_cuts};
use crate::split_seed;

const LIMITS: [HeadLimits; 2] = [
    HeadLimits { head_bytes_max: 16 * 1024, target_bytes_max: 8 * 1024 },
    HeadLimits { head_bytes_max: 64, target_bytes_max: 9 },
];

/// Requests of one connection, with their bodies.
pub fn http_request(data: &[u8]) {
    let (seed, input) = split_seed(data);
    for limits in LIMITS {
        check_cuts(seed, |cuts| drive::http_requests(input, limits, 64, cuts));
    }
}

/// Responses of one connection, with their bodies.
pub fn http_response(data: &[u8]) {
    let (seed, input) = split_seed(data);
    for limits in LIMITS {
        check_cuts(seed, |cuts| drive::http_responses(input, limits, 64, cuts));
    }
}

/// One body in every framing, and the data again as chunks that we encode.
pub fn http_body(data: &[u8]) {
    let (seed, input) = split_seed(data);
    for framing in [
        BodyFraming::None,
        BodyFraming::Length(9),
        BodyFraming::Length(65),
        BodyFraming::Chunked,
        BodyFraming::UntilClose,
    ] {
        check_cuts(seed, |cuts| drive::http_body(input, framing, 64, cuts));
    }
    let mut chunked = Vec::new();
    for piece in Cuts::Seeded(seed).pieces(input) {
        body::append_chunk(&mut chunked, piece);
    }
    chunked.extend_from_slice(body::LAST_CHUNK);
    let lines = check_cuts(seed, |cuts| {
        drive::http_body(&chunked, BodyFraming::Chunked, input.len() as u64, cuts)
    });
    assert_eq!(lines, [format!("{input:?}"), "Ok(()), 0 bytes left".to_string()]);
}

/// Request targets: decoding never panics, and an encoded target decodes to itself.
pub fn http_target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(target) = Target::parse(text) {
        let _ = target.path_decoded();
        let _ = target.query_value("topic");
        assert!(target.query_pairs().count() <= text.len());
    }
    let _ = percent_decode(text);
    let mut encoded = String::new();
    append_percent_encoded(&mut encoded, text);
    assert_eq!(percent_decode(&encoded).as_deref(), Ok(text));
    let query = format!("{encoded}={encoded}");
    let pair = QueryPairs::new(&query).next().map(Result::unwrap);
    let (name, value) = pair.expect("the pair has at least its `=`");
    assert_eq!((&*name, &*value), (text, text));
}

/// Event streams, and an event that we encode around the data.
pub fn event_stream(data: &[u8]) {
    let (seed, input) = split_seed(data);
    for event_bytes_max in [16, 4096] {
        check_cuts(seed, |cuts| drive::event_stream(input, event_bytes_max, cuts));
    }
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let mut encoded = Vec::new();
    let event = OutgoingEvent { id: Some(text), event: None, retry_ms: None, data: Some(text) };
    let event = match event.encode(&mut encoded) {
        Ok(()) => event,
        Err(_) => {
            let event = OutgoingEvent { id: None, ..event };
            event.encode(&mut encoded).expect("data can always be written");
            event
        }
    };
    let mut decoder = EventStreamDecoder::new(1 << 20);
    let Ok(Step::Done { value: Item::Event(decoded), consumed }) = decoder.decode(&encoded) else {
        panic!("{encoded:?}");
    };
    assert_eq!(consumed, encoded.len());
    assert_eq!(decoded.data, text.replace("\r\n", "\n").replace('\r', "\n"));
    assert_eq!(decoded.last_event_id, event.id.unwrap_or_default());
}
