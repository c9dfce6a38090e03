//! `crore topic list|show`: the topics of a running node, through its operators' port.

use super::listing::{Listing, print_lines, print_objects};
use super::operators::{Port, encoded};
use super::table::{Side, cell};
use crate::exit::Ending;
use serde_json::Value;

/// Arguments of `topic`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List topics.
    List(ListArguments),
    /// Show one topic: its I/O thread, its subscribers and its history.
    Show(ShowArguments),
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    /// List only topics that begin with this text, or that match this filter (`prices/+`,
    /// `news/#`).
    search: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, clap::Args)]
struct ShowArguments {
    /// The topic.
    topic: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operators: Port,
}

/// Runs the command.
///
/// # Errors
/// The operators' port does not answer, the node refuses, or there is no such topic.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    match &arguments.what {
        What::List(arguments) => list(arguments),
        What::Show(arguments) => show(arguments),
    }
}

fn list(arguments: &ListArguments) -> Result<(), Ending> {
    let query = match arguments.search.as_deref() {
        None => String::new(),
        Some(filter) if filter.contains(['+', '#']) => format!("&filter={}", encoded(filter)),
        Some(prefix) => format!("&prefix={}", encoded(prefix)),
    };
    let columns = [
        ("TOPIC", Side::Left),
        ("POSITION", Side::Left),
        ("SUBSCRIBERS", Side::Right),
        ("RETAINED", Side::Right),
        ("PARTITION", Side::Right),
    ];
    let row = |found: &Value| {
        let members = ["topic", "position", "subscribers", "retained_bytes", "partition"];
        members.iter().map(|name| cell(&found[*name])).collect()
    };
    let source = ("/api/v1/topics", &*query, "topics");
    arguments.listing.print(source, &columns, row)
}

fn show(arguments: &ShowArguments) -> Result<(), Ending> {
    let path = format!("/api/v1/topic?topic={}", encoded(&arguments.topic));
    let found = arguments.operators.ask("GET", &path)?;
    if arguments.json {
        return print_objects(&[found]);
    }
    let records = &found["records"];
    let at_least = if records["all"] == true { "" } else { "at least " };
    let rule = match found["rule"].as_str() {
        Some("") => "(the default rule)".into(),
        _ => cell(&found["rule"]),
    };
    let rows = [
        ("topic", cell(&found["topic"])),
        ("position", cell(&found["position"])),
        ("rule", rule),
        ("log", cell(&found["log"])),
        (
            "partition",
            format!("{}, at {}", cell(&found["partition"]), cell(&found["partition_position"])),
        ),
        (
            "records in memory",
            format!(
                "{at_least}{}, {} bytes, from {}",
                records["count"],
                records["bytes"],
                cell(&records["oldest"])
            ),
        ),
        (
            "retained",
            format!(
                "{}, {} bytes",
                cell(&found["retained_position"]),
                cell(&found["retained_bytes"])
            ),
        ),
        ("subscribers", cell(&found["subscribers"])),
    ];
    let mut output: Vec<String> =
        rows.iter().map(|(name, text)| format!("{name:<20}{text}")).collect();
    for thread in found["by_thread"].as_array().into_iter().flatten() {
        output.push(format!(
            "  thread {:<11}{} to the topic, {} to filters",
            thread["thread"], thread["plain"], thread["by_filter"]
        ));
    }
    print_lines(&output)
}
