//! Configurations of nodes that reach their brokers by TLS and SASL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use brokers::Kafka;
use brokers::secured::{Listener, USER};

use serde_json::Value;

use crate::PATIENCE;
use crate::curl::curl;
use crate::process::with_input;
use crate::server::Place;
use crate::tools::crore;

/// A configuration with one log in the engine, whose topic may have a single copy. `lines` belong
/// to the section `[engine]`.
pub fn configuration(servers: &str, lines: &str) -> String {
    let servers: Vec<String> = servers.split(',').map(|server| format!("\"{server}\"")).collect();
    format!(
        "[node]\nio_threads = 1\n[engine]\nbootstrap_servers = [{}]\n{lines}\n\
         [[log]]\nname = \"secured\"\ndurability = \"engine\"\npartitions_count = 2\n\
         allow_weak = true\n",
        servers.join(", ")
    )
}

/// Lines for TLS that trust the certificate of this listener.
pub fn trust(kafka: &Kafka, listener: Listener) -> String {
    let file = listener.certificate_file(kafka.folder()).expect("a listener with TLS");
    format!("tls = true\nca_file = \"{}\"\n", file.display())
}

/// Lines for a login by a password, whose file is `place`'s.
pub fn login(place: &Place, mechanism: &str, password: &str) -> String {
    let file = secret(place, "password", password);
    format!(
        "sasl_mechanism = \"{mechanism}\"\nusername = \"{USER}\"\npassword_file = \"{}\"\n",
        file.display()
    )
}

/// A private file of `place`.
pub fn secret(place: &Place, name: &str, text: &str) -> PathBuf {
    let file = place.path(name);
    fs::write(&file, format!("{text}\n")).expect("the folder is ours");
    file
}

/// Runs `crore engine init` or `check` with a configuration.
pub fn engine_command(what: &str, configuration: &Path) -> Output {
    with_input(crore().args(["engine", what, "--config"]).arg(configuration), b"")
}

/// Both outputs of a command.
pub fn text_of(output: &Output) -> String {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    of(&output.stdout) + &of(&output.stderr)
}

/// Publishes a text as soon as the node takes it: a node may be ready some moments before the first
/// partitions take publications. Returns the answer's JSON.
pub fn publish_once_taken(url: &str, payload: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = curl(&["--data-binary", payload, "-H", "Content-Type: text/plain", url]);
        if answer.status != 503 {
            return answer.expect(200).json();
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        thread::sleep(Duration::from_millis(50));
    }
}
