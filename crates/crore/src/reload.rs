//! A reload: at SIGHUP or `POST /api/v1/reload` the node reads the sources of the configuration
//! again, and applies what it can without dropping a connection.
//!
//! Place: between the configuration and the node. Invariants: everything is checked before anything
//! changes, so that a fault changes nothing; reloads run one at a time; their log lines contain no
//! secrets.

use crate::configuration::changes::{self, Change};
use crate::configuration::fault::{Fault, Faults, Origin};
use crate::configuration::options::Section;
use crate::configuration::{self, Configuration, assemble, assemble_logging, document};
use crate::flags::ConfigurationArguments;
use crate::logging::{Level, Log};
use crate::reloaded::{Counts, Reloaded};
use crate::{entitled, process, service_manager, tls_files};
use broker::settings::{Durability, Settings};
use entitlement::TokenAuthenticator;
use node::Node;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Reloads the configuration while the node runs.
pub struct Reloader {
    /// The sources: the file, the environment and the flags of the start.
    pub arguments: ConfigurationArguments,
    /// The configuration in force.
    pub in_force: Mutex<Configuration>,
    /// The node; none when it has stopped.
    pub node: Arc<RwLock<Option<Node>>>,
    /// The TLS certificate and key.
    pub tls: Option<Arc<tls::Server>>,
    /// The authenticator, for changed keys; none if clients need no token.
    pub authenticator: Option<Arc<TokenAuthenticator>>,
    /// Origins of the operators' pages, in addition to the configured ones.
    pub own_origins: Vec<String>,
    /// The log.
    pub log: Log,
    /// The counts so far.
    pub counts: Mutex<Counts>,
}

