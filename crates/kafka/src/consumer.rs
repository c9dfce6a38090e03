//! Records from the cluster, and questions about offsets.

use crate::client::{Client, Error, c_string, owned_error, text_of};
use crate::queue::{Queue, lent};
use rdkafka_sys as sys;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// A place in a partition.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The topic's name.
    pub topic: &'a CStr,
    /// The partition's number in the topic.
    pub partition: i32,
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the record before. With it, librdkafka asks the leader whether its log
    /// still holds that record.
    pub leader_epoch: Option<u32>,
}

/// The offset that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetQuery {
    /// The first offset of the log.
    Earliest,
    /// The offset behind the last record that readers may see.
    Latest,
    /// The first offset with this time or a later one, in milliseconds since 1970.
    From(u64),
}

/// The answer for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedOffset {
    /// The topic's name.
    pub topic: String,
    /// The partition's number in the topic.
    pub partition: i32,
    /// The offset, with the leader epoch of its record; None if no record is as late. The error has
    /// no text.
    pub offset: Result<Option<(u64, Option<u32>)>, Error>,
}

impl Client {
    /// The messages of this partition go into `queue`, also those after later assignments.
    pub fn forward(&self, topic: &CStr, partition: i32, queue: &Queue) {
        // SAFETY: the client is valid; the reference to the partition's queue is dropped here.
        unsafe {
            let own = sys::rd_kafka_queue_get_partition(self.raw(), topic.as_ptr(), partition);
            if !own.is_null() {
                sys::rd_kafka_queue_forward(own, queue.raw());
                sys::rd_kafka_queue_destroy(own);
            }
        }
    }

