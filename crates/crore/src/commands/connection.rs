//! Connection flags of `pub`, `sub` and `history`.

use super::messages::event_sentence;
use crate::exit::Ending;
use anyhow::{Context as _, anyhow};
use client::url::Endpoint;
use client::{Client, ConnectError, Event, Events, EventsError, Options, Reason, TokenSource};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};
use tls::Roots;

/// Flags of all commands that connect.
#[derive(Clone, Debug, clap::Args)]
pub struct ConnectionArguments {
    /// URL of the node: ws://host:port, or wss:// with TLS. http:// and https:// mean the same.
    /// Several URLs, separated by commas, are tried in turn.
    #[arg(
        long,
        value_name = "URL",
        env = "CRORE_URL",
        default_value = "ws://127.0.0.1:8800",
        value_delimiter = ','
    )]
    pub url: Vec<String>,
    /// With TLS: trust the certificates of this PEM file instead of the system's.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// With TLS: accept any certificate. The connection is encrypted, but the server is not
    /// verified.
    #[arg(long)]
    pub insecure: bool,
    /// Token to authenticate with. Other users of the machine can read a command line: use the
    /// environment or --token-file instead.
    #[arg(long, value_name = "TOKEN", env = "CRORE_TOKEN", hide_env_values = true)]
    pub token: Option<Secret>,
    /// File with the token. The client reads it again when the token expires. It takes precedence
    /// over --token.
    #[arg(long, value_name = "FILE", env = "CRORE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Offer compression. The node accepts it if websocket.compression is on.
    #[arg(long)]
    pub compress: bool,
}

/// Values that never appear in debug output.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The value, for the server only.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Secret, Infallible> {
        Ok(Secret(text.to_owned()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("..")
    }
}

impl ConnectionArguments {
    /// Connects a client, which reconnects by itself.
    ///
    /// # Errors
    /// A URL is invalid, TLS flags are given without a TLS address, or the system refuses a thread.
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
        options.session.token = self.token.as_ref().map(|Secret(token)| token.clone());
        if let Some(path) = &self.token_file {
            options.session.token = Some(read_secret("the token", path)?);
            let path = path.clone();
            // If the file is unreadable or unchanged, the old token stays: the node reports that it
            // expired.
            options.token_source =
                Some(TokenSource::new(move || read_secret("the token", &path).ok()));
        }
        // The commands wait for their answers themselves, so little is unfinished at the end.
        options.close_timeout_ms = 500;
        Client::connect(options).map_err(|error| match error {
            ConnectError::Url(_) | ConnectError::NoUrl => Ending::Usage(error.to_string()),
            ConnectError::Tls(_) | ConnectError::Resources(_) => Ending::Failed(error.into()),
        })
    }
}

impl ConnectionArguments {
    /// Waits until a client is connected for the first time, so that a command fails early if no
    /// node answers. Later, the client reconnects by itself.
    ///
    /// # Errors
    /// No node answers at any of the addresses within `patience`, or the node refuses the client;
    /// that refusal has been printed.
    pub fn wait_for_node(&self, events: &Events, patience: Duration) -> Result<(), Ending> {
        let deadline = Instant::now() + patience;
        let mut attempts_left = self.url.len();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = match events.next_within(left) {
                Ok(event) => event,
                Err(EventsError::Ended) => return Err(Ending::FailedAndTold),
                Err(EventsError::Timeout) => {
                    let seconds = patience.as_secs();
                    return Err(self.no_node(&format!("no answer within {seconds} s")));
                }
            };
            match &event {
                Event::Connected { .. } => return Ok(()),
                Event::Disconnected { reason, .. } if is_nobody_there(reason) => {
                    attempts_left -= 1;
                    if attempts_left == 0 {
                        return Err(self.no_node(&reason.to_string()));
                    }
                }
                _ => {}
            }
            if let Some(sentence) = event_sentence(&event) {
                eprintln!("{sentence}");
            }
        }
    }

    fn no_node(&self, reason: &str) -> Ending {
        let urls = self.url.join(" or ");
        anyhow!("no node answers at {urls}: {reason}; start one with `crore serve`, or set another URL with --url or CRORE_URL").into()
    }
}

/// Whether the attempt did not reach a node.
fn is_nobody_there(reason: &Reason) -> bool {
    matches!(reason, Reason::Network(_) | Reason::NameNotFound | Reason::Tls(_))
}

/// The text without the line ending that editors add; `what` names it in an error.
///
/// # Errors
/// The file cannot be read.
pub fn read_secret(what: &str, path: &Path) -> Result<String, Ending> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {what} in {}", path.display()))?;
    Ok(text.trim().to_owned())
}
