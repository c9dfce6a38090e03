//! The figures that Mosquitto has on `$SYS/broker/...`, for dashboards and programs that know them.
//!
//! Place: values in, messages out; `sys_statistics` publishes them. A message is published when its
//! figure has changed, and its topic retains it. What Crore counts differs in one way: messages are
//! publications and deliveries of all protocols, not every packet of MQTT.

use broker::sys::OwnMessage;
use node::NodeStatistics;
use std::collections::BTreeMap;
use std::time::Duration;

const ROOT: &str = "$SYS/broker/";
/// The times over which loads are averaged, in minutes, and the ends of their topics.
const WINDOWS: [(f64, &str); 3] = [(1.0, "1min"), (5.0, "5min"), (15.0, "15min")];

/// The figures as they were published last, and what they are computed from.
#[derive(Debug, Default)]
pub struct MosquittoFigures {
    published: BTreeMap<String, String>,
    loads: BTreeMap<&'static str, Load>,
    sampled: Option<Duration>,
    sessions_max: u64,
}

/// A counter and its rates, events per minute, averaged over each of [`WINDOWS`].
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    count: u64,
    rates: [f64; WINDOWS.len()],
}

impl Load {
    /// A number of minutes later. The weight of older rates falls as that of Unix's load.
    fn advance(&mut self, count: u64, minutes: f64) {
        let rate = count.saturating_sub(self.count) as f64 / minutes;
        self.count = count;
        for (average, (window, _)) in self.rates.iter_mut().zip(WINDOWS) {
            *average = rate + (-minutes / window).exp() * (*average - rate);
        }
    }
}

impl MosquittoFigures {
    /// Messages for the figures that have changed, this time after the start.
    pub fn changed(&mut self, uptime: Duration, statistics: &NodeStatistics) -> Vec<OwnMessage> {
        let mut figures = self.present(uptime, statistics);
        figures.extend(self.averaged(uptime, statistics));
        let mut messages = Vec::new();
        for (name, text) in figures {
            if self.published.get(&name) != Some(&text) {
                messages.push(OwnMessage::value(&format!("{ROOT}{name}"), &text));
                self.published.insert(name, text);
            }
        }
        messages
    }

    /// Messages that remove all figures.
    pub fn withdraw(&mut self) -> Vec<OwnMessage> {
        let last = std::mem::take(self);
        let names = last.published.into_keys();
        names.map(|name| OwnMessage::value(&format!("{ROOT}{name}"), "")).collect()
    }

    fn present(&mut self, uptime: Duration, statistics: &NodeStatistics) -> Vec<(String, String)> {
        let NodeStatistics { edge, home, .. } = statistics;
        let sessions =
            edge.mqtt_sessions + edge.native_sessions + edge.json_sessions + edge.event_streams;
        let sleeping = home.mqtt_sessions_sleeping;
        self.sessions_max = self.sessions_max.max(sessions);
        let counts = [
            ("clients/connected", sessions),
            ("clients/active", sessions),
            ("clients/disconnected", sleeping),
            ("clients/inactive", sleeping),
            ("clients/total", sessions + sleeping),
            ("clients/maximum", self.sessions_max),
            ("messages/received", edge.publishes),
            ("messages/sent", edge.delivered),
            ("publish/messages/received", edge.publishes),
            ("publish/messages/sent", edge.delivered),
            ("bytes/received", edge.read_bytes),
            ("bytes/sent", edge.written_bytes),
            ("messages/stored", home.records),
            ("store/messages/count", home.records),
            ("store/messages/bytes", home.log_bytes),
            ("retained messages/count", home.retained),
            ("subscriptions/count", edge.subscriptions),
        ];
        let texts = [
            ("version", concat!("crore version ", env!("CARGO_PKG_VERSION")).to_owned()),
            ("uptime", format!("{} seconds", uptime.as_secs())),
        ];
        let counts = counts.map(|(name, count)| (name.to_owned(), count.to_string()));
        let texts = texts.map(|(name, text)| (name.to_owned(), text));
        counts.into_iter().chain(texts).collect()
    }

