//! A record, or an event about a partition, lent by librdkafka for the time of a call.

use crate::client::{code_text, text_of};
use rdkafka_sys as sys;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

/// A record of a partition, or the error or end of one.
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    raw: NonNull<sys::rd_kafka_message_t>,
    lent: PhantomData<&'a [u8]>,
}

/// The time of a record, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timestamp {
    /// The producer's clock.
    Producer(u64),
    /// The broker's clock, when it appended the record.
    Broker(u64),
    /// The record has none.
    None,
}

impl<'a> MessageRef<'a> {
    /// # Safety
    /// `raw` is valid during the lifetime `'a`.
    pub(crate) unsafe fn new(raw: NonNull<sys::rd_kafka_message_t>) -> MessageRef<'a> {
        MessageRef { raw, lent: PhantomData }
    }

    /// The error; 0 for a record. See [`crate::code`].
    pub fn code(self) -> i32 {
        // SAFETY: the message is valid. The field is read as a number, whatever its value is.
        unsafe { ptr::addr_of!((*self.raw.as_ptr()).err).cast::<i32>().read() }
    }

    /// A sentence about the error.
    pub fn error_text(self) -> String {
        // SAFETY: the message is valid; of errors, librdkafka returns the payload, which ends with
        // a zero.
        let text = unsafe { text_of(sys::rd_kafka_message_errstr(self.raw.as_ptr())) };
        if text.is_empty() { code_text(self.code()) } else { text }
    }

    /// The partition's number in its topic.
    pub fn partition(self) -> i32 {
        // SAFETY: the message is valid.
        unsafe { (*self.raw.as_ptr()).partition }
    }

    /// The name of the topic.
    pub fn topic(self) -> &'a [u8] {
        // SAFETY: a message refers to its topic, whose name lives as long.
        unsafe {
            let topic = (*self.raw.as_ptr()).rkt;
            if topic.is_null() {
                return &[];
            }
            CStr::from_ptr(sys::rd_kafka_topic_name(topic)).to_bytes()
        }
    }

    /// The offset of a record, or that of a partition's end.
    pub fn offset(self) -> i64 {
        // SAFETY: the message is valid.
        unsafe { (*self.raw.as_ptr()).offset }
    }

    /// The leader epoch in which the record was appended; none with old formats.
    pub fn leader_epoch(self) -> Option<u32> {
        // SAFETY: the message is valid.
        let epoch = unsafe { sys::rd_kafka_message_leader_epoch(self.raw.as_ptr()) };
        u32::try_from(epoch).ok()
    }

    /// The key; none if the record has none.
    pub fn key(self) -> Option<&'a [u8]> {
        let message = self.raw.as_ptr();
        // SAFETY: librdkafka gives the bytes with their length.
        unsafe { bytes((*message).key, (*message).key_len) }
    }

    /// The value; none if the record has none.
    pub fn value(self) -> Option<&'a [u8]> {
        let message = self.raw.as_ptr();
        // SAFETY: as for the key.
        unsafe { bytes((*message).payload, (*message).len) }
    }

    /// The time of the record.
    pub fn timestamp(self) -> Timestamp {
        use sys::rd_kafka_timestamp_type_t as Type;
        let mut kind = Type::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is valid, and librdkafka stores one of its own three kinds.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.raw.as_ptr(), &raw mut kind) };
        let time = u64::try_from(time).unwrap_or(0);
        match kind {
            Type::RD_KAFKA_TIMESTAMP_CREATE_TIME => Timestamp::Producer(time),
            Type::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Timestamp::Broker(time),
            Type::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => Timestamp::None,
        }
    }

    /// Calls `visit` with each header's name and value, in their order.
    pub fn headers(self, mut visit: impl FnMut(&'a [u8], &'a [u8])) {
        let mut headers = ptr::null_mut();
        // SAFETY: the headers belong to the message; name and value live as long.
        unsafe {
            if message_headers(self.raw.as_ptr(), &raw mut headers) != 0 {
                return;
            }
            for index in 0.. {
                let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
                let code =
                    header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut size);
                if code != 0 {
                    return;
                }
                visit(CStr::from_ptr(name).to_bytes(), bytes(value, size).unwrap_or_default());
            }
        }
    }

    /// The note that the client gave the record when it sent it.
    pub(crate) fn note(self) -> u64 {
        // SAFETY: the message is valid.
        unsafe { (*self.raw.as_ptr())._private as u64 }
    }

    pub(crate) fn raw(self) -> *const sys::rd_kafka_message_t {
        self.raw.as_ptr()
    }
}

/// # Safety
/// `start` is null, or points to `size` bytes that live during `'a`.
unsafe fn bytes<'a>(start: *const c_void, size: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), size) })
}

unsafe extern "C" {
    #[link_name = "rd_kafka_message_headers"]
    fn message_headers(
        message: *const sys::rd_kafka_message_t,
        headers: *mut *mut sys::rd_kafka_headers_t,
    ) -> i32;
    #[link_name = "rd_kafka_header_get_all"]
    fn header_get_all(
        headers: *const sys::rd_kafka_headers_t,
        index: usize,
        name: *mut *const c_char,
        value: *mut *const c_void,
        size: *mut usize,
    ) -> i32;
}
