//! The files of TLS: read at the start, where a faulty one stops the node, and at a reload, where a
//! faulty one changes nothing.
//!
//! Place: between the configuration and the node. The log names the files, and never reveals a key.

use crate::configuration::fault::{Fault, Faults};
use crate::configuration::options::Tls;
use crate::configuration::{Configuration, assemble};
use crate::exit::Ending;
use crate::logging::{Level, Log, Target};
use crate::ticket_keys::Notice;
use node::TlsOptions;
use std::sync::Arc;
use tls::{LoadError, Loaded, Server};

/// The configured certificate and key, and a notice for the log.
///
/// # Errors
/// A file is faulty: a fault of the configuration.
pub fn load(configuration: &Configuration) -> Result<(Option<TlsOptions>, Option<Notice>), Ending> {
    let Some((listen, settings)) = assemble::tls_settings(configuration) else {
        return Ok((None, None));
    };
    let (server, loaded) = Server::load(settings).map_err(|error| {
        let key = key_of(configuration, &error);
        Ending::Configuration(Faults(vec![fault(configuration, key, &error)]))
    })?;
    let server = Arc::new(server);
    let notice = (Level::Info, format!("TLS certificate: {}.", describe(&loaded)));
    Ok((Some(TlsOptions { listen, server }), Some(notice)))
}

/// Reads the files again; if one is faulty, the previous ones stay.
///
/// # Errors
/// A file is faulty.
pub fn reload(configuration: &Configuration, server: &Server, log: &Log) -> Result<(), Faults> {
    let loaded = server.reload().map_err(|error| {
        Faults(vec![fault(configuration, key_of(configuration, &error), &error)])
    })?;
    log.to(Target::Tls).write(
        Level::Info,
        "The TLS certificate was reloaded.",
        &[
            ("subject", &loaded.subject),
            ("not_after", &loaded.not_after),
            ("chain", &loaded.chain_len.to_string()),
        ],
    );
    Ok(())
}

fn describe(loaded: &Loaded) -> String {
    format!(
        "{}, valid until {}, {} in the chain",
        or_unknown(&loaded.subject),
        or_unknown(&loaded.not_after),
        loaded.chain_len
    )
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

/// The option that names the file.
fn key_of(configuration: &Configuration, error: &LoadError) -> &'static str {
    let tls: Tls = configuration.read();
    let files = [
        (tls.key_file, "tls.key_file"),
        (tls.client_ca_file, "tls.client_ca_file"),
        (tls.client_crl_file, "tls.client_crl_file"),
    ];
    let of_file = files.into_iter().find(|(file, _)| file.as_ref() == Some(&error.file));
    of_file.map_or("tls.certificate_file", |(_, key)| key)
}

fn fault(configuration: &Configuration, key: &str, error: &LoadError) -> Fault {
    let origin = configuration
        .given(key)
        .map_or(crate::configuration::fault::Origin::Default, |(_, origin)| origin.clone());
    Fault {
        origin,
        key: key.into(),
        problem: format!("{}: {}", error.file.display(), error.problem),
        expected: error.expected.into(),
    }
}
