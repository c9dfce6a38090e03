//! A server's certificates, from files that may be reloaded, and tickets without memory.
//!
//! Place: created at the start, shared by all I/O threads. A handshake and a reload hold a lock for
//! a moment, an established connection never does. Invariants: a failed reload changes nothing; a
//! ticket that was issued under other rules for the certificates of clients resumes nothing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, InconsistentKeys, ServerConfig};

use crate::LoadError;
use crate::clients::{ClientCertificates, Trust};
use crate::handshake::Captured;
use crate::suites::provider;
use crate::x509;

/// The application protocol of HTTP (RFC 7301). WebSocket begins with it, too.
pub(crate) const ALPN: &[u8] = b"http/1.1";
/// The application protocol of MQTT. It decides nothing: the first byte of a connection tells MQTT
/// from HTTP.
const ALPN_MQTT: &[u8] = b"mqtt";

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The PEM file of the server's certificate, followed by those between it and the root.
    pub certificate_file: PathBuf,
    /// The PEM file of the first certificate's private key.
    pub key_file: PathBuf,
    /// Whether clients may use TLS 1.2.
    pub tls12: bool,
    /// The certificates of clients; none are asked for without.
    pub clients: Option<ClientCertificates>,
}

/// A server's side of TLS: configuration, certificates and the keys of tickets.
pub struct Server {
    settings: ServerSettings,
    current: Current,
    certificates: Arc<Certificates>,
    /// The files about clients as they were last read.
    trust: Mutex<Option<Trust>>,
}

/// The configuration of handshakes that begin now.
#[derive(Clone)]
pub(crate) struct Current(Arc<RwLock<Arc<ServerConfig>>>);

impl Current {
    pub(crate) fn get(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The loaded certificate, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The first certificate's subject, as far as it is readable.
    pub subject: String,
    /// The end of its validity, in RFC 3339; empty if it is unreadable.
    pub not_after: String,
    /// Number of certificates in the file.
    pub chain_len: usize,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Server {
    /// Reads the files, and creates the keys of tickets.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(settings: ServerSettings) -> Result<(Server, Loaded), LoadError> {
        let (key, loaded) = load(&settings)?;
        let certificates = Arc::new(Certificates(RwLock::new(Arc::new(key))));
        let trust = settings.clients.as_ref().map(Trust::read).transpose()?;
        let config = configuration(&settings, trust.as_ref(), &certificates)?;
        let current = Current(Arc::new(RwLock::new(Arc::new(config))));
        let server = Server { settings, current, certificates, trust: Mutex::new(trust) };
        Ok((server, loaded))
    }

    /// Reads the files again. Connections stay, and tickets stay valid unless the files about
    /// clients have changed; later handshakes use the new files.
    ///
    /// # Errors
    /// A file cannot be used; then nothing has changed.
    pub fn reload(&self) -> Result<Loaded, LoadError> {
        let (key, loaded) = load(&self.settings)?;
        let trust = self.settings.clients.as_ref().map(Trust::read).transpose()?;
        let mut former = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        if *former != trust {
            let config = configuration(&self.settings, trust.as_ref(), &self.certificates)?;
            let mut current = self.current.0.write().unwrap_or_else(PoisonError::into_inner);
            *current = Arc::new(config);
            *former = trust;
        }
        *self.certificates.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        Ok(loaded)
    }

    pub(crate) fn current(&self) -> Current {
        self.current.clone()
    }
}

/// The library's configuration, with new keys of tickets.
fn configuration(
    settings: &ServerSettings,
    trust: Option<&Trust>,
    certificates: &Arc<Certificates>,
) -> Result<ServerConfig, LoadError> {
    let of_library = |error: Error| LoadError {
        file: settings.certificate_file.clone(),
        problem: error.to_string(),
        expected: "a configuration that the TLS library accepts",
    };
    let versions: &[_] = if settings.tls12 { &[&TLS13, &TLS12] } else { &[&TLS13] };
    let builder = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(versions)
        .map_err(of_library)?;
    let builder = match settings.clients.as_ref().zip(trust) {
        Some((clients, trust)) => builder.with_client_cert_verifier(trust.verifier(clients)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates.clone());
    config.ignore_client_order = true;
    config.alpn_protocols = vec![ALPN.to_vec(), ALPN_MQTT.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Ticketer::new().map_err(of_library)?;
    config.send_tls13_tickets = 1;
    config.enable_secret_extraction = true;
    config.key_log = Arc::new(Captured);
    Ok(config)
}

struct Certificates(RwLock<Arc<CertifiedKey>>);

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Certificates")
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn load(settings: &ServerSettings) -> Result<(CertifiedKey, Loaded), LoadError> {
    let certified = certified_key(&settings.certificate_file, &settings.key_file)?;
    let first = x509::Names::read(&certified.cert[0]);
    let chain_len = certified.cert.len();
    let loaded = Loaded { subject: first.subject, not_after: first.not_after, chain_len };
    Ok((certified, loaded))
}

/// A chain of certificates, not empty, and the private key of the first.
pub(crate) fn certified_key(
    certificate_file: &Path,
    key_file: &Path,
) -> Result<CertifiedKey, LoadError> {
    let chain = certificates(certificate_file)?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| LoadError {
        file: key_file.to_owned(),
        problem: problem_of(&error, "private key"),
        expected: "a private key in PEM (PKCS #8, PKCS #1 or SEC 1), without a passphrase",
    })?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => LoadError {
            file: key_file.to_owned(),
            problem: format!(
                "the key does not belong to the first certificate of {}",
                certificate_file.display()
            ),
            expected: "the private key of that certificate",
        },
        Error::InvalidCertificate(error) => LoadError {
            file: certificate_file.to_owned(),
            problem: format!("the first certificate is malformed ({error:?})"),
            expected: EXPECTED_CHAIN,
        },
        error => LoadError {
            file: key_file.to_owned(),
            problem: error.to_string(),
            expected: "a private key of ECDSA, Ed25519 or RSA",
        },
    })
}

const EXPECTED_CHAIN: &str =
    "a chain of certificates in PEM, that of the key first (-----BEGIN CERTIFICATE-----)";

/// All certificates of a file, at least one.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let fault = |problem| LoadError { file: file.to_owned(), problem, expected: EXPECTED_CHAIN };
    let chain: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| fault(problem_of(&error, "certificate")))?;
    if chain.is_empty() {
        return Err(fault("it contains no certificate".into()));
    }
    Ok(chain)
}

pub(crate) fn problem_of(error: &PemError, what: &str) -> String {
    match error {
        PemError::Io(error) => format!("cannot read it: {error}"),
        PemError::NoItemsFound => format!("it contains no {what}"),
        error => format!("it is not valid PEM: {error}"),
    }
}
