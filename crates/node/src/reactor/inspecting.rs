//! Questions of operators to a shard: the reactor passes them to the edge or the home, and returns
//! the answers.
//!
//! Beside the path: a turn without questions costs one branch.

use super::{Clock, Reactor};
use crate::asker::Asker;
use crate::mailbox::Mailbox;
use broker::home::Home;
use broker::inspect::{Answer, Connection, Question};
use net::Net;
use std::collections::BTreeMap;
use stdx::handing::{Hand, Input};

/// Maximum number of open questions to homes; the same as the maximum of waiting questions at a
/// shard.
#[derive(Default)]
pub(super) struct Inspecting {
    number: u32,
    asked: BTreeMap<u32, Asker>,
}

impl Inspecting {
    /// Appends the number of the last question: earlier answers are ignored, and no later question
    /// gets their numbers.
    pub fn give(&self, out: &mut Vec<u8>) {
        self.number.give(out);
    }

    /// Continues after the given number.
    pub fn take(&mut self, input: &mut Input<'_>) -> Option<()> {
        self.number = Hand::take(input)?;
        Some(())
    }
}

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    pub(super) fn inspect(&mut self, question: Question, asker: Asker) {
        let net = &self.net;
        let with_tls = |connection: &mut Connection| {
            connection.is_encrypted = Some(net.is_encrypted(connection.key));
        };
        let of_home = matches!(
            question,
            Question::Topics { .. } | Question::Topic { .. } | Question::Names { .. }
        );
        if of_home {
            let home = self.home.as_ref();
            let answer = home.map(|home: &Home| home.inspect(&question));
            return asker.answer(answer.unwrap_or(Answer::NotHere));
        }
        self.inspecting.number = self.inspecting.number.checked_add(1).unwrap_or(1);
        let number = self.inspecting.number;
        let peer_of = |key| net.peer_address(key).map(|address| address.ip());
        match self.edge.inspect(question, number, &peer_of) {
            None => {
                self.inspecting.asked.insert(number, asker);
            }
            Some(mut answer) => {
                match &mut answer {
                    Answer::Connections(found, _) => found.iter_mut().for_each(with_tls),
                    Answer::Connection(found) => found.iter_mut().for_each(with_tls),
                    _ => {}
                }
                asker.answer(answer);
            }
        }
    }

    /// Processes answers of homes.
    pub(super) fn answer_operators(&mut self) {
        for (number, answer) in self.edge.out.answers.drain(..) {
            if let Some(asker) = self.inspecting.asked.remove(&number) {
                asker.answer(answer);
            }
        }
    }
}
