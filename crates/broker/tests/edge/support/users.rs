//! Connections of each user: the shell's count for all edges.

use broker::edge::{Edge, UserChange};
use std::collections::BTreeMap;

/// Counts, and answers at once unless it is stopped.
#[derive(Default)]
pub struct Users {
    connections: BTreeMap<Box<str>, u32>,
    pub connections_max: Option<u32>,
    pub is_stopped: bool,
}

impl Users {
    /// Deals with an edge's changes. True if there were any.
    pub fn take(&mut self, edge: &mut Edge) -> bool {
        let changes =
            if self.is_stopped { Vec::new() } else { std::mem::take(&mut edge.out.users) };
        let is_busy = !changes.is_empty();
        for change in changes {
            match change {
                UserChange::Leaves { user } => {
                    let connections = self.connections.get_mut(&user).expect("came before");
                    *connections -= 1;
                    self.connections.retain(|_, connections| *connections > 0);
                }
                UserChange::Comes { connection, user, connections_max } => {
                    let had = self.connections.get(&user).copied().unwrap_or(0);
                    let bounds = [self.connections_max, connections_max];
                    if bounds.into_iter().flatten().any(|max| had >= max) {
                        edge.user_refused(connection);
                    } else {
                        self.connections.insert(user.clone(), had + 1);
                        edge.user_admitted(connection, &user);
                    }
                }
            }
        }
        is_busy
    }

    /// The users with their numbers of connections.
    pub fn text(&self) -> String {
        let texts = self.connections.iter();
        let texts: Vec<_> = texts.map(|(user, count)| format!("{user} {count}")).collect();
        if texts.is_empty() { "nobody".into() } else { texts.join(", ") }
    }
}
