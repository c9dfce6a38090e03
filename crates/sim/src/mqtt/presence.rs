//! A client's knowledge of its session at the node: CONNACK must agree with it.
//!
//! A CONNECT without an answer may have been dealt with, or be dealt with later than the next one:
//! then the client knows nothing for a while, and believes what CONNACK says.

use crate::client::Context;
use crate::network::{LinkId, Network};

/// The time after which a connection that the node has closed has no effect any more.
const ECHO_MS: u64 = 2_000;

/// The time in which a home hears of the end of a connection, behind the ends of those that it has
/// taken its name over from; the session's lifetime may begin so late.
const LETTERS_MS: u64 = 500;

/// See the module.
#[derive(Default)]
pub(super) struct Presence {
    existing: Existing,
    /// The lifetime of the session without a connection, in seconds.
    expiry_s: u32,
    left: Option<Left>,
    /// The last connection with CONNACK, and those behind it without an answer.
    links: Vec<LinkId>,
    /// The begin of that connection.
    began_ms: u64,
    /// The node of that connection.
    instance: u32,
    /// The node of the last CONNECT, which may have had no answer.
    asked_instance: u32,
    /// Connections that ended without an answer, and when the node had closed each.
    strays: Vec<(LinkId, Option<u64>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Existing {
    #[default]
    No,
    Yes,
    Unknown,
}

/// The end of a connection: between these times, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Left {
    earliest_ms: u64,
    latest_ms: Option<u64>,
}

/// A CONNECT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub is_clean: bool,
    pub expiry_s: u32,
    pub asked_ms: u64,
    pub instance: u32,
}

impl Presence {
    /// Notes which connections the node has closed by now.
    pub fn watch(&mut self, network: &Network, now_ms: u64) {
        // A client that takes its session over leaves the connection before open.
        let is_held = self.links.iter().any(|link| network.is_held(*link));
        if let Some(left) = &mut self.left
            && left.latest_ms.is_none()
            && !self.links.is_empty()
            && !is_held
        {
            left.latest_ms = Some(now_ms);
        }
        for (link, gone_ms) in &mut self.strays {
            if gone_ms.is_none() && !network.is_held(*link) {
                *gone_ms = Some(now_ms);
            }
        }
        self.strays.retain(|(_, gone_ms)| gone_ms.is_none_or(|at| now_ms < at + ECHO_MS));
    }

    /// Whether the node may still close the last connection.
    pub fn is_watching(&self) -> bool {
        self.left.is_some_and(|left| left.latest_ms.is_none())
    }

    /// The earliest and the latest end of the last connection.
    pub fn left_ms(&self) -> Option<(u64, Option<u64>)> {
        self.left.map(|left| (left.earliest_ms, left.latest_ms))
    }

    /// The begin of the last connection.
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// The node of the last connection.
    pub fn instance(&self) -> u32 {
        self.instance
    }

    /// Whether the last connection has not ended for its client.
    pub fn is_held(&self) -> bool {
        self.left.is_none() && !self.links.is_empty()
    }

    /// Whether the session may be another one than the client believes.
    pub fn was_uncertain(&self) -> bool {
        self.existing == Existing::Unknown || !self.strays.is_empty()
    }

    /// Whether connections without an answer may still have an effect.
    pub fn is_uncertain(&self) -> bool {
        !self.strays.is_empty()
    }

    /// Whether the session must be there; none if the client cannot know.
    pub fn expected(&self, context: &Context<'_>, attempt: &Attempt) -> Option<bool> {
        if attempt.is_clean {
            return Some(false);
        }
        if !self.strays.is_empty() {
            return None;
        }
        if attempt.instance != self.asked_instance {
            return self.over_a_restart(context);
        }
        match self.existing {
            Existing::No => return Some(false),
            Existing::Unknown => return None,
            Existing::Yes => {}
        }
        let expiry_ms = match self.expiry_s {
            0 => return Some(false),
            u32::MAX => return Some(true),
            seconds => u64::from(seconds) * 1_000,
        };
        if context.plan.clock_jumps || context.plan.clock_leaps {
            return None;
        }
        // The node may have ended the connection long before its client notices.
        let held = Left { earliest_ms: self.began_ms, latest_ms: None };
        let left = self.left.unwrap_or(held);
        if context.now_ms < left.earliest_ms + expiry_ms {
            return Some(true);
        }
        let latest_ms = left.latest_ms?;
        (attempt.asked_ms > latest_ms + expiry_ms + LETTERS_MS).then_some(false)
    }

    /// A session in memory ends with the node.
    fn over_a_restart(&self, context: &Context<'_>) -> Option<bool> {
        let is_on_disk = context.plan.keeps_sessions();
        let never_was = self.existing == Existing::No;
        (!is_on_disk || never_was && self.links.is_empty()).then_some(false)
    }

    /// CONNACK has come.
    pub fn accepted(&mut self, attempt: &Attempt, link: Option<LinkId>) {
        self.existing = Existing::Yes;
        self.expiry_s = attempt.expiry_s;
        self.left = None;
        self.links = link.into_iter().collect();
        self.began_ms = attempt.asked_ms;
        self.instance = attempt.instance;
        self.asked_instance = attempt.instance;
    }

    /// A connection without CONNACK has ended.
    pub fn unanswered(&mut self, attempt: &Attempt, link: Option<LinkId>) {
        self.strays.extend(link.map(|link| (link, None)));
        // A session that ended with its connection may have begun anew.
        let is_safe = !attempt.is_clean && attempt.expiry_s > 0 && self.expiry_s > 0;
        // So may one at another node.
        let is_here = attempt.instance == self.asked_instance;
        if !(is_safe && is_here && self.existing == Existing::Yes) {
            self.existing = Existing::Unknown;
        }
        self.asked_instance = attempt.instance;
        let earliest_ms = self.left.map_or(attempt.asked_ms, |left| left.earliest_ms);
        self.left = Some(Left { earliest_ms, latest_ms: None });
        self.links.extend(link);
    }

    /// A connection with CONNACK has ended, at `earliest_ms` or later.
    pub fn ended(&mut self, earliest_ms: u64) {
        self.left = Some(Left { earliest_ms, latest_ms: None });
    }

    /// DISCONNECT has changed the lifetime; `is_sure` if the node gets it.
    pub fn changed(&mut self, expiry_s: u32, is_sure: bool) {
        if is_sure {
            self.expiry_s = expiry_s;
        } else {
            self.existing = Existing::Unknown;
        }
    }
}
