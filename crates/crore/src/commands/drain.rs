//! `crore drain`: asks a node's operators' port to drain the node and stop it, and shows the
//! progress.

use super::operators::{Port, ask};
use crate::exit::Ending;
use anyhow::anyhow;
use serde_json::{Map, Value};
use std::io::Write;
use std::time::{Duration, Instant};

/// Flags of `drain`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Time over which the clients' reconnects are spread, such as `30s`. The default is the node's
    /// node.drain_window.
    #[arg(long, value_name = "DURATION")]
    window: Option<String>,
    /// Return at once. Do not wait until the node has stopped.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    port: Port,
}

const PATH: &str = "/api/v1/drain";
/// Time between two requests for the progress.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Time after which unchanged progress is printed again.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Runs the command.
///
/// # Errors
/// The operators' port does not answer, the node refuses, or the node stops before its drain is
/// complete.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let mut body = Map::new();
    if let Some(window) = &arguments.window {
        body.insert("window".into(), window.as_str().into());
    }
    let mut progress = ask(&arguments.port, "POST", PATH, Some(&Value::from(body)))?;
    let mut told: Option<(Instant, Value)> = None;
    loop {
        let state = progress["state"].as_str().unwrap_or("").to_owned();
        let is_due = told
            .as_ref()
            .is_none_or(|(at, told)| at.elapsed() >= TELL_EVERY || told["state"] != state);
        if is_due {
            writeln!(std::io::stdout(), "{}", line(&state, &progress))?;
            told = Some((Instant::now(), progress.clone()));
        }
        if arguments.no_wait || state == "ended" {
            return Ok(());
        }
        std::thread::sleep(ASK_EVERY);
        progress = ask(&arguments.port, "GET", PATH, None).map_err(|error| {
            let left = &progress["connections"];
            let text = format!("the node stopped during its drain; {left} connections were open");
            Ending::Failed(error.context(anyhow!(text)))
        })?;
    }
}

fn line(state: &str, progress: &Value) -> String {
    let number = |name: &str| progress[name].as_u64().unwrap_or(0);
    let (left, asked) = (number("connections"), number("sent_away"));
    match state {
        "waiting" => format!("not ready; {left} connections"),
        "leading_away" => {
            format!("draining: {asked} clients asked to reconnect, {left} connections left")
        }
        "ending" => format!("stopping; {left} connections left"),
        "ended" => {
            format!(
                "stopped; {asked} clients were asked to reconnect, {left} connections were reset"
            )
        }
        other => other.to_owned(),
    }
}
