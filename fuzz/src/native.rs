//! Targets of the native protocol. WebSocket delimits its frames, so the input is not split.

use wire::native::{Attributes, ClientFrame, ServerFrame};

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

/// The log stores attributes as a separate block.
fn attributes_survive(attributes: Attributes<'_>) {
    let mut block = Vec::new();
    attributes.encode_block(&mut block);
    assert_eq!(Attributes::decode_block(&block), Ok(attributes));
}
