//! The configurations of a run's load generators.
//!
//! Place: from the plan to the child processes.

use std::time::Duration;

use super::message::{PartConfig, Work};
use super::network;
use super::plan::RunPlan;
use super::server::Server;
use super::workload::Name;
use crate::command::ECHO_TARGET;
use crate::engine::{Common, EchoesConfig, Order, PublishersConfig, SubscribersConfig, Transport};
use crate::source::Sources;

impl RunPlan {
    /// The generator that receives.
    ///
    /// # Errors
    /// The server's URL has no address, or the run's network no interface.
    pub fn subscribers(&self, server: &Server) -> anyhow::Result<PartConfig> {
        let is_echo = self.workload.name == Name::Echo100k;
        let target = if is_echo { ECHO_TARGET } else { client::url::TARGET };
        let mut common = Common::with_target(std::slice::from_ref(&server.url), target)?;
        common.local_addresses =
            Sources::parse_addresses(&self.local_addresses).map_err(anyhow::Error::msg)?;
        common.network = self.device.map(network::of_subscribers).transpose()?;
        common.connect_rate = self.connect_rate;
        let clients = self.size.clients;
        let work = if is_echo {
            Work::Echoes(EchoesConfig {
                common,
                clients,
                clients_max: clients,
                every: Duration::from_secs_f64(clients as f64 / self.size.rate.max(1e-9)),
                size: self.message_bytes,
            })
        } else {
            Work::Subscribers(SubscribersConfig {
                transport: self.command.transport,
                mqtt: self.command.mqtt,
                qos: self.command.qos,
                sample: self.sample,
                is_audited: self.ledger.is_some(),
                has_last_receiver: self.workload.name == Name::FanOut,
                return_rate: Some(0.0),
                ..SubscribersConfig::new(common, self.topics.clone(), clients)
            })
        };
        Ok(PartConfig { ledger: None, ..self.part(work, server) })
    }

    /// The generator that publishes.
    ///
    /// # Errors
    /// The errors of [`RunPlan::subscribers`].
    pub fn publishers(&self, server: &Server, rate: f64) -> anyhow::Result<PartConfig> {
        let common = Common::new(std::slice::from_ref(&server.publishers_url))?;
        let mut config = PublishersConfig::new(common, self.topics.clone(), rate);
        if self.command.transport == Transport::Mqtt {
            config.transport = Transport::Mqtt;
            config.mqtt = self.command.mqtt;
        }
        config.connections = self.publisher_connections;
        config.load.order = match self.workload.name {
            Name::Unicast => Order::Random,
            _ => Order::RoundRobin,
        };
        config.load.step_ns = self.command.send_every.as_nanos() as u64;
        config.load.size = self.message_bytes;
        config.load.acknowledge = self.has_acknowledgements || self.workload.is_once;
        config.load.exactly_once = self.workload.is_once;
        config.load.inflight_max = self.inflight_max;
        Ok(self.part(Work::Publishers(config), server))
    }

    /// A generator with the certificate of the started server, else the given one.
    fn part(&self, work: Work, server: &Server) -> PartConfig {
        PartConfig {
            work,
            certificate: server.certificate().or_else(|| self.command.ca.clone()),
            is_insecure: self.command.insecure,
            ledger: self.ledger.clone(),
            interval_ms: self.interval.as_millis() as u64,
        }
    }
}
