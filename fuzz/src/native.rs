//! Targets of the native protocol. WebSocket delimits its frames, so there is nothing to cut.

use wire::native::{Attributes, ClientFrame, ServerFrame};

/// A frame from a client: what is accepted survives encoding, and what is built anew from it has
/// the same fields.
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

/// A frame from a server, by the same promises.
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

/// The log keeps attributes as a block of their own.
fn attributes_survive(attributes: Attributes<'_>) {
    let mut block = Vec::new();
    attributes.encode_block(&mut block);
    assert_eq!(Attributes::decode_block(&block), Ok(attributes));
}
