//! The crate `engine` as the node's engine: settings, the check of topics, and the client.

mod token;

use super::TakeLetter;
use crate::cluster::entries::Entry;
use crate::cluster::topic::{Letter, WriteControl};
use crate::configuration::Configuration;
use crate::configuration::fault::{Fault, Faults};
use crate::exit::Ending;
use crate::logging::{Level, Log, Target};
use ::engine::admin::{self, Description, Lack};
use ::engine::control::{Control, ControlEntry, ControlLetter};
use ::engine::{
    EngineError, EngineLog, EnginePartition, EngineSettings, Foreign, LogLines, Login, Resume,
    Security, Severity, TlsSettings,
};
use anyhow::anyhow;
use broker::engine::{EngineRequest, MirrorEnd, WINDOW_MS};
use broker::mail::HomeId;
use broker::settings::Settings;
use node::engine::{
    Engine, EngineClient, EngineLogin, EngineOptions, EnginePassword, EngineStatistics, EngineTls,
    Letters, Tailed, Unroutable,
};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub fn prepare(
    options: &EngineOptions,
    configuration: &Configuration,
    settings: &Settings,
    log: Log,
) -> Result<Box<dyn Engine>, Ending> {
    let lines = log.to(Target::Log);
    let settings = EngineSettings { log: lines_to(lines), ..settings_of(options, settings)? };
    let found = describe(options, &settings)?;
    let mut faults = Vec::new();
    for lack in admin::lacks(&settings, &found) {
        let of_topic = |log: &&node::engine::EngineLog| log.topic == lack.topic;
        let Some(of_log) = options.logs.iter().find(of_topic) else {
            continue;
        };
        if lack.may_be_allowed && of_log.allow_weak {
            lines.write(Level::Warn, &format!("engine: {lack}; allow_weak permits it"), &[]);
            continue;
        }
        let entry = &configuration.logs[usize::from(of_log.log)];
        faults.push(Fault {
            origin: entry.origin_of("topic"),
            key: "log.topic".into(),
            problem: lack.to_string(),
            expected: remedy(&lack).into(),
        });
    }
    if !faults.is_empty() {
        return Err(Ending::Configuration(Faults(faults)));
    }
    Ok(Box::new(Linked(settings)))
}

fn lines_to(log: Log) -> LogLines {
    LogLines(Arc::new(move |severity, line: &str| {
        log.write(level_of(severity), &format!("engine: {line}"), &[]);
    }))
}

pub fn follow(
    options: &EngineOptions,
    settings: &Settings,
    log: Log,
    mut take: TakeLetter,
) -> Result<Box<dyn WriteControl>, Ending> {
    let lines = lines_to(log.to(Target::Log));
    let settings = EngineSettings { log: lines, ..settings_of(options, settings)? };
    let topic = &options.control_topic;
    let control = Control::start(&settings, topic, options.start_timeout, move |letter| {
        take(match letter {
            ControlLetter::Entry(ControlEntry { key, value, time_ms }) => {
                Letter::Entry(Entry { key, value, time_ms })
            }
            ControlLetter::CaughtUp => Letter::CaughtUp,
        });
    });
    let control = control.map_err(|error| {
        anyhow!("engine at {}: {error}; `crore engine init` creates topics", settings.bootstrap)
    })?;
    Ok(Box::new(Written(control)))
}

/// The writer of the control topic.
struct Written(Control);

impl WriteControl for Written {
    fn write(&self, key: String, value: Option<Vec<u8>>) {
        self.0.write(key, value);
    }
}

fn remedy(lack: &Lack) -> &'static str {
    if lack.may_be_allowed {
        "a topic that loses nothing, or allow_weak = true"
    } else {
        "a topic as `crore engine init` creates it"
    }
}

pub fn create_topics(
    options: &EngineOptions,
    settings: &Settings,
    is_dry_run: bool,
) -> Result<Vec<String>, Ending> {
    let settings = EngineSettings { log: on_terminal(), ..settings_of(options, settings)? };
    let found = described(admin::describe(&settings, options.start_timeout), &settings)?;
    let shape = |name: &str| {
        let log = settings.logs.iter().find(|log| log.topic == name);
        format!("{} partitions", log.map_or(0, |log| log.partitions.len()))
    };
    let missing = found.topics.iter().filter(|topic| topic.is_missing);
    let missing: Vec<&str> = missing.map(|topic| &*topic.name).collect();
    let control = &options.control_topic;
    let mut created: Vec<String> = if is_dry_run {
        missing.iter().map(|name| format!("would create {name}: {}", shape(name))).collect()
    } else {
        let created = admin::create(&settings, options.start_timeout);
        let created = created.map_err(|error| anyhow!("engine: {error}"))?;
        created.iter().map(|name| format!("created {name}: {}", shape(name))).collect()
    };
    if is_dry_run {
        created.push(format!("would create {control}, unless it exists: the nodes' control topic"));
    } else {
        let is_new = admin::create_control(&settings, control, options.start_timeout);
        if is_new.map_err(|error| anyhow!("engine: {error}"))? {
            created.push(format!("created {control}: the nodes' control topic"));
        }
    }
    let present = found.topics.iter().filter(|topic| !topic.is_missing);
    let present = present.map(|topic| format!("{} exists; it stays as it is", topic.name));
    Ok(created.into_iter().chain(present).collect())
}

