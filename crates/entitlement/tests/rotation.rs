//! Key sets fetched from a server on this machine: rotation, failures, and the frequency of
//! requests.

mod support;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use entitlement::algorithm::Algorithm;
use entitlement::notices::{Notice, Notices};
use entitlement::refresh::{FetchGuard, KeyRequests, KeySource, spawn};
use entitlement::revocations::Revocations;
use entitlement::{AuthenticatorSettings, TokenAuthenticator};
use fetch::Url;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Pair, authenticated};
use wire::native::ErrorCode;

/// Longer than any wait in these tests.
const DEADLINE: Duration = Duration::from_secs(60);

/// An issuer's server: answers every request with the latest configured answer, and reports it.
struct Issuer {
    address: SocketAddr,
    answer: Arc<Mutex<String>>,
    asked: Receiver<()>,
}

impl Issuer {
    fn new(answer: String) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(answer));
        let (sender, asked) = channel();
        let shared = Arc::clone(&answer);
        std::thread::spawn(move || serve(&listener, &shared, &sender));
        Issuer { address, answer, asked }
    }

    fn answer_with(&self, answer: String) {
        *self.answer.lock().unwrap() = answer;
    }

    fn wait(&self) {
        self.asked.recv_timeout(DEADLINE).unwrap();
    }
}

fn serve(listener: &TcpListener, answer: &Mutex<String>, asked: &Sender<()>) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            request.push(byte[0]);
        }
        assert!(request.starts_with(b"GET /keys?v=1 HTTP/1.1\r\n"));
        let answer = answer.lock().unwrap().clone();
        stream.write_all(answer.as_bytes()).unwrap();
        drop(stream);
        if asked.send(()).is_err() {
            return;
        }
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn jwks(pairs: &[(&str, &Pair)]) -> String {
    let keys: Vec<String> = pairs
        .iter()
        .map(|(id, pair)| {
            let body: String =
                pair.pem.public.lines().filter(|line| !line.starts_with('-')).collect();
            let der = STANDARD.decode(body).unwrap();
            let x = URL_SAFE_NO_PAD.encode(&der[der.len() - 32..]);
            format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"{x}"}}"#)
        })
        .collect();
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}

struct Node {
    authenticator: Arc<TokenAuthenticator>,
    notices: Receiver<Notice>,
    _guard: FetchGuard,
}

fn node(issuer: &Issuer, every_min: Duration) -> Node {
    let (notices, read) = Notices::new();
    let requests = Arc::new(KeyRequests::default());
    let authenticator = TokenAuthenticator::new(
        AuthenticatorSettings::default(),
        Revocations::default(),
        1_000,
        Some(Arc::clone(&requests)),
        notices,
    );
    let authenticator = Arc::new(authenticator);
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let source = KeySource {
        url: Url::parse(&format!("http://{}/keys?v=1", issuer.address)).unwrap(),
        tls: Arc::new(tls),
        every: Duration::from_secs(3_600),
        every_min,
    };
    let guard = spawn(&authenticator, requests, source).unwrap();
    Node { authenticator, notices: read, _guard: guard }
}

impl Node {
    fn notice(&self) -> Notice {
        loop {
            let notice = self.notices.recv_timeout(DEADLINE).unwrap();
            if !matches!(notice, Notice::Refused { .. }) {
                return notice;
            }
        }
    }

    /// A client with an unknown key reconnects until the node has a notice.
    fn notice_of_one_who_returns(&self, token: &str) -> Notice {
        let began = Instant::now();
        while began.elapsed() < DEADLINE {
            assert_ne!(self.code(token), None);
            match self.notices.try_recv() {
                Ok(Notice::Refused { .. }) => {}
                Ok(notice) => return notice,
                Err(_) => std::thread::yield_now(),
            }
        }
        panic!("nothing was fetched");
    }

    fn code(&self, token: &str) -> Option<ErrorCode> {
        authenticated(&self.authenticator, token).result.err()
    }
}

#[test]
fn a_new_key_is_fetched_and_an_old_one_removed() {
    let (old, new) = (Pair::new(Algorithm::EdDSA), Pair::new(Algorithm::EdDSA));
    let issuer = Issuer::new(ok(&jwks(&[("old", &old)])));
    let node = node(&issuer, Duration::ZERO);
    let one = Notice::KeysChanged { count: 1, skipped_count: 0 };
    assert_eq!(node.notice(), one);
    assert_eq!(node.code(&old.token(Some("old"))), None);

    issuer.answer_with(ok(&jwks(&[("old", &old), ("new", &new)])));
    let two = Notice::KeysChanged { count: 2, skipped_count: 0 };
    // The first client must reconnect; its token is not invalid.
    assert_eq!(node.code(&new.token(Some("new"))), Some(ErrorCode::NotReady));
    let notice = node.notice_of_one_who_returns(&new.token(Some("newest")));
    assert_eq!(notice, two);
    assert_eq!(node.code(&new.token(Some("new"))), None);
    assert_eq!(node.code(&old.token(Some("old"))), None);

    issuer.answer_with(ok(&jwks(&[("new", &new)])));
    let notice = node.notice_of_one_who_returns(&new.token(Some("newest")));
    assert_eq!(notice, one);
    assert_ne!(node.code(&old.token(Some("old"))), None);
    assert_eq!(node.code(&new.token(Some("new"))), None);
}

