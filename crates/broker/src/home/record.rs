//! One record by its position: a message that a client of MQTT is sent again, because it has not
//! acknowledged it on the connection before.
//!
//! Beside the path. The record is the same for whatever subscription it was sent, so that none is
//! needed to find it (MQTT 5.0, section 4.4). Of a log on disk, memory is asked first.

use super::Home;
use super::read::offset_of;
use super::work::{Asking, Question, Step};
use crate::disk::DiskQuery;
use crate::mail::{Code, PageLimits, ReadRecord, RecordFound, ToEdge};
use crate::position::Standing;
use crate::sys;
use log::RecordView;
use stdx::chunk::Slice;

/// The filters that cover all topics whose messages are sent to clients.
const ALL: [&str; 3] = ["#", sys::FILTER, sys::MQTT_FILTER];

impl ReadRecord {
    /// The answer.
    pub(super) fn answer(self, result: Result<Option<(Slice, Slice)>, Code>) -> ToEdge {
        let ReadRecord { partition, position, connection } = self;
        ToEdge::RecordFound(RecordFound { connection, partition, offset: position.offset, result })
    }
}

impl Home {
    /// The record at a position, if the log still has it.
    pub(super) fn read_record(&mut self, asked: ReadRecord) -> Step {
        let Some(local) = self.local(asked.partition) else {
            return Step::Done(asked.answer(Ok(None)));
        };
        let partition = &self.partitions[local as usize];
        let offset = asked.position.offset;
        match partition.standing(asked.position) {
            Standing::After(at) if at == offset => {}
            // This node has not read the engine's log so far yet.
            Standing::BeyondHead if partition.engine.is_some() => {
                let code = Code::LogUnavailable;
                return Step::Refuse(asked.answer(Err(code)), code);
            }
            // A hole, or a life that the log has lost.
            Standing::After(_) | Standing::UnknownEpoch | Standing::BeyondHead => {
                return Step::Done(asked.answer(Ok(None)));
            }
        }
        self.statistics.pages_read += 1;
        if let Some(record) = partition.log.record_at(offset) {
            let topic = RecordView::parse(&record).map_or(0, |view| view.topic());
            let name = Slice::copy_of(self.interests.topics.name(topic));
            self.queue.charge_bytes(record.len());
            return Step::Done(asked.answer(Ok(Some((name, record)))));
        }
        if offset < partition.floor() || !partition.has_disk || offset >= partition.oldest() {
            return Step::Done(asked.answer(Ok(None)));
        }
        let query = DiskQuery::Scan {
            filters: ALL.map(|filter| Slice::copy_of(filter.as_bytes())).into(),
            after: offset - 1,
            through: offset,
            limits: PageLimits { records_max: 1, bytes_max: self.settings.limits.page_bytes },
            bytes_scanned_max: self.settings.limits.scan_bytes_max,
        };
        Step::Ask(Box::new(Asking { local, question: Question::Record(asked), query }))
    }

    /// The disk has read the record, or has it no more.
    pub(super) fn record_from_disk(
        &mut self,
        asked: ReadRecord,
        records: Vec<(Slice, Slice)>,
    ) -> Step {
        let is_it = |(_, record): &(Slice, Slice)| offset_of(record) == asked.position.offset;
        let found = records.into_iter().find(is_it);
        self.queue.charge_bytes(found.as_ref().map_or(0, |(_, record)| record.len()));
        Step::Done(asked.answer(Ok(found)))
    }
}