impl Reloader {
    /// Reads everything again and applies what it can; `reason` is the origin of the request. The
    /// log reports the result.
    ///
    /// # Errors
    /// All faults. Nothing has changed then.
    pub fn reload(&self, reason: &str) -> Result<Reloaded, Faults> {
        service_manager::reloading();
        let mut in_force = self.lock();
        let wanted = configuration::load(&self.arguments.sources());
        let result = wanted.and_then(|wanted| self.take(&mut in_force, &wanted));
        drop(in_force);
        service_manager::ready(match &result {
            Ok(_) => "serves",
            Err(_) => "serves with the previous configuration; the new one is faulty",
        });
        self.count(&result);
        match &result {
            Ok(reloaded) => self.tell(reason, reloaded),
            Err(faults) => {
                for fault in &faults.0 {
                    self.log.write(
                        Level::Error,
                        "The configuration was not reloaded; nothing has changed.",
                        &[("reason", reason), ("fault", &fault.to_string())],
                    );
                }
            }
        }
        result
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The options of a section, in force.
    pub fn read<T: Section>(&self) -> T {
        self.lock().read()
    }

    /// The limits in force, for operators.
    pub fn limits(&self) -> serde_json::Value {
        document::limits(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Configuration> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, result: &Result<Reloaded, Faults>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(reloaded) => {
                counts.taken += 1;
                counts.waiting = reloaded.waiting().count() as u64;
            }
            Err(_) => counts.refused += 1,
        }
    }

    fn take(
        &self,
        in_force: &mut Configuration,
        wanted: &Configuration,
    ) -> Result<Reloaded, Faults> {
        check_beside(in_force, wanted)?;
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = &*node else {
            return Err(stopped());
        };
        // Key files are read again even if the configuration is the same.
        let authenticated = match &self.authenticator {
            Some(_) => Some(entitled::authenticator_settings(wanted)?),
            None => None,
        };
        // The last step that can fail.
        if let Some(server) = &self.tls {
            tls_files::reload(in_force, server, &self.log)?;
        }
        if let (Some(authenticator), Some(authenticated)) = (&self.authenticator, authenticated) {
            authenticator.replace(authenticated);
            node.revocations_changed();
        }
        let waiting = node.reload(self.settings(wanted, &node.settings()));
        let mut changes = changes::changes(in_force, wanted, &waiting);
        let mut merged = changes::merge(in_force, wanted, &waiting);
        if self.authenticator.is_none() {
            changes::keep_keys(in_force, &mut merged, &mut changes);
        }
        *in_force = merged;
        self.log.set_levels(&assemble_logging::levels(in_force));
        Ok(Reloaded { changes, certificate: self.tls.is_some() })
    }

    /// The new settings of the node. Ticket keys of its own stay. Tickets that a node of the
    /// cluster has revoked stay revoked.
    fn settings(&self, wanted: &Configuration, running: &Settings) -> Settings {
        let mut settings = assemble::settings(wanted, process::cores_count());
        settings.allowed_origins.extend_from_slice(&self.own_origins);
        if settings.tickets.keys.is_empty() {
            settings.tickets.keys.clone_from(&running.tickets.keys);
        }
        if running.logs.iter().any(|log| log.durability == Durability::Engine) {
            let revoked_before_ms = running.tickets.not_before_ms;
            settings.tickets.not_before_ms = settings.tickets.not_before_ms.max(revoked_before_ms);
        }
        settings
    }

    fn tell(&self, reason: &str, reloaded: &Reloaded) {
        for Change { key, old, new, is_in_force } in &reloaded.changes {
            let fields = [("key", &**key), ("old", old), ("new", new)];
            if *is_in_force {
                self.log.write(Level::Info, "An option has changed.", &fields)
            } else {
                self.log.write(
                    Level::Warn,
                    "An option has changed, and takes effect after a restart.",
                    &fields,
                )
            }
        }
        self.log.write(
            Level::Info,
            "The configuration was reloaded.",
            &[
                ("reason", reason),
                ("changes", &reloaded.changes.len().to_string()),
                ("waiting", &reloaded.waiting().count().to_string()),
            ],
        );
    }
}

/// Checks the future configuration for contradictions: some options keep their values until the
/// next start.
fn check_beside(in_force: &Configuration, wanted: &Configuration) -> Result<(), Faults> {
    let merged = changes::merge(in_force, wanted, &[]);
    configuration::check(&changes::without_new_logs(&merged)).map_err(|faults| {
        let beside = |fault: Fault| Fault {
            problem: format!("{} (beside what stays in force until a restart)", fault.problem),
            ..fault
        };
        Faults(faults.0.into_iter().map(beside).collect())
    })
}

fn stopped() -> Faults {
    Faults(vec![Fault {
        origin: Origin::Default,
        key: String::new(),
        problem: "the node has stopped".into(),
        expected: String::new(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::{Format, Levels};
    use std::path::Path;
    use std::time::Duration;

    /// A node that has started without a key has no authenticator until its next start.
    #[test]
    fn the_first_api_key_waits_for_a_restart() {
        let mut in_force = Configuration::default();
        let mut options = assemble::node_options(&in_force, 1);
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        options.transport.sockets.private_tables = false;
        let node = node::start(options).unwrap();
        let reloader = Reloader {
            arguments: ConfigurationArguments::default(),
            in_force: Mutex::default(),
            node: Arc::new(RwLock::new(Some(node))),
            tls: None,
            authenticator: None,
            own_origins: Vec::new(),
            log: Log::new(Format::Text, &Levels::new(Level::Error)),
            counts: Mutex::default(),
        };
        let hash = "0".repeat(64);
        let key = format!("[[api_key]]\nname = \"a\"\nsha256 = \"{hash}\"\noperate = true\n");
        let wanted = configuration::load_text(Path::new("crore.toml"), &key).unwrap();
        // Told again, as long as it waits.
        for _ in 0..2 {
            let reloaded = reloader.take(&mut in_force, &wanted).unwrap();
            let waiting: Vec<&str> = reloaded.waiting().map(|change| &*change.key).collect();
            assert_eq!(waiting, ["[[api_key]]"]);
        }
        let node = reloader.node.write().unwrap().take();
        node.unwrap().stop(Duration::from_secs(60)).unwrap();
    }
}
