//! Whether one frame, or one turn, costs as much again when it has twice as many items.
//!
//! `budget WORKLOAD N 0` prepares N items and counts what one thing with all of them costs, until
//! the shard is idle again. `cargo xtask budget` runs each with N, 2N and 4N: from one to the next
//! the growth may at most about double. A cost that goes with the square of the items makes it four
//! times as large.

use super::{Bytes, Conn, Event, Nobody, World, handshake, masked, publication, settings};
use broker::entitlement::{
    Authenticator, CredentialKind, Decision, Digest, Entitlement, EntitlementLimits, NEVER,
    Permissions, Signer, Terms,
};
use broker::settings::{EntitlementSettings, Settings, TicketKey};
use node::mailbox::{Control, Post};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::codec::Step;
use wire::native::{
    ClientFrame, Hello, History, Policy, Renew, ServerFrame, Start, Subscribe, SubscribeItem,
    SubscribeRequest, Unsubscribe,
};
use wire::websocket::frame::Role;
use wire::websocket::message::{Assembler, Event as Received};

/// No read of the network brings more.
const READ_BYTES: usize = 64 << 10;
/// Subscriptions of a session that gets a ticket: all have to fit in.
const SESSION_LEN: u32 = 100;
/// More than the ring of the outboxes holds.
const LAG_MESSAGES: u32 = 800;

/// Runs a workload of this file; false: there is none of that name.
pub(super) fn run(workload: &str, count: u32) -> bool {
    match workload {
        "subscribe-topics" => subscribe(count, topic),
        "subscribe-filters" => subscribe(count, filter),
        "unsubscribe-topics" => unsubscribe(count, topic, count),
        "unsubscribe-filters" => unsubscribe(count, filter, count),
        "unsubscribe-singly" => unsubscribe(count, topic, 1),
        "resubscribe-topics" => resubscribe(count),
        "end-topics" => end(count, topic),
        "end-filters" => end(count, filter),
        "publish-frames" => publish(count),
        "publish-request" => publish_request(count),
        "publish-to-session" => publish_to_session(count, topic),
        "publish-to-filters" => publish_to_session(count, filter),
        "history-frames" => history(count),
        "lag-topics" => lag(count, count, topic, Policy::Replay),
        // Each filter is read by itself, so a page looks at the records of all: as many of them for
        // any number of filters.
        "lag-filters" => lag(count, LAG_MESSAGES, filter, Policy::Replay),
        "lag-and-end" => lag(count, count, topic, Policy::Disconnect),
        "ticket" => ticket(count),
        "resume" => resume(count),
        "go-away" => go_away(count),
        "renew" => renew(count, false),
        "renew-at-once" => renew(count, true),
        "revoke" => revoke(count),
        "reload" => reload(count),
        _ => return false,
    }
    true
}

fn topic(number: u32) -> String {
    format!("t/{number}")
}

fn filter(number: u32) -> String {
    format!("t/{number}/#")
}

/// The topics that a filter or a topic with this number covers.
fn covered(number: u32) -> String {
    format!("t/{number}")
}

fn subscribe(count: u32, name: fn(u32) -> String) {
    let mut scale = Scale::new(plain());
    let conn = scale.session(None);
    scale.send(conn, &subscription(0..count, name, None));
    scale.count();
}

/// In frames of so many items each.
fn unsubscribe(count: u32, name: fn(u32) -> String, items: u32) {
    let mut scale = Scale::new(plain());
    let conn = scale.subscribed(count, name, None);
    scale.send(conn, &unsubscription(count, items));
    scale.count();
}

/// Both in one read, so that answers of the one wait when the other comes.
fn resubscribe(count: u32) {
    let mut scale = Scale::new(plain());
    let conn = scale.subscribed(count, topic, None);
    let mut frames = unsubscription(count, count);
    frames.extend(subscription(0..count, topic, None));
    scale.send(conn, &frames);
    scale.count();
}

fn end(count: u32, name: fn(u32) -> String) {
    let mut scale = Scale::new(plain());
    let conn = scale.subscribed(count, name, None);
    scale
        .world
        .reactor
        .net_mut()
        .events
        .push(Event::Closed { conn, reason: std::io::ErrorKind::ConnectionReset });
    scale.count();
}

fn publish(count: u32) {
    let mut scale = Scale::new(plain());
    let conn = scale.session(None);
    let frames: Vec<u8> =
        (0..count).flat_map(|number| publication(&topic(number)).to_vec()).collect();
    scale.send(conn, &frames);
    scale.count();
}

