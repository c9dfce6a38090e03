//! Classes of requests: those that may have to wait for a disk or for an engine have a class for
//! each log.

use crate::mail::{
    Publish, ReadFilter, ReadHistory, ReadRecord, ReadTopic, RequestClass, Start, Subscribe, ToHome,
};
use crate::settings::Settings;

impl ToHome {
    /// The class in which it is counted.
    pub fn class(&self, settings: &Settings) -> RequestClass {
        match self {
            ToHome::Subscribe(Subscribe { start: Start::Live | Start::AtHead, .. })
            | ToHome::Release { .. }
            | ToHome::Describe(..)
            | ToHome::Positions
            | ToHome::Retained { .. }
            | ToHome::AddFilter(..)
            | ToHome::FindRetained(..)
            | ToHome::Claim(..)
            | ToHome::Leave(..)
            | ToHome::KeepSession(..)
            | ToHome::Group(..)
            | ToHome::RemoveFilter { .. }
            | ToHome::Credit { .. } => RequestClass::Memory,
            ToHome::Subscribe(Subscribe { partition, .. })
            | ToHome::History(ReadHistory { partition, .. })
            | ToHome::Publish(Publish { partition, .. }) => {
                let log = settings.log_that_waits(*partition);
                log.map_or(RequestClass::Memory, RequestClass::Disk)
            }
            ToHome::Read(ReadTopic { partition, .. })
            | ToHome::ReadFilter(ReadFilter { partition, .. })
            | ToHome::ReadRecord(ReadRecord { partition, .. }) => {
                RequestClass::Pages(settings.log_number(*partition))
            }
        }
    }
}
