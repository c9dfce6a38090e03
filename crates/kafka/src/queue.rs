//! Queues of a client: what its threads have for us.

use crate::admin::{ClusterDescription, TopicDescription, TopicResult};
use crate::client::{Client, Error, code_text, text_of};
use crate::consumer::ListedOffset;
use crate::message::MessageRef;
use crate::producer::Delivery;
use rdkafka_sys as sys;
use std::ffi::c_int;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;

/// A queue. It keeps its client alive.
pub struct Queue {
    // First, so that it goes before the client.
    raw: Owned,
    client: Client,
}

struct Owned(NonNull<sys::rd_kafka_queue_t>);

// SAFETY: queues may be used by any thread.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: this is the owner's reference.
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Queue")
    }
}

/// An event, copied out of librdkafka.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The fate of records that were sent.
    Deliveries(Vec<Delivery>),
    /// An error of the client or of a broker.
    Error {
        /// See [`crate::code`], and a sentence.
        error: Error,
        /// Whether the client is of no use any more.
        is_fatal: bool,
    },
    /// A line for the log.
    Line {
        /// The severity, as syslog numbers it: 3 is an error, 4 a warning.
        level: i32,
        /// The line.
        text: String,
    },
    /// The client needs a token for OAUTHBEARER.
    TokenWanted,
    /// The answer to [`Client::describe_topics`].
    Topics {
        /// The question's note.
        note: u64,
        /// A description or an error for each topic; or the failure of the question.
        answer: Result<Vec<TopicDescription>, Error>,
    },
    /// The answer to [`Client::list_offsets`].
    Offsets {
        /// The question's note.
        note: u64,
        /// An offset or an error for each partition; or the failure of the question.
        answer: Result<Vec<ListedOffset>, Error>,
    },
    /// The answer to [`Client::describe_cluster`].
    Cluster(Result<ClusterDescription, Error>),
    /// The answer to [`Client::create_topics`]: a result for each.
    TopicResults(Result<Vec<TopicResult>, Error>),
    /// The answer to [`Client::describe_topic_options`].
    TopicOptions {
        /// The question's note.
        note: u64,
        /// Names and values; or the failure of the question.
        answer: Result<Vec<(String, String)>, Error>,
    },
    /// Anything else.
    Other,
}

impl Client {
    /// The queue of deliveries, errors, log lines, and wishes for tokens.
    pub fn main_queue(&self) -> Queue {
        // SAFETY: the client is valid; the caller owns the reference.
        self.queue(unsafe { sys::rd_kafka_queue_get_main(self.raw()) })
    }

    /// The queue of a consumer's own events.
    pub fn consumer_queue(&self) -> Queue {
        // SAFETY: as above.
        self.queue(unsafe { sys::rd_kafka_queue_get_consumer(self.raw()) })
    }

    /// A new queue.
    pub fn new_queue(&self) -> Queue {
        // SAFETY: as above.
        self.queue(unsafe { sys::rd_kafka_queue_new(self.raw()) })
    }

    pub(crate) fn queue(&self, raw: *mut sys::rd_kafka_queue_t) -> Queue {
        #[expect(clippy::expect_used, reason = "librdkafka ends the process without memory")]
        let raw = NonNull::new(raw).expect("a queue");
        Queue { raw: Owned(raw), client: self.clone() }
    }
}

impl Queue {
    /// Whenever something arrives in the empty queue, librdkafka writes a 1 into this eventfd. The
    /// descriptor must stay open as long as the queue exists.
    pub fn wake(&self, event: BorrowedFd<'_>) {
        let one: u64 = 1;
        // SAFETY: librdkafka copies the payload.
        unsafe {
            sys::rd_kafka_queue_io_event_enable(
                self.raw(),
                event.as_raw_fd(),
                (&raw const one).cast(),
                size_of::<u64>(),
            );
        }
    }

    /// The next event; none if none arrives within the timeout.
    pub fn poll(&self, timeout_ms: i32) -> Option<Event> {
        // SAFETY: the queue is valid; the event is ours until it is destroyed below.
        unsafe {
            let event = NonNull::new(sys::rd_kafka_queue_poll(self.raw(), timeout_ms))?;
            let copied = copy(event.as_ptr());
            sys::rd_kafka_event_destroy(event.as_ptr());
            Some(copied)
        }
    }

