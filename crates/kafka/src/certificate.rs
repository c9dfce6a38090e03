//! Names the reason for which OpenSSL refuses a broker's certificate.
//!
//! librdkafka's own error has only "certificate verify failed". It writes the reason of this module
//! into a line for the log, beside subject and issuer ([`refusal`]). OpenSSL alone decides.

use rdkafka_sys as sys;
use std::ffi::{c_char, c_int, c_void};

/// The broker, the reason and the certificate's names, out of librdkafka's line; none for another
/// line.
pub fn refusal(line: &str) -> Option<String> {
    let (head, rest) = line.split_once(": Certificate (")?;
    let (names, reason) = rest.split_once(") verification callback failed: ")?;
    let broker = head.rsplit(": ").next()?;
    Some(format!("{broker}: {reason} ({names})"))
}

/// Whether a text only repeats that a certificate was refused, without the reason.
pub fn is_refusal(text: &str) -> bool {
    text.contains("certificate verify failed")
}

/// `X509_V_OK`.
const GOOD: c_int = 0;

/// Answers librdkafka's question about a certificate, on one of its threads: OpenSSL's verdict
/// stands, and a refusal gets its reason.
///
/// # Safety
/// `verdict` points to OpenSSL's code, `text` to `size` bytes; both live during the call.
pub(crate) unsafe extern "C" fn judge(
    _: *mut sys::rd_kafka_t,
    _: *const c_char,
    _: i32,
    verdict: *mut c_int,
    _: c_int,
    _: *const c_char,
    _: usize,
    text: *mut c_char,
    size: usize,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if *verdict == GOOD {
            return 1;
        }
        let reason = reason(*verdict).as_bytes();
        let count = reason.len().min(size.saturating_sub(1));
        text.cast::<u8>().copy_from_nonoverlapping(reason.as_ptr(), count);
        if count < size {
            text.add(count).write(0);
        }
    }
    0
}

/// A sentence for a code of `X509_verify_cert_error_string(3)`.
fn reason(verdict: c_int) -> &'static str {
    match verdict {
        9 => "the certificate is not valid yet",
        10 => "the certificate has expired",
        18 | 19 => "the certificate is signed by itself, and is not a trusted one",
        2 | 20 | 21 => "no trusted authority has signed the certificate",
        23 => "the certificate was revoked",
        24 | 79 => "the certificate's issuer is not an authority",
        26 => "the certificate is not for servers",
        62 => "the certificate has another host name than the broker",
        64 => "the certificate has another IP address than the broker",
        66 => "the certificate's key is too weak",
        67 | 68 => "the certificate's signature is too weak",
        _ => "OpenSSL does not trust the certificate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::ptr;

    fn judged(mut verdict: c_int, size: usize) -> (c_int, String) {
        let mut text = [1; 64];
        // SAFETY: both pointers live during the call.
        let answer = unsafe {
            judge(
                ptr::null_mut(),
                ptr::null(),
                0,
                &raw mut verdict,
                0,
                ptr::null(),
                0,
                text.as_mut_ptr(),
                size,
                ptr::null_mut(),
            )
        };
        if answer == 1 || size == 0 {
            return (answer, String::new());
        }
        // SAFETY: a refusal ends the text with a zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        (answer, text.to_string_lossy().into_owned())
    }

    #[test]
    fn the_reason_is_found_in_librdkafkas_line() {
        let line = "SSLCERTVRFY: [thrd:ssl://h:1/bootstrap]: ssl://h:1/bootstrap: Certificate \
                    (subject=/CN=a, issuer=/CN=b) verification callback failed: it is old";
        let found = refusal(line).expect("a refusal");
        assert_eq!(found, "ssl://h:1/bootstrap: it is old (subject=/CN=a, issuer=/CN=b)");
        assert_eq!(refusal("FAIL: ssl://h:1/bootstrap: Disconnected"), None);
    }

    #[test]
    fn a_refusal_has_its_reason_within_the_buffer() {
        assert_eq!(judged(GOOD, 64), (1, String::new()));
        assert_eq!(judged(10, 64), (0, "the certificate has expired".to_owned()));
        assert_eq!(judged(10, 5), (0, "the ".to_owned()));
        assert_eq!(judged(10, 0).0, 0);
        assert_eq!(judged(-1, 64), (0, "OpenSSL does not trust the certificate".to_owned()));
    }
}
