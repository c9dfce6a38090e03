//! Publications are admitted here, in the one order that [`crate::admission`] documents.
//!
//! Step 3 of the path.

use crate::admission::{
    ATTRIBUTES_BYTES_MAX, Detail, NotAdmitted, Offer, Origin, Placement, Publisher,
};
use crate::edge::Edge;
use crate::edge::pressure::Pressure;
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::journal::Operation;
use crate::mail::{HomeId, PartitionId};
use crate::sys;
use crate::topic::TopicName;
use std::collections::BTreeMap;
use wire::native::ErrorCode;

impl Edge {
    /// Admits one publication of a connection.
    ///
    /// # Errors
    /// The first fault in the order of the introduction.
    pub(crate) fn admit<'a>(
        &mut self,
        index: ConnIndex,
        offer: Offer<'a>,
    ) -> Result<Placement, NotAdmitted<'a>> {
        self.refuse_from(Pressure::Publications)?;
        let placement = self.admit_one(Publisher::Connection(index), offer)?;
        self.check_backlog(placement.partition, offer.cost())?;
        self.take_rates(index, 1, offer.payload_bytes)?;
        Ok(placement)
    }

    /// Admits all publications of one request of a connection, or none.
    ///
    /// # Errors
    /// The first fault in the order of the introduction.
    pub(crate) fn admit_all<'a>(
        &mut self,
        index: ConnIndex,
        offers: impl Iterator<Item = Offer<'a>> + Clone,
    ) -> Result<(), NotAdmitted<'a>> {
        self.refuse_from(Pressure::Publications)?;
        let appended =
            offers.clone().map(|offer| (offer.payload_bytes + offer.attributes_bytes) as u64);
        let (bytes, bytes_max) = (appended.sum(), self.settings.limits.request_bytes_max);
        if bytes > u64::from(bytes_max) {
            let detail = Detail::Request(bytes, bytes_max);
            return Err(NotAdmitted { code: ErrorCode::RequestTooLarge, detail });
        }
        // The costs of this request alone, by home and log.
        let mut costs: BTreeMap<(HomeId, u16), u64> = BTreeMap::new();
        let (mut messages, mut payload_bytes) = (0, 0);
        for offer in offers {
            let Placement { partition, .. } =
                self.admit_one(Publisher::Connection(index), offer)?;
            let log = (self.settings.home_of(partition), self.settings.log_number(partition));
            let cost = costs.entry(log).or_default();
            *cost += offer.cost();
            self.check_backlog(partition, *cost)?;
            messages += 1;
            payload_bytes += offer.payload_bytes;
        }
        self.take_rates(index, messages, payload_bytes)
    }

    /// Admits a publication of an operator.
    ///
    /// # Errors
    /// The first fault in the order of the introduction, without credentials and rates;
    /// `overloaded`.
    pub(crate) fn admit_for_operator(&mut self, offer: Offer<'_>) -> Result<Placement, ErrorCode> {
        self.refuse_from(Pressure::Publications)?;
        let placement = self.admit_one(Publisher::Operator, offer).map_err(|fault| fault.code)?;
        self.check_backlog(placement.partition, offer.cost())?;
        // Operators' questions do not wait in a row.
        if self.may_request(self.settings.home_of(placement.partition)) {
            Ok(placement)
        } else {
            Err(ErrorCode::Overloaded)
        }
    }

    fn admit_one<'a>(
        &mut self,
        publisher: Publisher,
        offer: Offer<'a>,
    ) -> Result<Placement, NotAdmitted<'a>> {
        let topic = TopicName::parse(offer.topic).map_err(|error| NotAdmitted {
            code: error.code(ErrorCode::MalformedTopic),
            detail: Detail::Name(error),
        })?;
        let refused = |code| NotAdmitted { code, detail: Detail::Topic(offer.topic) };
        match publisher {
            Publisher::Connection(index) => {
                self.permit(index, Action::Publish, topic.into()).map_err(refused)?;
            }
            Publisher::Operator
                if sys::is_reserved(offer.topic) || sys::is_of_sessions(offer.topic) =>
            {
                return Err(refused(ErrorCode::Forbidden));
            }
            Publisher::Operator => {}
        }
        let (rule, partition) = self.settings.locate(offer.topic);
        let of_rule = &self.settings.rules[usize::from(rule)];
        if let Some(publishing) = &of_rule.publishing
            && !publishing.permits(self.publisher_origin(publisher), offer.retain)
        {
            if let Publisher::Connection(index) = publisher {
                let operation = Operation::Act(Action::Publish);
                self.record_decision(index, operation, offer.topic, Some(ErrorCode::Forbidden));
            }
            return Err(refused(ErrorCode::Forbidden));
        }
        let of_publisher = match publisher {
            Publisher::Connection(index) => self.payload_bytes_max(index),
            Publisher::Operator => self.settings.limits.message_bytes_max,
        };
        let bytes_max = of_rule.message_bytes_max.min(of_publisher);
        if offer.payload_bytes > bytes_max as usize {
            let detail = Detail::Message(offer.topic, bytes_max);
            return Err(NotAdmitted { code: ErrorCode::MessageTooLarge, detail });
        }
        if offer.attributes_bytes > ATTRIBUTES_BYTES_MAX {
            let detail = Detail::Attributes(ATTRIBUTES_BYTES_MAX);
            return Err(NotAdmitted { code: ErrorCode::TooManyTags, detail });
        }
        Ok(Placement { rule, partition })
    }

    fn check_backlog(&self, partition: PartitionId, cost: u64) -> Result<(), ErrorCode> {
        if self.may_publish(partition, cost) { Ok(()) } else { Err(ErrorCode::LogUnavailable) }
    }

    fn take_rates<'a>(
        &mut self,
        index: ConnIndex,
        messages: u64,
        payload_bytes: usize,
    ) -> Result<(), NotAdmitted<'a>> {
        let taken = self.take_publish(index, messages, payload_bytes as u64);
        taken.map_err(|too_fast| NotAdmitted {
            code: ErrorCode::RateLimited,
            detail: Detail::Rate(too_fast),
        })
    }

    fn publisher_origin(&self, publisher: Publisher) -> Origin {
        match publisher {
            Publisher::Connection(index) => Origin::Client {
                credential: self.presented_kind(index),
                address: self.client_address(index),
            },
            Publisher::Operator => Origin::Operator,
        }
    }
}