    fn averaged(&mut self, uptime: Duration, statistics: &NodeStatistics) -> Vec<(String, String)> {
        let edge = &statistics.edge;
        let elapsed = uptime.saturating_sub(self.sampled.replace(uptime).unwrap_or_default());
        let minutes = elapsed.as_secs_f64().max(0.001) / 60.0;
        let counters = [
            ("connections", edge.accepted),
            ("sockets", edge.accepted),
            ("messages/received", edge.publishes),
            ("messages/sent", edge.delivered),
            ("publish/received", edge.publishes),
            ("publish/sent", edge.delivered),
            ("bytes/received", edge.read_bytes),
            ("bytes/sent", edge.written_bytes),
        ];
        let mut figures = Vec::new();
        for (name, count) in counters {
            let load = self.loads.entry(name).or_default();
            load.advance(count, minutes);
            let windows = load.rates.iter().zip(WINDOWS);
            figures.extend(
                windows
                    .map(|(rate, (_, end))| (format!("load/{name}/{end}"), format!("{rate:.2}"))),
            );
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(messages: &[OwnMessage], name: &str) -> Option<String> {
        let topic = format!("$SYS/broker/{name}");
        let found = messages.iter().find(|message| *message.topic == *topic)?;
        assert!(found.retain, "{name}");
        Some(String::from_utf8(found.payload.to_vec()).unwrap())
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_changed_figures_are_published() {
        let mut figures = MosquittoFigures::default();
        let mut statistics = NodeStatistics::default();
        statistics.edge.mqtt_sessions = 3;
        statistics.home.mqtt_sessions_sleeping = 4;
        let first = figures.changed(at(10), &statistics);
        assert_eq!(text(&first, "clients/connected").as_deref(), Some("3"));
        assert_eq!(text(&first, "clients/total").as_deref(), Some("7"));
        assert_eq!(text(&first, "uptime").as_deref(), Some("10 seconds"));
        assert_eq!(text(&first, "retained messages/count").as_deref(), Some("0"));
        statistics.edge.mqtt_sessions = 1;
        let second = figures.changed(at(20), &statistics);
        let topics: Vec<&str> = second.iter().map(|message| &*message.topic).collect();
        let expected = ["clients/connected", "clients/active", "clients/total", "uptime"];
        assert_eq!(topics, expected.map(|name| format!("$SYS/broker/{name}")));
        assert_eq!(figures.changed(at(20), &statistics), []);
    }

    #[test]
    fn withdrawn_figures_are_removed_once() {
        let mut figures = MosquittoFigures::default();
        let published = figures.changed(at(10), &NodeStatistics::default());
        let removed = figures.withdraw();
        assert_eq!(removed.len(), published.len());
        assert!(removed.iter().all(|message| message.payload.is_empty() && message.retain));
        assert_eq!(figures.withdraw(), []);
    }

    /// A steady rate is the average after some windows, whatever the interval.
    #[test]
    fn loads_approach_a_steady_rate() {
        for interval_s in [1, 10, 60] {
            let mut figures = MosquittoFigures::default();
            let mut statistics = NodeStatistics::default();
            let mut last = Vec::new();
            for step in 1..=(7_200 / interval_s) {
                statistics.edge.publishes += 2 * interval_s;
                let messages = figures.changed(at(step * interval_s), &statistics);
                if !messages.is_empty() {
                    last.push(messages);
                }
            }
            let newest = |name: &str| {
                let found = last.iter().rev().find_map(|messages| text(messages, name));
                found.unwrap().parse::<f64>().unwrap()
            };
            assert!((newest("load/messages/received/1min") - 120.0).abs() < 0.1);
            assert!((newest("load/messages/received/15min") - 120.0).abs() < 0.1);
        }
    }

    #[test]
    fn a_minute_of_silence_leaves_a_third_of_the_load() {
        let mut load = Load::default();
        load.advance(100, 1.0);
        let begun = load.rates[0];
        load.advance(100, 1.0);
        let ratio = load.rates[0] / begun;
        assert!((ratio - (-1.0f64).exp()).abs() < 1e-9, "{ratio}");
    }
}
