//! The command line. Each command declares its arguments beside its code.

use crate::commands::{
    bench, bridge, cluster, completion, config, conn, demo, drain, engine, health, history, log,
    login, mqtt, publish, serve, subscribe, tls, token, top, topic, upgrade,
};
use crate::{doctor, plan};
use clap::{Parser, Subcommand};

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
    /// Publish and subscribe over MQTT, at a node or at another broker.
    Mqtt(mqtt::Arguments),
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
    /// Create or examine the topics of logs in an engine, which several nodes share.
    Engine(engine::Arguments),
    /// Try several nodes out on this machine.
    Cluster(cluster::Arguments),
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
    /// Print the configuration that does what a configuration of Mosquitto does, with a remark on
    /// each line that has no equivalent.
    Bridge(bridge::Arguments),
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
            &["crore", "mqtt", "pub"],
            &["crore", "mqtt", "pub", "-t", "a/#"],
            &["crore", "mqtt", "sub"],
            &["crore", "mqtt", "sub", "-t", "a#"],
            &["crore", "mqtt", "sub", "-t", "a", "--qos", "3"],
            &["crore", "mqtt", "sub", "-t", "a", "--session-expiry", "5s"],
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