#[test]
fn old_keys_stay_while_fetches_fail() {
    let pair = Pair::new(Algorithm::EdDSA);
    let issuer = Issuer::new(ok(&jwks(&[("k", &pair)])));
    let node = node(&issuer, Duration::from_millis(1));
    node.notice();
    issuer.wait();
    for bad in [
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
            .to_owned(),
        ok("no keys"),
        ok(r#"{"keys":[]}"#),
        "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{".to_owned(),
    ] {
        issuer.answer_with(bad);
        let notice = node.notice_of_one_who_returns(&pair.token(Some("unknown")));
        assert!(matches!(notice, Notice::FetchFailed(_)));
        assert_eq!(node.code(&pair.token(Some("k"))), None);
    }
    // The node continues to ask until the issuer is available again.
    issuer.answer_with(ok(&jwks(&[("k", &pair)])));
    assert!(matches!(node.notice(), Notice::KeysChanged { .. }));
    let statistics = node.authenticator.statistics();
    assert!(statistics.fetches_failed >= 5 && statistics.fetches > statistics.fetches_failed);
}

#[test]
fn clients_cannot_increase_the_frequency_of_fetches() {
    let pair = Pair::new(Algorithm::EdDSA);
    let issuer = Issuer::new(ok(&jwks(&[("k", &pair)])));
    let node = node(&issuer, Duration::from_secs(3_600));
    node.notice();
    issuer.wait();
    // The thread has not yet reported its end.
    while node.code(&pair.token(Some("unknown"))) == Some(ErrorCode::NotReady) {
        std::thread::yield_now();
    }
    for number in 0..1_000 {
        let token = pair.token(Some(&number.to_string()));
        assert_eq!(node.code(&token), Some(ErrorCode::Unauthorized));
    }
    assert_eq!(node.authenticator.statistics().fetches, 1);
    assert!(issuer.asked.try_recv().is_err());
}

#[test]
fn clients_must_retry_until_the_first_keys_arrive() {
    let pair = Pair::new(Algorithm::EdDSA);
    let issuer = Issuer::new("HTTP/1.1 503 Service Unavailable\r\n\r\n".into());
    let node = node(&issuer, Duration::from_millis(1));
    assert!(matches!(node.notice(), Notice::FetchFailed(_)));
    assert_eq!(node.code(&pair.token(Some("k"))), Some(ErrorCode::NotReady));
    issuer.answer_with(ok(&jwks(&[("k", &pair)])));
    assert!(matches!(node.notice(), Notice::KeysChanged { .. }));
    assert_eq!(node.code(&pair.token(Some("k"))), None);
}

/// A server with its own certificate for `localhost`; answers once for each connection.
fn serve_tls(listener: TcpListener, certificate: &tls::SelfSigned, answer: String) {
    let certificates = CertificateDer::pem_slice_iter(certificate.certificate_pem().as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, tcp.unwrap());
            let mut request = [0; 1_024];
            // A client that does not trust the certificate sends an alert, and nothing else.
            if stream.read(&mut request).is_ok() {
                let _ = stream.write_all(answer.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
}

#[test]
fn key_sets_are_fetched_from_trusted_servers_only() {
    let pair = Pair::new(Algorithm::EdDSA);
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let certificate = tls::self_signed(&["localhost".to_owned()], 2, now_s - 60).unwrap();
    let file = std::env::temp_dir().join(format!("crore-jwks-ca-{}.pem", std::process::id()));
    std::fs::write(&file, certificate.certificate_pem().as_bytes()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve_tls(listener, &certificate, ok(&jwks(&[("k", &pair)])));
    let fetch = |host: &str, roots: Option<&tls::Roots>| {
        let source = KeySource {
            url: Url::parse(&format!("https://{host}:{port}/keys")).unwrap(),
            tls: tls::plain_client(roots).unwrap(),
            every: DEADLINE,
            every_min: DEADLINE,
        };
        entitlement::refresh::fetch(&source).map(|jwks| jwks.keys.len())
    };
    let believed = tls::Roots::File(file.clone());
    assert_eq!(fetch("localhost", Some(&believed)), Ok(1));
    // Without trusted certificates, and with a name that the certificate does not contain.
    assert!(fetch("localhost", None).is_err());
    assert!(fetch("127.0.0.1", Some(&believed)).is_err());
    std::fs::remove_file(&file).unwrap();
}
