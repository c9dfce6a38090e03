//! HELLO and SUBSCRIBE: with the handshake if they are small, else behind it.
//!
//! Place: the beginning of a connection. Frames in the handshake save a round trip; subscriptions
//! that begin or end while it is on its way follow it.

use wire::native::{ClientFrame, Hello};

use super::{Phase, Session};

/// The maximum size of frames in the handshake. Proxies accept 8 KiB in one header, base64 takes a
/// third more, and the protocol allows 8 KiB of frames.
const EARLY_BYTES_MAX: usize = 4 * 1024;

/// The frames that go with the handshake.
#[derive(Default)]
pub(super) struct Early {
    is_chosen: bool,
    /// HELLO is one of them.
    has_hello: bool,
    frames: Vec<Vec<u8>>,
    /// The subscriptions of SUBSCRIBE.
    asked: Vec<u32>,
    /// Those of them that ended before the answer to the handshake.
    ended: Vec<u32>,
}

impl Early {
    pub(super) fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    pub(super) fn has_hello(&self) -> bool {
        self.has_hello
    }

    pub(super) fn take_frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames)
    }

    /// The application has ended a subscription.
    pub(super) fn ended(&mut self, subscription: u32) {
        if let Some(place) = self.asked.iter().position(|asked| *asked == subscription) {
            self.asked.swap_remove(place);
            self.ended.push(subscription);
        }
    }
}

impl Session {
    /// Chooses the frames for the handshake; none if they are too large.
    pub(super) fn choose_early_frames(&mut self, now_ms: u64) {
        self.early.is_chosen = true;
        if !self.settings.early_frames {
            return;
        }
        let (frames, asked) = self.greeting(now_ms);
        if frames.iter().map(Vec::len).sum::<usize>() <= EARLY_BYTES_MAX {
            self.early =
                Early { is_chosen: true, has_hello: true, frames, asked, ended: Vec::new() };
        }
    }

    /// Sends the frames that did not go with the handshake, without waiting for WELCOME.
    pub(super) fn greet(&mut self, now_ms: u64) {
        self.set_phase(Phase::Greeting, now_ms);
        if !self.early.has_hello {
            let (frames, _) = self.greeting(now_ms);
            return frames.iter().for_each(|frame| self.send_binary(frame));
        }
        let asked = std::mem::take(&mut self.early.asked);
        let ended = std::mem::take(&mut self.early.ended);
        let mut new = self.beside_the_ticket();
        new.retain(|id| !asked.contains(id));
        // A new subscription may have the filter of one that has ended.
        self.send_unsubscribe(&ended);
        self.send_subscribe(&new);
    }

    /// HELLO, and SUBSCRIBE of the returned subscriptions. HELLO alone covers those of its ticket.
    fn greeting(&mut self, now_ms: u64) -> (Vec<Vec<u8>>, Vec<u32>) {
        let (ticket, cursors) = self.ticket_to_present(now_ms).unzip();
        let cursors = cursors.unwrap_or_default();
        let mut hello = Vec::with_capacity(64);
        ClientFrame::Hello(Hello {
            ping_interval_s: self.settings.ping_interval_s,
            token: self.settings.token.as_deref(),
            name: self.settings.name.as_deref(),
            ticket: ticket.as_deref(),
            cursors: cursors.as_slice().into(),
        })
        .encode(&mut hello);
        let ids = self.beside_the_ticket();
        let mut frames = vec![hello];
        frames.extend(self.subscribe_frames(&ids));
        (frames, ids)
    }
}
