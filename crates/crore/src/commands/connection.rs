//! Where `pub`, `sub` and `history` find the node.

use crate::exit::Ending;
use client::url::Endpoint;
use client::{Client, ConnectError, Events, Options};
use std::path::PathBuf;
use tls::Roots;

/// Flags of all commands that connect.
#[derive(Clone, Debug, clap::Args)]
pub struct ConnectionArguments {
    /// The node: ws://host:port, or wss:// with TLS (http:// and https:// mean the same); several, separated by commas, are tried in turn.
    #[arg(
        long,
        value_name = "URL",
        env = "CRORE_URL",
        default_value = "ws://127.0.0.1:8800",
        value_delimiter = ','
    )]
    pub url: Vec<String>,
    /// Where the URL has TLS: believe the certificates of this PEM file instead of the system's.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Where the URL has TLS: believe any certificate. The connection is secret, but nobody knows with whom.
    #[arg(long)]
    pub insecure: bool,
    /// Offer compressed messages; the node takes that where websocket.compression is on.
    #[arg(long)]
    pub compress: bool,
}

impl ConnectionArguments {
    /// A client that connects, and goes on connecting.
    ///
    /// # Errors
    /// A URL makes no sense, flags of TLS without an address that has it, or the system gives no thread.
    pub fn connect(&self, name: &str) -> Result<(Client, Events), Ending> {
        let is_plain = |url: &String| Endpoint::parse(url).is_ok_and(|endpoint| !endpoint.is_tls);
        if (self.ca.is_some() || self.insecure) && self.url.iter().all(is_plain) {
            let problem =
                "--ca and --insecure are for addresses with TLS, and none is wss:// or https://";
            return Err(Ending::Usage(problem.into()));
        }
        let mut options = Options::new("");
        options.urls.clone_from(&self.url);
        options.tls.roots = Roots::of_flags(self.ca.as_deref(), self.insecure);
        options.session.name = Some(name.into());
        options.session.compression = self.compress;
        // Answers are waited for by the commands themselves, so little can be under way at the end.
        options.close_timeout_ms = 500;
        Client::connect(options).map_err(|error| match error {
            ConnectError::Url(_) | ConnectError::NoUrl => Ending::Usage(error.to_string()),
            ConnectError::Tls(_) | ConnectError::Resources(_) => Ending::Failed(error.into()),
        })
    }
}
