//! Figures of the node on `$sys/node/NAME/statistics` and `$SYS/broker/...`, every `sys.interval`,
//! and for the charts of the operators' page.
//!
//! Place: beside the node, on a thread of its own: it asks as a scrape of `/metrics` does, and
//! publishes through a shard. Invariant: figures of the whole node only; nothing of a client or a
//! topic.

use crate::configuration::options::Sys;
use crate::mosquitto_figures::MosquittoFigures;
use crate::reload::Reloader;
use crate::statistics_history::StatisticsHistory;
use broker::sys::{OwnMessage, statistics_topic};
use node::{Node, NodeStatistics};
use serde_json::json;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// Time between two checks of the interval.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Publishes for as long as the node runs, whenever the configuration in force asks for it; and
/// takes samples for `history`, where there is one.
///
/// # Errors
/// The system refuses a thread.
pub fn spawn(
    node: &Arc<RwLock<Option<Node>>>,
    reloader: &Arc<Reloader>,
    history: Option<Arc<StatisticsHistory>>,
) -> io::Result<()> {
    let (node, reloader) = (Arc::clone(node), Arc::clone(reloader));
    let began = Instant::now();
    let work = move || {
        let mut published: Option<Instant> = None;
        let mut figures = MosquittoFigures::default();
        loop {
            std::thread::sleep(LOOK_EVERY);
            let Sys { statistics, mosquitto, interval, .. } = reloader.read();
            let is_due =
                published.is_none_or(|at| at.elapsed() >= interval) && (statistics || mosquitto);
            let now = Instant::now();
            let charted = history.as_ref().filter(|history| history.is_due(now));
            // The locks are taken in this order because a reload holds the configuration while it
            // waits for the node.
            let node = node.read().unwrap_or_else(PoisonError::into_inner);
            let Some(node) = &*node else {
                return;
            };
            if !mosquitto {
                figures.withdraw().into_iter().for_each(|message| node.publish_own(message));
            }
            if !is_due && charted.is_none() {
                continue;
            }
            let counters = node.statistics();
            if let Some(history) = charted {
                history.record(&counters, (now, SystemTime::now()));
            }
            if !is_due {
                continue;
            }
            published = Some(now);
            if statistics {
                let name = &node.settings().node_name;
                let text = described(name, began.elapsed(), &counters);
                let topic = statistics_topic(name);
                node.publish_own(OwnMessage::json(&topic, text.as_bytes()));
            }
            if mosquitto {
                let changed = figures.changed(began.elapsed(), &counters);
                changed.into_iter().for_each(|message| node.publish_own(message));
            }
        }
    };
    let thread = std::thread::Builder::new().name("statistics".into());
    thread.spawn(work).map(|_| ())
}

fn described(node: &str, uptime: Duration, statistics: &NodeStatistics) -> String {
    let NodeStatistics { edge, home, .. } = statistics;
    json!({
        "node": node,
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": uptime.as_secs(),
        "connections": edge.connections,
        "connections_max": statistics.connections_max,
        "native_sessions": edge.native_sessions,
        "json_sessions": edge.json_sessions,
        "mqtt_sessions": edge.mqtt_sessions,
        "event_streams": edge.event_streams,
        "subscriptions": edge.subscriptions,
        "topics": home.topics,
        "connections_accepted": edge.accepted,
        "connections_closed": edge.closed,
        "messages_published": home.published,
        "messages_delivered": edge.delivered,
        "bytes_received": edge.read_bytes,
        "bytes_sent": edge.written_bytes,
        "log_bytes": home.log_bytes,
        "gaps": edge.gaps,
        "slow_closed": edge.slow_closed,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_a_json_object() {
        let mut statistics = NodeStatistics::default();
        statistics.edge.connections = 7;
        let text = described("n\"1", Duration::from_millis(2_500), &statistics);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["node"], "n\"1");
        assert_eq!(value["connections"], 7);
        assert_eq!(value["uptime_s"], 2);
    }
}
