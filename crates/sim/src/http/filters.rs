//! Filters of an event stream: they share one cursor, a position for each partition.

use super::stream::{parts_of, skip_of};
use super::{HttpClient, REFUSED, hole_of, is_unavailable, position_of};
use crate::client::Context;
use crate::covering::Covering;
use crate::oracle::Source;
use broker::settings::LagPolicy;
use serde_json::Value;

/// The radix of the offsets in a cursor.
const RADIX: u32 = 36;

impl HttpClient {
    /// Resumes with the last event's id: later messages will be repeated.
    pub(super) fn resume_filters(&mut self, context: &mut Context<'_>) {
        let Some(covering) = &mut self.covering else {
            return;
        };
        for (partition, (epoch, offset)) in positions_of(context, &self.last_event_id) {
            covering.go_back(partition, epoch, offset);
        }
        covering.come_back(context.oracle, self.peer.instance);
        context.oracle.streams_resumed += 1;
    }

    /// Processes the id of the next events. False if the id is not permitted.
    pub(super) fn on_id(&mut self, context: &mut Context<'_>, id: &str) -> bool {
        let Some(covering) = self.covering.as_mut().filter(|_| self.last_event_id != id) else {
            return true;
        };
        // A refused filter has no part in the cursor.
        let (topics, _) = parts_of(id);
        let place = self.refused_at.filter(|_| !id.is_empty());
        let place = place.map(|place| self.runs.len() + place);
        if place.is_some_and(|place| topics.split(',').nth(place) != Some("!")) {
            let text = format!("id {id} has a place for a filter that was refused");
            context.oracle.fail(self.peer.id, text);
            return false;
        }
        for (partition, position) in positions_of(context, id) {
            let place = (partition, self.peer.instance);
            if let Err(text) = covering.on_settled(context.oracle, place, position) {
                let text = format!("filters of the stream, id {id}: {text}");
                context.oracle.fail(self.peer.id, text);
                return false;
            }
        }
        self.last_event_id = id.to_owned();
        true
    }

    /// Processes an event about filters. Returns whether the stream continues.
    pub(super) fn on_filter_event(
        &mut self,
        context: &mut Context<'_>,
        name: &str,
        value: &Value,
    ) -> Option<bool> {
        let covering = self.covering.as_mut()?;
        let plan = context.plan;
        let instance = self.peer.instance;
        let policy = covering.policy(plan, self.policy);
        let is_ours = |topic: &str| {
            let filters = &covering.filters;
            filters.iter().any(|filter| plan.filters[*filter] == topic)
        };
        let of_filter = value["topic"].as_str().is_some_and(is_ours);
        let partition = value["partition"].as_u64().map(|partition| partition as u32);
        let told_at = context.oracle.moment;
        if value["topic"] == REFUSED {
            if name == "crore.error" && value["code"] == "filter_too_wide" {
                context.oracle.filters_refused += 1;
                return Some(true);
            }
            let text = format!("{name} of a filter that is refused: {value}");
            context.oracle.fail(self.peer.id, text);
            return Some(false);
        }
        let result = match (name, partition) {
            ("message", _) => on_filter_message(covering, context, self.peer.source(), value)?,
            ("crore.gap", Some(partition)) => match hole_of(&value["gap"], told_at) {
                Some(hole) => covering.on_gap(context.oracle, (partition, instance), hole),
                None => Err("a gap without a range".into()),
            },
            ("crore.skipped", Some(partition)) => {
                let hole = skip_of(value, told_at);
                covering.on_skipped(context.oracle, (partition, instance), hole, policy)
            }
            ("crore.start", _) if of_filter => {
                if value["complete"] == true && covering.must_announce() {
                    Err("complete, and a gap is due".into())
                } else {
                    Ok(())
                }
            }
            ("crore.error", _) if of_filter && value["code"] == "slow_consumer" => match policy {
                LagPolicy::Disconnect => return Some(false),
                _ => Err(format!("slow_consumer: {policy:?}")),
            },
            ("crore.error", _)
                if of_filter && is_unavailable(value) && context.plan.disk.refuses_reads() =>
            {
                return Some(false); // it resumes with its present cursor
            }
            ("crore.error", _) if of_filter => Err(format!("refused: {value}")),
            _ => return None,
        };
        if let Err(text) = result {
            let text = format!("filters of the stream, {name}: {text}");
            context.oracle.fail(self.peer.id, text);
            return Some(false);
        }
        Some(true)
    }
}

/// The positions of a cursor for filters, by partition.
fn positions_of(context: &Context<'_>, cursor: &str) -> Vec<(u32, (u64, u64))> {
    let (_, Some(logs)) = parts_of(cursor) else {
        return Vec::new();
    };
    let mut positions = Vec::new();
    for (text, log) in logs.split('/').zip(&context.plan.settings.logs) {
        let Some((epoch, offsets)) = text.split_once(':') else {
            continue;
        };
        let number = |digits: &str| match digits {
            "" => 0,
            digits => u64::from_str_radix(digits, RADIX).unwrap_or(0),
        };
        let offsets = offsets.split('.').flat_map(|part| {
            // `~n` means n partitions without a record.
            let (count, offset) = match part.strip_prefix('~') {
                Some(count) => (number(count) as usize, 0),
                None => (1, number(part)),
            };
            std::iter::repeat_n(offset, count)
        });
        for (partition, offset) in (log.first_partition.0..).zip(offsets) {
            if let Ok(epoch) = epoch.parse() {
                positions.push((partition, (epoch, offset)));
            }
        }
    }
    positions
}

/// Processes a message of the filters' topics; None if it belongs to a topic of the stream.
fn on_filter_message(
    covering: &mut Covering,
    context: &mut Context<'_>,
    source: Source,
    value: &Value,
) -> Option<Result<(), String>> {
    let topic = context.plan.topic(value["topic"].as_str()?)?;
    if !covering.covers(context.plan, topic) {
        return None;
    }
    let (epoch, offset) = value["position"].as_str().and_then(position_of)?;
    let partition = context.plan.partition(topic);
    let payload = value["data"].as_str().unwrap_or_default();
    context.oracle.delivered(context.plan, source, topic, offset, None, payload.as_bytes());
    Some(if epoch == context.oracle.epoch(partition, source.instance) {
        covering.on_message(context.oracle, (partition, source.instance), topic, offset)
    } else {
        Err(format!("a message of epoch {epoch}"))
    })
}
