//! One request to a server of another program, with TLS if its URL says so. It blocks.

use fetch::{Answer, Request, Url};
pub use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sends a request to the host of `url`, and returns its answer of any status. The limits are those
/// of the whole time and of the answer's body, in bytes.
///
/// # Errors
/// The reason, as a sentence.
pub fn ask(
    url: &Url,
    tls: &Arc<ClientConfig>,
    request: &Request<'_>,
    (timeout, body_bytes_max): (Duration, u64),
) -> Result<Answer, String> {
    let told = |error: fetch::Error| error.to_string();
    let address = (url.host.as_str(), url.port);
    let mut stream = fetch::connect(&url.host, address, Instant::now() + timeout).map_err(told)?;
    if !url.is_https {
        return request.send(&mut stream, body_bytes_max).map_err(told);
    }
    let name = ServerName::try_from(url.host.clone())
        .map_err(|_| format!("{} is not a valid server name for TLS", url.host))?;
    let session =
        ClientConnection::new(Arc::clone(tls), name).map_err(|error| error.to_string())?;
    request.send(&mut StreamOwned::new(session, stream), body_bytes_max).map_err(told)
}
