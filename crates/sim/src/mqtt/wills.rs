//! Wills of a client, and the fate of each, as far as the client knows.

use crate::oracle::{Fate, Oracle, WillEnd};

/// See the module.
#[derive(Default)]
pub(super) struct Wills {
    /// The will of the present connection, or of one that has ended and may be cancelled.
    present: Option<Will>,
    ended: Vec<WillEnd>,
}

/// The will of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Will {
    pub client: usize,
    pub publication: usize,
    pub instance: u32,
    pub delay_ms: u64,
    /// The client does not know what the node saw.
    pub is_doubtful: bool,
}

/// The begin of the next connection, as it matters to a will.
#[derive(Clone, Copy, Debug)]
pub(super) struct Return {
    pub now_ms: u64,
    /// The time of CONNECT: the node may have dealt with it long before the client reads CONNACK.
    pub asked_ms: u64,
    /// The session has ended: the client has begun a new one.
    pub is_clean: bool,
    /// The earliest and the latest end of the connection before; none: it was taken over.
    pub left_ms: Option<(u64, Option<u64>)>,
    /// The connection before began at this time.
    pub began_ms: u64,
    pub instance: u32,
    /// Other connections may have come between.
    pub is_uncertain: bool,
}

impl Wills {
    /// A connection with a will was accepted.
    pub fn begin(&mut self, will: Option<Will>) {
        self.settle(Fate::Open);
        self.present = will;
    }

    /// A connection without an answer has come between.
    pub fn doubt(&mut self) {
        if let Some(will) = &mut self.present {
            will.is_doubtful = true;
        }
    }

    fn settle(&mut self, fate: Fate) {
        if let Some(will) = self.present.take() {
            let Will { client, publication, instance, .. } = will;
            self.ended.push(WillEnd { client, publication, instance, fate });
        }
    }

    /// The client has left with DISCONNECT; `is_sure` if the node has read it.
    pub fn withdraw(&mut self, is_sure: bool) {
        let is_sure = is_sure && self.present.is_some_and(|will| !will.is_doubtful);
        self.settle(if is_sure { Fate::Cancelled } else { Fate::Open });
    }

    /// A will whose owner is unknown to the node, or may be.
    pub fn unknown(&mut self, will: Will) {
        let Will { client, publication, instance, .. } = will;
        self.ended.push(WillEnd { client, publication, instance, fate: Fate::Open });
    }

    /// The client has come back.
    pub fn returned(&mut self, next: &Return) {
        let Some(will) = self.present else {
            return;
        };
        let is_unknown = next.is_uncertain || will.instance != next.instance || will.is_doubtful;
        let (earliest_ms, latest_ms) = next.left_ms.unwrap_or((next.began_ms, Some(next.now_ms)));
        let is_immediate = will.delay_ms == 0;
        let fate = if is_unknown {
            Fate::Open
        } else if is_immediate || next.is_clean {
            Fate::Published(next.now_ms)
        } else if next.now_ms < earliest_ms + will.delay_ms {
            Fate::Cancelled
        } else {
            match latest_ms {
                Some(latest_ms)
                    if next.left_ms.is_some()
                        && latest_ms + will.delay_ms + 1_000 < next.asked_ms =>
                {
                    Fate::Published(next.now_ms)
                }
                Some(_) | None => Fate::Open,
            }
        };
        self.settle(fate);
    }

    /// Passes everything to the oracle.
    pub fn finish(mut self, oracle: &mut Oracle) {
        self.settle(Fate::Open);
        oracle.mqtt.wills.extend(self.ended);
    }
}
