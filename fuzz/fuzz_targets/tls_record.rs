//! Feeds `fuzz::tls_record`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tls_record(data));
