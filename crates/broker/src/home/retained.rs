//! Retained messages of the topics that a filter covers, page by page.
//!
//! Beside the path. A page examines a bounded number of retained messages, so that a filter that
//! covers few of very many does not hold up a turn; an empty page may have a next one.
//!
//! A message that is replaced between two pages may be missing from both, or be in both: the
//! subscription exists by then, so that the stream brings the new one.

use super::Home;
use super::work::Step;
use crate::mail::{FindRetained, RetainedFound, ToEdge};
use crate::topic::Filter;
use log::RecordView;
use stdx::chunk::Slice;

/// Retained messages that one page examines.
const EXAMINED_MAX: u32 = 4_096;
/// The cost of examining one, in bytes of a page.
const EXAMINED_BYTES: usize = 64;

impl Home {
    /// A page of retained messages.
    pub(super) fn find_retained(&mut self, asked: &FindRetained) -> Step {
        let mut found =
            RetainedFound { subscription: asked.subscription, records: Vec::new(), next: None };
        let filter = std::str::from_utf8(&asked.filter).ok();
        let Some(filter) = filter.and_then(|text| Filter::parse(text).ok()) else {
            return Step::Done(ToEdge::RetainedFound(found));
        };
        if filter.is_plain() {
            found.records.extend(self.retained_of(filter.as_str()));
            return Step::Done(ToEdge::RetainedFound(found));
        }
        let (mut examined, mut bytes) = (0, 0);
        for place in asked.from..self.retained.places() {
            let is_full = found.records.len() >= asked.limits.records_max as usize
                || bytes >= asked.limits.bytes_max as usize;
            if is_full || examined >= EXAMINED_MAX {
                found.next = Some(place);
                break;
            }
            examined += 1;
            let Some(record) = self.retained.get(place) else {
                continue;
            };
            let topic = RecordView::parse(record).map_or(0, |view| view.topic());
            let name = self.interests.topics.name(topic);
            if std::str::from_utf8(name).is_ok_and(|name| filter.matches(name)) {
                bytes += record.len();
                found.records.push((Slice::copy_of(name), record.clone()));
            }
        }
        self.queue.charge_bytes(bytes + examined as usize * EXAMINED_BYTES);
        Step::Done(ToEdge::RetainedFound(found))
    }

    /// The retained message of a topic, with the topic's name.
    fn retained_of(&self, name: &str) -> Option<(Slice, Slice)> {
        let (_, partition) = self.settings.locate(name);
        let local = self.local(partition)?;
        let topic = self.interests.topics.find(name.as_bytes(), local)?;
        let record = self.retained.get(self.interests.topics.get(topic)?.retained)?;
        Some((Slice::copy_of(name.as_bytes()), record.clone()))
    }
}
