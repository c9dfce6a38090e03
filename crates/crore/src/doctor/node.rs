//! The memory of a running node by component, from its operators' port.

use anyhow::{Context, bail};
use fetch::Request;
use std::time::Duration;

/// The memory of a node.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NodeMemory {
    /// Open connections.
    pub connections: u64,
    /// The proportional set size; 0 if the system does not report it.
    pub total: u64,
    /// Bytes by component, in the node's order.
    pub components: Vec<(String, i64)>,
}

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Requests the figures of a node.
///
/// # Errors
/// The port does not answer, or the answer is not a node's.
pub fn ask(url: &str) -> anyhow::Result<NodeMemory> {
    let address = url.strip_prefix("http://").unwrap_or(url);
    let address = address.trim_end_matches('/');
    let answer = Request::get(address, "/metrics")
        .ask(PATIENCE, ANSWER_BYTES_MAX)
        .with_context(|| format!("no node answers at {url}"))?;
    if answer.status != 200 {
        bail!("{url} answers {} to /metrics", answer.status);
    }
    let memory = parse(&String::from_utf8_lossy(&answer.body));
    if memory.components.is_empty() {
        bail!("{url} reports no memory figures");
    }
    Ok(memory)
}

/// Parses the text of `/metrics`.
fn parse(text: &str) -> NodeMemory {
    let mut memory = NodeMemory::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let component = name
            .strip_prefix("crore_memory_bytes{component=\"")
            .and_then(|rest| rest.strip_suffix("\"}"));
        match (component, name) {
            (Some(component), _) => {
                memory.components.push((component.to_owned(), value.parse().unwrap_or(0)))
            }
            (None, "crore_connections") => memory.connections = value.parse().unwrap_or(0),
            (None, "crore_process_proportional_bytes") => {
                memory.total = value.parse().unwrap_or(0);
            }
            _ => {}
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_become_components() {
        let text = "# TYPE crore_connections gauge\ncrore_connections 4\n\
                    crore_memory_bytes{component=\"slots\"} 400\n\
                    crore_memory_bytes{component=\"unaccounted\"} -8\n\
                    crore_process_proportional_bytes 392\n";
        let memory = parse(text);
        assert_eq!((memory.connections, memory.total), (4, 392));
        let sum: i64 = memory.components.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, 392);
    }
}
