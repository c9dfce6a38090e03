//! From options to what the engine's client needs.

use super::entries::Configuration;
use super::options::{self, LogTable, Mechanism};
use broker::settings::Durability;
use node::engine::{
    EngineLog, EngineLogin, EngineOptions, EnginePassword, EngineTls, EngineToken,
    EngineTokenServer,
};

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
            tag_headers: table.tag_headers,
            null_key_topic: table.null_key_topic,
            strip_schema_id: table.strip_schema_id,
        })
        .collect();
    if logs.is_empty() {
        return None;
    }
    let engine: options::Engine = configuration.read();
    let login = login(&engine);
    let options::Engine { ca_file, certificate_file, key_file, .. } = engine;
    Some(EngineOptions {
        servers: engine.bootstrap_servers,
        client_name: configuration.read::<options::Node>().name,
        tls: engine.tls.then_some(EngineTls { ca_file, certificate_file, key_file }),
        login,
        rack: engine.rack.unwrap_or_default(),
        control_topic: format!("{}.control", engine.cluster),
        start_timeout: engine.start_timeout,
        logs,
    })
}

/// The proof of identity; none without a mechanism.
fn login(engine: &options::Engine) -> Option<EngineLogin> {
    let password = || {
        let (username, file) = engine.username.clone().zip(engine.password_file.clone())?;
        Some(EnginePassword { username, file })
    };
    match engine.sasl_mechanism? {
        Mechanism::Plain => password().map(EngineLogin::Plain),
        Mechanism::ScramSha256 => password().map(EngineLogin::ScramSha256),
        Mechanism::ScramSha512 => password().map(EngineLogin::ScramSha512),
        Mechanism::OauthBearer => token(engine).map(EngineLogin::Token),
    }
}

fn token(engine: &options::Engine) -> Option<EngineToken> {
    if let Some(file) = &engine.oauth_token_file {
        return Some(EngineToken::File(file.clone()));
    }
    Some(EngineToken::Server(EngineTokenServer {
        url: engine.oauth_url.clone()?,
        client_id: engine.oauth_client_id.clone()?,
        client_secret_file: engine.oauth_client_secret_file.clone()?,
        scope: engine.oauth_scope.clone(),
        ca_file: engine.oauth_ca_file.clone(),
    }))
}
