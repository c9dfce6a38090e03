//! `crore pub`: publishes one message, or one for each line of standard input, acknowledged and in
//! order.
//!
//! Lines are sent without waiting for each acknowledgement, up to a window; acknowledgements are
//! reported in order. If the connection breaks, unacknowledged messages are reported as unknown and
//! never sent again: the log may already have them.

use super::connection::ConnectionArguments;
use super::messages::{event_sentence, parse_tag, position_text};
use crate::exit::Ending;
use crate::signals;
use anyhow::{Context, anyhow};
use client::{Once, Pending, PublishOptions, Published, RequestError};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of unacknowledged publications.
const WINDOW_MAX: usize = 512;

/// Arguments of `pub`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The topic.
    topic: String,
    /// The message. Without it, each line of standard input is a message.
    text: Option<String>,
    /// Media type of the messages.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Tag of the messages. May be repeated.
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    /// Make the message the topic's retained message. An empty message removes the retained
    /// message.
    #[arg(long)]
    retain: bool,
    /// Idempotency key: the message is appended once, and a repeat with this key returns the first
    /// position. With several lines, the line number is added to the key from the second line on.
    /// The server forgets a key after a while (5 minutes by default).
    #[arg(long, value_name = "KEY", conflicts_with = "producer")]
    idempotency_key: Option<String>,
    /// Producer ID: each sequence of this producer is appended once. The newest connection with
    /// this ID fences older ones.
    #[arg(long, value_name = "ID")]
    producer: Option<String>,
    /// Sequence of the message, or of the first line; each further line has the next number. The
    /// default is the time in microseconds since 1970, so that each run has a higher number.
    #[arg(long, value_name = "N", requires = "producer", value_parser = clap::value_parser!(u64).range(1..))]
    sequence: Option<u64>,
    /// Append the message only if the topic's log has this epoch.
    #[arg(long, value_name = "EPOCH")]
    expected_epoch: Option<u64>,
    /// Time to wait for an acknowledgement, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print errors only.
    #[arg(long, short)]
    quiet: bool,
    /// Print one JSON object for each acknowledgement.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Publishes the messages.
///
/// # Errors
/// The first refusal stops the command. Publications with an unknown result are reported, and make
/// the command fail at the end.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    signals::exit_at_signal();
    let (client, events) = arguments.connection.connect("crore pub")?;
    let timeout = Duration::from_secs(arguments.timeout);
    arguments.connection.wait_for_node(&events, timeout)?;
    // A thread prints connection events while the main thread waits for lines or answers.
    std::thread::spawn(move || {
        for event in events {
            if let Some(sentence) = event_sentence(&event) {
                eprintln!("{sentence}");
            }
        }
    });
    let options = PublishOptions {
        content_type: arguments.content_type.clone(),
        tags: arguments.tags.clone(),
        retain: arguments.retain,
        once: None,
        expected_epoch: arguments.expected_epoch,
    };
    let mut names = Names::new(arguments);
    let mut window = Window { arguments, waiting: VecDeque::new(), count: 0, unknown_count: 0 };
    let mut send = |payload: Vec<u8>, window: &mut Window<'_>| -> Result<(), Ending> {
        let options = PublishOptions { once: names.next(), ..options.clone() };
        let pending = client
            .publish(&arguments.topic, payload, options)
            .map_err(|error| anyhow!("{error}"))?;
        window.push(pending)
    };
    match &arguments.text {
        Some(text) => send(text.clone().into_bytes(), &mut window)?,
        None => {
            let mut input = std::io::stdin().lock();
            let mut line = Vec::new();
            loop {
                line.clear();
                let count =
                    input.read_until(b'\n', &mut line).context("cannot read standard input")?;
                if count == 0 {
                    break;
                }
                if line.ends_with(b"\n") {
                    line.pop();
                }
                send(std::mem::take(&mut line), &mut window)?;
            }
        }
    }
    window.finish()?;
    client.close();
    Ok(())
}

/// Keys by which the node recognises repeated messages, one after the other.
struct Names<'a> {
    arguments: &'a Arguments,
    first_sequence: u64,
    count: u64,
}

impl Names<'_> {
    fn new(arguments: &Arguments) -> Names<'_> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first_sequence = arguments.sequence.unwrap_or((since_1970.as_micros() as u64).max(1));
        Names { arguments, first_sequence, count: 0 }
    }

    fn next(&mut self) -> Option<Once> {
        let place = self.count;
        self.count += 1;
        if let Some(id) = &self.arguments.producer {
            return Some(Once::Producer {
                id: id.clone().into_bytes(),
                sequence: self.first_sequence.saturating_add(place),
            });
        }
        let mut key = self.arguments.idempotency_key.clone()?.into_bytes();
        if place > 0 {
            // HTTP numbers the messages of an envelope in the same way.
            key.push(0);
            key.extend_from_slice(place.to_string().as_bytes());
        }
        Some(Once::Key(key))
    }
}

/// Publications under way, oldest first.
struct Window<'a> {
    arguments: &'a Arguments,
    waiting: VecDeque<Pending<Published>>,
    /// Number of answers received so far.
    count: u64,
    unknown_count: u64,
}

impl Window<'_> {
    fn push(&mut self, pending: Pending<Published>) -> Result<(), Ending> {
        self.waiting.push_back(pending);
        while self.waiting.len() > WINDOW_MAX {
            self.settle_oldest()?;
        }
        // Report acknowledgements as they arrive, not when the window is full.
        while let Some(answer) =
            self.waiting.front().and_then(|oldest| oldest.wait_within(Duration::ZERO))
        {
            self.waiting.pop_front();
            self.tell(answer)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Ending> {
        while !self.waiting.is_empty() {
            self.settle_oldest()?;
        }
        match self.unknown_count {
            0 => Ok(()),
            count => Err(anyhow!(
                "{count} messages were not acknowledged; they may or may not have been published"
            )
            .into()),
        }
    }

    fn settle_oldest(&mut self) -> Result<(), Ending> {
        let Some(oldest) = self.waiting.pop_front() else {
            return Ok(());
        };
        let timeout = Duration::from_secs(self.arguments.timeout);
        let answer = oldest.wait_within(timeout).ok_or_else(|| {
            anyhow!(
                "no acknowledgement within {} s; the message may or may not have been published",
                timeout.as_secs()
            )
        })?;
        self.tell(answer)
    }

    fn tell(&mut self, answer: Result<Published, RequestError>) -> Result<(), Ending> {
        self.count += 1;
        match answer {
            Ok(_) if self.arguments.quiet => Ok(()),
            Ok(published) => {
                let mut output = std::io::stdout().lock();
                if self.arguments.json {
                    let epoch = published.position.epoch.to_string();
                    let offset = published.position.offset;
                    let object =
                        json!({"epoch": epoch, "offset": offset, "duplicate": published.duplicate});
                    writeln!(output, "{object}")?;
                } else {
                    let note = if published.duplicate { " duplicate" } else { "" };
                    writeln!(output, "{}{note}", position_text(published.position))?;
                }
                Ok(())
            }
            Err(RequestError::Unknown) => {
                self.unknown_count += 1;
                eprintln!(
                    "message {}: the connection was lost before its acknowledgement; it may have been published",
                    self.count
                );
                Ok(())
            }
            Err(error) => Err(anyhow!("message {}: {error}", self.count).into()),
        }
    }
}
