//! Credentials: those of HTTP requests and of HELLO, and sessions that wait for the decision on
//! theirs.
//!
//! Step 3 of the path. The credential of an HTTP request counts for that request alone, also on a
//! connection that stays open; the head is not consumed before the decision. The credential of a
//! session is the token of its HELLO, or the one of the request that became its WebSocket
//! connection, or the identity in the resume ticket. A client without any is anonymous.

use crate::edge::{Edge, NONE, Presented};
use crate::entitlement::{Action, CredentialKind, Digest, Entitlement, Purpose};
use crate::ids::ConnIndex;
use crate::journal::Operation;
use crate::notice::Notice;
use crate::session::State;
use crate::session::credential::{Credential, Entry, close_of, credential_of};
use crate::session::http::fault::Fault;
use crate::ticket::Ticket;
use crate::topic::Filter;
use wire::http::request::Request;
use wire::native::{ClientFrame, ErrorCode, Hello, Reference};

impl Edge {
    /// Whether the credential of the connection's head has its decision.
    pub(crate) fn is_decided(&self, index: ConnIndex) -> bool {
        matches!(self.credential(index), Some(Credential::Decided { .. }))
    }

    /// Entitles the connection by the credential of the request.
    pub(crate) fn entitle_request(&mut self, index: ConnIndex, request: &Request<'_>) -> Entry {
        let decided = if self.is_decided(index) { self.take_state(index) } else { None };
        let settings = self.settings.entitlement.as_ref();
        let takes_passwords = settings.is_some_and(|settings| settings.takes_passwords);
        // Preflights carry no credentials (Fetch, section 3.2.5), and do nothing.
        let shown = match request.method {
            "OPTIONS" => Ok(None),
            _ => credential_of(request, takes_passwords),
        };
        let result = match shown {
            Err(fault) => Err(fault),
            Ok(None) => match self.access.certificates.get(index).map(<[_]>::to_vec) {
                Some(proved) if request.method != "OPTIONS" => {
                    let kind = CredentialKind::Certificate;
                    self.present_in_request(index, decided, kind, &proved)
                }
                _ => {
                    self.entitle(index, NONE);
                    Ok(Entry::Open)
                }
            },
            Ok(Some((kind, bytes))) => self.present_in_request(index, decided, kind, &bytes),
        };
        result.unwrap_or_else(|fault| {
            self.entitle(index, NONE);
            Entry::Refused(fault)
        })
    }

    fn present_in_request(
        &mut self,
        index: ConnIndex,
        decided: Option<State>,
        kind: CredentialKind,
        bytes: &[u8],
    ) -> Result<Entry, Fault> {
        let at = if let Some(Credential::Decided { digest, decision }) = credential_in(decided) {
            debug_assert!(digest == Digest::of(kind, bytes), "the head is the same");
            decision?
        } else {
            match self.show(index, Purpose::Request, kind, bytes)? {
                Presented::Known(at) => at,
                Presented::Asked(digest) => {
                    self.set_state(index, State::Credential(Credential::Request(digest).into()));
                    return Ok(Entry::Waits);
                }
            }
        };
        if !self.may_entitle(index, at) {
            let waits = Credential::Decided { digest: Digest::of(kind, bytes), decision: Ok(at) };
            self.ask_for_user(index, at, waits);
            return Ok(Entry::Waits);
        }
        self.entitle(index, at);
        Ok(Entry::Open)
    }

    /// Whether a request may continue that needs any valid credential.
    pub(crate) fn require_credential(&self, index: ConnIndex) -> Result<(), Fault> {
        match &self.settings.entitlement {
            None => Ok(()),
            Some(_) => match self.entitlement_of(index) {
                None => Err(Fault::anonymous()),
                Some(at) => Ok(self.check_entitlement(at)?),
            },
        }
    }

    /// Whether a request may do this with a topic or filter. Who has shown nothing hears what would
    /// help.
    pub(crate) fn permit_request(
        &mut self,
        index: ConnIndex,
        action: Action,
        wanted: &str,
    ) -> Result<(), Fault> {
        self.permit_request_as(index, action, wanted, true)
    }

