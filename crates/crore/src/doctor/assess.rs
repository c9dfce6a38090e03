//! The evaluation: a captured machine and a target in, findings and a conclusion out. Pure.

use super::finding::{Finding, Verdict, count};
use super::limits::{self, Load, Network};
use super::machine::Machine;
use super::tuning;

/// The default target: more than most nodes ever need.
const TARGET: u64 = 100_000;

/// The result of the doctor.
#[derive(Clone, PartialEq, Debug)]
pub struct Assessment {
    /// The target number of connections.
    pub target: u64,
    /// Whether the target is the default.
    pub is_own_target: bool,
    /// The findings, limits of connections first.
    pub findings: Vec<Finding>,
    /// The first limit and its number of connections: now,
    pub now: Option<(&'static str, u64)>,
    /// after `--apply`,
    pub after_apply: Option<(&'static str, u64)>,
    /// and after all advice.
    pub after_all: Option<(&'static str, u64)>,
}

impl Assessment {
    /// Evaluates a machine for a number of connections. The default is 100,000, or the most that
    /// the memory can hold if that is less.
    pub fn of(
        machine: &Machine,
        target: Option<u64>,
        io_threads: Option<u64>,
        network: Network,
    ) -> Assessment {
        let room = limits::memory_room(machine, network).unwrap_or(TARGET);
        let connections = target.unwrap_or(TARGET.min(room));
        let io_threads = io_threads.or(machine.cores()).unwrap_or(1).max(1);
        let load = Load { connections, io_threads, network };
        let mut findings = limits::findings(machine, load);
        findings.extend(tuning::findings(machine, load));
        let first = |bound: fn(&Finding) -> Option<u64>| {
            let bounds = findings.iter().filter_map(|it| Some((it.name, bound(it)?)));
            bounds.min_by_key(|(_, connections)| *connections)
        };
        Assessment {
            target: connections,
            is_own_target: target.is_none(),
            now: first(|finding| finding.connections_max),
            after_apply: first(Finding::connections_after_apply),
            after_all: first(|finding| finding.connections_after),
            findings,
        }
    }

    /// Whether a limit is below the target, or a finding is bad.
    pub fn is_wanting(&self) -> bool {
        let is_bad = |finding: &Finding| finding.verdict == Verdict::Bad;
        let is_low = self.now.is_some_and(|(_, connections)| connections < self.target);
        is_low || self.findings.iter().any(is_bad)
    }

    /// The conclusion in sentences.
    pub fn conclusion(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let target = count(self.target);
        lines.push(match self.is_own_target {
            false => format!("Target: {target} connections."),
            true if self.target < TARGET => {
                format!("Target: {target} connections, the most that the memory can hold.")
            }
            true => {
                format!("Target: {target} connections (--target-connections sets another number).")
            }
        });
        let Some((wall, connections)) = self.now else {
            lines.push("The number of connections that this machine can hold is unknown.".into());
            return lines;
        };
        lines.push(format!(
            "This machine can hold {} connections now. The first limit is {wall}.",
            count(connections)
        ));
        // Omit steps that gain nothing.
        let mut before = connections;
        if let Some((wall, after)) = self.after_apply
            && after != before
        {
            before = after;
            lines.push(format!(
                "After `crore doctor --apply`: {}. The first limit is then {wall}.",
                count(after)
            ));
        }
        if let Some((wall, after)) = self.after_all
            && after != before
        {
            lines.push(format!(
                "With all advice below applied: {}. The first limit is then {wall}.",
                count(after)
            ));
        }
        lines
    }
}
