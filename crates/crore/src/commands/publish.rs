//! `crore pub`: one message, or one for each line of standard input; acknowledged, in order.
//!
//! Lines are sent without waiting for each acknowledgement, up to a window; acknowledgements are reported in order. What
//! was sent and not acknowledged when a connection broke is reported as unknown, never sent again: it may have been
//! appended.

use super::connection::ConnectionArguments;
use super::messages::{event_sentence, parse_tag, position_text};
use crate::exit::Ending;
use crate::signals;
use anyhow::{Context, anyhow};
use client::{Pending, PublishOptions, Published, RequestError};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::time::Duration;

/// Publications under way at a time.
const WINDOW_MAX: usize = 512;

/// What to publish.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The topic.
    topic: String,
    /// The message; without it, each line of standard input is one.
    text: Option<String>,
    /// Media type of the messages.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// A tag; may be repeated.
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    /// Keep it as the topic's retained message; an empty text removes the retained one.
    #[arg(long)]
    retain: bool,
    /// Give up when no acknowledgement came for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Say nothing about what went well.
    #[arg(long, short)]
    quiet: bool,
    /// One JSON object for each acknowledgement.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Publishes.
///
/// # Errors
/// The first refusal ends it; publications of unknown fate are told and make it fail at the end.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    signals::exit_at_signal();
    let (client, events) = arguments.connection.connect("crore pub")?;
    // What happens to the connection is told while the main thread waits for lines or answers.
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
    };
    let mut window = Window {
        arguments,
        waiting: VecDeque::new(),
        count: 0,
        unknown_count: 0,
    };
    let send = |payload: Vec<u8>, window: &mut Window<'_>| -> Result<(), Ending> {
        let pending = client
            .publish(&arguments.topic, payload, options.clone())
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
                let count = input
                    .read_until(b'\n', &mut line)
                    .context("standard input cannot be read")?;
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

/// Publications under way, oldest first.
struct Window<'a> {
    arguments: &'a Arguments,
    waiting: VecDeque<Pending<Published>>,
    /// Answers taken so far.
    count: u64,
    unknown_count: u64,
}

impl Window<'_> {
    fn push(&mut self, pending: Pending<Published>) -> Result<(), Ending> {
        self.waiting.push_back(pending);
        while self.waiting.len() > WINDOW_MAX {
            self.settle_oldest()?;
        }
        // Acknowledgements that are there are told now, not when the window is full.
        while let Some(answer) = self
            .waiting
            .front()
            .and_then(|oldest| oldest.wait_within(Duration::ZERO))
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
                "of {count} messages it is not known whether they were published"
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
                "no acknowledgement within {} s; it is not known whether the message was published",
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
                    writeln!(output, "{}", position_text(published.position))?;
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
