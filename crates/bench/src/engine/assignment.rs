//! The requested clients of a worker and their addresses, which may change while it runs.
//!
//! Place: between the handle and a worker. Invariant: clients that were removed and replaced
//! between two looks of the worker are not mistaken for the old ones, because the worker gets the
//! number of clients to keep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::route::Routes;

/// The present assignment, and whether the worker has seen it.
#[derive(Debug)]
pub(super) struct Assignment {
    wanted: Mutex<Wanted>,
    is_new: AtomicBool,
}

/// The requested clients of one worker.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// So many clients.
    pub(super) clients: u32,
    /// Maximum number of its present clients that stay.
    pub(super) kept: u32,
    /// The addresses of all clients of the run.
    pub(super) routes: Arc<Routes>,
}

impl Assignment {
    /// The initial request.
    pub(super) fn new(clients: u32, routes: Arc<Routes>) -> Assignment {
        Assignment {
            wanted: Mutex::new(Wanted { clients, kept: clients, routes }),
            is_new: AtomicBool::new(false),
        }
    }

    /// Wants something else from now on.
    pub(super) fn change(&self, clients: u32, routes: Arc<Routes>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.clients = clients;
        wanted.kept = wanted.kept.min(clients);
        wanted.routes = routes;
        self.is_new.store(true, Ordering::Release);
    }

    /// The assignment, if it has changed since the last call; by the worker. Costs one load where
    /// it has not.
    pub(super) fn take(&self) -> Option<Wanted> {
        if !self.is_new.load(Ordering::Acquire) {
            return None;
        }
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_new.store(false, Ordering::Release);
        let taken = wanted.clone();
        wanted.kept = wanted.clients;
        Some(taken)
    }

    /// The assignment as it stands.
    pub(super) fn now(&self) -> Wanted {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Route;

    #[test]
    fn replaced_clients_are_not_kept() {
        let route = Route::resolve("ws://127.0.0.1:1", "/echo").unwrap();
        let routes = Arc::new(Routes::new(vec![route]));
        let assignment = Assignment::new(5, routes.clone());
        assert!(assignment.take().is_none());
        let check = |changes: &[u32], clients: u32, kept: u32| {
            for change in changes {
                assignment.change(*change, routes.clone());
            }
            let taken = assignment.take().unwrap();
            assert_eq!((taken.clients, taken.kept), (clients, kept), "{changes:?}");
            assert!(assignment.take().is_none());
        };
        check(&[9], 9, 5);
        check(&[9], 9, 9);
        check(&[2, 7], 7, 2);
        check(&[0, 3], 3, 0);
        assert_eq!(assignment.now().clients, 3);
    }
}