    /// Reads exactly these partitions, each from its place.
    ///
    /// # Errors
    /// The client has no group, or is at its end.
    pub fn assign(&self, places: &[Place<'_>]) -> Result<(), Error> {
        let list = List::of(places);
        // SAFETY: client and list are valid.
        let code = unsafe { assign(self.raw(), list.0) };
        if code == 0 {
            return Ok(());
        }
        Err(Error { code, text: crate::client::code_text(code) })
    }

    /// Continues each partition at the given place. If the place has an epoch, the leader examines
    /// it.
    ///
    /// # Errors
    /// The first partition that refuses, for instance because its reading has not begun.
    pub fn seek(&self, places: &[Place<'_>], timeout_ms: i32) -> Result<(), Error> {
        let list = List::of(places);
        // SAFETY: client and list are valid; the error is ours.
        unsafe {
            owned_error(sys::rd_kafka_seek_partitions(self.raw(), list.0, timeout_ms))?;
            for element in list.elements() {
                let code = ptr::addr_of!((*element).err).cast::<i32>().read();
                if code != 0 {
                    return Err(Error { code, text: crate::client::code_text(code) });
                }
            }
        }
        Ok(())
    }

    /// The end of a partition as the last fetch told it, with records of open transactions. None
    /// before the first fetch.
    pub fn fetched_end(&self, topic: &CStr, partition: i32) -> Option<u64> {
        let (mut first, mut end) = (0, 0);
        // SAFETY: client and name are valid; librdkafka stores two numbers.
        let code = unsafe {
            get_watermark_offsets(
                self.raw(),
                topic.as_ptr(),
                partition,
                &raw mut first,
                &raw mut end,
            )
        };
        u64::try_from(end).ok().filter(|_| code == 0)
    }

    /// Asks for an offset in each partition, as readers of committed records see it. The answer
    /// is an [`crate::Event::Offsets`] in `queue` with this note.
    pub fn list_offsets(
        &self,
        partitions: &[(&CStr, i32, OffsetQuery)],
        timeout_ms: i32,
        note: u64,
        queue: &Queue,
    ) {
        use sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED;
        use sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS;
        let place = |&(topic, partition, query): &(_, _, OffsetQuery)| Place {
            topic,
            partition,
            offset: match query {
                OffsetQuery::Earliest => -2,
                OffsetQuery::Latest => -1,
                OffsetQuery::From(time) => time.cast_signed(),
            },
            leader_epoch: None,
        };
        let places: Vec<Place<'_>> = partitions.iter().map(place).collect();
        let list = List::of(&places);
        let options = self.options(RD_KAFKA_ADMIN_OP_LISTOFFSETS, timeout_ms, note);
        // SAFETY: all are valid; librdkafka copies the list and the options.
        unsafe {
            let level = RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED;
            drop(owned_error(sys::rd_kafka_AdminOptions_set_isolation_level(options.0, level)));
            sys::rd_kafka_ListOffsets(self.raw(), list.0, options.0, queue.raw());
        }
    }
}

impl ListedOffset {
    /// # Safety
    /// `event` is the result of ListOffsets.
    pub(crate) unsafe fn all(event: *mut sys::rd_kafka_event_t) -> Vec<ListedOffset> {
        // SAFETY: the caller's promise; all that is lent lives as long as the event.
        unsafe {
            let result = sys::rd_kafka_event_ListOffsets_result(event);
            let mut count = 0;
            let infos = sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
            let infos = lent(infos.cast_const(), count).iter();
            infos.map(|info| ListedOffset::of(*info)).collect()
        }
    }

    /// # Safety
    /// `info` is valid.
    unsafe fn of(info: *const sys::rd_kafka_ListOffsetsResultInfo_t) -> ListedOffset {
        // SAFETY: the caller's promise.
        unsafe {
            let partition = sys::rd_kafka_ListOffsetsResultInfo_topic_partition(info);
            let code = ptr::addr_of!((*partition).err).cast::<i32>().read();
            let offset = (*partition).offset;
            let epoch = sys::rd_kafka_topic_partition_get_leader_epoch(partition);
            let offset = if code != 0 {
                Err(Error { code, text: crate::client::code_text(code) })
            } else {
                // -1: there is none.
                Ok(u64::try_from(offset).ok().map(|offset| (offset, u32::try_from(epoch).ok())))
            };
            let topic = text_of((*partition).topic);
            ListedOffset { topic, partition: (*partition).partition, offset }
        }
    }
}

/// A list of partitions that we own.
struct List(*mut sys::rd_kafka_topic_partition_list_t);

impl List {
    fn of(places: &[Place<'_>]) -> List {
        let size = c_int::try_from(places.len()).unwrap_or(c_int::MAX);
        // SAFETY: the list is ours, and librdkafka copies the topic.
        unsafe {
            let list = sys::rd_kafka_topic_partition_list_new(size);
            for place in places {
                let topic: *const c_char = place.topic.as_ptr();
                let element = sys::rd_kafka_topic_partition_list_add(list, topic, place.partition);
                (*element).offset = place.offset;
                if let Some(epoch) = place.leader_epoch.and_then(|epoch| epoch.try_into().ok()) {
                    sys::rd_kafka_topic_partition_set_leader_epoch(element, epoch);
                }
            }
            List(list)
        }
    }

    /// Pointers to the elements.
    fn elements(&self) -> Vec<*const sys::rd_kafka_topic_partition_t> {
        // SAFETY: the list is valid, and has so many elements.
        unsafe {
            let count = usize::try_from((*self.0).cnt).unwrap_or(0);
            (0..count).map(|index| (*self.0).elems.add(index).cast_const()).collect()
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list is ours.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.0) };
    }
}

/// Options of a question, which we own.
pub(crate) struct Options(pub(crate) *mut sys::rd_kafka_AdminOptions_t);

impl Client {
    pub(crate) fn options(
        &self,
        operation: sys::rd_kafka_admin_op_t,
        timeout_ms: i32,
        note: u64,
    ) -> Options {
        let mut text = [0; 512];
        // SAFETY: the options are ours; librdkafka writes at most the buffer's length.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(self.raw(), operation);
            sys::rd_kafka_AdminOptions_set_request_timeout(
                options,
                timeout_ms,
                text.as_mut_ptr(),
                text.len(),
            );
            sys::rd_kafka_AdminOptions_set_opaque(options, note as *mut std::ffi::c_void);
            Options(options)
        }
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: the options are ours.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0) };
    }
}

/// Texts for librdkafka; those with a zero byte are left out.
pub(crate) fn c_strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<std::ffi::CString> {
    texts.into_iter().filter_map(|text| c_string(text).ok()).collect()
}

unsafe extern "C" {
    #[link_name = "rd_kafka_assign"]
    fn assign(
        client: *mut sys::rd_kafka_t,
        partitions: *const sys::rd_kafka_topic_partition_list_t,
    ) -> c_int;
    #[link_name = "rd_kafka_get_watermark_offsets"]
    fn get_watermark_offsets(
        client: *mut sys::rd_kafka_t,
        topic: *const c_char,
        partition: i32,
        first: *mut i64,
        end: *mut i64,
    ) -> c_int;
}
