//! Lanes of requests: those that may have to wait for a disk have a lane for each log.

use crate::mail::{Lane, Publish, ReadFilter, ReadHistory, ReadTopic, Start, Subscribe, ToHome};
use crate::settings::Settings;

impl ToHome {
    /// The lane in which it is counted.
    pub fn lane(&self, settings: &Settings) -> Lane {
        match self {
            ToHome::Subscribe(Subscribe { start: Start::Live, .. })
            | ToHome::Release { .. }
            | ToHome::Describe(..)
            | ToHome::Positions
            | ToHome::Retained { .. }
            | ToHome::AddFilter(..)
            | ToHome::RemoveFilter { .. }
            | ToHome::Credit { .. } => Lane::Memory,
            ToHome::Subscribe(Subscribe { partition, .. })
            | ToHome::History(ReadHistory { partition, .. })
            | ToHome::Publish(Publish { partition, .. }) => {
                let log = settings.log_on_disk(*partition);
                log.map_or(Lane::Memory, Lane::Disk)
            }
            ToHome::Read(ReadTopic { partition, .. })
            | ToHome::ReadFilter(ReadFilter { partition, .. }) => {
                Lane::Pages(settings.log_number(*partition))
            }
        }
    }
}
