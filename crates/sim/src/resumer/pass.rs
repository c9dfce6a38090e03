//! The token of a session: what it covers now, and what may end for it.
//!
//! The client knows what it asked for: with each message that it is handed it sees whether a token
//! covered that, and with each refusal whether none did. Once a renewal has been answered only the
//! new token counts. That who is entitled misses nothing is judged as for everybody else, by the
//! runs.

use super::Resumer;
use crate::client::{Context, Phase};
use crate::entitlement::{RIGHTS_ALL, Token, covers};
use client::session::{Event, Reason, ServerError};
use stdx::prng::Prng;
use wire::native::{CloseCode, ErrorCode, UnsubscribeCode};

/// See the module.
pub(super) struct Pass {
    /// The newest, which every further connection shows.
    token: Token,
    /// Those before it that may still hold: the answer to a renewal has not come.
    former: Vec<Token>,
    /// Those that do not hold any more since the last answer: answers to requests are handed over
    /// behind events.
    over: Vec<Token>,
    is_revoked: bool,
    /// The newest was refused because its user has as many connections as it says.
    is_crowded: bool,
    numbers: u64,
}

impl Pass {
    /// The first token.
    pub fn new(client: usize, random: &mut Prng, now_s: u32) -> Pass {
        let mut pass = Pass {
            token: Token {
                client,
                rights: RIGHTS_ALL,
                number: 0,
                expires_s: 0,
                connections_max: 0,
            },
            former: Vec::new(),
            over: Vec::new(),
            is_revoked: false,
            is_crowded: false,
            numbers: 0,
        };
        pass.draw(random, now_s, true);
        pass
    }

    pub fn text(&self) -> String {
        self.token.text()
    }

    /// Another token; one that expires, or is not for everybody of its user, only if it may.
    fn draw(&mut self, random: &mut Prng, now_s: u32, may_expire: bool) {
        self.numbers += 1;
        self.token.number = (self.token.client as u64) << 32 | self.numbers;
        self.token.rights = random.between(1, u64::from(RIGHTS_ALL)) as u8;
        self.token.expires_s = match may_expire && random.chance(0.5) {
            true => now_s + random.between(1, 6) as u32,
            false => 0,
        };
        self.token.connections_max = match may_expire && random.chance(0.5) {
            true => random.between(1, 2) as u32,
            false => 0,
        };
        (self.is_revoked, self.is_crowded) = (false, false);
    }

    /// Whether some token that may hold covers the topic.
    fn may_cover(&self, topic: &str) -> bool {
        self.rights().any(|rights| covers(rights, topic))
    }

    /// Whether all of them do.
    fn must_cover(&self, topic: &str) -> bool {
        self.rights().all(|rights| covers(rights, topic))
    }

    fn rights(&self) -> impl Iterator<Item = u8> {
        self.tokens().map(|token| token.rights)
    }

    fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.former.iter().chain([&self.token])
    }

    /// Whether the newest, or one that may still hold, has.
    fn has_expired(&self, now_s: u32) -> bool {
        self.tokens().any(|token| token.has_expired(now_s))
    }

    /// Only the newest counts from now on.
    fn forget_former(&mut self) {
        self.over = std::mem::take(&mut self.former);
    }

    /// A renewal was answered: the first of those since the last answer, as a client has one on its
    /// way at a time and then sends the newest. Only these two count from now on.
    fn note_renewed(&mut self) {
        let answered = (self.former.len() > 1).then(|| self.former.remove(1));
        self.forget_former();
        self.former.extend(answered);
    }

    /// A renewal was refused: that token never held, and the session goes on with the one before.
    /// Those drawn meanwhile were never shown, but for the newest, which is on its way now.
    fn note_refused(&mut self) {
        match self.former.len() {
            2.. => self.former.truncate(1),
            _ => self.token = self.former.pop().unwrap_or(self.token),
        }
        self.is_revoked = false;
    }
}

impl Resumer {
    /// Renews, revokes, or leaves it to others.
    pub(super) fn act_on_pass(&mut self, context: &mut Context<'_>) {
        let choice = self.peer.random.below(20);
        let Some(pass) = &mut self.pass else {
            return;
        };
        match choice {
            0 | 1 if self.session.is_ready() && pass.former.is_empty() => self.renew(context, true),
            2 if !pass.is_revoked => {
                pass.is_revoked = true;
                let number = pass.token.number;
                context.judge.revoke(number);
                let id = self.peer.id;
                context.oracle.note(id, || format!("has its token {number} revoked"));
            }
            _ => {}
        }
    }

    fn renew(&mut self, context: &mut Context<'_>, may_expire: bool) {
        let now_s = context.now_s;
        let Some(pass) = self.pass.as_mut().filter(|pass| !pass.is_revoked) else {
            return;
        };
        pass.former.push(pass.token);
        pass.draw(&mut self.peer.random, now_s, may_expire);
        let text = pass.text();
        context.oracle.note(self.peer.id, || format!("renews with {text}"));
        self.session.renew(text);
    }

    /// The connection is gone: the next one shows a token that holds.
    pub(super) fn renew_pass(&mut self, context: &mut Context<'_>) {
        let now_s = context.now_s;
        let Some(pass) = &mut self.pass else {
            return;
        };
        pass.forget_former();
        if pass.is_revoked || pass.is_crowded || pass.has_expired(now_s) {
            let may_expire = context.phase == Phase::Active;
            pass.draw(&mut self.peer.random, now_s, may_expire);
            self.session.renew(pass.text());
        }
    }

