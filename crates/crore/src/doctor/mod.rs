//! `crore doctor`: reads the machine, reports what limits the number of connections and how to
//! raise it, and changes it on request.
//!
//! The machine is captured as texts (`source`), which `machine` parses; the evaluation (`assess`,
//! with `limits` and `tuning`) is a pure function of them. Only `source`, `apply` and `node` access
//! the system.
//!
//! Exit codes: 0 if no limit is below the target, else 1.

mod apply;
mod assess;
mod finding;
mod limits;
mod machine;
mod node;
mod show;
mod source;
#[cfg(test)]
mod tests;
mod tuning;

pub use assess::Assessment;
pub use finding::{bytes, count};
pub use limits::Network;
pub use machine::Machine;
pub use source::Captured;

use crate::exit::Ending;
use anyhow::Context;
use apply::Outcome;
use bench::engine::NetworkDevice;
use bench::units::scaled;
use std::fs;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Compare the machine with this number of connections (1M, 250k). The default is 100k, or the
    /// most that the memory can hold if that is less.
    #[arg(long, value_name = "N", value_parser = connections)]
    target_connections: Option<u64>,
    /// Number of I/O threads of the node. The default is one for each processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    io_threads: Option<u64>,
    /// Examine the machine for a node's own TCP on this interface (section user_network), not for
    /// the kernel's sockets. Opens its device for a moment, with the rights that a node needs.
    #[arg(long, value_name = "INTERFACE", conflicts_with = "machine")]
    user_network: Option<String>,
    /// With --user-network: device (user_network.device).
    #[arg(long, value_enum, requires = "user_network", default_value_t = NetworkDevice::Xdp)]
    device: NetworkDevice,
    /// Show the proposed kernel parameters, ask for confirmation, and set them. Needs root.
    #[arg(long)]
    apply: bool,
    /// With --apply: do not ask for confirmation.
    #[arg(long, requires = "apply")]
    yes: bool,
    /// URL of the operators' port of a running node, to print its memory by component. The default
    /// port is tried automatically.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Examine the machine whose /proc and /sys are below this directory.
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
    /// Examine a captured machine instead of this one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "root"])]
    machine: Option<PathBuf>,
    /// Write everything that was read from the machine to a file, for --machine.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

/// The default operators' port.
const ADMIN_URL: &str = "http://127.0.0.1:8801";

/// Examines the machine, and applies changes on request.
///
/// # Errors
/// A limit is below the target, or a file cannot be read or written.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let mut output = std::io::stdout().lock();
    let read = || {
        let mut captured = Captured::read(&arguments.root);
        if let Some(interface) = &arguments.user_network {
            captured.try_user_network(interface, arguments.device);
        }
        captured
    };
    let captured = match &arguments.machine {
        Some(file) => captured_in(file)?,
        None => read(),
    };
    if let Some(file) = &arguments.capture {
        fs::write(file, captured.to_text())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let assess = |captured: Captured| {
        let machine = Machine::new(captured);
        let network = machine.network();
        Assessment::of(&machine, arguments.target_connections, arguments.io_threads, network)
    };
    let mut assessment = assess(captured);
    if !arguments.json {
        show::assessment(&assessment, &mut output)?;
    }
    let mut outcomes = Vec::new();
    if arguments.apply {
        outcomes = apply_changes(arguments, &assessment, &mut output)?;
        if !outcomes.is_empty() {
            assessment = assess(read());
        }
    }
    let node = node_memory(arguments)?;
    if arguments.json {
        let object = show::json(&assessment, &outcomes, node.as_ref());
        writeln!(output, "{object}")?;
    } else {
        if !outcomes.is_empty() {
            writeln!(output)?;
            show::conclusion(&assessment, &mut output)?;
        }
        if let Some(memory) = &node {
            let url = arguments.admin.as_deref().unwrap_or(ADMIN_URL);
            show::node(url, memory, &mut output)?;
        }
    }
    let is_applied = outcomes.iter().all(Outcome::is_done);
    if assessment.is_wanting() || !is_applied { Err(Ending::FailedAndTold) } else { Ok(()) }
}

/// Reads a machine that was captured to a file.
///
/// # Errors
/// The file cannot be read, or contains no captured machine.
pub fn captured_in(file: &Path) -> Result<Captured, Ending> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let captured = Captured::parse(&text);
    if captured == Captured::default() {
        let file = file.display();
        return Err(anyhow::anyhow!(
            "{file} contains no captured machine: `crore doctor --capture FILE` writes one"
        )
        .into());
    }
    Ok(captured)
}

/// Parses a number of connections: `250k`, `1M`, `1,000,000`.
///
/// # Errors
/// The expected form.
pub fn connections(text: &str) -> Result<u64, String> {
    let plain = text.replace([',', '_'], "").to_lowercase();
    match scaled(&plain, &[('k', 1e3), ('m', 1e6)]) {
        Some(number) if number > 0.0 && number < 1e10 => Ok(number.round() as u64),
        _ => Err("expected a number of connections, such as 50000, 250k or 1.5M".into()),
    }
}

fn apply_changes(
    arguments: &Arguments,
    assessment: &Assessment,
    output: &mut impl Write,
) -> Result<Vec<Outcome>, Ending> {
    let changes = apply::changes(&assessment.findings);
    if changes.is_empty() {
        if !arguments.json {
            writeln!(output, "\nThere is nothing to apply.")?;
        }
        return Ok(Vec::new());
    }
    if !arguments.json {
        writeln!(output, "\nTo be set now:")?;
        for change in &changes {
            writeln!(output, "  {}   (now {})", change.command(), change.from)?;
        }
    }
    if !arguments.yes && !is_agreed(output)? {
        writeln!(output, "Nothing was changed.")?;
        return Ok(Vec::new());
    }
    let changes = changes.into_iter();
    let outcomes: Vec<Outcome> =
        changes.map(|change| apply::apply(&arguments.root, change)).collect();
    if !arguments.json {
        for outcome in &outcomes {
            show::outcome(outcome, output)?;
        }
        for line in apply::persistence(&outcomes) {
            writeln!(output, "{line}")?;
        }
    }
    Ok(outcomes)
}

fn is_agreed(output: &mut impl Write) -> Result<bool, Ending> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Ending::Usage(
            "--apply asks before it changes anything, and standard input is not a terminal: add --yes"
                .into(),
        ));
    }
    write!(output, "Set them? [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The memory of the given node, or of a node at the default port if there is one.
fn node_memory(arguments: &Arguments) -> Result<Option<node::NodeMemory>, Ending> {
    match &arguments.admin {
        Some(url) => Ok(Some(node::ask(url)?)),
        None if arguments.machine.is_some() || arguments.root != Path::new("/") => Ok(None),
        None => Ok(node::ask(ADMIN_URL).ok()),
    }
}
