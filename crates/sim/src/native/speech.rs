//! The form of one native client's frames: binary, or JSON in text messages.
//!
//! The choices come from a separate generator, so that worlds without JSON do not change.

use crate::plan::Plan;
use stdx::prng::Prng;
use wire::native::{ClientFrame, SUBPROTOCOL, SUBPROTOCOL_JSON, ServerFrame, json};
use wire::websocket::Opcode;

/// The form of a client's frames; see the module.
pub(super) struct Speech {
    random: Prng,
    pub is_json: bool,
}

impl Speech {
    pub(super) fn new(id: usize, plan: &Plan) -> Speech {
        let mut random = Prng::new(plan.seed ^ 0x6a50_4e00 ^ (id as u64) << 32);
        Speech { is_json: plan.has_json && random.chance(0.7), random }
    }

    pub(super) fn subprotocol(&self) -> &'static str {
        if self.is_json { SUBPROTOCOL_JSON } else { SUBPROTOCOL }
    }

    pub(super) fn opcode(&self) -> Opcode {
        if self.is_json { Opcode::Text } else { Opcode::Binary }
    }

    /// The message of a frame; in JSON sometimes a list of it alone.
    pub(super) fn message(&mut self, frame: &ClientFrame<'_>) -> Vec<u8> {
        let mut message = Vec::new();
        if !self.is_json {
            frame.encode(&mut message);
            return message;
        }
        frame.encode_json(&mut message);
        if self.random.chance(0.1) { list(&[message]) } else { message }
    }

    /// The first messages of a connection: one by one, or in one list.
    pub(super) fn joined(&mut self, messages: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let is_joined = messages.len() > 1
            && messages.iter().all(|message| message.starts_with(b"{"))
            && self.random.chance(0.5);
        if is_joined { vec![list(&messages)] } else { messages }
    }
}

fn list(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut list = b"[".to_vec();
    list.extend(frames.join(&b", "[..]));
    list.push(b']');
    list
}

/// Decodes a text to a frame in binary.
pub(super) fn binary_of(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    json::server::decode(text, &mut bytes).map_err(|error| format!("not JSON: {error}"))?;
    Ok(bytes)
}

/// Whether a text has all that its frame has, and this epoch where the binary form has none.
pub(super) fn is_exact(text: &str, frame: &ServerFrame<'_>, epoch: u64) -> bool {
    let mut again = Vec::new();
    frame.encode_json(epoch, &mut again);
    again == text.as_bytes()
}
