//! The result of the doctor as text and as JSON.

use super::apply::Outcome;
use super::assess::Assessment;
use super::finding::{Finding, Verdict, bytes, count};
use super::node::NodeMemory;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The conclusion first, then the findings.
///
/// # Errors
/// Standard output fails.
pub fn assessment(assessment: &Assessment, output: &mut impl Write) -> io::Result<()> {
    conclusion(assessment, output)?;
    writeln!(output)?;
    for finding in &assessment.findings {
        show(finding, output)?;
    }
    Ok(())
}

/// Prints how many connections the machine can hold.
///
/// # Errors
/// Standard output fails.
pub fn conclusion(assessment: &Assessment, output: &mut impl Write) -> io::Result<()> {
    for line in assessment.conclusion() {
        writeln!(output, "{line}")?;
    }
    Ok(())
}

fn show(finding: &Finding, output: &mut impl Write) -> io::Result<()> {
    let mark = finding.verdict.mark();
    writeln!(output, "{mark:<4} {}: {}", finding.name, finding.value)?;
    writeln!(output, "     {}", finding.meaning)?;
    if let Some(change) = &finding.change {
        writeln!(output, "  -> {}", change.command())?;
        writeln!(
            output,
            "     permanently: `{}` in /etc/sysctl.d/90-crore.conf; `crore doctor --apply` sets it now",
            change.line()
        )?;
    }
    for advice in &finding.advice {
        writeln!(output, "  -> {advice}")?;
    }
    Ok(())
}

/// Prints the memory of a node.
///
/// # Errors
/// Standard output fails.
pub fn node(url: &str, memory: &NodeMemory, output: &mut impl Write) -> io::Result<()> {
    let NodeMemory { connections, total, components } = memory;
    writeln!(
        output,
        "\nThe node at {url}: {} of user-space memory, {} connections",
        bytes(*total),
        count(*connections)
    )?;
    for (component, bytes) in components.iter().filter(|(_, bytes)| *bytes != 0) {
        let each = *bytes as f64 / (*connections).max(1) as f64;
        writeln!(output, "  {component:<16} {bytes:>14} B {each:>12.1} B per connection")?;
    }
    Ok(())
}

/// Prints the result of one change.
///
/// # Errors
/// Standard output fails.
pub fn outcome(outcome: &Outcome, output: &mut impl Write) -> io::Result<()> {
    let change = &outcome.change;
    match &outcome.result {
        Ok(_) if outcome.is_done() => {
            writeln!(output, "done {}: {} (was {})", change.name, change.to, change.from)
        }
        Ok(value) => {
            writeln!(
                output,
                "BAD  {}: the kernel has {value} instead of {}",
                change.name, change.to
            )
        }
        Err(reason) => writeln!(output, "BAD  {}: {reason}", change.name),
    }
}

/// The result as one object.
pub fn json(assessment: &Assessment, outcomes: &[Outcome], node: Option<&NodeMemory>) -> Value {
    let bound = |bound: Option<(&str, u64)>| {
        bound.map(|(wall, connections)| json!({"wall": wall, "connections": connections}))
    };
    let findings: Vec<Value> = assessment.findings.iter().map(finding_json).collect();
    let outcomes: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            json!({
                "name": outcome.change.name,
                "from": outcome.change.from,
                "to": outcome.change.to,
                "done": outcome.is_done(),
                "error": outcome.result.as_ref().err(),
            })
        })
        .collect();
    let node = node.map(|node| {
        let components = node.components.iter().cloned();
        json!({
            "connections": node.connections,
            "proportional_bytes": node.total,
            "memory_bytes": components.collect::<std::collections::BTreeMap<_, _>>(),
        })
    });
    json!({
        "target_connections": assessment.target,
        "target_is_own": assessment.is_own_target,
        "wanting": assessment.is_wanting(),
        "now": bound(assessment.now),
        "after_apply": bound(assessment.after_apply),
        "after_all": bound(assessment.after_all),
        "findings": findings,
        "applied": outcomes,
        "node": node,
    })
}

fn finding_json(finding: &Finding) -> Value {
    let change = finding.change.as_ref().map(|change| {
        json!({
            "name": change.name,
            "from": change.from,
            "to": change.to,
            "command": change.command(),
        })
    });
    json!({
        "name": finding.name,
        "value": finding.value,
        "meaning": finding.meaning,
        "verdict": finding.verdict.word(),
        "is_ok": finding.verdict == Verdict::Ok,
        "connections_max": finding.connections_max,
        "connections_after": finding.connections_after,
        "advice": finding.advice,
        "change": change,
    })
}
