//! Prints the messages of topics and filters, and every gap.
//!
//! `cargo run -p client --example subscribe -- ws://127.0.0.1:8800 'prices/#'`

use client::{Client, Event, Options, Start};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "ws://127.0.0.1:8800".to_owned());
    let (client, events) = Client::connect(Options::new(url))?;
    for filter in arguments {
        client.subscribe(&filter, Start::Live)?;
    }
    for event in events {
        match event {
            Event::Message(message) => {
                let text = String::from_utf8_lossy(&message.payload);
                println!(
                    "{} {}:{} {text}",
                    message.topic, message.position.epoch, message.position.offset
                );
            }
            Event::Gap { filter, from, to, cause, .. } => {
                eprintln!("{filter}: a gap from {from:?} to {to:?} ({cause:?})");
            }
            Event::Disconnected { reason, retry_in_ms } => match retry_in_ms {
                Some(delay_ms) => eprintln!("{reason}; again in {delay_ms} ms"),
                None => return Err(reason.to_string().into()),
            },
            _ => {}
        }
    }
    Ok(())
}
