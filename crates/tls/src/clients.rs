//! Certificates of clients: whom a server trusts to sign them, and which of them are revoked.
//!
//! Place: read with the server's own files, at the start and at a reload.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::LoadError;
use crate::server::{certificates, problem_of};
use crate::suites::provider;

/// The settings for certificates of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificates {
    /// The PEM file of the authorities that sign certificates of clients.
    pub ca_file: PathBuf,
    /// A PEM file with lists of revoked certificates, one of each authority.
    pub crl_file: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// The content of the files.
#[derive(PartialEq, Eq)]
pub(crate) struct Trust {
    authorities: Vec<CertificateDer<'static>>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl Trust {
    pub(crate) fn read(settings: &ClientCertificates) -> Result<Trust, LoadError> {
        let authorities = certificates(&settings.ca_file)?;
        let mut revoked = Vec::new();
        if let Some(file) = &settings.crl_file {
            let fault = |problem| LoadError { file: file.clone(), problem, expected: EXPECTED_CRL };
            revoked = CertificateRevocationListDer::pem_file_iter(file)
                .and_then(Iterator::collect)
                .map_err(|error| fault(problem_of(&error, "list of revoked certificates")))?;
            if revoked.is_empty() {
                return Err(fault("it contains no list of revoked certificates".into()));
            }
        }
        Ok(Trust { authorities, revoked })
    }

    /// The library's verifier. Only the first certificate of a chain may be revoked. An expired
    /// list stays in force.
    pub(crate) fn verifier(
        &self,
        settings: &ClientCertificates,
    ) -> Result<Arc<dyn ClientCertVerifier>, LoadError> {
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            roots.add(authority.clone()).map_err(|error| LoadError {
                file: settings.ca_file.clone(),
                problem: format!("a certificate is malformed ({error})"),
                expected: "certificates of authorities in PEM",
            })?;
        }
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider()));
        let builder = builder.with_crls(self.revoked.clone()).only_check_end_entity_revocation();
        let builder = if settings.is_required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| LoadError {
            file: settings.crl_file.clone().unwrap_or_else(|| settings.ca_file.clone()),
            problem: error.to_string(),
            expected: EXPECTED_CRL,
        })
    }
}

const EXPECTED_CRL: &str = "lists of revoked certificates in PEM (-----BEGIN X509 CRL-----), of version 2, one of each authority";
