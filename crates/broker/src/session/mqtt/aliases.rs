//! Topic aliases of a connection in both directions (MQTT 5.0, section 3.3.2.3.4).
//!
//! The node gives an alias to the first topics that it sends a client of messages, and never gives
//! it to another topic. A packet without the topic's name follows the packet that gave the alias;
//! so the latter may not be dropped (`edge::flow::mqtt::deliver`).

use std::num::NonZeroU16;
use stdx::handing::Hand;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Aliases(Vec<Alias>);

#[derive(Hand)]
struct Alias {
    number: u16,
    /// The node has given it; else the client.
    is_sent: bool,
    topic: Box<str>,
}

/// The alias of a message to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SentAlias {
    /// None: the packet has the topic's name alone.
    None,
    /// The packet gives the topic this alias, once [`Aliases::note_sent`] is called.
    New(NonZeroU16),
    /// The alias stands for the topic's name.
    Known(NonZeroU16),
}

/// An alias takes 3 bytes of a packet; a name that is not longer has none.
const TOPIC_BYTES_MIN: usize = 4;

impl Aliases {
    /// None.
    pub const fn new() -> Aliases {
        Aliases(Vec::new())
    }

    /// The topic of a client's alias.
    pub fn received(&self, number: u16) -> Option<&str> {
        self.0.iter().find(|it| !it.is_sent && it.number == number).map(|it| &*it.topic)
    }

    /// The client gives a topic an alias.
    pub fn receive(&mut self, number: u16, topic: &str) {
        match self.0.iter_mut().find(|it| !it.is_sent && it.number == number) {
            Some(known) => known.topic = topic.into(),
            None => self.0.push(Alias { number, is_sent: false, topic: topic.into() }),
        }
    }

    /// The alias for a message with this topic to a client that accepts `max` of them.
    pub fn to_send(&self, topic: &str, max: u16) -> SentAlias {
        if topic.len() < TOPIC_BYTES_MIN {
            return SentAlias::None;
        }
        let mut sent = self.0.iter().filter(|it| it.is_sent);
        let known = sent.clone().find(|it| *it.topic == *topic);
        match known.and_then(|it| NonZeroU16::new(it.number)) {
            Some(number) => SentAlias::Known(number),
            None => match sent.next_back().map_or(1, |last| last.number.saturating_add(1)) {
                next if next <= max => {
                    NonZeroU16::new(next).map_or(SentAlias::None, SentAlias::New)
                }
                _ => SentAlias::None,
            },
        }
    }

    /// The packet that gives an alias is queued.
    pub fn note_sent(&mut self, alias: SentAlias, topic: &str) {
        if let SentAlias::New(number) = alias {
            self.0.push(Alias { number: number.get(), is_sent: true, topic: topic.into() });
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_topics_get_aliases() {
        let mut aliases = Aliases::default();
        let number = |number| NonZeroU16::new(number).unwrap();
        aliases.receive(1, "of the client");
        for (topic, max, expected) in [
            ("none", 0, SentAlias::None),
            ("news", 2, SentAlias::New(number(1))),
            ("news", 2, SentAlias::Known(number(1))),
            ("abc", 2, SentAlias::None),
            ("other", 2, SentAlias::New(number(2))),
            ("third", 2, SentAlias::None),
            ("other", 2, SentAlias::Known(number(2))),
        ] {
            let alias = aliases.to_send(topic, max);
            assert_eq!(alias, expected, "{topic}");
            aliases.note_sent(alias, topic);
        }
        assert_eq!(aliases.received(1), Some("of the client"));
        assert_eq!(aliases.received(2), None);
        aliases.receive(1, "news");
        assert_eq!(aliases.received(1), Some("news"));
    }
}
