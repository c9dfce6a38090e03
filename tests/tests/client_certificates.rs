//! Certificates of clients on the real binary: by MQTT and by HTTP, refused ones by their reasons,
//! over reloads and a live upgrade.

use end_to_end::PATIENCE;
use end_to_end::authority::{Authority, Identity};
use end_to_end::curl::{Answer, curl};
use end_to_end::metrics::Metrics;
use end_to_end::native::{Frame, Native};
use end_to_end::process::{Process, assert_success};
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::successor::Successor;
use end_to_end::tools::crore;
use end_to_end::tunnel::tunnel;

const GRANTS: &str = "
[[grant]]
subscribe = [\"news\", \"u/{sub}\"]
publish = [\"u/{sub}\"]
[[grant]]
user = \"anna\"
publish = [\"news\"]
";

/// A node that knows an authority.
struct Secure {
    place: Place,
    server: Server,
    authority: Authority,
    certificate: String,
}

impl Secure {
    /// `lines` belong to the section `[tls]`.
    fn start(lines: &str) -> Secure {
        Secure::with(|_| lines.to_owned())
    }

    fn with(lines: impl Fn(&Authority) -> String) -> Secure {
        let mut place = Place::new("127.0.0.1:0");
        let authority = Authority::new(place.path("ca"));
        let certificate = place.path("cert.pem");
        let mut make = crore();
        make.args(["tls", "self-signed", "--force", "--name", "localhost", "--out"]);
        assert_success(make.arg(certificate.parent().expect("a folder")));
        configure(&place, &authority, &lines(&authority), GRANTS);
        let server = place.start();
        let certificate = certificate.to_str().expect("text").to_owned();
        Secure { place, server, authority, certificate }
    }

    fn reload(&mut self) {
        self.server.process.signal("HUP");
        self.server.process.wait_for("the reload", |line| {
            line.contains("The configuration was reloaded").then_some(())
        });
    }

    /// A port without TLS that leads to the one with it, for a client with this certificate.
    fn tunnel(&self, identity: Option<&Identity>, version: &str) -> String {
        let mut flags = vec![version];
        flags.extend(identity.iter().flat_map(|identity| identity.flags()));
        tunnel(&self.server.tls_clients, &self.certificate, &flags)
    }

    fn mqtt(&self, identity: &Identity, user: Option<(&str, &str)>) -> (Raw, u8) {
        connect(&self.tunnel(Some(identity), "-tls1_3"), user)
    }

    fn publish(&self, identity: Option<&Identity>, topic: &str, more: &[&str]) -> Answer {
        let port = self.server.tls_clients.rsplit(':').next().expect("a port");
        let url = format!("https://localhost:{port}/topics/{topic}");
        let mut arguments = vec!["--cacert", &self.certificate, "-d", "hello", &url];
        if let Some(identity) = identity {
            arguments.extend(["--cert", &identity.certificate, "--key", &identity.key]);
        }
        arguments.extend(more);
        curl(&arguments)
    }

    fn refused(&self, reason: &str, count: u64) {
        let name = format!("crore_tls_handshakes_failed_total{{reason=\"certificate_{reason}\"}}");
        Metrics::of(&self.server.operators).wait_for(&name, |now| now == count);
    }
}

fn configure(place: &Place, authority: &Authority, lines: &str, grants: &str) {
    let (certificate, key) = (place.path("cert.pem"), place.path("key.pem"));
    let ca = authority.certificate();
    place.configure(&format!(
        "[node]\nio_threads = 2\n[mqtt]\nlisten = \"127.0.0.1:0\"\n[entitlement]\nmode = \"tokens\"\n\
         [tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n\
         client_ca_file = {ca:?}\n{lines}\n{grants}"
    ));
}

/// CONNECT of version 3.1.1 with a clean session. Returns the code of CONNACK.
fn connect(address: &str, user: Option<(&str, &str)>) -> (Raw, u8) {
    let mut raw = Raw::connect(address);
    let flags = if user.is_some() { 0xc2 } else { 2 };
    let mut rest = [&b"\0\x04MQTT\x04"[..], &[flags, 0, 60, 0, 0]].concat();
    for text in user.iter().flat_map(|(user, password)| [user, password]) {
        rest.extend_from_slice(&(text.len() as u16).to_be_bytes());
        rest.extend_from_slice(text.as_bytes());
    }
    raw.send(&[&[0x10, rest.len() as u8], &rest[..]].concat());
    let answer = raw.take(4);
    assert_eq!(answer[..3], [0x20, 2, 0]);
    (raw, answer[3])
}

/// Subscribes with QoS 0; returns the code of SUBACK.
fn subscribe(raw: &mut Raw, filter: &str) -> u8 {
    let length = 5 + filter.len() as u8;
    let packet = [&[0x82, length, 0, 1, 0, filter.len() as u8], filter.as_bytes(), &[0]].concat();
    raw.send(&packet);
    raw.take(5)[4]
}

/// Whether the connection lives: a ping is answered.
fn is_served(raw: &mut Raw) -> bool {
    raw.send(&[0xc0, 0]);
    raw.take(2) == [0xd0, 0]
}

#[test]
fn the_name_in_a_certificate_has_the_grants_by_every_protocol() {
    let secure = Secure::start("");
    let (anna, ben) = (secure.authority.client("anna"), secure.authority.client("ben"));
    for version in ["-tls1_2", "-tls1_3"] {
        let (mut raw, code) = connect(&secure.tunnel(Some(&ben), version), None);
        assert_eq!(code, 0, "{version}");
        let granted = ["news", "u/ben", "u/anna"].map(|filter| subscribe(&mut raw, filter));
        assert_eq!(granted, [0, 0, 0x80], "{version}");
        secure.publish(Some(&anna), "news", &[]).expect(200);
        assert_eq!(raw.take(13), *b"\x30\x0b\0\x04newshello");
    }
    secure.publish(Some(&ben), "news", &[]).expect_problem(403, "forbidden");
    secure.publish(Some(&ben), "u/ben", &[]).expect(200);
    // A name that is none but the alternative one.
    let device = secure.authority.client_of_alternative_name();
    let (mut raw, code) = secure.mqtt(&device, None);
    assert_eq!((code, subscribe(&mut raw, "u/urn:device:7")), (0, 0));
    // The native protocol, without a token.
    let (mut native, _) = Native::connect(&secure.tunnel(Some(&ben), "-tls1_3"), None);
    let answer = native.subscribe_one(1, "u/ben");
    assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    let answer = native.subscribe_one(2, "u/anna");
    assert!(!matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    // Another credential counts, and not the certificate beside it.
    let key = ["-H", "X-API-Key: crore_unknown"];
    secure.publish(Some(&anna), "news", &key).expect_problem(401, "unauthorized");
    assert_eq!(secure.mqtt(&anna, Some(("anna", "secret"))).1, 5);
}

#[test]
fn certificates_are_refused_by_name() {
    let secure = Secure::start("");
    let other = Authority::new(secure.place.path("other"));
    let expired = secure.authority.expired("anna");
    let server = secure.authority.server("anna");
    for (reason, identity) in [
        ("missing", None),
        ("expired", Some(&expired)),
        ("unknown", Some(&other.client("anna"))),
        ("invalid", Some(&server)),
    ] {
        for (count, version) in [(1, "-tls1_2"), (2, "-tls1_3")] {
            let mut raw = Raw::connect(&secure.tunnel(identity, version));
            assert!(raw.closes_within(PATIENCE), "{reason}");
            secure.refused(reason, count);
        }
    }
}

#[test]
fn a_client_without_an_optional_certificate_shows_something_else() {
    let secure = Secure::start("client_certificates = \"optional\"");
    let anna = secure.authority.client("anna");
    secure.publish(None, "news", &[]).expect_problem(401, "unauthorized");
    secure.publish(Some(&anna), "news", &[]).expect(200);
    assert_eq!(connect(&secure.tunnel(None, "-tls1_3"), None).1, 5);
    assert_eq!(secure.mqtt(&anna, None).1, 0);
    // A wrong one is none.
    let other = Authority::new(secure.place.path("other"));
    let mut raw = Raw::connect(&secure.tunnel(Some(&other.client("anna")), "-tls1_3"));
    assert!(raw.closes_within(PATIENCE));
    secure.refused("unknown", 1);
}

/// `crore mqtt` shows a certificate of its own.
#[test]
fn the_command_has_a_certificate() {
    let secure = Secure::start("");
    let anna = secure.authority.client("anna");
    let port = secure.server.tls_clients.rsplit(':').next().expect("a port");
    let url = format!("mqtts://localhost:{port}");
    let publish = |topic: &str, flags: &[&str]| {
        let mut command = crore();
        command.args(["mqtt", "pub", "-t", topic, "-m", "hello", "-q", "1", "--url", &url]);
        command.args(["--ca", &secure.certificate]).args(flags);
        Process::start(&mut command).end()
    };
    let identity = ["--cert", &anna.certificate, "--key", &anna.key];
    publish("news", &identity).assert_success();
    for (topic, flags, said) in
        [("other", &identity[..], "not authorized"), ("news", &[], "CertificateRequired")]
    {
        let ended = publish(topic, flags);
        assert!(!ended.status.success(), "{:?}", ended.lines);
        assert!(ended.lines.iter().any(|line| line.contains(said)), "{said}: {:?}", ended.lines);
    }
}

#[test]
fn a_reload_reads_authorities_revocations_and_grants() {
    let lines = |authority: &Authority| format!("client_crl_file = {:?}", authority.list());
    let mut secure = Secure::with(lines);
    let (anna, ben) = (secure.authority.client("anna"), secure.authority.client("ben"));
    let (mut of_anna, code) = secure.mqtt(&anna, None);
    assert_eq!(code, 0);
    secure.authority.revoke(&anna);
    secure.reload();
    // The connection stays, but there is no other one.
    assert!(is_served(&mut of_anna));
    let mut raw = Raw::connect(&secure.tunnel(Some(&anna), "-tls1_3"));
    assert!(raw.closes_within(PATIENCE));
    secure.refused("revoked", 1);
    let (mut of_ben, code) = secure.mqtt(&ben, None);
    assert_eq!(code, 0);
    // Other grants end the sessions of their users.
    let grants = GRANTS.replace("user = \"anna\"", "user = \"ben\"");
    configure(&secure.place, &secure.authority, &lines(&secure.authority), &grants);
    secure.reload();
    assert!(of_anna.closes_within(PATIENCE) && of_ben.closes_within(PATIENCE));
    secure.publish(Some(&ben), "news", &[]).expect(200);
    // A fault changes nothing.
    std::fs::write(secure.authority.certificate(), "nothing").expect("the folder is ours");
    secure.server.process.signal("HUP");
    let fault = secure.server.process.wait_for("the fault", |line| {
        line.contains("The configuration was not reloaded").then(|| line.to_owned())
    });
    assert!(fault.contains("client_ca_file"), "{fault}");
    secure.publish(Some(&ben), "news", &[]).expect(200);
}

#[test]
fn a_live_upgrade_keeps_the_names() {
    let mut secure = Secure::start("");
    let (anna, ben) = (secure.authority.client("anna"), secure.authority.client("ben"));
    let (mut of_ben, code) = secure.mqtt(&ben, None);
    assert_eq!(code, 0);
    // A connection of HTTP that has not asked yet.
    let mut of_anna = Raw::connect(&secure.tunnel(Some(&anna), "-tls1_3"));
    of_anna.send(b"GET /topics/none HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(of_anna.read_answer().0, 403);
    let successor: Successor = secure.server.process.upgrade();
    assert_eq!(subscribe(&mut of_ben, "u/anna"), 0x80);
    assert_eq!(subscribe(&mut of_ben, "u/ben"), 0);
    of_anna.send(b"POST /topics/news HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(of_anna.read_answer().0, 200);
    drop(successor);
}
