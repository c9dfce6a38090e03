//! The token of a session: its permissions, and the effects of its end.
//!
//! The client knows its tokens: for each message it checks that a token permitted it, and for each
//! refusal that none did. After the answer to a renewal only the new token counts. The runs check
//! that an entitled client misses nothing, as for all clients.

use super::Resumer;
use crate::client::{Context, Phase};
use crate::entitlement::{RIGHTS_ALL, Token, covers};
use client::session::{Event, Reason, ServerError};
use stdx::prng::Prng;
use wire::native::{CloseCode, ErrorCode, UnsubscribeCode};

/// The tokens of a session; see the module.
pub(super) struct Pass {
    /// The newest token, which every further connection presents.
    token: Token,
    /// Earlier tokens that may still be valid: the renewal has no answer yet.
    former: Vec<Token>,
    /// Tokens that became invalid with the last answer: answers to requests follow events.
    over: Vec<Token>,
    is_revoked: bool,
    /// The newest token was refused because its user has the maximum number of connections.
    is_crowded: bool,
    numbers: u64,
}

impl Pass {
    /// Creates the first token.
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

    /// Draws another token; one that expires, or excludes clients of its user, only if
    /// `may_expire`.
    fn draw(&mut self, random: &mut Prng, now_s: u32, may_expire: bool) {
        self.numbers += 1;
        self.token.number = (self.token.client as u64) << 32 | self.numbers;
        self.token.rights = random.between(1, u64::from(RIGHTS_ALL)) as u8;
        self.token.expires_s =
            if may_expire && random.chance(0.5) { now_s + random.between(1, 6) as u32 } else { 0 };
        self.token.connections_max =
            if may_expire && random.chance(0.5) { random.between(1, 2) as u32 } else { 0 };
        (self.is_revoked, self.is_crowded) = (false, false);
    }

    /// Whether a possibly valid token permits the topic.
    fn may_cover(&self, topic: &str) -> bool {
        self.rights().any(|rights| covers(rights, topic))
    }

    /// Whether all possibly valid tokens permit the topic.
    fn must_cover(&self, topic: &str) -> bool {
        self.rights().all(|rights| covers(rights, topic))
    }

    fn rights(&self) -> impl Iterator<Item = u8> {
        self.tokens().map(|token| token.rights)
    }

    fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.former.iter().chain([&self.token])
    }

    /// Whether the newest token, or one that may still be valid, has expired.
    fn has_expired(&self, now_s: u32) -> bool {
        self.tokens().any(|token| token.has_expired(now_s))
    }

    /// Makes only the newest token count from now on.
    fn forget_former(&mut self) {
        self.over = std::mem::take(&mut self.former);
    }

    /// Processes the answer to a renewal: the first one since the last answer, as a client has one
    /// in flight at a time and then sends the newest. Only these two tokens count from now on.
    fn note_renewed(&mut self) {
        let answered = (self.former.len() > 1).then(|| self.former.remove(1));
        self.forget_former();
        self.former.extend(answered);
    }

    /// Processes a refused renewal: that token was never valid, and the session continues with the
    /// previous one. Tokens drawn meanwhile were never presented, except the newest, which is in
    /// flight now.
    fn note_refused(&mut self) {
        match self.former.len() {
            2.. => self.former.truncate(1),
            _ => self.token = self.former.pop().unwrap_or(self.token),
        }
        self.is_revoked = false;
    }
}

impl Resumer {
    /// Renews, revokes, or does nothing.
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
                context.authenticator.revoke(number);
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

    /// Draws a valid token for the next connection, after the end of one.
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

    /// Checks that a token permitted a received message.
    pub(super) fn check_pass(&self, context: &mut Context<'_>, topic: usize) {
        let name = &context.plan.topics[topic];
        let is_covered = |pass: &Pass| pass.may_cover(name);
        if !self.pass.as_ref().is_none_or(is_covered) {
            let text = format!("a message of {name}, which no token covers");
            context.oracle.fail(self.peer.id, text);
        }
    }

    /// Whether a token explains a refused publication: also one that was invalid when the answer
    /// arrived.
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

    /// Whether the token explains a refusal or an end concerning a topic.
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

    /// Processes the close code of a connection. False if it does not concern the token.
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

    /// Whether the user has too many connections for the newest token: it must have a limit.
    fn is_crowd_explained(&mut self, context: &mut Context<'_>) -> bool {
        let Some(pass) = self.pass.as_mut().filter(|pass| pass.token.connections_max > 0) else {
            let text = "too many connections, but no maximum is known";
            context.oracle.fail(self.peer.id, text.into());
            return false;
        };
        pass.is_crowded = true;
        context.oracle.crowds += 1;
        true
    }

    /// Processes an event about the token; returns other events.
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
            // The new token expired before its check: the session continues with the previous one.
            Event::TokenRefused(error) if self.is_end_explained(context, error.code) => {
                if let Some(pass) = &mut self.pass {
                    pass.note_refused();
                }
                self.renew(context, false);
            }
            // The other clients of its user are connected: the session continues with the previous
            // token, whatever the state of the new one.
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
            // The close that follows is checked.
            Event::Error(error)
                if error.code == u32::from(ErrorCode::TooManyConnections.number()) => {}
            other => return Some(other),
        }
        None
    }

    /// Whether the client can stay with the token.
    pub(super) fn is_pass_settled(&self) -> Result<(), String> {
        match &self.pass {
            Some(pass) if pass.is_revoked => Err("connected with a revoked token".into()),
            Some(pass) if pass.token.expires_s != 0 => Err("its token has not ended".into()),
            _ => Ok(()),
        }
    }
}
