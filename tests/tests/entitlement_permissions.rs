//! Permissions of tokens and API keys, on the real binary: each action, `{sub}`, limits of a token,
//! and restrictions by rules and addresses.

use end_to_end::curl::curl;
use end_to_end::event_stream::EventStream;
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native, Opening};
use end_to_end::rate::Rate;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{ApiKey, Issuer, configuration};

const UNAUTHORIZED: u64 = 200;
const FORBIDDEN: u64 = 202;

/// Checks a client's permissions for a topic, by every method: subscribe, publish, read the
/// history.
#[track_caller]
fn check(server: &Server, token: &str, topic: &str, expected: [bool; 3]) {
    let mut native = Native::with_token(&server.clients, token);
    let refused = |frame: Frame| match frame {
        Frame::Error { code, .. } => {
            assert_eq!(code, FORBIDDEN, "{topic}");
            false
        }
        _ => true,
    };
    let subscribed = refused(native.subscribe_one(1, topic));
    let mut by_native = [subscribed, false, false];
    native.history(2, topic);
    by_native[2] = refused(native.next_frame());
    native.publish(3, topic, "native");
    by_native[1] = refused(native.next_frame());
    assert_eq!(by_native, expected, "native, {topic}");

    let url = server.url(&format!("/topics/{topic}"));
    let status = |arguments: &[&str]| {
        let bearer = format!("Authorization: Bearer {token}");
        let answer = curl(&[&["-H", &bearer][..], arguments].concat());
        match answer.status {
            200 => true,
            _ => {
                assert_eq!(
                    answer.expect_problem(403, "forbidden").header("www-authenticate"),
                    Some("Bearer error=\"insufficient_scope\"")
                );
                false
            }
        }
    };
    let published = status(&["-d", "http", &url]);
    let read = status(&[&url]);
    assert_eq!([published, read], expected[1..], "HTTP, {topic}");
    let envelope = format!("{{\"topic\":\"{topic}\",\"data\":1}}");
    let published = status(&["-d", &envelope, &server.url("/publish")]);
    assert_eq!(published, expected[1], "an envelope, {topic}");
    if expected[0] {
        drop(EventStream::open(&format!("{url}?token={token}"), 1, None))
    } else {
        assert!(!status(&["-H", "Accept: text/event-stream", &url]))
    }
}

#[test]
fn each_action_needs_its_permission() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "EdDSA", "");
    place.configure(&configuration("", &[&issuer]));
    let server = place.start();
    let token = issuer
        .token("--sub anna --subscribe s --publish p --history h --all all/# --all user/{sub}/#");
    check(&server, &token, "s", [true, false, false]);
    check(&server, &token, "p", [false, true, false]);
    check(&server, &token, "h", [false, false, true]);
    check(&server, &token, "all/x", [true; 3]);
    check(&server, &token, "user/anna/in", [true; 3]);
    check(&server, &token, "user/ben/in", [false; 3]);
    check(&server, &token, "other", [false; 3]);
    check(&server, &issuer.token("--sub anna"), "s", [false; 3]);
    // A filter must be covered completely by a single permission.
    let mut native = Native::with_token(&server.clients, &token);
    for (filter, is_permitted) in [
        ("all/#", true),
        ("all/+/x", true),
        ("user/anna/+", true),
        ("user/+/in", false),
        ("+", false),
        ("#", false),
    ] {
        let answer = native.subscribe_one(7, filter);
        match answer {
            Frame::Error { code, .. } => assert_eq!((code, is_permitted), (FORBIDDEN, false)),
            _ => assert!(is_permitted, "{filter}: {answer:?}"),
        }
        native = Native::with_token(&server.clients, &token);
    }
    // A batch is published completely or not at all; a refusal does not reveal whether a topic
    // exists.
    let batch = "[{\"topic\":\"p\",\"data\":\"batch\"},{\"topic\":\"other\",\"data\":\"batch\"}]";
    let bearer = format!("Authorization: Bearer {token}");
    curl(&["-H", &bearer, "-d", batch, &server.url("/publish")]).expect_problem(403, "forbidden");
    let reader = issuer.token("--sub reader --history p");
    let history = curl(&[&server.url(&format!("/topics/p?token={reader}"))]).expect(200);
    assert!(!history.body.contains("batch"), "{history:?}");
    let scrape = Metrics::of(&server.operators).scrape();
    let forbidden =
        |action: &str| scrape.number(&format!("crore_forbidden_total{{action=\"{action}\"}}"));
    let refused: u64 = ["subscribe", "publish", "history"].map(forbidden).iter().sum();
    assert!(refused >= 20, "{refused}");
}

