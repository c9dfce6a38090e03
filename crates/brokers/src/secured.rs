//! Listeners with TLS and SASL, their certificates and their user.

use crate::{Addresses, succeed};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user that all mechanisms of SASL know.
pub const USER: &str = "crore";
/// Its password.
pub const PASSWORD: &str = "correct horse";

/// A listener of each broker, beside the one without TLS and login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listener {
    /// TLS.
    Tls,
    /// TLS, and a login by any mechanism.
    TlsLogin,
    /// A login by any mechanism.
    Login,
    /// TLS with a certificate that has expired.
    Expired,
    /// TLS with a certificate for another host.
    Misnamed,
    /// TLS that demands a certificate of the client: that of [`Listener::Tls`].
    Mutual,
}

impl Listener {
    /// All of them.
    pub const ALL: [Listener; 6] = [
        Listener::Tls,
        Listener::TlsLogin,
        Listener::Login,
        Listener::Expired,
        Listener::Misnamed,
        Listener::Mutual,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Listener::Tls => "TLS",
            Listener::TlsLogin => "TLSLOGIN",
            Listener::Login => "LOGIN",
            Listener::Expired => "EXPIRED",
            Listener::Misnamed => "MISNAMED",
            Listener::Mutual => "MUTUAL",
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Listener::Tls | Listener::Expired | Listener::Misnamed | Listener::Mutual => "SSL",
            Listener::TlsLogin => "SASL_SSL",
            Listener::Login => "SASL_PLAINTEXT",
        }
    }

    /// The name of its certificate's files.
    fn certificate(self) -> Option<&'static str> {
        match self {
            Listener::Tls | Listener::TlsLogin | Listener::Mutual => Some("good"),
            Listener::Expired => Some("expired"),
            Listener::Misnamed => Some("misnamed"),
            Listener::Login => None,
        }
    }

    /// The file with its certificate, in PEM, which is its own authority; `folder` is that of the
    /// brokers. A listener without TLS has none.
    pub fn certificate_file(self, folder: &Path) -> Option<PathBuf> {
        self.certificate().map(|name| folder.join(name).join("certificate.pem"))
    }

    /// The file with the certificate's key, in PEM.
    pub fn key_file(self, folder: &Path) -> Option<PathBuf> {
        self.certificate().map(|name| folder.join(name).join("key.pem"))
    }
}

/// Options of Kafka's `StorageTool format` that create the user.
pub(crate) const USERS: [&str; 4] = [
    "--add-scram",
    "SCRAM-SHA-256=[name=crore,password=correct horse]",
    "--add-scram",
    "SCRAM-SHA-512=[name=crore,password=correct horse]",
];

/// The configuration of `openssl ca`, before the certificate's names.
const AUTHORITY: &str = "\
[ca]
default_ca = all
[all]
database = index.txt
new_certs_dir = .
rand_serial = yes
unique_subject = no
default_md = sha256
policy = names
x509_extensions = extensions
[names]
commonName = supplied
[req]
distinguished_name = empty
[empty]
[extensions]
subjectAltName = ";

/// Creates all certificates with `openssl`, each signed by itself.
pub(crate) fn create_certificates(folder: &Path, addresses: &[Addresses]) -> io::Result<()> {
    let names = addresses.iter().map(|it| format!("IP:{}", it.clients.ip()));
    let names = names.collect::<Vec<_>>().join(",");
    create(folder, "good", &names, "20990101000000Z")?;
    create(folder, "expired", &names, "20210101000000Z")?;
    create(folder, "misnamed", "DNS:other.example", "20990101000000Z")
}

fn create(folder: &Path, name: &str, names: &str, end: &str) -> io::Result<()> {
    let folder = folder.join(name);
    fs::create_dir(&folder)?;
    fs::write(folder.join("openssl.cnf"), format!("{AUTHORITY}{names}\n"))?;
    fs::write(folder.join("index.txt"), "")?;
    let run = |words: &[&str]| {
        let mut openssl = Command::new("openssl");
        succeed(openssl.args(words).args(["-config", "openssl.cnf"]).current_dir(&folder))
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let subject = format!("/CN={name}");
    let files = ["-keyout", "key.pem", "-out", "request.pem", "-subj", &subject];
    run(&[&["req", "-new"], &key[..], &files].concat())?;
    let sign = ["ca", "-batch", "-notext", "-selfsign", "-keyfile", "key.pem"];
    let life = ["-startdate", "20200101000000Z", "-enddate", end];
    run(&[&sign[..], &life, &["-in", "request.pem", "-out", "certificate.pem"]].concat())?;
    // Kafka wants both in one file.
    let read = |file: &str| fs::read_to_string(folder.join(file));
    fs::write(folder.join("both.pem"), read("key.pem")? + &read("certificate.pem")?)
}

/// The properties of all listeners.
pub(crate) fn properties(folder: &Path) -> Vec<(String, String)> {
    let mut properties = Vec::new();
    let mut set = |name: &str, value: &str| properties.push((name.to_owned(), value.to_owned()));
    let protocols = Listener::ALL.map(|it| format!("{}:{}", it.name(), it.protocol()));
    let protocols = format!("PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{}", protocols.join(","));
    set("listener.security.protocol.map", &protocols);
    set("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER");
    for listener in Listener::ALL {
        let prefix = format!("listener.name.{}", listener.name().to_ascii_lowercase());
        if let Some(name) = listener.certificate() {
            let both = folder.join(name).join("both.pem").to_string_lossy().into_owned();
            set(&format!("{prefix}.ssl.keystore.type"), "PEM");
            set(&format!("{prefix}.ssl.keystore.location"), &both);
        }
        if listener == Listener::Mutual {
            let trusted = folder.join("good/certificate.pem").to_string_lossy().into_owned();
            set(&format!("{prefix}.ssl.client.auth"), "required");
            set(&format!("{prefix}.ssl.truststore.type"), "PEM");
            set(&format!("{prefix}.ssl.truststore.location"), &trusted);
        }
        if matches!(listener, Listener::Login | Listener::TlsLogin) {
            for (mechanism, module) in modules() {
                let name = format!("{prefix}.{mechanism}.sasl.jaas.config");
                set(&name, &format!("org.apache.kafka.common.security.{module};"));
            }
        }
    }
    properties
}

/// Kafka's modules by mechanism. That of OAUTHBEARER takes tokens without a signature.
fn modules() -> [(&'static str, String); 4] {
    let scram = "scram.ScramLoginModule required";
    let token = "oauthbearer.OAuthBearerLoginModule required";
    [
        ("plain", format!("plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\"")),
        ("scram-sha-256", scram.to_owned()),
        ("scram-sha-512", scram.to_owned()),
        ("oauthbearer", format!("{token} unsecuredLoginStringClaim_sub=\"broker\"")),
    ]
}
