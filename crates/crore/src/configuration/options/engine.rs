//! Options of the engine, which orders the logs of several nodes.

use super::spec::{options, seconds, text};
use super::typed::{choice, choices};
use crate::configuration::value::Kind;
use std::path::PathBuf;
use std::time::Duration;

options! {
    /// The engine of logs with durability = "engine": a cluster that speaks the Kafka protocol. All
    /// nodes with the same engine and logs serve the same messages.
    section "engine": Engine;

    /// Addresses of some brokers, HOST:PORT; the others are found through them. Required for a log
    /// in the engine.
    bootstrap_servers: Vec<String> = "", Kind::Words, Restart;
    /// The name of the cluster: its nodes tell each other by the topic NAME.control what all must
    /// know. Clusters with one engine need different names.
    cluster: String = "crore", text(200), Restart;
    /// Encrypt connections to brokers with TLS.
    tls: bool = "false", Kind::Boolean, Restart;
    /// Trusted certificates of brokers, in PEM. Not given: those of the system.
    ca_file: Option<PathBuf> = example "/etc/crore/kafka-ca.pem", text(4_096), Restart;
    /// The node's own certificate for brokers that demand one, in PEM.
    certificate_file: Option<PathBuf> = example "/etc/crore/kafka.pem", text(4_096), Restart;
    /// The key of the certificate, in PEM.
    key_file: Option<PathBuf> = example "/etc/crore/kafka.key", text(4_096), Restart;
    /// The mechanism by which the node proves its identity (SASL). PLAIN and SCRAM need a user name
    /// and a password, OAUTHBEARER a token. Not given: none.
    sasl_mechanism: Option<Mechanism> = example "SCRAM-SHA-512",
        choice::<Mechanism>(), Restart;
    /// The node's user name for SASL.
    username: Option<String> = example "crore", text(255), Restart;
    /// A file with the password for SASL, without the end of the line.
    password_file: Option<PathBuf> = example "/etc/crore/kafka-password", text(4_096), Restart;
    /// A file with a token for OAUTHBEARER, which another program renews. The node reads it again
    /// before the token expires.
    oauth_token_file: Option<PathBuf> = example "/run/secrets/kafka-token", text(4_096), Restart;
    /// Token endpoint of an OAuth 2 server, instead of a file: the node requests tokens there with
    /// its client credentials. https, or http on this machine.
    oauth_url: Option<String> = example "https://id.example.com/oauth2/token",
        text(2_048), Restart;
    /// The node's client identifier at oauth_url.
    oauth_client_id: Option<String> = example "crore", text(255), Restart;
    /// A file with the client secret for oauth_url, without the end of the line.
    oauth_client_secret_file: Option<PathBuf> = example "/etc/crore/oauth-secret",
        text(4_096), Restart;
    /// Scopes of the requested token, separated by spaces. Not given: the server decides.
    oauth_scope: Option<String> = example "kafka", text(1_024), Restart;
    /// Trusted certificates for oauth_url, in PEM. Not given: those of the system.
    oauth_ca_file: Option<PathBuf> = example "/etc/crore/ca.pem", text(4_096), Restart;
    /// The rack or zone of this node: it reads from brokers of the same one, where the cluster
    /// permits that. Not given: it reads from leaders, which is faster.
    rack: Option<String> = example "eu-1a", text(255), Restart;
    /// Time limit for a start to find the topics and to check them.
    start_timeout: Duration = "30s", seconds(1, 600), Restart;
    /// Whether the node counts as ready while the engine does not answer. Its clients then keep
    /// their subscriptions and history, and publications are refused.
    ready_without_engine: bool = "false", Kind::Boolean, Restart;
}

/// A mechanism of SASL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// Name and password.
    Plain,
    /// A password that does not leave the node, with SHA-256.
    ScramSha256,
    /// A password that does not leave the node, with SHA-512.
    ScramSha512,
    /// A token.
    OauthBearer,
}

choices! {
    Mechanism: Plain = "PLAIN", ScramSha256 = "SCRAM-SHA-256", ScramSha512 = "SCRAM-SHA-512",
        OauthBearer = "OAUTHBEARER"
}