/// A subject stands for one level, and is never a part of a filter.
#[test]
fn subjects_that_are_not_a_level_are_refused() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    place.configure(&configuration("", &[&issuer]));
    let server = place.start();
    for subject in ["#", "+", "ben/in", "a/b", "$sys", ""] {
        let token = issuer.sign(&serde_json::json!({
            "sub": subject, "permissions": {"all": ["user/{sub}/#", "x{sub}"]}
        }));
        for topic in ["user/ben/in", "user/a/b", "xben", "user/x"] {
            check(&server, &token, topic, [false; 3]);
        }
    }
}

#[test]
fn limits_of_a_token_hold() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    place.configure(&configuration("", &[&issuer]));
    let server = place.start();
    let token = issuer.token("--sub anna --all # --subscriptions 2 --publish-rate 3");
    let mut native = Native::with_token(&server.clients, &token);
    for number in [1, 2] {
        let answer = native.subscribe_one(number, &format!("t/{number}"));
        assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    }
    let answer = native.subscribe_one(3, "t/3");
    assert!(matches!(answer, Frame::Error { code: 305, id: 3, .. }), "{answer:?}");
    let rate = Rate::of(3);
    (0..40).for_each(|number| native.publish(number + 1, "elsewhere", "x"));
    let answers: Vec<Frame> = (0..40).map(|_| native.next_frame()).collect();
    let published = answers.iter().filter(|frame| matches!(frame, Frame::Published(_)));
    let published = published.count();
    rate.check(published, 40);
    let first_refused = answers.iter().find(|frame| !matches!(frame, Frame::Published(_)));
    assert!(matches!(first_refused, Some(Frame::Error { temporary: true, .. })), "{answers:?}");
    // Over HTTP, on one connection; the next connection has a new rate, and another user a separate
    // one.
    let mut raw = Raw::connect(&server.clients);
    let request = format!(
        "POST /topics/elsewhere HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 1\r\n\r\nx"
    );
    raw.send(request.repeat(20).as_bytes());
    let refused = raw.read_until(b"rate_limited");
    assert!(refused.contains("HTTP/1.1 429 "), "{refused}");
    let stream = server.url(&format!("/events?topic=a&topic=b&topic=c&token={token}"));
    curl(&[&stream]).expect_problem(429, "too_many_subscriptions");
    let scrape = Metrics::of(&server.operators).scrape();
    assert!(scrape.number("crore_limit_refusals_total{limit=\"publish_rate\"}") > 0);
    let subscriptions = "crore_limit_refusals_total{limit=\"subscriptions_per_session\"}";
    assert_eq!(scrape.number(subscriptions), 2);
}

/// A client without credentials has the permissions of everyone.
#[test]
fn anonymous_clients_have_the_permissions_of_everyone() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    let lines = "anonymous_subscribe = [\"public/#\"]\nanonymous_history = [\"public/#\"]\n\
                 anonymous_publish = [\"inbox\"]\n";
    place.configure(&configuration(lines, &[&issuer]));
    let server = place.start();
    let (mut native, _) = Native::connect(&server.clients, None);
    assert!(matches!(native.subscribe_one(1, "public/a"), Frame::Subscribed { .. }));
    assert!(matches!(native.subscribe_one(2, "a"), Frame::Error { code: UNAUTHORIZED, .. }));
    native.renew(3, &issuer.token("--sub anna --all #"));
    let answer = native.next_frame();
    assert!(matches!(answer, Frame::Error { code: UNAUTHORIZED, id: 3, .. }), "{answer:?}");
    let post = |topic: &str| curl(&["-d", "x", &server.url(&format!("/topics/{topic}"))]);
    post("inbox").expect(200);
    post("public/a").expect_problem(401, "unauthorized");
    curl(&[&server.url("/topics/public/a")]).expect(200);
    curl(&[&server.url("/topics/inbox")]).expect_problem(401, "unauthorized");
    // An invalid credential does not count as anonymous.
    curl(&[&server.url("/topics/public/a?token=x.y.z")]).expect_problem(401, "unauthorized");
}

