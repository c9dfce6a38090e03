//! A client's trusted roots, its own certificate, and its tickets for resumption.
//!
//! Place: created once from the options, shared by all connections and threads of the process. A
//! handshake that uses or gets a ticket holds one lock for a moment. Invariant: a ticket is used
//! once.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls12Resumption,
    Tls13ClientSessionValue,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, NamedGroup, RootCertStore, SignatureScheme,
};

use crate::LoadError;
use crate::handshake::{Captured, Handshake};
use crate::server::{ALPN, certificates, certified_key};
use crate::suites;

/// Maximum number of tickets of a process; each is about a kilobyte.
const TICKETS_MAX: usize = 100_000;
/// Paths of the systems' trusted certificates, as one file.
const SYSTEM_FILES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];
/// The environment variable with another such file, as in other programs.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";

/// The roots that a client trusts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Roots {
    /// The roots of the system: the file that `SSL_CERT_FILE` names, or the usual one.
    #[default]
    System,
    /// The certificates of this PEM file, and no others.
    File(PathBuf),
    /// Any server: the connection is encrypted, but the server is not verified.
    Insecure,
}

/// The settings of a client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientSettings {
    /// The trusted roots.
    pub roots: Roots,
    /// Whether to resume sessions with tickets.
    pub resume: bool,
    /// Whether to use TLS 1.2 at most.
    pub tls12_only: bool,
    /// The client's own certificate, for servers that ask for one.
    pub identity: Option<Identity>,
}

/// A certificate of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The PEM file of the certificate, followed by those between it and the root.
    pub certificate_file: PathBuf,
    /// The PEM file of the first certificate's private key.
    pub key_file: PathBuf,
}

impl Roots {
    /// The roots for the options `--ca FILE` and `--insecure`.
    pub fn of_flags(ca: Option<&Path>, insecure: bool) -> Roots {
        match ca {
            _ if insecure => Roots::Insecure,
            Some(file) => Roots::File(file.to_owned()),
            None => Roots::System,
        }
    }
}

impl ClientSettings {
    /// Whether the roots differ from the system's, or there is a certificate.
    pub fn is_given(&self) -> bool {
        self.roots != Roots::System || self.identity.is_some()
    }
}

/// A client's side of TLS.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    resumes: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("resumes", &self.resumes).finish_non_exhaustive()
    }
}

impl Client {
    /// Reads the roots and the certificate.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(settings: &ClientSettings) -> Result<Client, LoadError> {
        let provider = Arc::new(suites::provider());
        let versions: &[_] = if settings.tls12_only { &[&TLS12] } else { &[&TLS13, &TLS12] };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| LoadError {
                file: PathBuf::new(),
                problem: error.to_string(),
                expected: "a configuration that the TLS library accepts",
            })?;
        let builder = match &settings.roots {
            Roots::Insecure => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            }
            Roots::File(file) => builder.with_root_certificates(roots(file)?),
            Roots::System => builder.with_root_certificates(roots(&system_file()?)?),
        };
        let mut config = match &settings.identity {
            Some(Identity { certificate_file, key_file }) => {
                let certified = certified_key(certificate_file, key_file)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.enable_secret_extraction = true;
        config.key_log = Arc::new(Captured);
        config.resumption = if settings.resume {
            Resumption::store(Arc::new(Tickets::default()))
                .tls12_resumption(Tls12Resumption::SessionIdOrTickets)
        } else {
            Resumption::disabled()
        };
        Ok(Client { config: Arc::new(config), resumes: settings.resume })
    }

    pub(crate) fn handshake(&self, name: ServerName<'static>) -> Result<Handshake, Error> {
        Handshake::client(Arc::clone(&self.config), name, self.resumes)
    }
}

/// The configuration of a plain stream of the TLS library, for a fetch of a small file: no tickets,
/// no extracted keys. Without roots it trusts no server.
///
/// # Errors
/// The file of roots cannot be used.
pub fn plain_client(believed: Option<&Roots>) -> Result<Arc<ClientConfig>, LoadError> {
    let provider = Arc::new(suites::provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| LoadError {
            file: PathBuf::new(),
            problem: error.to_string(),
            expected: "a configuration that the TLS library accepts",
        })?;
    let store = match believed {
        None => RootCertStore::empty(),
        Some(Roots::File(file)) => roots(file)?,
        Some(Roots::System) => roots(&system_file()?)?,
        Some(Roots::Insecure) => {
            let config = builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                .with_no_client_auth();
            return Ok(Arc::new(config));
        }
    };
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn system_file() -> Result<PathBuf, LoadError> {
    if let Some(file) = std::env::var_os(SYSTEM_VARIABLE) {
        return Ok(file.into());
    }
    let found = SYSTEM_FILES.iter().map(Path::new).find(|file| file.exists());
    found.map(Path::to_owned).ok_or_else(|| LoadError {
        file: SYSTEM_FILES[0].into(),
        problem: "no file of trusted certificates at the usual paths of this system".into(),
        expected: "the path of such a file in --ca or in the variable SSL_CERT_FILE",
    })
}

/// The certificates of a file that can be roots, at least one.
fn roots(file: &Path) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    // Some of a system's hundreds may be malformed.
    let (added, _) = roots.add_parsable_certificates(certificates(file)?);
    if added == 0 {
        return Err(LoadError {
            file: file.to_owned(),
            problem: "the file contains no readable certificate".into(),
            expected: "certificates to trust, in PEM",
        });
    }
    Ok(roots)
}

/// Accepts every certificate, and checks that the server has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Tickets of any number of connections to the same few servers; rustls's own store keeps eight for
/// a server.
#[derive(Default)]
struct Tickets(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: VecDeque<(ServerName<'static>, Tls12ClientSessionValue)>,
    tls13: VecDeque<(ServerName<'static>, Tls13ClientSessionValue)>,
}

/// Sessions of TLS 1.2 may be used many times: one for each server.
const TLS12_SESSIONS_MAX: usize = 16;

impl Tickets {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} tickets", self.kept().tls13.len())
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _name: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _name: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        let kept = &mut self.kept().tls12;
        kept.retain(|(of, _)| *of != name);
        if kept.len() == TLS12_SESSIONS_MAX {
            kept.pop_front();
        }
        kept.push_back((name, value));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let kept = self.kept();
        let found = kept.tls12.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.kept().tls12.retain(|(of, _)| of != name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let kept = &mut self.kept().tls13;
        if kept.len() == TICKETS_MAX {
            kept.pop_front();
        }
        kept.push_back((name, value));
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let kept = &mut self.kept().tls13;
        // The newest; with one server it is the last.
        let place = kept.iter().rposition(|(of, _)| of == name)?;
        kept.remove(place).map(|(_, value)| value)
    }
}