    /// Checks the permission of a publication whose body has not come; the body's end repeats the
    /// check.
    pub(crate) fn permit_body(&mut self, index: ConnIndex, topic: &str) -> Result<(), Fault> {
        self.permit_request_as(index, Action::Publish, topic, false)
    }

    /// Checks the permission of an envelope, which has its topics in the body: a client that may
    /// publish nothing at all need not send it.
    pub(crate) fn permit_some_body(&mut self, index: ConnIndex) -> Result<(), Fault> {
        let permitted = self.permit_some(index, Action::Publish);
        permitted.map_err(|code| {
            if code == ErrorCode::Unauthorized { Fault::anonymous() } else { code.into() }
        })
    }

    fn permit_request_as(
        &mut self,
        index: ConnIndex,
        action: Action,
        wanted: &str,
        is_done: bool,
    ) -> Result<(), Fault> {
        let is_asked = self.settings.entitlement.is_some();
        // The node's own topics need a permission even without tokens.
        if !is_asked && !wanted.starts_with('$') {
            return Ok(());
        }
        let wanted = Filter::parse(wanted)
            .map_err(|error| Fault::topic(ErrorCode::MalformedFilter, error))?;
        let permitted = self.permit_as(index, action, wanted, is_done);
        permitted.map_err(|code| {
            if code == ErrorCode::Unauthorized {
                Fault::anonymous()
            } else {
                Fault::of_act((action, wanted.as_str()), code)
            }
        })
    }

    /// Authenticates a session. True if HELLO can be answered now; otherwise it waits, or has
    /// been refused.
    pub(crate) fn identify(&mut self, index: ConnIndex, hello: &Hello<'_>, frame: &[u8]) -> bool {
        if self.settings.entitlement.is_none() {
            return true;
        }
        let result = match hello.token {
            Some(token) => self.show_in_hello(index, token, frame),
            None => self.identify_without_token(index, hello, frame),
        };
        result.unwrap_or_else(|code| {
            self.refuse_hello(index, code, frame);
            false
        })
    }

    fn show_in_hello(
        &mut self,
        index: ConnIndex,
        token: &str,
        frame: &[u8],
    ) -> Result<bool, ErrorCode> {
        let kind = CredentialKind::Token;
        match self.show(index, Purpose::Hello, kind, token.as_bytes())? {
            Presented::Known(at) if self.may_entitle(index, at) => {
                self.entitle(index, at);
                Ok(true)
            }
            Presented::Known(at) => {
                let frame = frame.into();
                self.ask_for_user(index, at, Credential::User { at, frame });
                Ok(false)
            }
            Presented::Asked(digest) => {
                let frame = frame.into();
                let waits = Credential::Hello { digest, frame };
                self.set_state(index, State::Credential(waits.into()));
                Ok(false)
            }
        }
    }

    fn identify_without_token(
        &mut self,
        index: ConnIndex,
        hello: &Hello<'_>,
        frame: &[u8],
    ) -> Result<bool, ErrorCode> {
        if let Some(at) = self.entitlement_of(index) {
            return self.check_entitlement(at).map(|()| true);
        }
        let ticket = hello
            .ticket
            .and_then(|bytes| Ticket::open(bytes, &self.settings.tickets, self.now.unix_ms).ok());
        let of_ticket = ticket.and_then(|ticket| ticket.entitlement());
        // A certificate is shown on each connection.
        let is_by_certificate = |it: &Entitlement| it.kind() == CredentialKind::Certificate;
        let of_ticket = of_ticket.filter(|it| !is_by_certificate(it));
        if let Some(entitlement) = of_ticket {
            let at = self.enter_entitlement(&entitlement)?;
            let frame = frame.into();
            let waits = Credential::Ticket { at, frame };
            self.set_state(index, State::Credential(waits.into()));
            self.have_looked_at(index);
            return Ok(false);
        }
        let settings = self.settings.entitlement.as_ref();
        if settings.is_some_and(|settings| settings.anonymous.is_empty()) {
            let refusal = ErrorCode::Unauthorized;
            self.record_decision(index, Operation::Authenticate, "", Some(refusal));
            Err(refusal)
        } else {
            Ok(true)
        }
    }

