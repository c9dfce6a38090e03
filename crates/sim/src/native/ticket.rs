//! Resume tickets: requested, received with GO_AWAY, and presented, with the client's own cursors
//! or without.
//!
//! Checks: a ticket restores exactly the subscriptions whose SUBSCRIBED preceded it, each from no
//! later than the client's progress at that time; repeated messages are in order and occur once.

use super::{NativeClient, Stage, Waiting};
use crate::client::Context;
use wire::native::{ClientFrame, Hello, Position, ResumeCursor};

/// A ticket, and its content.
pub(super) struct Held {
    bytes: Vec<u8>,
    covers: Vec<u32>,
    /// The node that issued it.
    instance: u32,
}

impl NativeClient {
    pub(super) fn ask_ticket(&mut self, context: &mut Context<'_>) {
        let is_asked = self.requests.values().any(|waiting| matches!(waiting, Waiting::Ticket));
        if is_asked || !self.is_welcome {
            return;
        }
        let request = self.next_number();
        context.oracle.note(self.peer.id, || format!("asks {request} for a ticket"));
        self.frame(&ClientFrame::Ticket(request));
        self.requests.insert(request, Waiting::Ticket);
    }

    /// Stores a ticket, requested or received with GO_AWAY.
    pub(super) fn keep_ticket(&mut self, bytes: &[u8]) {
        let plain = self.plain.iter().map(|(number, it)| (*number, it.stage));
        let wide = self.wide.iter().map(|(number, it)| (*number, it.stage));
        let stages: Vec<(u32, Stage)> = plain.chain(wide).collect();
        let of = |wanted: &[Stage]| -> Vec<u32> {
            let found = stages.iter().filter(|(_, stage)| wanted.contains(stage));
            found.map(|(number, _)| *number).collect()
        };
        // A subscription that is being ended may be in it or not.
        let is_known = of(&[Stage::Ending]).is_empty();
        self.ticket = is_known.then(|| Held {
            bytes: bytes.to_vec(),
            covers: of(&[Stage::Live, Stage::Replaying]),
            instance: self.peer.instance,
        });
    }

    /// Sends HELLO, with or without a ticket; returns the subscriptions that it restores.
    pub(super) fn hello(&mut self, context: &mut Context<'_>) -> Vec<u32> {
        self.presented = None;
        let is_good = |held: &Held| {
            held.covers.iter().all(|number| {
                let plain = self.plain.get(number);
                plain.is_some_and(|plain| plain.has_cursor) || self.wide.contains_key(number)
            })
        };
        let is_good = self.ticket.as_ref().is_some_and(is_good);
        let Some(held) = self.ticket.take().filter(|_| is_good) else {
            self.frame(&ClientFrame::Hello(Hello::default()));
            return Vec::new();
        };
        // Without its own cursors it resumes behind the ticket's; in another life these may be
        // unknown.
        let lives = &context.oracle.lives;
        let (then, now) = (held.instance, self.peer.instance);
        let is_same_life = (0..context.plan.settings.partitions_count())
            .all(|partition| lives.at(partition, then) == lives.at(partition, now));
        let is_bare = is_same_life && self.peer.random.chance(0.5);
        let mut cursors = Vec::new();
        for &subscription in &held.covers {
            if let Some(plain) = self.plain.get_mut(&subscription) {
                plain.stage = Stage::Asked;
                plain.has_begun = false;
                plain.is_ticketed = is_bare;
                plain.may_be_ahead = true;
                cursors.push(ResumeCursor {
                    subscription,
                    partition: None,
                    position: Position { epoch: plain.run.epoch, offset: plain.run.cursor },
                });
            }
            if let Some(wide) = self.wide.get_mut(&subscription) {
                wide.stage = Stage::Asked;
                wide.is_ticketed = true;
                cursors.extend(wide.cursors().into_iter().map(|at| ResumeCursor {
                    subscription,
                    partition: Some(at.partition),
                    position: at.position,
                }));
            }
        }
        if is_bare {
            cursors.clear();
        }
        context.oracle.note(self.peer.id, || {
            format!("comes back with a ticket for {:?}, {cursors:?}", held.covers)
        });
        self.frame(&ClientFrame::Hello(Hello {
            ticket: Some(&held.bytes),
            cursors: cursors.as_slice().into(),
            ..Hello::default()
        }));
        self.presented = Some(held.covers.len());
        let covers = held.covers.clone();
        if self.peer.random.chance(0.5) {
            // The ticket may be used again.
            self.ticket = Some(held);
        }
        covers
    }

    /// Processes the ticket fields of WELCOME.
    pub(super) fn on_resumed(&mut self, context: &mut Context<'_>, resumed: Option<u32>) {
        let resumed = resumed.map(|count| count as usize);
        if resumed != self.presented {
            let text =
                format!("a ticket for {:?} subscriptions brought back {resumed:?}", self.presented);
            context.oracle.fail(self.peer.id, text);
        }
    }
}