pub fn check_topics(
    options: &EngineOptions,
    settings: &Settings,
) -> Result<(Vec<String>, bool), Ending> {
    let settings = EngineSettings { log: on_terminal(), ..settings_of(options, settings)? };
    let found = describe(options, &settings)?;
    let mut lines = vec![format!("cluster {}: {} brokers", found.cluster_id, found.brokers_count)];
    let lacks = admin::lacks(&settings, &found);
    let mut starts = true;
    for topic in &found.topics {
        let of_topic: Vec<&Lack> = lacks.iter().filter(|lack| lack.topic == topic.name).collect();
        if of_topic.is_empty() {
            lines.push(format!("topic {}: as it should be", topic.name));
        }
        let log = options.logs.iter().find(|log| log.topic == topic.name);
        let allows = log.is_some_and(|log| log.allow_weak);
        for lack in of_topic {
            let is_allowed = lack.may_be_allowed && allows;
            starts &= is_allowed;
            let end = if is_allowed { " (allow_weak permits it)" } else { "" };
            lines.push(format!("{lack}{end}"));
        }
    }
    Ok((lines, starts))
}

/// Lines of a command: the reasons for a wait, as they arise.
fn on_terminal() -> LogLines {
    LogLines(Arc::new(|_, line: &str| {
        // Without a terminal the command's end has the last reason.
        _ = writeln!(io::stderr(), "engine: {line}");
    }))
}

/// Asks about topics that should exist.
fn describe(options: &EngineOptions, settings: &EngineSettings) -> Result<Description, Ending> {
    described(admin::describe_existing(settings, options.start_timeout), settings)
}

fn described(
    found: Result<Description, EngineError>,
    settings: &EngineSettings,
) -> Result<Description, Ending> {
    found.map_err(|error| anyhow!("engine at {}: {error}", settings.bootstrap).into())
}

/// The settings of the crate `engine`.
fn settings_of(options: &EngineOptions, settings: &Settings) -> Result<EngineSettings, Ending> {
    let login = options.login.as_ref().map(login_of).transpose()?;
    Ok(EngineSettings {
        client_id: options.client_name.clone(),
        security: Security {
            tls: options.tls.as_ref().map(tls_of).transpose()?,
            login: login.unwrap_or_default(),
        },
        rack: options.rack.clone(),
        logs: options.logs.iter().map(|log| log_of(log, settings)).collect(),
        homes_count: settings.homes_count,
        payload_bytes_max: settings.limits.message_bytes_max,
        ..EngineSettings::new(&options.servers.join(","))
    })
}

fn log_of(log: &node::engine::EngineLog, settings: &Settings) -> EngineLog {
    let of_settings = &settings.logs[usize::from(log.log)];
    let age_max_ms = of_settings.age_max_ms;
    let partition =
        |id| EnginePartition { id, home: settings.home_of(id), resume: None, mirrored: None };
    EngineLog {
        topic: log.topic.clone(),
        topic_prefix: of_settings.topic_prefix.clone().into(),
        partitioner: of_settings.partitioner,
        foreign: Foreign {
            tag_headers: log.tag_headers.clone(),
            null_key_topic: log.null_key_topic.as_deref().map(Into::into),
            strips_schema_id: log.strip_schema_id,
        },
        age_ms: (age_max_ms < u64::MAX).then_some(age_max_ms),
        bytes: Some(of_settings.log_bytes_max / u64::from(of_settings.partitions_count.max(1))),
        once_ms: WINDOW_MS,
        is_compacted: of_settings.is_compacted,
        partitions: of_settings.partitions().map(partition).collect(),
    }
}

