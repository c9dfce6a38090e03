//! The worlds that planted bugs need.

use super::Mutation;

impl Mutation {
    /// Whether it needs clients with tokens.
    pub fn needs_tokens(self) -> bool {
        matches!(
            self,
            Mutation::LoseRevocation
                | Mutation::TokenForEver
                | Mutation::WideToken
                | Mutation::OtherNames
                | Mutation::LeaveTwice
                | Mutation::StayCounted
        )
    }

    /// Whether it needs clients of MQTT.
    pub fn needs_mqtt(self) -> bool {
        self.changes_packets()
            || self.needs_groups()
            || matches!(
                self,
                Mutation::LoseWill
                    | Mutation::LoseReleases
                    | Mutation::LoseInflight
                    | Mutation::ForgetReceived
                    | Mutation::LackRetained
                    | Mutation::InheritExpired
                    | Mutation::InheritClean
                    | Mutation::CursorAhead
            )
    }

    /// Whether it needs groups of shared subscriptions.
    pub fn needs_groups(self) -> bool {
        matches!(
            self,
            Mutation::LoseShared
                | Mutation::LoseReturned
                | Mutation::ForgetDone
                | Mutation::ForgetSleeper
        )
    }

    /// Whether it changes packets of MQTT on their way.
    pub(super) fn changes_packets(self) -> bool {
        matches!(
            self,
            Mutation::WillAfterDisconnect
                | Mutation::RepeatWithoutDup
                | Mutation::DupIsKnown
                | Mutation::SharedId
                | Mutation::LieAboutSession
        )
    }

    /// Whether it needs a client of the node's events.
    pub fn needs_events(self) -> bool {
        matches!(self, Mutation::LoseSession | Mutation::LoseOccupancy)
    }

    /// Whether it needs a log on disk.
    pub fn needs_disk(self) -> bool {
        matches!(
            self,
            Mutation::AckBeforeSync
                | Mutation::DeliverBeforeSync
                | Mutation::LoseCommitted
                | Mutation::RepeatDiskPage
                | Mutation::SkipDiskRecord
                | Mutation::DiskPageEndsEarly
                | Mutation::SkipRecovered
                | Mutation::ForgetLastBatch
                | Mutation::ReuseOffsets
                | Mutation::LoseHoles
                | Mutation::LoseNotedEnd
                | Mutation::LoseRetained
                | Mutation::DropProducers
        )
    }

    /// Whether it needs a disk with flipped bits.
    pub fn needs_damage(self) -> bool {
        matches!(self, Mutation::LoseHoles | Mutation::LoseNotedEnd)
    }

    /// Whether it only takes effect after a restart.
    pub fn needs_crash(self) -> bool {
        self == Mutation::FeedOldEpoch || self.needs_disk()
    }
}
