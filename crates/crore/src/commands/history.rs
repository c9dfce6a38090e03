//! `crore history`: a topic's messages that the node still has, page by page, and what it no longer has.

use super::connection::ConnectionArguments;
use super::messages::{
    event_sentence, history_gap_json, history_gap_sentence, message_json, message_line,
    parse_position,
};
use crate::exit::Ending;
use crate::{signals, terminal};
use anyhow::anyhow;
use client::{Client, HistoryOptions, Position};
use std::io::{BufWriter, Write};
use std::time::Duration;

/// Most messages asked for at a time.
const PAGE_MESSAGES_MAX: u64 = 1_000;

/// Which messages.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The topic.
    topic: String,
    /// Print at most so many messages.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Only messages after this position; with --reverse, before it.
    #[arg(long, value_name = "EPOCH:OFFSET", value_parser = parse_position)]
    since: Option<Position>,
    /// Newest first.
    #[arg(long)]
    reverse: bool,
    /// Print one JSON object for each message and each gap.
    #[arg(long)]
    json: bool,
    /// Give up after so many seconds without an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Prints them.
///
/// # Errors
/// No answer, or a refusal; standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    signals::exit_at_signal();
    let (client, events) = arguments.connection.connect("crore history")?;
    let timeout = Duration::from_secs(arguments.timeout);
    arguments.connection.wait_for_node(&events, timeout)?;
    let telling = std::thread::spawn(move || {
        for event in events {
            if let Some(sentence) = event_sentence(&event) {
                eprintln!("{sentence}");
            }
        }
    });
    let printed = print(arguments, &client);
    client.close();
    // What has ended the client is told before what that did to the request. A thread that has ended has told it.
    let _ = telling.join();
    printed
}

fn print(arguments: &Arguments, client: &Client) -> Result<(), Ending> {
    let mut output = BufWriter::new(std::io::stdout());
    let has_colours = terminal::output_has_colours();
    let mut position = arguments.since;
    let mut left = arguments.limit;
    while left > 0 {
        let options = HistoryOptions {
            position,
            reverse: arguments.reverse,
            messages_max: left.min(PAGE_MESSAGES_MAX) as u32,
        };
        let page = client
            .history(&arguments.topic, options)
            .map_err(|error| anyhow!("{error}"))?
            .wait_within(Duration::from_secs(arguments.timeout))
            .ok_or_else(|| anyhow!("no answer within {} s", arguments.timeout))?
            .map_err(|error| anyhow!("{error}"))?;
        if let Some(gap) = &page.gap {
            if arguments.json {
                let object = history_gap_json(&arguments.topic, page.epoch, gap, position);
                writeln!(output, "{object}")?;
            } else {
                // In the order in which a terminal shows both.
                output.flush()?;
                let sentence = history_gap_sentence(&arguments.topic, page.epoch, gap, position);
                eprintln!("{sentence}");
            }
        }
        for message in &page.messages {
            if arguments.json {
                writeln!(output, "{}", message_json(message))?;
            } else {
                writeln!(output, "{}", message_line(message, has_colours))?;
            }
        }
        left = left.saturating_sub(page.messages.len() as u64);
        match page.messages.last() {
            Some(last) if page.more => position = Some(last.position),
            _ => break,
        }
    }
    output.flush()?;
    Ok(())
}
