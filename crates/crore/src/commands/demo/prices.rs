//! Messages for people: a few changing prices, on topics that the live page shows by default.

use client::{Client, ConnectError, Options, PublishOptions};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two prices.
const PACE: Duration = Duration::from_millis(250);

/// Name and first price, in ten-thousandths.
const PRICES: [(&str, u64); 5] = [
    ("eur-usd", 10_842),
    ("gbp-usd", 12_671),
    ("usd-inr", 834_500),
    ("btc-usd", 961_204_000),
    ("gold", 26_531_000),
];

/// Publishes until it is dropped.
pub struct Prices {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prices {
    /// Begins to publish `demo/prices/...` to the node at `url`.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn start(url: &str) -> Result<Prices, ConnectError> {
        let (client, events) = Client::connect(Options::new(url))?;
        drop(events);
        let is_ending = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_ending);
        let thread = std::thread::spawn(move || publish(&client, &asked));
        Ok(Prices { is_ending, thread: Some(thread) })
    }
}

impl Drop for Prices {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn publish(client: &Client, is_ending: &AtomicBool) {
    let random = RandomState::new();
    let mut prices = PRICES;
    let options = PublishOptions {
        content_type: Some("application/json".into()),
        ..PublishOptions::default()
    };
    for step in 0_u64.. {
        if is_ending.load(Ordering::Acquire) {
            return;
        }
        let count = prices.len() as u64;
        let (name, price) = &mut prices[(step % count) as usize];
        *price = walk(*price, random.hash_one(step));
        let topic = format!("demo/prices/{name}");
        let text = format!(
            "{{\"price\":{}.{:04},\"tick\":{}}}",
            *price / 10_000,
            *price % 10_000,
            step / count
        );
        if client.publish_unacknowledged(&topic, text, options.clone()).is_err() {
            return;
        }
        std::thread::sleep(PACE);
    }
}

/// A random change by at most a thousandth.
fn walk(price: u64, random: u64) -> u64 {
    let step = price / 1_000;
    price - step + random % (2 * step + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_walk_and_do_not_jump() {
        for random in [0, 1, 7_777_777, u64::MAX] {
            for (_, price) in PRICES {
                let next = walk(price, random);
                assert!(next.abs_diff(price) <= price / 1_000, "{price} {next}");
            }
        }
    }
}
