//! Rules about the layers inside the broker (ARCHITECTURE.md, "Inside an edge").

use super::{File, Finding, Tree};

const EDGE: &str = "crates/broker/src/edge/";
const SESSION: &str = "crates/broker/src/session/";
/// The owners that lie below `edge/flow`. The rows of connections (`slots`) are data of all.
const OWNERS: &[&str] = &["access", "connections", "links", "outbox", "subscriptions"];

/// `impl Edge` stands in `edge/mod.rs` and in `edge/flow`; owners name neither `Edge` nor each
/// other; a session names nothing of an edge.
pub fn edge(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        if file.path.starts_with(SESSION) {
            findings.extend(of_session(file));
        } else if let Some(place) = file.path.strip_prefix(EDGE)
            && place != "mod.rs"
            && !place.starts_with("flow/")
        {
            findings.extend(of_owner(file, place));
        }
    }
    findings
}

fn of_session(file: &File) -> Vec<Finding> {
    let is_breach = |line: &str| line.contains("crate::edge") || line.contains("impl Edge");
    let lines = file.lines().filter(|(_, line)| is_code(line) && is_breach(line));
    let text = "a session knows bytes and values, and nothing of an edge: move this to edge/flow";
    lines.map(|(number, _)| file.finding(number, text)).collect()
}

fn of_owner(file: &File, place: &str) -> Vec<Finding> {
    let own = place.split(['/', '.']).next().unwrap_or_default();
    let others: Vec<&str> = OWNERS.iter().copied().filter(|owner| *owner != own).collect();
    let is_owner = OWNERS.contains(&own);
    let mut findings = Vec::new();
    for (number, line) in file.lines().filter(|(_, line)| is_code(line)) {
        let names_edge = line.contains("impl Edge ") || line.contains("edge::Edge;");
        if names_edge {
            findings.push(file.finding(number, "`impl Edge` stands in edge/mod.rs and edge/flow"));
        }
        let other = others.iter().find(|owner| {
            let path = format!("::{owner}::");
            line.contains(&path) && !line.contains("::slots")
        });
        if let Some(other) = other.filter(|_| is_owner) {
            let text = format!("{own} and {other} are owners: let edge/flow pass a value");
            findings.push(file.finding(number, text));
        }
    }
    findings
}

fn is_code(line: &str) -> bool {
    !line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    #[test]
    fn layers_of_the_edge_hold() {
        let found = |path: &str, text: &str| findings(edge, &[(path, text)]).len();
        assert_eq!(found("crates/broker/src/session/a.rs", "use crate::edge::Edge;\n"), 1);
        assert_eq!(found("crates/broker/src/session/a.rs", "//! See `crate::edge`.\n"), 0);
        assert_eq!(found("crates/broker/src/edge/links.rs", "impl Edge {\n"), 1);
        assert_eq!(found("crates/broker/src/edge/flow/a.rs", "impl Edge {\n"), 0);
        let other = "use crate::edge::access::Access;\n";
        assert_eq!(found("crates/broker/src/edge/outbox/a.rs", other), 1);
        assert_eq!(found("crates/broker/src/edge/access/a.rs", other), 0);
        let row = "use crate::edge::connections::slots::Slot;\n";
        assert_eq!(found("crates/broker/src/edge/outbox/a.rs", row), 0);
    }
}
