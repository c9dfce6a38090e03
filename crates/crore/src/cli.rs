//! The command line. Each command declares its arguments beside its code.

use crate::commands::{
    bench, completion, config, conn, demo, drain, health, history, log, login, publish, serve,
    subscribe, tls, token, top, topic, upgrade,
};
use crate::configuration::Sources;
use crate::{doctor, plan};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Crore pushes live data to millions of connected clients, and never silently loses a message.
#[derive(Debug, Parser)]
#[command(name = "crore", version, propagate_version = true, max_term_width = 110)]
pub struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node.
    Serve(serve::Arguments),
    /// Run a demo: a node with thousands of subscribers, its rates and latencies. It needs no
    /// configuration and serves no TLS. With --break-it, it injects faults.
    Demo(demo::Arguments),
    /// Publish a message, or one for each line of standard input.
    #[command(name = "pub")]
    Publish(publish::Arguments),
    /// Subscribe to topics or filters and print their messages.
    #[command(name = "sub")]
    Subscribe(subscribe::Arguments),
    /// Print a topic's history.
    History(history::Arguments),
    /// Watch a running node: connections, rates, memory.
    Top(top::Arguments),
    /// List, show or close the connections of a running node.
    Conn(conn::Arguments),
    /// List or show the topics of a running node.
    Topic(topic::Arguments),
    /// Measure a node under load and verify every stream.
    Bench(bench::Arguments),
    /// Examine this machine: how many connections it can hold, and how to raise that number.
    Doctor(doctor::Arguments),
    /// Predict the memory, processors and bandwidth that a load needs, and the first bottleneck.
    Plan(plan::Arguments),
    /// Check, print, measure or repair a log on disk.
    Log(log::Arguments),
    /// Print a link that logs a browser in to the operators' page. The link works once, within an
    /// hour.
    Login(login::Arguments),
    /// Generate a self-signed certificate to try out TLS.
    Tls(tls::Arguments),
    /// Create and check keys and tokens, and revoke tokens.
    Token(token::Arguments),
    /// Drain a node, then stop it.
    Drain(drain::Arguments),
    /// Check whether a node is ready.
    Health(health::Arguments),
    /// Show, check or explain the configuration.
    Config(config::Arguments),
    /// Upgrade a running node in place to the program now on disk. Clients stay connected and miss
    /// nothing.
    Upgrade(upgrade::Arguments),
    /// Describe every metric of a node, as Markdown.
    Metrics,
    /// Print the version, the commit and the compiler.
    Version,
    /// Print a completion script for a shell.
    Completion(completion::Arguments),
    /// Print the manual page.
    Man,
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn flags_become_options() {
        let arguments = Arguments::try_parse_from([
            "crore",
            "serve",
            "--listen",
            "127.0.0.1:1",
            "--listen",
            "[::1]:1",
            "--io-threads",
            "auto",
            "--open",
            "--set",
            "node.name = a=b",
        ]);
        let Ok(Arguments { command: Command::Serve(serve) }) = arguments else { panic!() };
        let configuration = serve.configuration.sources();
        let flags: Vec<(&str, &str, &str)> =
            configuration.flags.iter().map(|(a, b, c)| (*a, b.as_str(), c.as_str())).collect();
        assert_eq!(
            flags,
            [
                ("--set", "node.name", "a=b"),
                ("--listen", "listen.clients", "127.0.0.1:1,[::1]:1"),
                ("--io-threads", "node.io_threads", "auto"),
                ("--open", "listen.open", "true"),
            ]
        );
    }

    #[test]
    fn a_duration_without_a_unit_is_in_seconds() {
        for text in ["90", "90s", "1m30s"] {
            assert!(
                Arguments::try_parse_from(["crore", "demo", "--duration", text]).is_ok(),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in [
            &["crore"][..],
            &["crore", "sreve"],
            &["crore", "serve", "--set", "x"],
            &["crore", "serve", "--io-threads"],
            &["crore", "pub"],
            &["crore", "sub"],
            &["crore", "sub", "a", "--since", "5", "--last", "3"],
            &["crore", "sub", "a", "--since", "x:y"],
            &["crore", "history"],
            &["crore", "log"],
            &["crore", "log", "verify"],
            &["crore", "log", "verify", "a", "--force"],
            &["crore", "completion", "tcsh"],
            &["crore", "demo", "--duration", "soon"],
            &["crore", "demo", "--duration", "-3"],
        ] {
            let error = Arguments::try_parse_from(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }
}
