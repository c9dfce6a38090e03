//! Transactions, as other producers use them. A client with the property `transactional.id` sends
//! its records within one.

use crate::client::{Client, Error, owned_error};
use rdkafka_sys as sys;

impl Client {
    /// Announces the client as the only one with its `transactional.id`.
    ///
    /// # Errors
    /// No broker answers in time, or it refuses.
    pub fn prepare_transactions(&self, timeout_ms: i32) -> Result<(), Error> {
        // SAFETY: the client is valid; the error is ours.
        unsafe { owned_error(sys::rd_kafka_init_transactions(self.raw(), timeout_ms)) }
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// Another one is open.
    pub fn begin_transaction(&self) -> Result<(), Error> {
        // SAFETY: as above.
        unsafe { owned_error(sys::rd_kafka_begin_transaction(self.raw())) }
    }

    /// Ends the transaction: readers see its records, or never will. All of them must have their
    /// deliveries, for which the caller reads the main queue.
    ///
    /// # Errors
    /// No broker answers in time, or it refuses.
    pub fn end_transaction(&self, is_committed: bool, timeout_ms: i32) -> Result<(), Error> {
        // SAFETY: as above.
        unsafe {
            owned_error(if is_committed {
                sys::rd_kafka_commit_transaction(self.raw(), timeout_ms)
            } else {
                sys::rd_kafka_abort_transaction(self.raw(), timeout_ms)
            })
        }
    }
}
