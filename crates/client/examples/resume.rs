//! Reads a topic from the end of an earlier run: a file stores the cursor.
//!
//! `cargo run -p client --example resume -- ws://127.0.0.1:8800 prices/eur cursor.txt`

use client::{Client, Event, Options, Position, Start};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(topic), Some(file)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: resume URL TOPIC CURSOR-FILE".into());
    };
    let start = match std::fs::read_to_string(&file).ok().as_deref().and_then(parse) {
        Some(position) => Start::Since(position),
        None => Start::Last(10),
    };
    let (client, events) = Client::connect(Options::new(url))?;
    client.subscribe(&topic, start)?;
    for event in events {
        match event {
            Event::Message(message) => {
                println!("{}", String::from_utf8_lossy(&message.payload));
                // Written after the message was processed: a crash in between repeats it, and loses
                // nothing.
                let Position { epoch, offset } = message.position;
                std::fs::write(&file, format!("{epoch}:{offset}"))?;
            }
            Event::CaughtUp { complete: true, .. } => eprintln!("nothing was missed"),
            Event::CaughtUp { complete: false, .. } => eprintln!("live, with the gaps named above"),
            Event::Gap { from, to, .. } => eprintln!("lost: after {from:?} up to {to:?}"),
            Event::Unsubscribed { error: Some(error), .. } => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn parse(text: &str) -> Option<Position> {
    let (epoch, offset) = text.trim().split_once(':')?;
    Some(Position { epoch: epoch.parse().ok()?, offset: offset.parse().ok()? })
}
