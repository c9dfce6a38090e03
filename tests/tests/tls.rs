//! TLS on the clients' port, with common clients: curl, openssl, Python and Node.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use end_to_end::PATIENCE;
use end_to_end::bench::Bench;
use end_to_end::curl::{curl, stream};
use end_to_end::metrics::Metrics;
use end_to_end::process::assert_success;
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::tools;

/// A server with a certificate for localhost, and the certificate's path.
struct Secure {
    server: Server,
    place: Place,
    certificate: String,
}

impl Secure {
    fn start() -> Secure {
        Secure::with("")
    }

    fn with(configuration: &str) -> Secure {
        let mut place = Place::new("127.0.0.1:0");
        make_certificate(&place, "localhost");
        let certificate = text(place.path("cert.pem"));
        let key = text(place.path("key.pem"));
        place.configure(&format!(
            "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n{configuration}"
        ));
        Secure { server: place.start(), place, certificate }
    }

    fn port(&self) -> &str {
        self.server.tls_clients.rsplit(':').next().unwrap()
    }

    /// A URL with the name in the certificate.
    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port())
    }

    /// Runs `openssl s_client` with these flags and this input; it ends with the input.
    fn openssl(&self, flags: &[&str], says: &str) -> Output {
        let mut child = Command::new("openssl")
            .args(["s_client", "-connect", &self.server.tls_clients])
            .args(["-CAfile", &self.certificate, "-verify_return_error"])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("openssl is installed");
        let mut input = child.stdin.take().unwrap();
        input.write_all(says.as_bytes()).unwrap();
        drop(input);
        child.wait_with_output().unwrap()
    }

    /// A number at `/metrics`, by the name of the family and its label.
    fn metric(&self, name: &str) -> u64 {
        Metrics::of(&self.server.operators).scrape().number(name)
    }

    /// Waits for this number: the end of a connection is counted some time after its client has
    /// seen it.
    fn wait_for(&self, name: &str, number: u64) {
        Metrics::of(&self.server.operators).wait_for(name, |now| now == number);
    }
}

fn text(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

fn make_certificate(place: &Place, name: &str) {
    let directory = text(place.path("cert.pem"));
    let directory = directory.strip_suffix("/cert.pem").unwrap();
    let mut command = tools::crore();
    command.args(["tls", "self-signed", "--force", "--out", directory]);
    command.args(["--name", name, "--name", "127.0.0.1"]);
    assert_success(&mut command);
}

#[test]
fn publish_history_and_events_over_https_in_both_versions() {
    let secure = Secure::start();
    let url = secure.url("/topics/a/b");
    let mut events =
        stream(&["--cacert", &secure.certificate, "-H", "Accept: text/event-stream", &url]);
    events.wait_for("the stream's beginning", |line| {
        line.starts_with(':').then_some(()).or_else(|| line.starts_with("retry").then_some(()))
    });
    for (version, flags) in
        [("1.2", ["--tlsv1.2", "--tls-max", "1.2"]), ("1.3", ["--tlsv1.3", "--tls-max", "1.3"])]
    {
        let payload = format!("by TLS {version}");
        let mut arguments = vec!["--cacert", &secure.certificate, "--data-binary", &payload];
        arguments.extend(["-H", "Content-Type: text/plain", &url]);
        arguments.extend(flags);
        curl(&arguments).expect(200);
        events.wait_for("the event", |line| line.contains(&payload).then_some(()));
    }
    let history = curl(&["--cacert", &secure.certificate, &url]).expect(200).json();
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
    // The same messages over the plain port.
    let plain = curl(&[&secure.server.url("/topics/a/b")]).expect(200).json();
    assert_eq!(plain["messages"], history["messages"]);
    secure.wait_for("crore_tls_connections{version=\"1.3\"}", 1);
    assert!(secure.metric("crore_tls_handshakes_total{kind=\"full\"}") >= 4);
}

#[test]
fn a_large_message_crosses_both_ways() {
    let secure = Secure::with(end_to_end::server::WIDE_SEND_BUFFER);
    let body: String =
        (0..1_000_000).map(|number| char::from(b'a' + (number % 23) as u8)).collect();
    let file = secure.place.path("body");
    fs::write(&file, &body).unwrap();
    let data = format!("@{}", text(file));
    let url = secure.url("/topics/large");
    let arguments = [
        "--cacert",
        &secure.certificate,
        "--data-binary",
        &data,
        "-H",
        "Content-Type: text/plain",
        &url,
    ];
    curl(&arguments).expect(200);
    let history = curl(&["--cacert", &secure.certificate, &url]).expect(200);
    assert!(history.body.contains(&body), "{} bytes", history.body.len());
    assert_eq!(secure.metric("crore_tls_faults_total"), 0);
}

#[test]
fn sessions_resume_with_a_ticket() {
    let secure = Secure::with("[node]\nio_threads = 2\n");
    let request = "GET /topics/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for version in ["-tls1_2", "-tls1_3"] {
        let session = text(secure.place.path("session"));
        let first = secure.openssl(&[version, "-ign_eof", "-sess_out", &session], request);
        let said = String::from_utf8_lossy(&first.stdout);
        assert!(said.contains("New, TLSv1.") && said.contains("HTTP/1.1 200"), "{said}");
        // Some connect to the other thread.
        for _ in 0..8 {
            let again = secure.openssl(&[version, "-ign_eof", "-sess_in", &session], request);
            let said = String::from_utf8_lossy(&again.stdout);
            assert!(said.contains("Reused, TLSv1.") && said.contains("HTTP/1.1 200"), "{said}");
        }
    }
    assert_eq!(secure.metric("crore_tls_handshakes_total{kind=\"resumed\"}"), 16);
    assert_eq!(secure.metric("crore_tls_handshakes_total{kind=\"full\"}"), 2);
}

