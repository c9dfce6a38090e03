//! `crore conn list|show|kick`: the connections of a running node, through its operators' port.

use super::listing::{Listing, PAGE_LEN_MAX, print_lines, print_objects};
use super::operators::{Port, encoded};
use super::table::{Side, cell, lines};
use crate::exit::Ending;
use anyhow::anyhow;
use serde_json::Value;
use std::io::Write;

/// Arguments of `conn`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List connections.
    List(ListArguments),
    /// Show one connection and its subscriptions.
    Show(ShowArguments),
    /// Close connections.
    Kick(KickArguments),
}

#[derive(Debug, clap::Args)]
struct ListArguments {
    /// List only connections from this address or network (192.0.2.0/24).
    #[arg(long, value_name = "NETWORK")]
    address: Option<String>,
    /// List only connections of this protocol: native, json, events, echo or http.
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// List only connections whose token has a `sub` that begins with this text.
    #[arg(long, value_name = "TEXT")]
    sub: Option<String>,
    /// List only connections that read more slowly than the node sends to them.
    #[arg(long)]
    lagging: bool,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, clap::Args)]
struct ShowArguments {
    /// Connection ID, as listed by `crore conn list`.
    id: String,
    /// Maximum number of subscriptions to print.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=PAGE_LEN_MAX))]
    limit: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operators: Port,
}

#[derive(Debug, clap::Args)]
struct KickArguments {
    /// Connection IDs, as listed by `crore conn list`.
    #[arg(required = true)]
    ids: Vec<String>,
    /// Allow the clients to reconnect. Without this flag, the close code tells them not to.
    #[arg(long = "return")]
    may_return: bool,
    #[command(flatten)]
    operators: Port,
}

/// Runs the command.
///
/// # Errors
/// The operators' port does not answer, the node refuses, or there is no such connection.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    match &arguments.what {
        What::List(arguments) => list(arguments),
        What::Show(arguments) => show(arguments),
        What::Kick(arguments) => kick(arguments),
    }
}

fn list(arguments: &ListArguments) -> Result<(), Ending> {
    let mut query = String::new();
    let texts = [
        ("address", &arguments.address),
        ("protocol", &arguments.protocol),
        ("sub", &arguments.sub),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            query.push_str(&format!("&{name}={}", encoded(text)));
        }
    }
    if arguments.lagging {
        query.push_str("&lagging=true");
    }
    let columns = [
        ("ID", Side::Left),
        ("PROTOCOL", Side::Left),
        ("TLS", Side::Left),
        ("ADDRESS", Side::Left),
        ("SUB", Side::Left),
        ("SUBSCRIPTIONS", Side::Right),
        ("WAITING", Side::Right),
        ("STATE", Side::Left),
    ];
    let source = ("/api/v1/connections", &*query, "connections");
    arguments.listing.print(source, &columns, row_of)
}

fn row_of(found: &Value) -> Vec<String> {
    let members = ["id", "protocol", "tls", "address", "sub", "subscriptions"];
    let mut row: Vec<String> = members.iter().map(|name| cell(&found[*name])).collect();
    row.push(cell(&found["outbox"]["bytes"]));
    row.push(state_of(found));
    row
}

fn state_of(found: &Value) -> String {
    let words = ["closing", "blocked", "lagging"];
    let is_so = words.into_iter().filter(|word| found[*word] == true);
    let words: Vec<&str> = is_so.collect();
    if words.is_empty() { "live".into() } else { words.join(",") }
}

fn show(arguments: &ShowArguments) -> Result<(), Ending> {
    let path = format!("/api/v1/connections/{}", encoded(&arguments.id));
    let mut found = arguments.operators.ask("GET", &path)?;
    let path = format!("{path}/subscriptions?limit={}", arguments.limit);
    let page = arguments.operators.ask("GET", &path)?;
    if arguments.json {
        found["subscribed"] = page["subscriptions"].clone();
        return print_objects(&[found]);
    }
    let mut output = Vec::new();
    for (name, value) in found.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(members) => output.extend(members.iter().map(|(member, value)| {
                format!("{:<18}{}", format!("{name} {member}"), cell(value))
            })),
            None => output.push(format!("{name:<18}{}", cell(value))),
        }
    }
    let of_subscription = |found: &Value| {
        let to = if found["filter"].is_null() { &found["topic"] } else { &found["filter"] };
        vec![
            cell(&found["number"]),
            cell(to),
            cell(&found["stage"]),
            cell(&found["position"]),
            cell(&found["when_lagging"]),
        ]
    };
    let columns = [
        ("NUMBER", Side::Right),
        ("TOPIC OR FILTER", Side::Left),
        ("STAGE", Side::Left),
        ("POSITION", Side::Left),
        ("WHEN LAGGING", Side::Left),
    ];
    let subscriptions = page["subscriptions"].as_array();
    let rows: Vec<Vec<String>> = subscriptions.into_iter().flatten().map(of_subscription).collect();
    if !rows.is_empty() {
        output.push(String::new());
        output.extend(lines(&columns, &rows));
    }
    print_lines(&output)
}

fn kick(arguments: &KickArguments) -> Result<(), Ending> {
    let may_return = arguments.may_return;
    let mut failed = 0;
    for id in &arguments.ids {
        let path = format!("/api/v1/connections/{}?return={may_return}", encoded(id));
        match arguments.operators.ask("DELETE", &path) {
            Ok(_) => writeln!(std::io::stdout(), "{id} was closed")?,
            Err(error) => {
                eprintln!("{id}: {error:#}");
                failed += 1;
            }
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(anyhow!("{failed} of {} connections were not closed", arguments.ids.len()).into()),
    }
}
