//! Records to the cluster, and their fate.

use crate::client::{Client, Error, owned_error};
use crate::message::MessageRef;
use rdkafka_sys as sys;
use std::ffi::{CStr, c_void};
use std::ptr;

/// A record to send.
#[derive(Clone, Copy, Debug)]
pub struct Produce<'a> {
    /// The topic's name.
    pub topic: &'a CStr,
    /// The partition's number in the topic.
    pub partition: i32,
    /// The key.
    pub key: &'a [u8],
    /// The value; none marks the key as removed in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// Names and values of the headers.
    pub headers: &'a [(&'a CStr, &'a [u8])],
    /// Comes back in [`Delivery::note`].
    pub note: u64,
}

/// The fate of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// [`Produce::note`].
    pub note: u64,
    /// Whether the record is in the log.
    pub status: DeliveryStatus,
    /// See [`crate::code`]; 0 if the record is in the log.
    pub code: i32,
}

/// Whether a record is in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryStatus {
    /// The broker has appended it.
    Appended,
    /// It was sent, and the outcome is unknown.
    Unknown,
    /// It never was sent.
    NotSent,
}

impl Client {
    /// Takes a copy of a record, to send it. A [`Delivery`] follows in the main queue.
    ///
    /// # Errors
    /// The client has not taken the record; [`crate::code::QUEUE_FULL`] if it holds too many.
    pub fn produce(&self, record: &Produce<'_>) -> Result<(), Error> {
        use sys::rd_kafka_vtype_t as Type;
        type Value = sys::rd_kafka_vu_s__bindgen_ty_1;
        let memory = |bytes: &[u8]| Value {
            mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
                ptr: bytes.as_ptr().cast_mut().cast(),
                size: bytes.len(),
            },
        };
        let part = |vtype, u| sys::rd_kafka_vu_t { vtype, u };
        let mut parts = Vec::with_capacity(6 + record.headers.len());
        parts.push(part(Type::RD_KAFKA_VTYPE_TOPIC, Value { cstr: record.topic.as_ptr() }));
        parts.push(part(Type::RD_KAFKA_VTYPE_PARTITION, Value { i32_: record.partition }));
        parts.push(part(Type::RD_KAFKA_VTYPE_KEY, memory(record.key)));
        let none = Value {
            mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: ptr::null_mut(), size: 0 },
        };
        let value = record.value.map_or(none, memory);
        parts.push(part(Type::RD_KAFKA_VTYPE_VALUE, value));
        parts.push(part(Type::RD_KAFKA_VTYPE_MSGFLAGS, Value { i: COPY }));
        let note = record.note as *mut c_void;
        parts.push(part(Type::RD_KAFKA_VTYPE_OPAQUE, Value { ptr: note }));
        for (name, value) in record.headers {
            let header = sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_2 {
                name: name.as_ptr(),
                val: value.as_ptr().cast(),
                size: value.len().cast_signed(),
            };
            parts.push(part(Type::RD_KAFKA_VTYPE_HEADER, Value { header }));
        }
        // SAFETY: all pointers live during the call, which copies what they point to.
        unsafe { owned_error(sys::rd_kafka_produceva(self.raw(), parts.as_ptr(), parts.len())) }
    }

    /// Gives up all records that have no answer. Their deliveries follow.
    pub fn give_up(&self) {
        // SAFETY: the client is valid.
        unsafe { sys::rd_kafka_purge(self.raw(), PURGE_QUEUE | PURGE_IN_FLIGHT) };
    }

    /// The number of records without a delivery, and of events that wait.
    pub fn unanswered(&self) -> usize {
        // SAFETY: the client is valid.
        usize::try_from(unsafe { sys::rd_kafka_outq_len(self.raw()) }).unwrap_or(0)
    }
}

impl Delivery {
    pub(crate) fn of(message: MessageRef<'_>) -> Delivery {
        use sys::rd_kafka_msg_status_t as Status;
        // SAFETY: the message is valid, and librdkafka returns one of its own three values.
        let status = match unsafe { sys::rd_kafka_message_status(message.raw()) } {
            Status::RD_KAFKA_MSG_STATUS_PERSISTED => DeliveryStatus::Appended,
            Status::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => DeliveryStatus::Unknown,
            Status::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => DeliveryStatus::NotSent,
        };
        Delivery { note: message.note(), status, code: message.code() }
    }
}

/// `RD_KAFKA_MSG_F_COPY`.
const COPY: i32 = 2;
/// `RD_KAFKA_PURGE_F_QUEUE`.
const PURGE_QUEUE: i32 = 1;
/// `RD_KAFKA_PURGE_F_INFLIGHT`.
const PURGE_IN_FLIGHT: i32 = 2;
