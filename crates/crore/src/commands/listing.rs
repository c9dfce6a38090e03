//! Lists of a running node, requested page by page: their shared flags, and their output.
//!
//! Place: below `crore conn` and `crore topic`. Invariant: no request asks for more entries than
//! the operators' port returns in one answer.

use super::operators::Port;
use super::table::{Side, lines};
use crate::exit::Ending;
use serde_json::Value;
use std::io::Write;

/// Maximum number of entries for each request.
pub const PAGE_LEN_MAX: u64 = 1_000;

/// Flags of a command that prints a list.
#[derive(Debug, clap::Args)]
pub struct Listing {
    /// Maximum number of entries to print.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Print one JSON object on each line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operators: Port,
}

impl Listing {
    /// Requests the entries, which are in `member` of each answer, and prints them as JSON or as
    /// rows of a table.
    ///
    /// # Errors
    /// The operators' port does not answer, the node refuses, or standard output fails.
    pub fn print(
        &self,
        (path, query, member): (&str, &str, &str),
        columns: &[(&str, Side)],
        row: impl Fn(&Value) -> Vec<String>,
    ) -> Result<(), Ending> {
        let found = self.all_pages(path, query, member)?;
        if self.json {
            return print_objects(&found);
        }
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        print_lines(&lines(columns, &rows))
    }

    fn all_pages(&self, path: &str, query: &str, member: &str) -> Result<Vec<Value>, Ending> {
        let mut found: Vec<Value> = Vec::new();
        let mut after = String::new();
        loop {
            let len_max = (self.limit - found.len() as u64).min(PAGE_LEN_MAX);
            let path = format!("{path}?limit={len_max}{query}{after}");
            let mut page = self.operators.ask("GET", &path)?;
            if let Some(some) = page[member].as_array_mut() {
                found.append(some);
            }
            match page["next"].as_str() {
                Some(next) if (found.len() as u64) < self.limit => {
                    after = format!("&after={next}");
                }
                _ => return Ok(found),
            }
        }
    }
}

/// Prints one object on each line.
///
/// # Errors
/// Standard output fails.
pub fn print_objects(found: &[Value]) -> Result<(), Ending> {
    print_lines(&found.iter().map(Value::to_string).collect::<Vec<_>>())
}

/// Prints the lines.
///
/// # Errors
/// Standard output fails.
pub fn print_lines(lines: &[String]) -> Result<(), Ending> {
    let mut output = std::io::stdout().lock();
    for line in lines {
        writeln!(output, "{line}")?;
    }
    output.flush()?;
    Ok(())
}
