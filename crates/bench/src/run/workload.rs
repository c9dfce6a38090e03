//! The named workloads, and the figures that others have published for them.
//!
//! Place: data for the other modules of a run. Nothing here was measured by Crore; unpublished
//! figures are missing.

use serde::Serialize;

/// The names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Ten million clients, each with its own topic, one message of 512 bytes per client and
    /// minute.
    #[value(name = "c10m")]
    #[serde(rename = "c10m")]
    C10m,
    /// Twelve million clients, 200,000 messages per second.
    #[value(name = "c12m")]
    #[serde(rename = "c12m")]
    C12m,
    /// A million clients, 100 on each topic, one message per client and second.
    OneMillion,
    /// 120,000 clients with TLS in groups of 20, acknowledged and exactly once.
    Factory,
    /// 100,000 WebSocket clients that ping an echo every 30 s.
    #[value(name = "echo-100k")]
    #[serde(rename = "echo-100k")]
    Echo100k,
    /// All clients lose their connection, miss messages, and reconnect at once.
    Storm,
    /// One topic, ten thousand subscribers.
    FanOut,
    /// Ten thousand topics with one subscriber each.
    Unicast,
    /// Connections at the highest rate: upgrade, subscription and its answer.
    Connect,
}

/// The definition of a workload, at the published size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Its name.
    pub name: Name,
    /// The title.
    pub title: &'static str,
    /// A description.
    pub what: &'static str,
    /// Clients.
    pub clients: u64,
    /// Clients that share a topic; 0: all.
    pub group: u64,
    /// Seconds between two messages to one client.
    pub every_s: f64,
    /// Bytes of a message.
    pub size: usize,
    /// Publications have their producers' numbers and are repeated until they are acknowledged;
    /// every stream is audited.
    pub is_once: bool,
    /// Over TLS.
    pub has_tls: bool,
    /// The published figures.
    pub published: Option<Published>,
}

/// Published figures; those that were not published are missing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The server of the figures.
    pub of: &'static str,
    /// The hardware of the figures.
    pub machine: Option<&'static str>,
    /// Clients.
    pub clients: u64,
    /// Messages delivered per second.
    pub rate: f64,
    /// Mean latency in milliseconds.
    pub mean_ms: Option<f64>,
    /// Median in milliseconds.
    pub p50_ms: Option<f64>,
    /// 95th percentile in milliseconds.
    pub p95_ms: Option<f64>,
    /// 99th percentile in milliseconds.
    pub p99_ms: Option<f64>,
    /// The percentiles come from a sample of 100 clients, not from all messages.
    pub are_sampled: bool,
    /// Greatest latency in milliseconds.
    pub max_ms: Option<f64>,
    /// CPU of the whole machine in percent, an upper bound.
    pub cpu_percent_max: Option<f64>,
    /// User-space bytes per connection.
    pub user_bytes: Option<f64>,
    /// Kernel bytes per connection.
    pub kernel_bytes: Option<f64>,
    /// Notes for the comparison.
    pub note: Option<&'static str>,
}

const SERVER: &str = "MigratoryData Server";

/// Figures of clients and rate only.
const fn published(clients: u64, rate: f64) -> Published {
    Published {
        of: SERVER,
        machine: None,
        clients,
        rate,
        mean_ms: None,
        p50_ms: None,
        p95_ms: None,
        p99_ms: None,
        are_sampled: false,
        max_ms: None,
        cpu_percent_max: None,
        user_bytes: None,
        kernel_bytes: None,
        note: None,
    }
}

