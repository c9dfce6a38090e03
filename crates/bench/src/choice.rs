//! Choices of a load generator: the topics that a client subscribes to, the topic of the next
//! message, and the acknowledgement of a publication.
//!
//! Place: client number to topic numbers, computed when needed and never stored. Pure: the seed
//! decides.

use stdx::prng::Prng;

/// The acknowledgement of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Ack {
    /// None: the message was written to the socket.
    None,
    /// The message is in its log.
    Appended,
}

/// Assignment of topics to clients.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Choice {
    /// Client i takes the i-th run of topics. Runs wrap around if there are more clients than
    /// topics.
    #[default]
    OneToOne,
    /// Each client takes distinct random topics.
    Random,
    /// All clients take the same first topics: a common pool.
    Common,
}

impl Choice {
    /// The topic number of subscription `place` (from 0) of `client`, each with `per_client` of
    /// `topics`.
    ///
    /// Within one client the numbers are distinct as long as `per_client` is at most `topics`.
    pub fn topic(self, client: u64, place: u64, per_client: u64, topics: u64, seed: u64) -> u64 {
        match self {
            Choice::OneToOne => (client * per_client + place) % topics,
            Choice::Common => place % topics,
            Choice::Random => {
                let mut random = Prng::new(seed ^ client.wrapping_mul(0xd6e8_feb8_6659_fd93));
                let start = random.below(topics);
                // A stride without a common divisor visits every topic once before it repeats one.
                let mut stride = random.below(topics).max(1);
                while greatest_common_divisor(stride, topics) != 1 {
                    stride += 1;
                }
                ((u128::from(start) + u128::from(place) * u128::from(stride)) % u128::from(topics))
                    as u64
            }
        }
    }
}

fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn topics(choice: Choice, client: u64, per_client: u64, topics: u64) -> Vec<u64> {
        (0..per_client).map(|place| choice.topic(client, place, per_client, topics, 1)).collect()
    }

    #[test]
    fn one_to_one_and_common() {
        assert_eq!(topics(Choice::OneToOne, 0, 2, 6), [0, 1]);
        assert_eq!(topics(Choice::OneToOne, 2, 2, 6), [4, 5]);
        assert_eq!(topics(Choice::OneToOne, 3, 2, 6), [0, 1]);
        assert_eq!(topics(Choice::Common, 9, 3, 6), [0, 1, 2]);
    }

    #[test]
    fn random_is_distinct_within_a_client_and_covers_all() {
        let mut seen = HashSet::new();
        for client in 0..200 {
            for count in [1, 2, 7, 10, 12] {
                let chosen = topics(Choice::Random, client, 7.min(count), count);
                assert!(chosen.iter().all(|topic| *topic < count));
                assert_eq!(chosen.iter().collect::<HashSet<_>>().len(), chosen.len());
            }
            seen.insert(topics(Choice::Random, client, 1, 50)[0]);
        }
        assert!(seen.len() > 45, "{}", seen.len());
    }
}
