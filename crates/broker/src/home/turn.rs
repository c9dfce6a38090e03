//! The context of one call of a home: the moment, the memory of its logs, and its outputs.

use crate::disk::DiskRequest;
use crate::engine::EngineRequest;
use crate::mail::{EdgeId, ToEdge};
use crate::sys::Occupancy;
use log::Memory;
use stdx::memory::vector_bytes;

/// The context of one call; every handler gets it.
pub(super) struct Turn<'a> {
    /// The wall clock; milliseconds since 1970.
    pub now_ms: u64,
    /// The topic that a look ahead has found for the request; it may be another.
    pub found: Option<u32>,
    /// The source of the logs' segments.
    pub memory: &'a mut dyn Memory,
    /// The home's outputs.
    pub out: &'a mut HomeOutputs,
}

/// The outputs of a home.
#[derive(Debug)]
pub struct HomeOutputs {
    /// Letters to each edge, in order. The caller takes them.
    pub letters: Vec<Vec<ToEdge>>,
    /// Requests to each log by its index in the settings, in order; it may end before the last. The
    /// caller takes them.
    pub disk: Vec<Vec<DiskRequest>>,
    /// Requests to the engine, in order. The caller takes them.
    pub engine: Vec<EngineRequest>,
    /// Occupancy of topics, for an edge of the same thread to publish. The caller takes it.
    pub occupancy: Vec<Occupancy>,
}

impl HomeOutputs {
    /// Empty outputs for this number of edges.
    pub fn new(edges_count: u16) -> HomeOutputs {
        HomeOutputs {
            letters: (0..edges_count).map(|_| Vec::new()).collect(),
            disk: Vec::new(),
            engine: Vec::new(),
            occupancy: Vec::new(),
        }
    }

    /// Bytes of the lists of letters.
    pub fn memory_bytes(&self) -> usize {
        let letters = self.letters.iter().map(Vec::capacity);
        vector_bytes::<ToEdge>(letters.sum())
    }

    pub(super) fn ask(&mut self, log: usize, request: DiskRequest) {
        if self.disk.len() <= log {
            self.disk.resize_with(log + 1, Vec::new);
        }
        self.disk[log].push(request);
    }

    pub(super) fn post(&mut self, edge: EdgeId, letter: ToEdge) {
        if let Some(letters) = self.letters.get_mut(usize::from(edge)) {
            letters.push(letter);
        }
    }
}