fn tls_of(tls: &EngineTls) -> Result<TlsSettings, Ending> {
    let text = |option: &str, file: &Option<PathBuf>| {
        let Some(file) = file else { return Ok(String::new()) };
        // librdkafka would not name the option.
        fs::File::open(file).map_err(|error| {
            anyhow!("[engine] {option}: cannot read {}: {error}", file.display())
        })?;
        Ok::<_, Ending>(file.to_string_lossy().into_owned())
    };
    Ok(TlsSettings {
        authorities_file: text("ca_file", &tls.ca_file)?,
        certificate_file: text("certificate_file", &tls.certificate_file)?,
        key_file: text("key_file", &tls.key_file)?,
        key_password: String::new(),
    })
}

fn login_of(login: &EngineLogin) -> Result<Login, Ending> {
    let named = |problem: String| Ending::from(anyhow!(problem));
    let with = |password: &EnginePassword| {
        let text = token::read(&password.file, "password_file").map_err(named)?;
        Ok::<_, Ending>((password.username.clone(), text))
    };
    Ok(match login {
        EngineLogin::Plain(password) => {
            let (user, password) = with(password)?;
            Login::Plain { user, password }
        }
        EngineLogin::ScramSha256(password) => {
            let (user, password) = with(password)?;
            Login::Scram { is_512: false, user, password }
        }
        EngineLogin::ScramSha512(password) => {
            let (user, password) = with(password)?;
            Login::Scram { is_512: true, user, password }
        }
        EngineLogin::Token(source) => Login::Token(token::source(source).map_err(named)?),
    })
}

fn level_of(severity: Severity) -> Level {
    match severity {
        Severity::Info => Level::Info,
        Severity::Warning => Level::Warn,
        Severity::Error => Level::Error,
    }
}

/// A client before its start.
struct Linked(EngineSettings);

impl Engine for Linked {
    fn start(
        self: Box<Self>,
        tailed: &[Tailed],
        mirrored: &[MirrorEnd],
        letters: Letters,
    ) -> Result<Box<dyn EngineClient>, String> {
        let Linked(mut settings) = *self;
        let partitions = settings.logs.iter_mut().flat_map(|log| &mut log.partitions);
        for partition in partitions {
            let found = tailed.iter().find(|tailed| tailed.partition == partition.id);
            partition.resume = found.map(|tailed| Resume {
                topic_id: tailed.topic_id,
                through: tailed.through,
                lineage: tailed.lineages.last().map(|last| last.lineage),
            });
            partition.mirrored =
                mirrored.iter().find(|mirror| mirror.partition == partition.id).copied();
        }
        let started = ::engine::Engine::start(settings, move |_, letter| letters(letter));
        let engine = started.map_err(|error| error.to_string())?;
        Ok(Box::new(Client { engine, published: None }))
    }
}

/// A client that reads and writes.
struct Client {
    engine: ::engine::Engine,
    /// The time of the last publication.
    published: Option<Instant>,
}

/// The counts of the crate `engine` are at most so old.
const COUNTS_AGE_MAX: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl EngineClient for Client {
    fn ask(&mut self, home: HomeId, requests: Vec<EngineRequest>) {
        for request in requests {
            if matches!(request, EngineRequest::Publish(_)) {
                self.published = Some(Instant::now());
            }
            self.engine.ask(home, request);
        }
    }

    fn statistics(&self) -> EngineStatistics {
        let counted = self.engine.statistics();
        let unroutable = counted.unroutable;
        EngineStatistics {
            records: counted.records,
            record_bytes: counted.record_bytes,
            lag_records: self.engine.tails().iter().map(|tail| tail.lag).sum(),
            unroutable: Unroutable {
                no_key: unroutable.no_key,
                invalid_topic: unroutable.invalid_topic,
                too_long: unroutable.too_long,
                wrong_partition: unroutable.wrong_partition,
                invalid_header: unroutable.invalid_header,
                no_schema_id: unroutable.no_schema_id,
            },
            produced: counted.produced,
            produces: counted.produce,
            pending: counted.pending,
            refused: counted.refused,
            unknown: counted.unknown,
            truncations: counted.truncations,
            overtaken: counted.overtaken,
            recreated: counted.recreated,
            watchdog: counted.watchdog,
            producers_replaced: counted.producers_replaced,
            errors: counted.errors,
            silence_ms: counted.silence_ms,
            ..EngineStatistics::default()
        }
    }

    fn flush(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        let is_idle = |client: &Client| {
            let published = client.published;
            let is_counted = published.is_none_or(|at| at.elapsed() > COUNTS_AGE_MAX);
            is_counted && client.engine.statistics().pending == 0
        };
        while !is_idle(self) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn stop(self: Box<Self>) {
        self.engine.stop();
    }
}
