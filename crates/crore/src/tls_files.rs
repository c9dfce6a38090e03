//! The files of TLS: read at the start, where a bad one ends it, and at SIGHUP, where a bad one changes nothing.
//!
//! Place: between the configuration and the node. The log says what was read, and never what a key is.

use crate::configuration::fault::{Fault, Faults};
use crate::configuration::{Configuration, assemble};
use crate::exit::Ending;
use crate::logging::{Level, Log};
use crate::ticket_keys::Notice;
use node::TlsOptions;
use std::sync::Arc;
use tls::{LoadError, Loaded, Server};

/// What the configuration asks for, and what to say about it.
///
/// # Errors
/// A file that is not as it should be: the configuration's fault.
pub fn load(configuration: &Configuration) -> Result<(Option<TlsOptions>, Option<Notice>), Ending> {
    let Some((listen, settings)) = assemble::tls_settings(configuration) else {
        return Ok((None, None));
    };
    let key_file = settings.key_file.clone();
    let (server, loaded) = Server::load(settings).map_err(|error| {
        let key = if error.file == key_file {
            "tls.key_file"
        } else {
            "tls.certificate_file"
        };
        fault(configuration, key, &error)
    })?;
    let server = Arc::new(server);
    let notice = (
        Level::Info,
        format!("TLS certificate: {}.", describe(&loaded)),
    );
    Ok((Some(TlsOptions { listen, server }), Some(notice)))
}

/// Reads the files again, if there are any.
pub fn reload(server: Option<&Server>, log: &Log) {
    let Some(server) = server else {
        return log.write(
            Level::Info,
            "SIGHUP: there are no files of TLS to read again.",
            &[],
        );
    };
    match server.reload() {
        Ok(loaded) => log.write(
            Level::Info,
            "The TLS certificate was read again.",
            &[
                ("subject", &loaded.subject),
                ("not_after", &loaded.not_after),
                ("chain", &loaded.chain_len.to_string()),
            ],
        ),
        Err(error) => log.write(
            Level::Error,
            "The TLS certificate could not be read again; the one before stays.",
            &[("error", &error.to_string())],
        ),
    }
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

fn fault(configuration: &Configuration, key: &str, error: &LoadError) -> Ending {
    let origin = configuration.given(key).map_or(
        crate::configuration::fault::Origin::Default,
        |(_, origin)| origin.clone(),
    );
    Ending::Configuration(Faults(vec![Fault {
        origin,
        key: key.into(),
        problem: format!("{}: {}", error.file.display(), error.problem),
        expected: error.expected.into(),
    }]))
}