    /// A message of a topic has come.
    pub(super) fn check_pass(&self, context: &mut Context<'_>, topic: usize) {
        let name = &context.plan.topics[topic];
        let is_covered = |pass: &Pass| pass.may_cover(name);
        if !self.pass.as_ref().is_none_or(is_covered) {
            let text = format!("a message of {name}, which no token covers");
            context.oracle.fail(self.peer.id, text);
        }
    }

    /// Whether a token explains that a publication was refused: also one that was over when the
    /// answer was handed over.
    pub(super) fn is_refusal_explained(
        &self,
        context: &Context<'_>,
        topic: usize,
        error: &ServerError,
    ) -> bool {
        let name = &context.plan.topics[topic];
        let is = |code: ErrorCode| error.code == u32::from(code.number());
        let explains = |token: &Token| {
            is(ErrorCode::Forbidden) && !covers(token.rights, name)
                || is(ErrorCode::TokenExpired) && token.has_expired(context.now_s)
        };
        let was = |pass: &Pass| pass.over.iter().any(explains);
        self.pass.as_ref().is_some_and(was) || self.is_explained(context, topic, error)
    }

    /// Whether the token explains that something about a topic was refused, or has ended.
    pub(super) fn is_explained(
        &self,
        context: &Context<'_>,
        topic: usize,
        error: &ServerError,
    ) -> bool {
        let Some(pass) = &self.pass else {
            return false;
        };
        let name = &context.plan.topics[topic];
        let is = |code: ErrorCode| error.code == u32::from(code.number());
        if is(ErrorCode::Forbidden) || error.code == u32::from(UnsubscribeCode::Forbidden.number())
        {
            return !pass.must_cover(name);
        }
        self.is_end_explained(context, error.code)
    }

    fn is_end_explained(&self, context: &Context<'_>, code: u32) -> bool {
        let is = |other: u16| code == u32::from(other);
        let expired = [ErrorCode::TokenExpired.number(), CloseCode::TokenExpired.number()];
        let revoked = [ErrorCode::TokenRevoked.number(), CloseCode::Revoked.number()];
        self.pass.as_ref().is_some_and(|pass| {
            (expired.into_iter().any(is) && pass.has_expired(context.now_s))
                || (revoked.into_iter().any(is) && pass.is_revoked)
        })
    }

    /// The connection has ended with a code. False if that is none of the token's.
    pub(super) fn is_end_of_pass(&mut self, context: &mut Context<'_>, reason: &Reason) -> bool {
        let Reason::Closed { code, .. } = reason else {
            return false;
        };
        if *code == CloseCode::TooManyConnections.number() {
            return self.is_crowd_explained(context);
        }
        let codes = [CloseCode::TokenExpired, CloseCode::Revoked];
        if !codes.iter().any(|other| other.number() == *code) {
            return false;
        }
        if !self.is_end_explained(context, u32::from(*code)) {
            let text = format!("closed with {code}, and the token holds");
            context.oracle.fail(self.peer.id, text);
        }
        true
    }

    /// The newest token was refused because its user has too many connections: it has to say how
    /// many there may be.
    fn is_crowd_explained(&mut self, context: &mut Context<'_>) -> bool {
        let Some(pass) = self.pass.as_mut().filter(|pass| pass.token.connections_max > 0) else {
            let text = "too many connections, and nothing says how many there may be";
            context.oracle.fail(self.peer.id, text.into());
            return false;
        };
        pass.is_crowded = true;
        context.oracle.crowds += 1;
        true
    }

    /// Takes an event that is about the token; gives back others.
    pub(super) fn on_pass_event(
        &mut self,
        context: &mut Context<'_>,
        event: Event,
    ) -> Option<Event> {
        match event {
            Event::TokenRenewed { .. } => {
                if let Some(pass) = &mut self.pass {
                    pass.note_renewed();
                }
            }
            Event::TokenExpires { .. } => {
                if self.peer.random.chance(0.5) {
                    self.renew(context, context.phase == Phase::Active);
                }
            }
            // The new one has ended before it was judged: the session goes on with the one before.
            Event::TokenRefused(error) if self.is_end_explained(context, error.code) => {
                if let Some(pass) = &mut self.pass {
                    pass.note_refused();
                }
                self.renew(context, false);
            }
            // The other clients of its user are there: the session goes on with the one before,
            // whatever became of the new one.
            Event::TokenRefused(error)
                if error.code == u32::from(ErrorCode::TooManyConnections.number())
                    && self.is_crowd_explained(context) =>
            {
                if let Some(pass) = &mut self.pass {
                    pass.note_refused();
                }
                self.renew(context, false);
            }
            Event::TokenRefused(error) => {
                let text = format!("a renewal is refused: {error}");
                context.oracle.fail(self.peer.id, text);
            }
            Event::Error(error) if self.is_end_explained(context, error.code) => {}
            // The close that follows is judged.
            Event::Error(error)
                if error.code == u32::from(ErrorCode::TooManyConnections.number()) => {}
            other => return Some(other),
        }
        None
    }

    /// Whether the token is one that the client can stay with.
    pub(super) fn is_pass_settled(&self) -> Result<(), String> {
        match &self.pass {
            Some(pass) if pass.is_revoked => Err("connected with a revoked token".into()),
            Some(pass) if pass.token.expires_s != 0 => Err("its token has not ended".into()),
            _ => Ok(()),
        }
    }
}
