//! Publishes one message for each argument and prints its position in the log.
//!
//! `cargo run -p client --example publish -- ws://127.0.0.1:8800 prices/eur 1.09 1.10`

use client::{Client, Options, PublishOptions, RequestError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(topic)) = (arguments.next(), arguments.next()) else {
        return Err("usage: publish URL TOPIC MESSAGE...".into());
    };
    let (client, events) = Client::connect(Options::new(url))?;
    drop(events); // this publisher ignores events
    let mut pending = Vec::new();
    for message in arguments {
        pending.push(client.publish(&topic, message, PublishOptions::default())?);
    }
    // All messages are in flight; now wait for the answers.
    for answer in pending {
        match answer.wait() {
            Ok(published) => println!("{}:{}", published.position.epoch, published.position.offset),
            Err(RequestError::Unknown) => println!("the connection broke: published or not"),
            Err(error) => println!("{error}"),
        }
    }
    client.close();
    Ok(())
}
