//! Wills: each is published if and only if its connection ended without DISCONNECT, and was not
//! cancelled.

use crate::oracle::Oracle;
use crate::plan::Plan;

/// The time after which a will that is due is in the log, if nothing fails; milliseconds.
const SLACK_MS: u64 = 800;

/// The fate of a will by the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is published, at this time at the latest; virtual milliseconds.
    Published(u64),
    /// It is not published.
    Cancelled,
    /// The client does not know what the node saw.
    Open,
}

/// The will of an accepted connection, at its end.
#[derive(Clone, Copy, Debug)]
pub struct WillEnd {
    /// The client.
    pub client: usize,
    /// The will, as a publication.
    pub publication: usize,
    /// The node of the connection.
    pub instance: u32,
    /// The expected fate.
    pub fate: Fate,
}

impl Oracle {
    /// Checks the wills.
    pub(super) fn judge_wills(&mut self, plan: &Plan) {
        let is_whole = plan.lossless && !self.is_flipped;
        for will in std::mem::take(&mut self.mqtt.wills) {
            let id = will.publication;
            let is_there = !self.publications[id].places.is_empty();
            match will.fate {
                Fate::Cancelled if is_there => {
                    let text = format!("will {id} was published, although its client had left");
                    return self.fail(will.client, text);
                }
                Fate::Published(at_ms) if is_whole && !is_there => {
                    let calm = self.mqtt.calm.is_some_and(|(_, ms)| at_ms + SLACK_MS < ms);
                    let is_of_node = will.instance == self.lives.instance();
                    let may_fail = plan.disk.refuses() || self.mqtt.given_up > 0;
                    if calm && is_of_node && !may_fail {
                        let text =
                            format!("will {id} was due at {at_ms} ms, and is not in the log");
                        return self.fail(will.client, text);
                    }
                }
                Fate::Published(_) | Fate::Cancelled | Fate::Open => {}
            }
        }
    }
}