/// API keys of servers: their permissions, hashes in the configuration, removal by a reload.
#[test]
fn api_keys_permit_until_they_are_removed() {
    let mut place = Place::new("127.0.0.1:0");
    let prices = ApiKey::new("prices", "publish = [\"{sub}/#\"]\nhistory = [\"{sub}/#\"]");
    let old = ApiKey::new("old", "publish = [\"#\"]\nexpires = \"2020-01-01T00:00:00Z\"");
    let unknown = ApiKey::new("unknown", "");
    let tables = [prices.table.as_str(), &old.table].concat();
    assert!(!tables.contains(&prices.key), "{tables}");
    place.configure(&configuration(&tables, &[]));
    let mut server = place.start();
    let url = |topic: &str| server.url(&format!("/topics/{topic}"));
    let (here, elsewhere) = (url("prices/gold"), url("news"));
    let ask = |key: &str, arguments: &[&str]| {
        let field = format!("X-API-Key: {key}");
        curl(&[&["-H", &field][..], arguments].concat())
    };
    ask(&prices.key, &["-d", "1", &here]).expect(200);
    ask(&prices.key, &[&here]).expect(200);
    ask(&prices.key, &["-d", "1", &elsewhere]).expect_problem(403, "forbidden");
    let last = if prices.key.ends_with('x') { 'y' } else { 'x' };
    let changed = format!("{}{last}", &prices.key[..prices.key.len() - 1]);
    for key in [&unknown.key, &changed, &prices.key[..20], "crore_"] {
        ask(key, &["-d", "1", &here]).expect_problem(401, "unauthorized");
    }
    assert_eq!(ask(&old.key, &["-d", "1", &here]).status, 401);
    // An API key is not a token, and a session presents it at its upgrade. After its removal, its
    // connections end.
    let bearer = format!("Authorization: Bearer {}", prices.key);
    curl(&["-H", &bearer, "-d", "1", &here]).expect_problem(401, "unauthorized");
    let mut native = Native::open(
        &server.clients,
        &Opening { fields: &format!("X-API-Key: {}\r\n", prices.key), ..Opening::default() },
    );
    assert!(matches!(native.next_frame(), Frame::Welcome { .. }));
    native.publish(1, "prices/gold", "2");
    assert_eq!(native.next_frame(), Frame::Published(1));
    place.configure(&configuration(&unknown.table, &[]));
    server.process.signal("HUP");
    assert_eq!(native.next_frame(), Frame::Closed(3507));
    server.process.wait_for("the reload", |line| line.contains("was reloaded").then_some(()));
    ask(&prices.key, &["-d", "1", &here]).expect_problem(401, "unauthorized");
}

/// Rules restrict the permissions of tokens: the publishers, and their addresses.
#[test]
fn rules_restrict_publishers_and_addresses() {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    let server_key = ApiKey::new("server", "publish = [\"#\"]");
    let lines = format!("anonymous_publish = [\"#\"]\n{}", server_key.table);
    let rules = "[[rule]]\nfilter = \"entitled\"\npublishers = \"entitled\"\n\
                 [[rule]]\nfilter = \"servers\"\npublishers = \"api_keys\"\n\
                 [[rule]]\nfilter = \"nobody\"\npublishers = \"none\"\n\
                 [[rule]]\nfilter = \"inside\"\npublish_from = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n\
                 [[rule]]\nfilter = \"here\"\npublish_from = [\"127.0.0.0/8\"]\n\
                 [http]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    place.configure(&(configuration(&lines, &[&issuer]) + rules));
    let server = place.start();
    let token = issuer.token("--sub anna --publish #");
    let bearers =
        [format!("Authorization: Bearer {token}"), format!("X-API-Key: {}", server_key.key)];
    let status = |topic: &str, fields: &[&str]| {
        let url = server.url(&format!("/topics/{topic}"));
        let fields = fields.iter().flat_map(|field| ["-H", field]);
        let arguments: Vec<&str> = fields.chain(["-d", "x", &url]).collect();
        curl(&arguments).status
    };
    for (topic, expected) in [
        ("free", [200, 200, 200]),
        ("entitled", [403, 200, 200]),
        ("servers", [403, 403, 200]),
        ("nobody", [403, 403, 403]),
        ("inside", [403, 403, 403]),
        // Requests from a trusted proxy that does not name its client have no address.
        ("here", [403, 403, 403]),
    ] {
        let found =
            [status(topic, &[]), status(topic, &[&bearers[0]]), status(topic, &[&bearers[1]])];
        assert_eq!(found, expected, "{topic}");
    }
    // Only the client named by a trusted proxy counts.
    for (from, expected) in [
        ("192.0.2.7", 200),
        ("2001:db8::7", 200),
        ("198.51.100.7", 403),
        ("192.0.2.7, 198.51.100.7", 403),
    ] {
        let field = format!("X-Forwarded-For: {from}");
        assert_eq!(status("inside", &[&field, &bearers[0]]), expected, "{from}");
    }
    let own = "X-Forwarded-For: 127.0.0.9";
    assert_eq!(status("here", &[own]), 200);
    let mut native = Native::with_token(&server.clients, &token);
    for (request, topic) in ["servers", "nobody", "inside"].into_iter().enumerate() {
        native.publish(request as u64 + 1, topic, "x");
        let answer = native.next_frame();
        assert!(matches!(answer, Frame::Error { code: FORBIDDEN, .. }), "{topic} {answer:?}");
    }
    let mut inside = Native::open(
        &server.clients,
        &Opening {
            fields: "X-Forwarded-For: 192.0.2.9\r\n",
            token: Some(&token),
            ..Opening::default()
        },
    );
    assert!(matches!(inside.next_frame(), Frame::Welcome { .. }));
    inside.publish(1, "inside", "x");
    assert_eq!(inside.next_frame(), Frame::Published(1));
}
