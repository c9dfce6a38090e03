//! The native protocol as JSON: a text becomes frames in binary, which take the way of all native
//! frames.
//!
//! Step 3 of the path. A list of frames is split into one message for each of its frames, which
//! precede the rest of the input: so a frame of a list may pause the connection, and the frames
//! behind it wait as if they had come by themselves.

use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::session::native::decode::violation;
use wire::native::json::{self, JsonError};
use wire::websocket::frame::{self, Opcode};

impl Edge {
    /// One message of a client that speaks JSON: a frame, or a list of frames.
    pub(crate) fn json_message(&mut self, index: ConnIndex, text: &str) {
        if json::is_list(text) {
            let mut frames = Vec::new();
            let split = json::split(text, |text| {
                // A mask of zeros leaves the bytes unchanged.
                frame::encode(&mut frames, true, Opcode::Text, text.as_bytes(), Some([0; 4]));
            });
            match split {
                Ok(()) => self.work.json_frames = frames,
                Err(error) => self.json_refused(index, &error),
            }
            return;
        }
        let mut frame = Vec::new();
        match json::client::decode(text, &mut frame) {
            Ok(()) => self.native_frame(index, &frame),
            Err(error) => self.json_refused(index, &error),
        }
    }

    fn json_refused(&mut self, index: ConnIndex, error: &JsonError) {
        self.native_violated(index, &violation(&error.error), Some(&error.explanation));
    }
}