/// One request with this number of messages; the acknowledgement is one answer.
fn publish_request(count: u32) {
    let mut scale = Scale::new(plain());
    let conn = scale.world.accept();
    let messages: Vec<String> =
        (0..count).map(|number| format!("{{\"topic\":\"t/{number}\",\"data\":\"x\"}}")).collect();
    let body = format!("{{\"messages\":[{}]}}", messages.join(","));
    let head = format!(
        "POST /publish HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    scale.send(conn, (head + &body).as_bytes());
    scale.count();
}

/// A message for each of a session's subscriptions.
fn publish_to_session(count: u32, name: fn(u32) -> String) {
    let mut scale = Scale::new(plain());
    scale.subscribed(count, name, None);
    let publisher = scale.session(None);
    let frames: Vec<u8> =
        (0..count).flat_map(|number| publication(&covered(number)).to_vec()).collect();
    scale.send(publisher, &frames);
    scale.count();
}

fn history(count: u32) {
    let mut scale = Scale::new(plain());
    let conn = scale.session(None);
    let frame = |number: u32| {
        encoded(&ClientFrame::History(History {
            request: number,
            topic: "t/1",
            position: None,
            records_max: 0,
            bytes_max: 0,
            reverse: false,
        }))
    };
    let frames: Vec<u8> = (0..count).flat_map(frame).collect();
    scale.send(conn, &frames);
    scale.count();
}

/// No publication was written so far, and now the socket takes them: each subscription is
/// read from the log.
fn lag(count: u32, messages: u32, name: fn(u32) -> String, policy: Policy) {
    let mut scale = Scale::new(plain());
    scale.subscribed(count, name, Some(policy));
    let publisher = scale.session(None);
    scale.world.reactor.net_mut().is_blocked = true;
    for number in 0..messages {
        scale.send(publisher, &publication(&covered(number % count)));
        scale.settle();
    }
    let net = scale.world.reactor.net_mut();
    net.is_blocked = false;
    for index in std::mem::take(&mut net.blocked) {
        let conn = Conn { index, generation: 1 };
        net.events.push(Event::Writable(conn));
    }
    scale.count();
}

fn ticket(count: u32) {
    let mut scale = Scale::new(with_tickets());
    let conn = scale.subscribed(count, topic, None);
    scale.send(conn, &encoded(&ClientFrame::Ticket(1)));
    scale.count();
}

fn resume(count: u32) {
    let mut scale = Scale::new(with_tickets());
    let conn = scale.subscribed(count, topic, None);
    scale.world.reactor.net_mut().keeps_written = true;
    scale.send(conn, &encoded(&ClientFrame::Ticket(1)));
    scale.settle();
    let ticket = ticket_in(&scale.world.reactor.net_mut().written);
    let conn = scale.upgraded();
    let hello = Hello { ticket: Some(&ticket), ..Hello::default() };
    scale.send(conn, &encoded(&ClientFrame::Hello(hello)));
    scale.count();
}

/// A drain of sessions that have [`SESSION_LEN`] subscriptions each, together so many.
fn go_away(count: u32) {
    let mut scale = Scale::new(with_tickets());
    for _ in 0..count / SESSION_LEN {
        scale.subscribed(SESSION_LEN, topic, None);
    }
    scale.tell(Control::Drain { window_ms: 60_000 });
    scale.count();
}

/// With a token that permits none of them; in the same read as the subscriptions, or when all hold.
fn renew(count: u32, at_once: bool) {
    let mut scale = Scale::new(with_tokens());
    let renew = encoded(&ClientFrame::Renew(Renew { request: 1, token: "nothing" }));
    let conn = if at_once {
        scale.session(Some("everything"))
    } else {
        scale.subscribed_as(Some("everything"), count, topic, None)
    };
    let mut frames = Vec::new();
    if at_once {
        frames = subscription(0..count, topic, None);
    }
    frames.extend(renew);
    scale.send(conn, &frames);
    scale.count();
}

fn revoke(count: u32) {
    let mut scale = Scale::new(with_tokens());
    for _ in 0..count / SESSION_LEN {
        scale.subscribed_as(Some("everything"), SESSION_LEN, topic, None);
    }
    scale.authenticator.is_revoked.store(true, Ordering::Relaxed);
    scale.tell(Control::Revoked);
    scale.count();
}

fn reload(count: u32) {
    let mut scale = Scale::new(plain());
    scale.subscribed(count, topic, None);
    scale.subscribed(count, filter, None);
    scale.tell(Control::Settings(Arc::new(plain())));
    scale.count();
}

/// A world, and a way to tell its shard something.
struct Scale {
    world: World,
    posts: Rc<RefCell<Vec<Post>>>,
    authenticator: Arc<TwoTokens>,
}

impl Scale {
    fn new(settings: Settings) -> Scale {
        let authenticator = Arc::new(TwoTokens::default());
        let asked = settings.entitlement.is_some();
        let mailbox = Nobody::default();
        let posts = mailbox.0.clone();
        let mut world = World::with(
            settings,
            asked.then(|| authenticator.clone() as Arc<dyn Authenticator>),
            mailbox,
        );
        world.reactor.net_mut().may_close = true;
        Scale { world, posts, authenticator }
    }

    fn tell(&mut self, control: Control) {
        self.posts.borrow_mut().push(Post::Control(control));
    }

    /// In as many reads as it takes.
    fn send(&mut self, conn: Conn, bytes: &[u8]) {
        for part in bytes.chunks(READ_BYTES) {
            let part: Bytes = part.into();
            self.world.send(conn, &part);
        }
    }

    fn upgraded(&mut self) -> Conn {
        let conn = self.world.accept();
        self.world.send(conn, &handshake(false));
        self.settle();
        conn
    }

    fn session(&mut self, token: Option<&str>) -> Conn {
        let conn = self.upgraded();
        let hello = Hello { token, ..Hello::default() };
        self.send(conn, &encoded(&ClientFrame::Hello(hello)));
        self.settle();
        conn
    }

    fn subscribed(&mut self, count: u32, name: fn(u32) -> String, policy: Option<Policy>) -> Conn {
        self.subscribed_as(None, count, name, policy)
    }

    fn subscribed_as(
        &mut self,
        token: Option<&str>,
        count: u32,
        name: fn(u32) -> String,
        policy: Option<Policy>,
    ) -> Conn {
        let conn = self.session(token);
        for first in (0..count).step_by(SESSION_LEN as usize) {
            let last = count.min(first + SESSION_LEN);
            self.send(conn, &subscription(first..last, name, policy));
            self.settle();
        }
        conn
    }

    /// Turns that do not count, until the shard is idle.
    fn settle(&mut self) {
        self.until_idle(World::settle);
    }

    /// Turns that count, until the shard is idle.
    fn count(&mut self) {
        let before = self.world.written();
        self.until_idle(World::turn);
        self.world.tell_calls(before);
    }

    /// A turn that began with nothing to do is the last one.
    fn until_idle(&mut self, turn: fn(&mut World)) {
        loop {
            let net = self.world.reactor.net_mut();
            net.offer_again();
            let has_input = net.has_input() || !net.events.is_empty();
            let has_posts = !self.posts.borrow().is_empty();
            turn(&mut self.world);
            let is_idle = self.world.reactor.net_mut().is_idle;
            if is_idle && !has_input && !has_posts {
                return;
            }
        }
    }
}

/// Rates would refuse the counted requests.
fn plain() -> Settings {
    let mut settings = settings(false);
    settings.limits.subscribe_rate_max = 0;
    settings
}

fn with_tickets() -> Settings {
    let mut settings = plain();
    settings.tickets.keys = vec![TicketKey::new([7; 32])];
    settings.tickets.lifetime_ms = 3_600_000;
    settings
}

fn with_tokens() -> Settings {
    let mut settings = plain();
    settings.entitlement = Some(EntitlementSettings::default());
    settings
}

fn encoded(frame: &ClientFrame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    masked(&bytes).to_vec()
}

/// One frame that subscribes to all of these.
fn subscription(
    numbers: std::ops::Range<u32>,
    name: fn(u32) -> String,
    policy: Option<Policy>,
) -> Vec<u8> {
    let names: Vec<String> = numbers.clone().map(name).collect();
    let items: Vec<SubscribeItem<'_>> = numbers
        .zip(&names)
        .map(|(number, name)| {
            let request = SubscribeRequest { policy, ..SubscribeRequest::new(name, Start::Live) };
            SubscribeItem::new(number, request)
        })
        .collect();
    encoded(&ClientFrame::Subscribe(Subscribe { items: items.as_slice().into() }))
}

/// Frames of so many items each.
fn unsubscription(count: u32, items: u32) -> Vec<u8> {
    let numbers: Vec<u32> = (0..count).collect();
    let frame = |numbers: &[u32]| {
        encoded(&ClientFrame::Unsubscribe(Unsubscribe { subscriptions: numbers.into() }))
    };
    numbers.chunks(items as usize).flat_map(frame).collect()
}

/// The ticket among the frames that were written.
fn ticket_in(mut written: &[u8]) -> Vec<u8> {
    let mut bytes = written.to_vec();
    let mut at = 0;
    loop {
        let mut assembler = Assembler::with_deflate(false);
        let mut buffer = Vec::new();
        let step = assembler.decode(&mut bytes[at..], Role::Client, READ_BYTES, &mut buffer);
        let Ok(Step::Done { consumed, value }) = step else {
            panic!("no ticket was written");
        };
        if let Received::Binary(frame) = value
            && let Ok(ServerFrame::TicketIssued(issued)) = ServerFrame::decode(frame)
        {
            return issued.ticket.to_vec();
        }
        at += consumed;
        written = &written[consumed..];
        assert!(!written.is_empty(), "no ticket was written");
    }
}

/// Knows the token `everything`, and one that permits nothing; both of one user.
#[derive(Default)]
struct TwoTokens {
    is_revoked: AtomicBool,
}

impl Authenticator for TwoTokens {
    fn authenticate(
        &self,
        _: CredentialKind,
        credential: &[u8],
        digest: Digest,
        _: u64,
    ) -> Decision {
        let mut permissions = Permissions::default();
        if credential == b"everything" {
            permissions.subscribe = vec!["#".into()];
        }
        Decision {
            result: Ok(Entitlement {
                digest,
                subject: "someone".into(),
                token_id: 0,
                issued_s: 1,
                expires_s: NEVER,
                terms: Arc::new(Terms {
                    permissions,
                    limits: EntitlementLimits::default(),
                    signer: Signer::default(),
                }),
            }),
            signatures_count: 1,
        }
    }

    fn is_revoked(&self, _: &Entitlement) -> bool {
        self.is_revoked.load(Ordering::Relaxed)
    }
}