impl Name {
    /// The name on the command line.
    pub fn text(self) -> &'static str {
        match self {
            Name::C10m => "c10m",
            Name::C12m => "c12m",
            Name::OneMillion => "one-million",
            Name::Factory => "factory",
            Name::Echo100k => "echo-100k",
            Name::Storm => "storm",
            Name::FanOut => "fan-out",
            Name::Unicast => "unicast",
            Name::Connect => "connect",
        }
    }

    /// The definition of this workload.
    pub fn workload(self) -> Workload {
        let base = Workload {
            name: self,
            title: "",
            what: "",
            clients: 0,
            group: 1,
            every_s: 60.0,
            size: 512,
            is_once: false,
            has_tls: false,
            published: None,
        };
        match self {
            Name::C10m | Name::C12m | Name::OneMillion | Name::Factory => self.published(base),
            Name::Echo100k => Workload {
                title: "A hundred thousand echoes",
                what: "Every client sends a text message to the WebSocket echo every 30 s and waits for its return.",
                clients: 100_000,
                every_s: 30.0,
                size: 64,
                ..base
            },
            Name::Storm => Workload {
                title: "Storm",
                what: "All clients lose their connection at once, miss messages, and reconnect at once; 100 clients share a topic. Publications are acknowledged and stored exactly once; every stream is audited.",
                clients: 200_000,
                group: 100,
                every_s: 10.0,
                is_once: true,
                ..base
            },
            Name::FanOut => Workload {
                title: "Fan-out",
                what: "All clients share one topic.",
                clients: 10_000,
                group: 0,
                every_s: 0.2,
                ..base
            },
            Name::Unicast => Workload {
                title: "Unicast",
                what: "Every client has its own topic; messages go to random topics.",
                clients: 10_000,
                every_s: 1.0,
                ..base
            },
            Name::Connect => Workload {
                title: "Connections",
                what: "Connections at the highest rate: upgrade, subscription to one topic, and its answer.",
                clients: 100_000,
                ..base
            },
        }
    }

    /// A workload with published figures.
    fn published(self, base: Workload) -> Workload {
        match self {
            Name::C10m => Workload {
                title: "Ten million clients",
                what: "Every client has its own topic and receives one message of 512 bytes per minute.",
                clients: 10_000_108,
                published: Some(Published {
                    machine: Some("12 cores, 96 GB"),
                    mean_ms: Some(61.0),
                    p50_ms: Some(18.0),
                    p95_ms: Some(374.0),
                    p99_ms: Some(585.0),
                    are_sampled: true,
                    max_ms: Some(1_700.0),
                    cpu_percent_max: Some(50.0),
                    user_bytes: Some(5_400.0),
                    kernel_bytes: Some(3_200.0),
                    note: Some(
                        "Published mean and maximum are over all messages, percentiles are those of a sample of 100 clients: Crore's percentiles of such a sample are beside them, and those of all messages above.",
                    ),
                    ..published(10_000_108, 168_000.0)
                }),
                ..base
            },
            Name::C12m => Workload {
                title: "Twelve million clients",
                what: "Every client has its own topic and receives one message of 512 bytes per minute.",
                clients: 12_000_000,
                published: Some(published(12_000_000, 200_000.0)),
                ..base
            },
            Name::OneMillion => Workload {
                title: "A million messages per second",
                what: "100 clients share a topic; every client receives one message per second.",
                clients: 1_000_000,
                group: 100,
                every_s: 1.0,
                published: Some(Published {
                    machine: Some("36 vCPU"),
                    mean_ms: Some(4.1),
                    p99_ms: Some(44.0),
                    max_ms: Some(208.0),
                    ..published(1_000_000, 1_000_000.0)
                }),
                ..base
            },
            Name::Factory => Workload {
                title: "Factory floor",
                what: "20 clients share a topic; every client receives one message of 500 bytes per second over TLS. Publications are acknowledged, repeated after a loss, and stored exactly once; every stream is audited.",
                clients: 120_000,
                group: 20,
                every_s: 1.0,
                size: 500,
                is_once: true,
                has_tls: true,
                published: Some(Published {
                    mean_ms: Some(3.8),
                    max_ms: Some(227.0),
                    ..published(120_000, 120_000.0)
                }),
                ..base
            },
            _ => base,
        }
    }
}

/// A workload at the size of this run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Size {
    /// Clients, a multiple of the group.
    pub clients: u64,
    /// Topics.
    pub topics: u64,
    /// Clients that share a topic.
    pub group: u64,
    /// Publications (or pings) per second.
    pub rate: f64,
    /// Deliveries per second.
    pub deliveries_rate: f64,
}

impl Workload {
    /// The workload for about this number of clients, at a rate that scales along or at the given
    /// one.
    pub fn size(&self, clients: u64, rate: Option<f64>) -> Size {
        let clients = clients.max(1);
        let group = match self.group {
            0 => clients,
            group => group.min(clients),
        };
        let topics = clients / group;
        let clients = topics * group;
        let rate = rate.unwrap_or(topics as f64 / self.every_s);
        let rate = if self.name == Name::Connect { 0.0 } else { rate };
        Size { clients, topics, group, rate, deliveries_rate: rate * group as f64 }
    }

    /// The topics of a run, as a pattern.
    pub fn topics(&self, size: &Size) -> String {
        format!("{}/{{00000001..{:08}}}", self.name.text(), size.topics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use clap::ValueEnum;

    #[test]
    fn names_are_typed_as_they_are_shown() {
        for name in Name::value_variants() {
            let typed = name.to_possible_value().unwrap();
            assert_eq!(typed.get_name(), name.text());
            assert_eq!(serde_json::to_value(name).unwrap(), name.text());
            assert_eq!(name.workload().name, *name);
        }
    }

    #[test]
    fn sizes_keep_groups_whole() {
        let check = |name: Name, clients, rate, expected: (u64, u64, u64, f64, f64)| {
            let size = name.workload().size(clients, rate);
            let told = (size.clients, size.topics, size.group, size.rate, size.deliveries_rate);
            assert_eq!(told, expected, "{name:?} {clients}");
        };
        check(Name::C10m, 600, None, (600, 600, 1, 10.0, 10.0));
        check(Name::OneMillion, 1_050, None, (1_000, 10, 100, 10.0, 1_000.0));
        check(Name::Factory, 7, None, (7, 1, 7, 1.0, 7.0));
        check(Name::FanOut, 50, None, (50, 1, 50, 5.0, 250.0));
        check(Name::Unicast, 50, Some(99.0), (50, 50, 1, 99.0, 99.0));
        check(Name::Connect, 50, None, (50, 50, 1, 0.0, 0.0));
        check(Name::C10m, 0, None, (1, 1, 1, 1.0 / 60.0, 1.0 / 60.0));
    }

    #[test]
    fn topics_are_as_many_as_planned() {
        let workload = Name::OneMillion.workload();
        let size = workload.size(1_000, None);
        let topics: Pattern = workload.topics(&size).parse().unwrap();
        assert_eq!((topics.len(), topics.get(9)), (10, "one-million/00000010".into()));
    }
}
