//! The engine as the node knows it: the client that the process passes in, and what it counts.
//!
//! The node does not know which engine it is, nor how the client speaks with it. A client has
//! threads of its own; it brings letters by a function that never waits.

use broker::engine::{EngineLetter, EngineRequest, LineageStart, MirrorEnd};
use broker::mail::{HomeId, PartitionId};
use std::path::PathBuf;
use std::time::Duration;
use stdx::Counters;
use stdx::handing::Hand;
use stdx::histogram::Histogram;
use stdx::metrics::Metrics;

/// Takes the client's letters, on any thread, in the order of each partition. It never waits.
pub type Letters = Box<dyn Fn(EngineLetter) + Send + Sync>;

/// A client of the engine before its start.
pub trait Engine: Send {
    /// Begins to read all partitions. The first letter of each is a `Restart`, unless the process
    /// before this one has read it and the client continues after its [`Tailed`]. With a `Restart`
    /// the partition begins anew; it may follow the end of this node's mirror (`mirrored`).
    ///
    /// # Errors
    /// The reason, for the operator.
    fn start(
        self: Box<Self>,
        tailed: &[Tailed],
        mirrored: &[MirrorEnd],
        letters: Letters,
    ) -> Result<Box<dyn EngineClient>, String>;
}

/// A client of the engine that reads and writes.
pub trait EngineClient: Send {
    /// Takes a home's requests, in order. Never waits.
    fn ask(&mut self, home: HomeId, requests: Vec<EngineRequest>);

    /// Counters and gauges.
    fn statistics(&self) -> EngineStatistics;

    /// Waits until the engine has answered everything that it was asked to append, at most for this
    /// time.
    fn flush(&mut self, within: Duration);

    /// Ends its threads.
    fn stop(self: Box<Self>);
}

/// The part of a partition that homes have.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct Tailed {
    /// Numbered over all logs.
    pub partition: PartitionId,
    /// The engine's identity of the topic.
    pub topic_id: u32,
    /// The known lineages, oldest first.
    pub lineages: Vec<LineageStart>,
    /// Homes have everything up to this offset.
    pub through: u64,
}

/// The operator's options for the client.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Addresses of some brokers, `HOST:PORT`.
    pub servers: Vec<String>,
    /// The name of this client in the brokers' logs.
    pub client_name: String,
    /// Encryption; none for plain connections.
    pub tls: Option<EngineTls>,
    /// The proof of the node's identity; none where brokers ask for none.
    pub login: Option<EngineLogin>,
    /// The rack of this node; empty for none.
    pub rack: String,
    /// The topic by which the nodes tell each other what all must know.
    pub control_topic: String,
    /// Time limit for finding and checking the topics.
    pub start_timeout: Duration,
    /// The logs in the engine, by their indexes in the settings.
    pub logs: Vec<EngineLog>,
}

/// Encryption of connections to brokers; files are in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineTls {
    /// Trusted certificates; none: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The node's own certificate.
    pub certificate_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
}

/// A proof of identity, by SASL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineLogin {
    /// PLAIN: name and password, readable for the broker and, without TLS, for everyone between.
    Plain(EnginePassword),
    /// SCRAM with SHA-256.
    ScramSha256(EnginePassword),
    /// SCRAM with SHA-512.
    ScramSha512(EnginePassword),
    /// OAUTHBEARER.
    Token(EngineToken),
}

/// A user's password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnginePassword {
    /// The user's name.
    pub username: String,
    /// The file with the password.
    pub file: PathBuf,
}

/// The source of tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineToken {
    /// A file that somebody else renews.
    File(PathBuf),
    /// An OAuth 2 server, which gives tokens for client credentials.
    Server(EngineTokenServer),
}

/// An OAuth 2 server with the credentials of this client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineTokenServer {
    /// The URL of its token endpoint.
    pub url: String,
    /// The client's name there.
    pub client_id: String,
    /// The file with the client's secret.
    pub client_secret_file: PathBuf,
    /// The requested scope, words with spaces between them; none for the server's default.
    pub scope: Option<String>,
    /// Trusted certificates, in PEM; none: those of the system.
    pub ca_file: Option<PathBuf>,
}