    /// Lends each message that waits in the queue, at most `max`, and returns their number. For
    /// queues of partitions.
    pub fn consume(&self, max: usize, mut take: impl FnMut(MessageRef<'_>)) -> usize {
        let mut messages: [*mut sys::rd_kafka_message_t; BATCH_MAX] = [ptr::null_mut(); BATCH_MAX];
        // SAFETY: librdkafka stores at most so many pointers. Each message is ours until it is
        // destroyed, and lent no longer.
        unsafe {
            let count = sys::rd_kafka_consume_batch_queue(
                self.raw(),
                0,
                messages.as_mut_ptr(),
                max.min(BATCH_MAX),
            );
            let count = usize::try_from(count).unwrap_or(0);
            for message in messages.iter().take(count).filter_map(|raw| NonNull::new(*raw)) {
                take(MessageRef::new(message));
                sys::rd_kafka_message_destroy(message.as_ptr());
            }
            count
        }
    }

    /// The number of messages and events in the queue.
    pub fn length(&self) -> usize {
        // SAFETY: the queue is valid.
        unsafe { sys::rd_kafka_queue_length(self.raw()) }
    }

    /// The queue's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn raw(&self) -> *mut sys::rd_kafka_queue_t {
        self.raw.0.as_ptr()
    }
}

/// Messages taken at once.
const BATCH_MAX: usize = 512;

/// # Safety
/// `event` is valid.
unsafe fn copy(event: *mut sys::rd_kafka_event_t) -> Event {
    // SAFETY: each accessor is called for the kind of event that has it.
    unsafe {
        match sys::rd_kafka_event_type(event) {
            sys::RD_KAFKA_EVENT_DR => Event::Deliveries(deliveries(event)),
            sys::RD_KAFKA_EVENT_ERROR => Event::Error {
                error: failure(event).err().unwrap_or_else(unnamed),
                is_fatal: sys::rd_kafka_event_error_is_fatal(event) != 0,
            },
            sys::RD_KAFKA_EVENT_LOG => line(event),
            sys::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH => Event::TokenWanted,
            sys::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT => Event::Topics {
                note: sys::rd_kafka_event_opaque(event) as u64,
                answer: failure(event).map(|()| TopicDescription::all(event)),
            },
            sys::RD_KAFKA_EVENT_LISTOFFSETS_RESULT => Event::Offsets {
                note: sys::rd_kafka_event_opaque(event) as u64,
                answer: failure(event).map(|()| ListedOffset::all(event)),
            },
            sys::RD_KAFKA_EVENT_DESCRIBECLUSTER_RESULT => {
                Event::Cluster(failure(event).map(|()| ClusterDescription::of(event)))
            }
            sys::RD_KAFKA_EVENT_CREATETOPICS_RESULT => {
                Event::TopicResults(failure(event).map(|()| crate::admin::created(event)))
            }
            sys::RD_KAFKA_EVENT_DELETETOPICS_RESULT => {
                Event::TopicResults(failure(event).map(|()| crate::admin::deleted(event)))
            }
            sys::RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT => {
                let answer = failure(event).and_then(|()| crate::admin::options(event));
                Event::TopicOptions { note: sys::rd_kafka_event_opaque(event) as u64, answer }
            }
            _ => Event::Other,
        }
    }
}

/// # Safety
/// `event` holds deliveries.
unsafe fn deliveries(event: *mut sys::rd_kafka_event_t) -> Vec<Delivery> {
    // SAFETY: the caller's promise; the messages live as long as the event.
    unsafe {
        let mut deliveries = Vec::with_capacity(sys::rd_kafka_event_message_count(event));
        while let Some(message) = NonNull::new(sys::rd_kafka_event_message_next(event).cast_mut()) {
            deliveries.push(Delivery::of(MessageRef::new(message)));
        }
        deliveries
    }
}

/// # Safety
/// `event` is a line of the log.
unsafe fn line(event: *mut sys::rd_kafka_event_t) -> Event {
    let (mut facility, mut text, mut level) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the caller's promise; librdkafka stores three pointers.
    unsafe {
        sys::rd_kafka_event_log(event, &raw mut facility, &raw mut text, &raw mut level);
        Event::Line { level, text: format!("{}: {}", text_of(facility), text_of(text)) }
    }
}

/// The error of an event.
///
/// # Safety
/// `event` is valid.
unsafe fn failure(event: *mut sys::rd_kafka_event_t) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let code = event_error(event);
        if code == 0 {
            return Ok(());
        }
        let text = text_of(sys::rd_kafka_event_error_string(event));
        Err(Error { code, text: if text.is_empty() { code_text(code) } else { text } })
    }
}

fn unnamed() -> Error {
    Error { code: -1, text: "an error without a code".to_owned() }
}

/// Elements of an array of pointers that librdkafka lends.
///
/// # Safety
/// `start` is null, or points to `count` pointers that are valid during `'a`.
pub(crate) unsafe fn lent<'a, T>(start: *const *const T, count: usize) -> &'a [*const T] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start, count) }
}

unsafe extern "C" {
    #[link_name = "rd_kafka_event_error"]
    fn event_error(event: *mut sys::rd_kafka_event_t) -> c_int;
}