#[test]
fn application_protocols_are_negotiated() {
    let secure = Secure::start();
    let agreed = secure.openssl(&["-alpn", "h2,http/1.1"], "");
    let said = String::from_utf8_lossy(&agreed.stdout).into_owned();
    assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
    let agreed = secure.openssl(&["-alpn", "mqtt"], "");
    let said = String::from_utf8_lossy(&agreed.stdout);
    assert!(said.contains("ALPN protocol: mqtt"), "{said}");
    let refused = secure.openssl(&["-alpn", "h2"], "");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("no application protocol"), "{said}");
    secure.wait_for("crore_tls_handshakes_failed_total{reason=\"no_agreement\"}", 1);
}

#[test]
fn old_versions_are_refused() {
    let secure = Secure::start();
    let old = secure.openssl(&["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], "");
    assert!(!old.status.success());
    let strict = Secure::with("version_min = \"1.3\"\n");
    assert!(!strict.openssl(&["-tls1_2"], "").status.success());
    assert!(strict.openssl(&["-tls1_3"], "").status.success());
}

#[test]
fn plain_http_on_the_tls_port_is_refused() {
    let secure = Secure::start();
    let mut raw = Raw::connect(&secure.server.tls_clients);
    raw.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = raw.read_to_close();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("https://"), "{answer}");
    let mut raw = Raw::connect(&secure.server.tls_clients);
    raw.send(b"\x80nothing that anybody speaks");
    raw.read_to_close();
    secure.wait_for("crore_tls_handshakes_failed_total{reason=\"plain_http\"}", 1);
    secure.wait_for("crore_tls_handshakes_failed_total{reason=\"malformed\"}", 1);
}

#[test]
fn silent_connections_are_closed_after_the_handshake_timeout() {
    let secure = Secure::with("[http]\nhandshake_timeout = \"300ms\"\n");
    let mut raw = Raw::connect(&secure.server.tls_clients);
    assert!(raw.closes_within(PATIENCE));
    let mut raw = Raw::connect(&secure.server.tls_clients);
    raw.send(&[22, 3, 1, 1, 0, 1]);
    assert!(raw.closes_within(PATIENCE));
    secure.wait_for("crore_tls_handshakes_failed_total{reason=\"gone\"}", 2);
    secure.wait_for("crore_tls_bytes{part=\"state\"}", 0);
    secure.wait_for("crore_tls_bytes{part=\"buffers\"}", 0);
}

/// The serial number that a new client sees.
fn seen_certificate(secure: &Secure) -> String {
    let output = secure.openssl(&["-showcerts"], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let begin = said.find("-----BEGIN CERTIFICATE").unwrap_or_else(|| panic!("{said}"));
    let end = said.find("-----END CERTIFICATE").unwrap();
    said[begin..end].to_owned()
}

#[test]
fn a_reload_keeps_connections_and_a_bad_one_keeps_the_certificate() {
    let mut secure = Secure::start();
    let url = secure.url("/topics/a");
    let mut events =
        stream(&["--cacert", &secure.certificate, "-H", "Accept: text/event-stream", &url]);
    events.wait_for("the stream's beginning", |line| (!line.is_empty()).then_some(()));
    let first = seen_certificate(&secure);

    make_certificate(&secure.place, "localhost");
    secure.server.process.signal("HUP");
    secure
        .server
        .process
        .wait_for("the reload", |line| line.contains("was reloaded").then_some(()));
    let second = seen_certificate(&secure);
    assert_ne!(first, second);

    fs::write(secure.place.path("key.pem"), "no key").unwrap();
    secure.server.process.signal("HUP");
    secure.server.process.wait_for("the refusal", |line| {
        (line.contains("key.pem") && line.contains("private key")).then_some(())
    });
    assert_eq!(seen_certificate(&secure), second);

    curl(&["--cacert", &secure.certificate, "-d", "still here", &url]).expect(200);
    events.wait_for("the event", |line| line.contains("still here").then_some(()));
}

#[test]
fn bad_files_are_faults_of_the_configuration() {
    let place = Place::new("127.0.0.1:0");
    make_certificate(&place, "localhost");
    let file = |name: &str| text(place.path(name));
    fs::write(file("empty"), "").unwrap();
    make_other_key(&place);
    let cases: &[(&str, &str, &str, &str)] = &[
        ("none", "key.pem", "none: cannot read it", "tls.certificate_file"),
        ("empty", "key.pem", "it contains no certificate", "tls.certificate_file"),
        ("cert.pem", "cert.pem", "it contains no private key", "tls.key_file"),
        ("cert.pem", "other/key.pem", "does not belong", "tls.key_file"),
    ];
    for (certificate, key, problem, option) in cases {
        place.configure(&format!(
            "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {:?}\nkey_file = {:?}\n",
            file(certificate),
            file(key)
        ));
        let ended = place.launch().end();
        let said = ended.lines.join("\n");
        assert_eq!(ended.status.code(), Some(78), "{said}");
        assert!(said.contains(problem) && said.contains(option), "{said}");
        assert!(said.contains("expected"), "{said}");
    }
    place.configure(&format!("[tls]\ncertificate_file = {:?}\n", file("cert.pem")));
    let ended = place.launch().end();
    assert_eq!(ended.status.code(), Some(78));
    assert!(ended.lines.join("\n").contains("tls.key_file is not set"));
}

fn make_other_key(place: &Place) {
    let directory = text(place.path("other"));
    let mut command = tools::crore();
    command.args(["tls", "self-signed", "--out", &directory]);
    assert_success(&mut command);
}

/// A client that does not read its stream pins one record, and delays no other client.
#[test]
fn a_stalled_reader_costs_one_record() {
    let secure = Secure::start();
    let url = secure.url("/topics/busy");
    // It connects, requests events, and reads only as much as the kernel buffers.
    let mut stalled = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &secure.server.tls_clients])
        .args(["-CAfile", &secure.certificate])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = stalled.stdin.take().unwrap();
    input
        .write_all(
            b"GET /topics/busy HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
        )
        .unwrap();
    secure.wait_for("crore_sessions{protocol=\"events\"}", 1);
    let body = "x".repeat(500_000);
    let file = secure.place.path("body");
    fs::write(&file, body).unwrap();
    let data = format!("@{}", text(file));
    let mut kept = 0;
    for _ in 0..60 {
        curl(&["--cacert", &secure.certificate, "--data-binary", &data, &url]).expect(200);
        kept = kept.max(secure.metric("crore_tls_bytes{part=\"buffers\"}"));
    }
    // A socket that fills up between two records pins nothing, so the size would not prove the
    // stall.
    let lagged = secure.metric("crore_subscriptions_lagged_total");
    assert!(lagged > 0, "it did stall");
    assert!(kept < 40_000, "{kept} bytes are kept for it");
    let _ = stalled.kill();
    let _ = stalled.wait();
}