    /// The decision of HELLO's token.
    pub(crate) fn hello_decided(&mut self, index: ConnIndex, decision: Result<u32, ErrorCode>) {
        let waited = self.take_buffered_state(index);
        let Some(Credential::Hello { frame, .. }) = credential_in(waited) else {
            return;
        };
        match decision {
            Ok(at) => self.entitle_hello(index, at, frame),
            Err(code) => self.refuse_hello(index, code, &frame),
        }
    }

    /// The entitlement of HELLO's ticket has been examined.
    pub(crate) fn ticket_looked_at(&mut self, index: ConnIndex, at: u32) {
        let waited = self.take_buffered_state(index);
        let Some(Credential::Ticket { frame, .. }) = credential_in(waited) else {
            return;
        };
        let checked = self.check_entitlement(at);
        self.record_decision_of(index, Some(at), Operation::Authenticate, "", checked.err());
        match checked {
            Ok(()) => self.entitle_hello(index, at, frame),
            Err(code) => {
                self.access.entitlements.release(at);
                self.refuse_hello(index, code, &frame);
            }
        }
    }

    /// HELLO has waited for this entry.
    fn entitle_hello(&mut self, index: ConnIndex, at: u32, frame: Box<[u8]>) {
        if self.may_entitle(index, at) {
            self.entitle(index, at);
            return self.answer_hello(index, &frame);
        }
        self.ask_for_user(index, at, Credential::User { at, frame });
        self.count_buffered(index);
    }

    /// The shell has decided whether a connection counts for its user: the session that waited
    /// resumes.
    pub(crate) fn user_settled(&mut self, index: ConnIndex, decision: Result<(), ErrorCode>) {
        match credential_in(self.take_buffered_state(index)) {
            Some(Credential::User { at, frame }) => match decision {
                Ok(()) => {
                    self.entitle(index, at);
                    self.answer_hello(index, &frame);
                }
                Err(code) => {
                    self.access.entitlements.release(at);
                    self.refuse_hello(index, code, &frame);
                }
            },
            Some(Credential::Decided { digest, decision: Ok(at) }) => {
                if decision.is_err() {
                    self.access.entitlements.release(at);
                }
                let decision = decision.map(|()| at);
                let decided = Credential::Decided { digest, decision };
                self.set_state(index, State::Credential(decided.into()));
                self.resume(index);
            }
            _ => debug_assert!(false, "it waited for its user"),
        }
    }

    fn answer_hello(&mut self, index: ConnIndex, frame: &[u8]) {
        if self.connections.slots[index].facts().is_mqtt {
            return self.answer_connect(index, frame);
        }
        if let Ok(ClientFrame::Hello(hello)) = ClientFrame::decode(frame) {
            self.native_welcome(index, &hello);
        }
        self.resume(index);
    }

    fn refuse_hello(&mut self, index: ConnIndex, code: ErrorCode, frame: &[u8]) {
        if self.connections.slots[index].facts().is_mqtt {
            return self.refuse_waiting_connect(index, code, frame);
        }
        self.native_refuse(index, Reference::Connection, code);
        self.close_native(index, close_of(code));
    }

    /// A connection ends because its entitlement does.
    pub(crate) fn close_entitled(&mut self, index: ConnIndex, code: ErrorCode) {
        if self.connections.slots[index].facts().has_one_cursor {
            self.close_idle(index);
        } else {
            self.close_native(index, close_of(code));
        }
    }

    /// Tells a client ahead.
    pub(crate) fn notify_token_expires(&mut self, index: ConnIndex, expires_ms: u64) {
        self.notify(index, &Notice::TokenExpires { expires_ms });
    }
}

/// The credential that a connection has waited with.
fn credential_in(state: Option<State>) -> Option<Credential> {
    match state {
        Some(State::Credential(credential)) => Some(*credential),
        _ => None,
    }
}
