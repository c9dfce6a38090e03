//! From options to what the engine's client needs.

use super::entries::Configuration;
use super::options::{self, LogTable};
use broker::settings::Durability;
use node::engine::{EngineLog, EngineLogin, EngineOptions, EngineTls};

/// The options of the engine; none if no log is there. `configuration` has been checked.
pub fn engine(configuration: &Configuration) -> Option<EngineOptions> {
    let logs: Vec<EngineLog> = (0..)
        .zip(&configuration.logs)
        .map(|(log, entry)| (log, entry.read::<LogTable>()))
        .filter(|(_, table)| table.durability == Durability::Engine)
        .map(|(log, table)| EngineLog {
            log,
            topic: table.engine_topic().to_owned(),
            allow_weak: table.allow_weak,
        })
        .collect();
    if logs.is_empty() {
        return None;
    }
    let engine: options::Engine = configuration.read();
    let login = engine.sasl_mechanism.zip(engine.username).zip(engine.password_file);
    let options::Engine { ca_file, certificate_file, key_file, .. } = engine;
    Some(EngineOptions {
        servers: engine.bootstrap_servers,
        client_name: configuration.read::<options::Node>().name,
        tls: engine.tls.then_some(EngineTls { ca_file, certificate_file, key_file }),
        login: login.map(|((mechanism, username), password_file)| EngineLogin {
            mechanism,
            username,
            password_file,
        }),
        rack: engine.rack.unwrap_or_default(),
        control_topic: format!("{}.control", engine.cluster),
        start_timeout: engine.start_timeout,
        logs,
    })
}