/// RSA, which many operators use: both versions, each suite of TLS 1.2 for it, and resumed
/// sessions.
#[test]
fn rsa_certificates_work() {
    let mut place = Place::new("127.0.0.1:0");
    let (certificate, key) = (text(place.path("cert.pem")), text(place.path("key.pem")));
    assert_success(
        Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-keyout", &key, "-out", &certificate])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]),
    );
    place.configure(&format!(
        "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n"
    ));
    let secure = Secure { server: place.start(), place, certificate };
    let request = "GET /topics/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let session = text(secure.place.path("session"));
    for (flags, suite) in [
        (["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"], "TLS_AES_256_GCM_SHA384"),
        (["-tls1_2", "-cipher", "kECDHE"], "ECDHE-RSA-AES128-GCM-SHA256"),
        (["-tls1_2", "-cipher", "ECDHE+AES256"], "ECDHE-RSA-AES256-GCM-SHA384"),
        (["-tls1_2", "-cipher", "ECDHE+CHACHA20"], "ECDHE-RSA-CHACHA20-POLY1305"),
    ] {
        for (file, kind) in [("-sess_out", "New, TLSv1."), ("-sess_in", "Reused, TLSv1.")] {
            let flags = [&flags[..], &["-ign_eof", file, &session]].concat();
            let output = secure.openssl(&flags, request);
            let said = String::from_utf8_lossy(&output.stdout);
            let is_as_expected = said.contains(kind)
                && said.contains(&format!("Cipher is {suite}"))
                && said.contains("HTTP/1.1 200");
            assert!(is_as_expected, "{flags:?}: {said}");
        }
    }
    let url = secure.url("/topics/a");
    let mut arguments = vec!["--cacert", &secure.certificate, "--tls-max", "1.2"];
    arguments.extend(["--data-binary", "by RSA", &url]);
    curl(&arguments).expect(200);
}

