//! Flags of the configuration that several commands take.

use crate::configuration::Sources;
use std::path::PathBuf;

/// Flags of the configuration, shared by several commands.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConfigurationArguments {
    /// Configuration file. Without one, the defaults apply.
    #[arg(long, value_name = "FILE", env = "CRORE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address for clients (listen.clients). May be repeated.
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Vec<String>,
    /// Address for operators: health, metrics and the live page (listen.operators). May be
    /// repeated.
    #[arg(long, value_name = "IP:PORT")]
    pub admin_listen: Vec<String>,
    /// Address for clients with TLS (tls.listen). May be repeated.
    #[arg(long, value_name = "IP:PORT")]
    pub tls_listen: Vec<String>,
    /// Server certificate with its chain, in PEM (tls.certificate_file).
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<String>,
    /// Private key of the server certificate, in PEM (tls.key_file).
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// Number of I/O threads (node.io_threads).
    #[arg(long, value_name = "N")]
    pub io_threads: Option<String>,
    /// Directory for logs on disk (node.data_dir).
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<String>,
    /// Serve every client that can reach the node, even with authentication off (listen.open).
    #[arg(long)]
    pub open: bool,
    /// Format of log lines: `text` or `json` (logging.format).
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Set any option of the configuration. May be repeated.
    #[arg(long = "set", value_name = "SECTION.NAME=VALUE", value_parser = assignment)]
    pub assignments: Vec<(String, String)>,
}

impl ConfigurationArguments {
    /// The sources in their order of precedence, with this process's environment.
    pub fn sources(&self) -> Sources {
        let mut flags: Vec<(&'static str, String, String)> = self
            .assignments
            .iter()
            .map(|(key, value)| ("--set", key.clone(), value.clone()))
            .collect();
        if !self.listen.is_empty() {
            flags.push(("--listen", "listen.clients".into(), self.listen.join(",")));
        }
        if !self.admin_listen.is_empty() {
            let addresses = self.admin_listen.join(",");
            flags.push(("--admin-listen", "listen.operators".into(), addresses));
        }
        if !self.tls_listen.is_empty() {
            let addresses = self.tls_listen.join(",");
            flags.push(("--tls-listen", "tls.listen".into(), addresses));
        }
        if let Some(file) = &self.tls_certificate {
            flags.push(("--tls-certificate", "tls.certificate_file".into(), file.clone()));
        }
        if let Some(file) = &self.tls_key {
            flags.push(("--tls-key", "tls.key_file".into(), file.clone()));
        }
        if let Some(threads) = &self.io_threads {
            flags.push(("--io-threads", "node.io_threads".into(), threads.clone()));
        }
        if let Some(directory) = &self.data_dir {
            flags.push(("--data-dir", "node.data_dir".into(), directory.clone()));
        }
        if self.open {
            flags.push(("--open", "listen.open".into(), "true".into()));
        }
        if let Some(format) = &self.log_format {
            flags.push(("--log-format", "logging.format".into(), format.clone()));
        }
        let variables = std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text)))
            .map(|(name, text)| (name, text.to_string_lossy().into_owned()))
            .collect();
        Sources { file: self.config.clone(), variables, flags }
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().into(), value.trim().into())),
        _ => Err("expected SECTION.NAME=VALUE, such as limits.topics_max=1000".into()),
    }
}
