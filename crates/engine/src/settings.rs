//! The settings of an engine.

use crate::record::Foreign;
use broker::engine::{MirrorEnd, Restart};
use broker::mail::{HomeId, PartitionId};
use std::fmt;
use std::sync::Arc;
use stdx::hash::Partitioner;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Addresses of brokers to begin with, `host:port`, separated by commas.
    pub bootstrap: String,
    /// The name of this client in the brokers' logs.
    pub client_id: String,
    /// Encryption and credentials.
    pub security: Security,
    /// The rack of this node: a replica there may serve its reads. Empty for none.
    pub rack: String,
    /// The compression of records that this node sends: `none`, `lz4`, `zstd`, `snappy` or `gzip`.
    pub compression: String,
    /// Further properties of librdkafka; they win over those that the engine sets.
    pub properties: Vec<(String, String)>,
    /// The logs, with their partitions.
    pub logs: Vec<EngineLog>,
    /// The number of homes; a partition's home is in [`EnginePartition::home`].
    pub homes_count: u16,
    /// Bytes of letters that each home takes before it gives credit, by `Tail::cost`.
    pub credit_bytes: u32,
    /// Bytes that wait in the client for one home.
    pub buffer_bytes_max: u32,
    /// Records that wait for an acknowledgement of a broker.
    pub pending_max: u32,
    /// Longest payload of a record, in bytes; longer ones of other producers are unroutable.
    pub payload_bytes_max: u32,
    /// The time after which an unsent record is refused, in milliseconds.
    pub produce_timeout_ms: u32,
    /// The time after which an unanswered request is repeated, in milliseconds.
    pub request_timeout_ms: u32,
    /// The silence after which a tail that is behind is started again, in milliseconds.
    pub silence_max_ms: u64,
    /// Takes lines for people.
    pub log: LogLines,
}

/// A log in the engine.
#[derive(Clone, Debug)]
pub struct EngineLog {
    /// The name of the topic in the engine.
    pub topic: String,
    /// The first bytes of all topics of the log, which keys of records leave out.
    pub topic_prefix: String,
    /// The producers' choice of a partition by key.
    pub partitioner: Partitioner,
    /// Records of other producers.
    pub foreign: Foreign,
    /// Records older than this are not served by a node that starts, in milliseconds. None for all.
    pub age_ms: Option<u64>,
    /// Bytes of a partition's records that a node keeps. None without a bound.
    pub bytes: Option<u64>,
    /// Repetitions within this time are recognised, in milliseconds.
    pub once_ms: u64,
    /// The topic is compacted: the newest record of each key is its retained message.
    pub is_compacted: bool,
    /// The partitions in their order in the topic.
    pub partitions: Vec<EnginePartition>,
}

/// A partition of a log.
#[derive(Clone, Debug)]
pub struct EnginePartition {
    /// Its number over all logs.
    pub id: PartitionId,
    /// The home that orders it.
    pub home: HomeId,
    /// The place where the tail continues, if the home has earlier records of the partition.
    pub resume: Option<Resume>,
    /// The end of the node's mirror of the partition, at the node's start.
    pub mirrored: Option<MirrorEnd>,
}

/// A place in a partition of which a home knows the records before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resume {
    /// [`Restart::topic_id`]: if the topic has another one, the partition begins anew.
    pub topic_id: u32,
    /// Everything up to here is settled.
    pub through: u64,
    /// The lineage of the last record; none if the home has none.
    pub lineage: Option<u32>,
}

/// Encryption and credentials.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Encryption; none for plain connections.
    pub tls: Option<TlsSettings>,
    /// The way to log in.
    pub login: Login,
}

/// Encryption.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// A file of certificates of authorities, in PEM. Empty for the system's.
    pub authorities_file: String,
    /// A file with this client's certificate, in PEM. Empty for none.
    pub certificate_file: String,
    /// A file with its key, in PEM.
    pub key_file: String,
    /// The key's password. Empty for none.
    pub key_password: String,
}

/// The way to log in.
#[derive(Clone, Default)]
pub enum Login {
    /// No login.
    #[default]
    None,
    /// SASL PLAIN.
    Plain {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// SASL SCRAM.
    Scram {
        /// Whether the hash is SHA-512; otherwise SHA-256.
        is_512: bool,
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// SASL OAUTHBEARER: the function returns a token.
    Token(TokenSource),
}

/// Returns a token. It may wait for a server: it is called on a thread of its own, and by the
/// functions of [`crate::admin`].
pub type TokenSource = Arc<dyn Fn() -> Result<Token, String> + Send + Sync>;

/// A token for OAUTHBEARER.
#[derive(Clone)]
pub struct Token {
    /// The token.
    pub text: String,
    /// The user's name, for logs.
    pub principal: String,
    /// The time of its end, in milliseconds since 1970.
    pub expires_ms: u64,
}

/// Takes lines for people.
#[derive(Clone)]
pub struct LogLines(pub Arc<LogLine>);

/// Takes a line for people.
pub type LogLine = dyn Fn(Severity, &str) + Send + Sync;

/// The urgency of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The normal course.
    Info,
    /// Works, but somebody should look at it.
    Warning,
    /// Something does not work.
    Error,
}

impl EngineSettings {
    /// Settings for brokers at these addresses, without logs, with the defaults.
    pub fn new(bootstrap: &str) -> EngineSettings {
        EngineSettings {
            bootstrap: bootstrap.to_owned(),
            client_id: "crore".to_owned(),
            security: Security::default(),
            rack: String::new(),
            compression: "none".to_owned(),
            properties: Vec::new(),
            logs: Vec::new(),
            homes_count: 1,
            credit_bytes: 8 << 20,
            buffer_bytes_max: 4 << 20,
            pending_max: 100_000,
            payload_bytes_max: 1 << 20,
            produce_timeout_ms: 30_000,
            request_timeout_ms: 5_000,
            silence_max_ms: 5_000,
            log: LogLines::default(),
        }
    }
}

impl Resume {
    /// The place at which a partition begins.
    pub fn after(restart: &Restart) -> Resume {
        Resume { topic_id: restart.topic_id, through: restart.after, lineage: None }
    }
}

impl LogLines {
    pub(crate) fn write(&self, severity: Severity, line: &str) {
        (self.0)(severity, line);
    }
}

/// Drops the lines.
impl Default for LogLines {
    fn default() -> LogLines {
        LogLines(Arc::new(|_, _| {}))
    }
}

impl fmt::Debug for LogLines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LogLines")
    }
}

/// Without secrets.
impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Login::None => "None",
            Login::Plain { .. } => "Plain",
            Login::Scram { .. } => "Scram",
            Login::Token(_) => "Token",
        })
    }
}

/// Without the token.
impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token of {}", self.principal)
    }
}
