//! A message for one connection of MQTT: its record, the subscriptions that it is for, and its
//! lifetime.
//!
//! Step 9 of the path.

use crate::ids::SubIndex;
use crate::mail::{OpenDelivery, PartitionId};
use crate::now::Now;
use crate::session::mqtt::options::Options;
use log::{Flags, RecordView};
use stdx::chunk::Slice;
use wire::mqtt::SubscriptionId;

/// The cause of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// It was published, or is read from the log.
    Published,
    /// It is retained, and the subscription is new.
    Retained,
}

/// A message for one connection.
pub(super) struct Message<'a> {
    pub topic: &'a str,
    pub partition: PartitionId,
    pub record: &'a Slice,
    pub view: RecordView<'a>,
    pub options: Options,
    pub ids: &'a [SubscriptionId],
    pub cause: Cause,
    /// The subscription for which it is read from the log, after the session has slept.
    pub filter: Option<SubIndex>,
    /// The member of a group that it is for.
    pub member: Option<u64>,
    pub expiry: Expiry,
}

/// The lifetime of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expiry {
    Never,
    /// So many seconds remain.
    After(u32),
    Over,
}

impl Expiry {
    pub fn of(view: &RecordView<'_>, now_ms: u64) -> Expiry {
        match view.expires_ms() {
            None => Expiry::Never,
            Some(expires_ms) if expires_ms <= now_ms => Expiry::Over,
            Some(expires_ms) => {
                let seconds = (expires_ms - now_ms).div_ceil(1_000);
                Expiry::After(u32::try_from(seconds).unwrap_or(u32::MAX))
            }
        }
    }

    pub fn remaining_s(self) -> Option<u32> {
        if let Expiry::After(seconds) = self { Some(seconds) } else { None }
    }
}

impl<'a> Message<'a> {
    /// A message that is sent again.
    pub fn again(
        topic: &'a str,
        (record, view): (&'a Slice, RecordView<'a>),
        open: &OpenDelivery,
        ids: &'a [SubscriptionId],
        now: Now,
    ) -> Message<'a> {
        let expiry = Expiry::of(&view, now.unix_ms);
        let partition = open.partition;
        let (options, filter, member) = (Options::default(), None, None);
        let cause = if open.retain { Cause::Retained } else { Cause::Published };
        Message { topic, partition, record, view, options, ids, cause, filter, member, expiry }
    }

    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.expiry == Expiry::Over
    }

    /// The QoS that it is sent with: that of the publication, at most that of the subscription.
    pub fn qos(&self) -> u8 {
        self.view.flags().qos().unwrap_or(QOS_OF_OTHERS).min(self.options.qos)
    }

    pub fn retain(&self) -> bool {
        let as_published = self.options.retain_as_published;
        self.cause == Cause::Retained || as_published && self.view.flags().has(Flags::RETAINED)
    }
}

/// The QoS of publications of other protocols: they are as safe as one with QoS 1.
const QOS_OF_OTHERS: u8 = 1;
