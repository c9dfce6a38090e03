//! The line protocol, a toy: commands and notices are lines of text.
//!
//! The protocol shows that a protocol is a directory, and is built for tests only (feature
//! `line-protocol`). `GET /line` leads to it. A client sends `sub TOPIC [POSITION]` and `pub TOPIC
//! TEXT`.

pub(crate) mod decode;
pub(crate) mod encode;

use stdx::handing::Hand;

/// The answer to `GET /line`.
pub(crate) const HEAD: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\n";

/// Maximum bytes of a line with its end.
pub(crate) const LINE_BYTES_MAX: usize = 4 << 10;

/// The state of a session: the topics of its subscriptions, by their numbers.
#[derive(Default, Hand)]
pub(crate) struct Line {
    topics: Vec<Box<str>>,
}

impl Line {
    /// Adds a topic; the number of its subscription.
    pub fn add(&mut self, topic: &str) -> u32 {
        self.topics.push(topic.into());
        self.topics.len() as u32 - 1
    }

    fn topic(&self, client: u32) -> &str {
        self.topics.get(client as usize).map_or("", |topic| topic)
    }

    /// Memory of the topics.
    pub fn topics_bytes(&self) -> usize {
        let names: usize = self.topics.iter().map(|topic| topic.len()).sum();
        names + size_of_val(&*self.topics)
    }
}
