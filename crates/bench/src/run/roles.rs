//! What the load generators of a run are to be.
//!
//! Place: from the plan to the children. Pure.

use super::message::{PartConfig, Role};
use super::plan::RunPlan;
use super::server::Server;
use super::workload::Name;

impl RunPlan {
    /// What receives.
    pub fn subscribers(&self, server: &Server) -> PartConfig {
        let role = match self.workload.name {
            Name::Echo100k => Role::Echoes {
                clients: self.size.clients,
                every_s: self.size.clients as f64 / self.size.rate.max(1e-9),
                size: self.message_bytes,
            },
            _ => Role::Subscribers {
                transport: self.transport,
                clients: self.size.clients,
                topics: self.topics.clone(),
                sample: self.sample,
                is_audited: self.ledger.is_some(),
                has_last_receiver: self.workload.name == Name::FanOut,
                return_rate: 0.0,
            },
        };
        PartConfig {
            role,
            url: server.url.clone(),
            certificate: self.certificate(server),
            is_insecure: self.is_insecure,
            local_addresses: self.local_addresses.clone(),
            connect_rate: self.connect_rate,
            interval_ms: self.interval.as_millis() as u64,
        }
    }

    /// What publishes.
    pub fn publishers(&self, server: &Server, rate: f64) -> PartConfig {
        PartConfig {
            role: Role::Publishers {
                connections: self.publisher_connections,
                topics: self.topics.clone(),
                is_random: self.workload.name == Name::Unicast,
                rate,
                size: self.message_bytes,
                acknowledge: self.has_acknowledgements,
                exactly_once: self.workload.is_once,
                inflight_max: self.inflight_max,
                ledger: self.ledger.clone(),
            },
            url: server.url.clone(),
            certificate: self.certificate(server),
            is_insecure: self.is_insecure,
            local_addresses: Vec::new(),
            connect_rate: 0.0,
            interval_ms: self.interval.as_millis() as u64,
        }
    }

    /// The certificate of the started server, else the given one.
    fn certificate(&self, server: &Server) -> Option<std::path::PathBuf> {
        server.certificate().or_else(|| self.certificate.clone())
    }
}
