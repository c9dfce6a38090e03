//! A client of a cluster, with its threads.

use crate::certificate;
use rdkafka_sys as sys;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The direction in which records go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Records go to the cluster; also for questions about it.
    Producer,
    /// Records come from the cluster.
    Consumer,
}

/// A failure that librdkafka or a broker reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// See [`crate::code`].
    pub code: i32,
    /// A sentence for people.
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.text)
    }
}

impl std::error::Error for Error {}

/// A client. Clones are the same client; the last one ends it, and waits for its threads.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

struct Handle(NonNull<sys::rd_kafka_t>);

// SAFETY: librdkafka's handles may be used by any thread, also by several at once.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: this is the last owner, and queues keep their client alive.
        unsafe {
            let flags = sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE;
            sys::rd_kafka_destroy_flags(self.0.as_ptr(), flags);
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Client")
    }
}

impl Client {
    /// A client with librdkafka's properties. It connects by itself.
    ///
    /// # Errors
    /// A property that librdkafka does not know, or a value that it refuses; the text names it.
    pub fn new(kind: Kind, properties: &[(String, String)]) -> Result<Client, Error> {
        let mut text = [0; 512];
        // SAFETY: the configuration is ours until `rd_kafka_new` takes it or we destroy it.
        unsafe {
            let configuration = sys::rd_kafka_conf_new();
            for (name, value) in properties {
                if let Err(error) = set(configuration, name, value, &mut text) {
                    sys::rd_kafka_conf_destroy(configuration);
                    return Err(error);
                }
            }
            let events = sys::RD_KAFKA_EVENT_DR
                | sys::RD_KAFKA_EVENT_ERROR
                | sys::RD_KAFKA_EVENT_LOG
                | sys::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH;
            sys::rd_kafka_conf_set_events(configuration, events);
            sys::rd_kafka_conf_set_ssl_cert_verify_cb(configuration, Some(certificate::judge));
            let kind = match kind {
                Kind::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
                Kind::Consumer => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
            };
            let handle = sys::rd_kafka_new(kind, configuration, text.as_mut_ptr(), text.len());
            let Some(handle) = NonNull::new(handle) else {
                sys::rd_kafka_conf_destroy(configuration);
                return Err(Error { code: INVALID, text: text_of(text.as_ptr()) });
            };
            // With `log.queue`, lines go to the main queue. Otherwise this has no effect.
            sys::rd_kafka_set_log_queue(handle.as_ptr(), ptr::null_mut());
            Ok(Client { handle: Arc::new(Handle(handle)) })
        }
    }

    /// Gives the client a token for OAUTHBEARER, as an answer to [`crate::Event::TokenWanted`].
    ///
    /// # Errors
    /// The token is not valid.
    pub fn set_token(&self, token: &str, principal: &str, expires_ms: i64) -> Result<(), Error> {
        let (token, principal) = (c_string(token)?, c_string(principal)?);
        let mut text = [0; 512];
        // SAFETY: all pointers live during the call, and there are no extensions.
        let code = unsafe {
            oauthbearer_set_token(
                self.raw(),
                token.as_ptr(),
                expires_ms,
                principal.as_ptr(),
                ptr::null_mut(),
                0,
                text.as_mut_ptr(),
                text.len(),
            )
        };
        if code == 0 {
            return Ok(());
        }
        // SAFETY: librdkafka ends the text with a zero.
        Err(Error { code, text: unsafe { text_of(text.as_ptr()) } })
    }

    /// Reports that there is no token.
    pub fn set_token_failure(&self, reason: &str) {
        let Ok(reason) = c_string(reason) else { return };
        // SAFETY: the text lives during the call.
        unsafe { sys::rd_kafka_oauthbearer_set_token_failure(self.raw(), reason.as_ptr()) };
    }

    /// The error that ended the client's use; none if it is usable.
    pub fn fatal_error(&self) -> Option<Error> {
        let mut text = [0; 512];
        // SAFETY: librdkafka writes at most the buffer's length.
        let code = unsafe { fatal_error(self.raw(), text.as_mut_ptr(), text.len()) };
        // SAFETY: librdkafka ends the text with a zero.
        (code != 0).then(|| Error { code, text: unsafe { text_of(text.as_ptr()) } })
    }

    pub(crate) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.handle.0.as_ptr()
    }
}

/// `RD_KAFKA_RESP_ERR__INVALID_ARG`.
const INVALID: i32 = -186;

/// Sets a property.
///
/// # Safety
/// `configuration` is valid.
unsafe fn set(
    configuration: *mut sys::rd_kafka_conf_t,
    name: &str,
    value: &str,
    text: &mut [c_char; 512],
) -> Result<(), Error> {
    let (c_name, c_value) = (c_string(name)?, c_string(value)?);
    // SAFETY: the pointers live during the call; the configuration is valid.
    unsafe {
        let result = sys::rd_kafka_conf_set(
            configuration,
            c_name.as_ptr(),
            c_value.as_ptr(),
            text.as_mut_ptr(),
            text.len(),
        );
        if result == sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
            return Ok(());
        }
        Err(Error { code: INVALID, text: text_of(text.as_ptr()) })
    }
}

/// A copy of a text that may be null.
///
/// # Safety
/// `text` is null, or ends with a zero.
pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub(crate) fn c_string(text: &str) -> Result<CString, Error> {
    let text = CString::new(text);
    text.map_err(|_| Error { code: INVALID, text: "the text has a zero byte".to_owned() })
}

/// The error behind a pointer, which is destroyed; none if it is null.
///
/// # Safety
/// `error` is null, or an error that the caller owns.
pub(crate) unsafe fn owned_error(error: *mut sys::rd_kafka_error_t) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let result = borrowed_error(error);
        if !error.is_null() {
            sys::rd_kafka_error_destroy(error);
        }
        result
    }
}

/// The error behind a pointer; none if it is null, or stands for success.
///
/// # Safety
/// `error` is null or valid.
pub(crate) unsafe fn borrowed_error(error: *const sys::rd_kafka_error_t) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let (code, text) = unsafe { (error_code(error), text_of(sys::rd_kafka_error_string(error))) };
    if code == 0 { Ok(()) } else { Err(Error { code, text }) }
}

/// The meaning of an error code.
pub(crate) fn code_text(code: i32) -> String {
    // SAFETY: the text is static.
    unsafe { text_of(err2str(code)) }
}

// Functions of librdkafka that take or return an error code, as a number.
unsafe extern "C" {
    #[link_name = "rd_kafka_error_code"]
    fn error_code(error: *const sys::rd_kafka_error_t) -> i32;
    #[link_name = "rd_kafka_err2str"]
    fn err2str(code: i32) -> *const c_char;
    #[link_name = "rd_kafka_fatal_error"]
    fn fatal_error(client: *mut sys::rd_kafka_t, text: *mut c_char, size: usize) -> i32;
    #[link_name = "rd_kafka_oauthbearer_set_token"]
    fn oauthbearer_set_token(
        client: *mut sys::rd_kafka_t,
        token: *const c_char,
        expires_ms: i64,
        principal: *const c_char,
        extensions: *mut *const c_char,
        extensions_size: usize,
        text: *mut c_char,
        text_size: usize,
    ) -> i32;
}
