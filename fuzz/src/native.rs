//! Targets of the native protocol. WebSocket delimits its frames, so the input is not split.

use wire::native::{Attributes, ClientFrame, ServerFrame, json};

/// A frame from a client: an accepted frame survives encoding, and a frame built from its fields
/// has the same fields.
pub fn native_client_frame(data: &[u8]) {
    let Ok(frame) = ClientFrame::decode(data) else {
        return;
    };
    let mut again = Vec::new();
    frame.encode(&mut again);
    assert_eq!(ClientFrame::decode(&again), Ok(frame));
    if let ClientFrame::Publish(publish) = frame {
        attributes_survive(publish.attributes);
    }
}

/// A frame from a server, with the same assertions.
pub fn native_server_frame(data: &[u8]) {
    let Ok(frame) = ServerFrame::decode(data) else {
        return;
    };
    let mut again = Vec::new();
    frame.encode(&mut again);
    assert_eq!(ServerFrame::decode(&again), Ok(frame));
    match frame {
        ServerFrame::Message(message) => attributes_survive(message.attributes),
        ServerFrame::HistoryPage(page) => {
            for record in page.records {
                assert!(record.prev < record.offset);
                attributes_survive(record.attributes);
            }
        }
        _ => {}
    }
}

/// The JSON form of frames from clients: a decoded frame survives both forms, and a list is split
/// into frames.
pub fn json_client_frame(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if json::is_list(text) {
        let mut frames = Vec::new();
        let is_list = json::split(text, |frame| frames.push(frame)).is_ok();
        assert!(is_list || frames.is_empty());
        frames.into_iter().for_each(client_text);
    } else {
        client_text(text);
    }
}

fn client_text(text: &str) {
    let mut binary = Vec::new();
    if json::client::decode(text, &mut binary).is_err() {
        return;
    }
    let Ok(frame) = ClientFrame::decode(&binary) else {
        return;
    };
    // A refused item is written as one that is refused for another reason.
    if let ClientFrame::Subscribe(subscribe) = frame
        && subscribe.items.iter().any(|item| item.request.is_err())
    {
        return;
    }
    let (mut json, mut again) = (Vec::new(), Vec::new());
    frame.encode_json(&mut json);
    json::client::decode(std::str::from_utf8(&json).unwrap(), &mut again).unwrap();
    assert_eq!(again, binary);
}

/// The JSON form of frames from servers, with the same assertions.
pub fn json_server_frame(data: &[u8]) {
    let mut binary = Vec::new();
    let is_frame =
        std::str::from_utf8(data).is_ok_and(|text| json::server::decode(text, &mut binary).is_ok());
    if !is_frame {
        return;
    }
    let Ok(frame) = ServerFrame::decode(&binary) else {
        return;
    };
    let (mut json, mut again) = (Vec::new(), Vec::new());
    frame.encode_json(7, &mut json);
    json::server::decode(std::str::from_utf8(&json).unwrap(), &mut again).unwrap();
    assert_eq!(again, binary);
}

/// The log stores attributes as a separate block.
fn attributes_survive(attributes: Attributes<'_>) {
    let mut block = Vec::new();
    attributes.encode_block(&mut block);
    assert_eq!(Attributes::decode_block(&block), Ok(attributes));
}
