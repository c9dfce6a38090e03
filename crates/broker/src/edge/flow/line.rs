//! The line protocol, a toy for tests: how a session begins, and what a line does.

use crate::command::Command;
use crate::edge::{Edge, Progress};
use crate::ids::ConnIndex;
use crate::notice::Refusal;
use crate::protocol::Protocol;
use crate::session::State;
use crate::session::line::decode::{Input, decode};
use crate::session::line::{HEAD, LINE_BYTES_MAX, Line};
use wire::native::{ErrorCode, Reference};

impl Edge {
    /// `GET /line`.
    pub(crate) fn begin_line(&mut self, index: ConnIndex) {
        self.send_private(index, HEAD);
        self.record_answer(index, 101, HEAD.len());
        self.connections.slots[index].protocol = Protocol::Line;
        self.set_state(index, State::Line(Box::default()));
        self.session_began(index);
    }

    /// One line from the front of `input`.
    pub(crate) fn line_input(&mut self, index: ConnIndex, input: &[u8]) -> Progress {
        if self.pause_for_room(index) {
            return Progress::Stop;
        }
        self.begin_frame();
        match decode(input) {
            None if input.len() < LINE_BYTES_MAX => Progress::Needs(LINE_BYTES_MAX),
            None => {
                self.refuse_line(index);
                self.close(index);
                Progress::Stop
            }
            Some((line, consumed)) => {
                match line {
                    Input::Subscribe(subscribe) => {
                        let client = self.add_line_topic(index, subscribe.filter);
                        self.begin_subscription(index, client, Ok(subscribe));
                    }
                    Input::Publish(publish) => self.command(index, Command::Publish(publish)),
                    Input::Malformed => self.refuse_line(index),
                }
                self.pause_for_log(index);
                Progress::Consumed(consumed)
            }
        }
    }

    fn refuse_line(&mut self, index: ConnIndex) {
        self.statistics.protocol_errors += 1;
        let refusal = Refusal::of(ErrorCode::MalformedRequest);
        self.refuse(index, Reference::Connection, refusal);
    }

    fn add_line_topic(&mut self, index: ConnIndex, topic: &str) -> u32 {
        let mut line = match self.take_state(index) {
            Some(State::Line(line)) => line,
            _ => Box::<Line>::default(),
        };
        let client = line.add(topic);
        self.set_state(index, State::Line(line));
        client
    }
}
