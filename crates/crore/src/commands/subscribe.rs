//! `crore sub`: prints messages as they arrive, reconnects and recovers by itself, and reports
//! every gap.

use super::connection::ConnectionArguments;
use super::gaps::FilterGaps;
use super::messages::{event_json, event_sentence, message_line, parse_position};
use crate::exit::Ending;
use crate::{signals, terminal};
use anyhow::anyhow;
use client::{Event, Events, EventsError, Position, Start};
use std::io::{BufWriter, Write};
use std::time::Duration;

/// Arguments of `sub`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Topics or filters: `prices/eur`, `prices/+`, `prices/#`.
    #[arg(required = true, value_name = "FILTER")]
    filters: Vec<String>,
    /// Replay the messages after this position, then continue live. Only for topics without
    /// wildcards.
    #[arg(long, value_name = "EPOCH:OFFSET", value_parser = parse_position, conflicts_with_all = ["last", "snapshot"])]
    since: Option<Position>,
    /// Replay the newest N messages, then continue live. Only for topics without wildcards.
    #[arg(long, value_name = "N", conflicts_with = "snapshot")]
    last: Option<u32>,
    /// Begin with the retained message, else the newest one. Only for topics without wildcards.
    #[arg(long)]
    snapshot: bool,
    /// Print one JSON object for each message and event, on standard output.
    #[arg(long)]
    json: bool,
    /// Stop after this number of messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Subscribes until a signal, or `--count` messages.
///
/// # Errors
/// The server refuses all subscriptions, the client has stopped reconnecting, or standard output
/// fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    signals::exit_at_signal();
    let (client, events) = arguments.connection.connect("crore sub")?;
    let start = match (arguments.since, arguments.last) {
        (Some(position), _) => Start::Since(position),
        (None, Some(count)) => Start::Last(count),
        (None, None) if arguments.snapshot => Start::Snapshot,
        (None, None) => Start::Live,
    };
    let mut open_count = 0_usize;
    for filter in &arguments.filters {
        client.subscribe(filter, start).map_err(|error| anyhow!("{filter}: {error}"))?;
        open_count += 1;
    }
    let mut output = Printer::new(arguments.json);
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(event) = next(&events, &mut output)? else {
            output.flush()?;
            return Err(Ending::FailedAndTold);
        };
        output.print(&event)?;
        match event {
            Event::Message(_) => left -= 1,
            Event::Unsubscribed { .. } => {
                open_count -= 1;
                if open_count == 0 {
                    output.flush()?;
                    return Err(Ending::FailedAndTold);
                }
            }
            _ => {}
        }
    }
    output.flush()?;
    client.close();
    Ok(())
}

/// Returns the next event. Flushes the output before it waits.
fn next(events: &Events, output: &mut Printer) -> Result<Option<Event>, Ending> {
    match events.next_within(Duration::ZERO) {
        Ok(event) => return Ok(Some(event)),
        Err(EventsError::Ended) => return Ok(None),
        Err(EventsError::Timeout) => output.flush()?,
    }
    Ok(events.next_event())
}

struct Printer {
    output: BufWriter<std::io::Stdout>,
    is_json: bool,
    has_colours: bool,
    /// Gaps of the filter of the last events.
    gaps: FilterGaps,
}

impl Printer {
    fn new(is_json: bool) -> Printer {
        Printer {
            output: BufWriter::new(std::io::stdout()),
            is_json,
            has_colours: terminal::output_has_colours(),
            gaps: FilterGaps::default(),
        }
    }

    fn print(&mut self, event: &Event) -> std::io::Result<()> {
        if self.is_json {
            return writeln!(self.output, "{}", event_json(event));
        }
        if self.gaps.take(event) {
            return Ok(());
        }
        self.tell_gaps()?;
        if self.gaps.take(event) {
            return Ok(());
        }
        if let Event::Message(message) = event {
            return writeln!(self.output, "{}", message_line(message, self.has_colours));
        }
        if let Some(sentence) = event_sentence(event) {
            // A terminal shows standard output and standard error in the order of their writes.
            self.output.flush()?;
            eprintln!("{sentence}");
        }
        Ok(())
    }

    fn tell_gaps(&mut self) -> std::io::Result<()> {
        if let Some(sentence) = self.gaps.sentence() {
            self.output.flush()?;
            eprintln!("{sentence}");
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.tell_gaps()?;
        self.output.flush()
    }
}
