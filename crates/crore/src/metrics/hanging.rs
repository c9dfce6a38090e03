//! A node of which a thread hangs, as its metrics tell it: its own process can bring that about,
//! and no client.

use super::*;
use crate::configuration::{self, Sources as Given, assemble};
use broker::entitlement::{Authenticator, CredentialKind, Decision, Digest, Entitlement, NEVER};
use broker::settings::EntitlementSettings;
use node::Node;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Says that it was asked, and answers when the other channel is closed.
struct Hanging {
    asked: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Authenticator for Hanging {
    fn authenticate(&self, _: CredentialKind, _: &[u8], digest: Digest, _: u64) -> Decision {
        self.asked.send(()).unwrap();
        let go = self.go.lock().unwrap_or_else(PoisonError::into_inner);
        go.recv().unwrap_err();
        let entitlement = Entitlement {
            digest,
            subject: "anna".into(),
            token_id: 0,
            issued_s: 0,
            expires_s: NEVER,
            terms: Arc::default(),
        };
        Decision { result: Ok(entitlement), signatures_count: 1 }
    }

    fn is_revoked(&self, _: &Entitlement) -> bool {
        false
    }
}

fn number(node: &Node, name: &str) -> Option<u64> {
    let sources = Sources { statistics: node.statistics(), ..Sources::default() };
    let text = text(&collect(&sources));
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.parse().ok()
}

#[test]
fn a_thread_that_hangs_is_silent() {
    let (asked, questions) = channel();
    let (goes, go) = channel();
    let configuration = configuration::load(&Given::default()).unwrap();
    let mut options = assemble::node_options(&configuration, 1);
    options.listen = vec!["127.0.0.1:0".parse().unwrap()];
    options.transport.sockets.private_tables = false;
    options.settings.entitlement = Some(EntitlementSettings::default());
    let go = Mutex::new(go);
    options.authenticator = Some(Arc::new(Hanging { asked, go }));
    let node = node::start(options).unwrap();
    let silent = || number(&node, "crore_io_threads_silent");
    let mut client = TcpStream::connect(node.addresses()[0]).unwrap();
    let head = b"GET /topics/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n";
    client.write_all(head).unwrap();
    questions.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(silent(), Some(1));
    drop(goes);
    let began = Instant::now();
    while silent() != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(60), "it goes on");
    }
    node.stop(Duration::from_secs(60)).unwrap();
}