/// The bench ends as clients do: every connection sends its close_notify.
#[test]
fn the_bench_sends_close_notify() {
    let secure = Secure::start();
    let url = format!("wss://localhost:{}", secure.port());
    let mut bench = Bench::start(&[
        "sub",
        "--url",
        &url,
        "--ca",
        &secure.certificate,
        "--clients",
        "50",
        "--topics",
        "hot",
        "--choice",
        "common",
    ]);
    bench.wait_for("all of them", |figures| figures["clients_live"].as_u64() == Some(50));
    bench.ask_to_end();
    assert_eq!(bench.end_within(PATIENCE).code, Some(143));
    secure.wait_for("crore_tls_connections{version=\"1.3\"}", 0);
    assert_eq!(secure.metric("crore_tls_handshakes_total{kind=\"full\"}"), 50);
    assert_eq!(secure.metric("crore_tls_truncated_total"), 0);
}

/// A TLS flag with an address without TLS is refused, not ignored.
#[test]
fn flags_of_tls_need_an_address_with_tls() {
    let server = Server::start();
    for (arguments, flags) in [
        (&["history", "a", "--url"][..], &["--insecure"][..]),
        (&["pub", "a", "b", "--url"], &["--ca", "cert.pem"]),
        (&["bench", "sub", "--url"], &["--insecure"]),
        (&["bench", "sub", "--url"], &["--tls-resume"]),
        (&["bench", "run", "fan-out", "--url"], &["--insecure"]),
    ] {
        let mut command = tools::crore();
        command.args(arguments).arg(server.url("")).args(flags);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains("TLS") && said.contains("wss://"), "{said}");
    }
}

/// The clients of the plain port; an environment variable contains the trusted certificate.
#[test]
fn python_and_node_connect_over_wss() {
    let secure = Secure::start();
    let url = format!("wss://localhost:{}/ws/echo", secure.port());
    for mut command in
        [tools::python("web_socket.py", &[&url]), tools::node("web_socket.cjs", &[&url])]
    {
        command.env("SSL_CERT_FILE", &secure.certificate);
        command.env("NODE_EXTRA_CA_CERTS", &secure.certificate);
        assert_success(&mut command);
    }
    assert!(secure.metric("crore_tls_handshakes_total{kind=\"full\"}") > 0);
}