/// A log in the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineLog {
    /// Its index in the settings.
    pub log: u16,
    /// The engine's topic.
    pub topic: String,
    /// Use a topic that may lose acknowledged messages.
    pub allow_weak: bool,
    /// Names of other producers' headers that become tags.
    pub tag_headers: Vec<Box<str>>,
    /// The topic of messages without a key; none if they are not served.
    pub null_key_topic: Option<String>,
    /// Other producers' values begin with the number of a schema, which is removed.
    pub strip_schema_id: bool,
}

/// Counts of the engine's client and of its thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
pub struct EngineStatistics {
    /// Messages read from the engine.
    #[metric("crore_engine_records_total")]
    pub records: u64,
    /// Bytes of messages read from the engine.
    #[metric("crore_engine_record_bytes_total")]
    pub record_bytes: u64,
    /// Messages that the engine has and this node has not read yet.
    #[metric("crore_engine_lag_records")]
    pub lag_records: u64,
    /// Messages of the engine without a valid topic, by reason; no client receives them.
    #[metric("crore_engine_unroutable_total", by = "reason")]
    pub unroutable: Unroutable,
    /// Publications sent to the engine.
    #[metric("crore_engine_produced_total")]
    pub produced: u64,
    /// Time from the sending of a publication to the answer of the engine.
    #[metric("crore_engine_produce_seconds")]
    pub produces: Histogram,
    /// Publications on their way to the engine.
    #[metric("crore_engine_pending")]
    pub pending: u64,
    /// Publications that were refused before they reached the engine.
    #[metric("crore_engine_refused_total")]
    pub refused: u64,
    /// Publications without an answer of the engine; the messages read from it decide.
    #[metric("crore_engine_unknown_total")]
    pub unknown: u64,
    /// Partitions that began anew because the engine had lost messages.
    #[metric("crore_engine_truncations_total")]
    pub truncations: u64,
    /// Partitions that began anew because the engine had dropped messages that the node had not
    /// read.
    #[metric("crore_engine_overtaken_total")]
    pub overtaken: u64,
    /// Partitions that began anew because their topic was deleted and created again.
    #[metric("crore_engine_recreated_total")]
    pub recreated: u64,
    /// Partitions that began anew, for any reason: their subscribers received a gap.
    #[metric("crore_engine_restarts_total")]
    pub restarts: u64,
    /// Readers that were replaced because they had fallen silent.
    #[metric("crore_engine_watchdog_total")]
    pub watchdog: u64,
    /// Writers that were replaced because they could not go on.
    #[metric("crore_engine_producers_replaced_total")]
    pub producers_replaced: u64,
    /// Errors of brokers and of connections to them.
    #[metric("crore_engine_errors_total")]
    pub errors: u64,
    /// Partitions of the logs in the engine.
    #[metric("crore_engine_partitions")]
    pub partitions: u64,
    /// Partitions that the node has not read up to the end that they had at its start.
    #[metric("crore_engine_partitions_behind")]
    pub partitions_behind: u64,
    /// Partitions that accept no publications at present.
    #[metric("crore_engine_partitions_unavailable")]
    pub partitions_unavailable: u64,
    /// Time since a broker has answered, in milliseconds.
    pub silence_ms: u64,
}

/// Messages without a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Counters, Metrics)]
pub struct Unroutable {
    /// The message has no key.
    pub no_key: u64,
    /// The key is not the rest of a valid topic.
    pub invalid_topic: u64,
    /// Payload, tags or content type are too long.
    pub too_long: u64,
    /// The key belongs into another partition.
    pub wrong_partition: u64,
    /// A header of Crore has no valid value.
    pub invalid_header: u64,
    /// The value does not begin with the number of a schema, in a log with `strip_schema_id`.
    pub no_schema_id: u64,
}
