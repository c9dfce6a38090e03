//! `crore history`: the stored messages of a topic, page by page, and the gaps between them.

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

/// Maximum number of messages for each request.
const PAGE_MESSAGES_MAX: u64 = 1_000;

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The topic.
    topic: String,
    /// Maximum number of messages to print.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Print only messages after this position; with --reverse, only messages before it.
    #[arg(long, value_name = "EPOCH:OFFSET", value_parser = parse_position)]
    since: Option<Position>,
    /// Print the newest message first.
    #[arg(long)]
    reverse: bool,
    /// Print one JSON object for each message and each gap.
    #[arg(long)]
    json: bool,
    /// Time to wait for an answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Prints the messages.
///
/// # Errors
/// The node does not answer or refuses, or standard output fails.
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
    // The client reports the end of its connection before the result of the request. A stopped
    // thread has reported both.
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
                // A terminal shows standard output and standard error in the order of their writes.
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
