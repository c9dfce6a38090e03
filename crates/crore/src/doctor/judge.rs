//! The judgement: a captured machine and a wish in, findings and a conclusion out. Pure.

use super::finding::{Finding, Verdict, count};
use super::machine::Machine;
use super::tuning;
use super::walls::{self, Wish};

/// The target where nobody asked for another: more than most nodes ever need.
const TARGET: u64 = 100_000;

/// What the doctor has to say.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// Connections that it judged against.
    pub target: u64,
    /// Nobody asked for so many.
    pub is_own_target: bool,
    /// One after the other, walls first.
    pub findings: Vec<Finding>,
    /// What bounds connections first, and how many there can be: now,
    pub now: Option<(&'static str, u64)>,
    /// after `--apply`,
    pub after_apply: Option<(&'static str, u64)>,
    /// and when all that is said has been done.
    pub after_all: Option<(&'static str, u64)>,
}

impl Judgement {
    /// Judges a machine against a number of connections. Without one it is 100,000, or what its memory could hold if that is less.
    pub fn of(machine: &Machine, target: Option<u64>, io_threads: Option<u64>) -> Judgement {
        let room = walls::memory_room(machine).unwrap_or(TARGET);
        let connections = target.unwrap_or(TARGET.min(room));
        let io_threads = io_threads.or(machine.cores()).unwrap_or(1).max(1);
        let wish = Wish { connections, io_threads };
        let mut findings = walls::findings(machine, wish);
        findings.extend(tuning::findings(machine, wish));
        let first = |bound: fn(&Finding) -> Option<u64>| {
            let bounds = findings.iter().filter_map(|it| Some((it.name, bound(it)?)));
            bounds.min_by_key(|(_, connections)| *connections)
        };
        Judgement {
            target: connections,
            is_own_target: target.is_none(),
            now: first(|finding| finding.connections_max),
            after_apply: first(Finding::connections_after_apply),
            after_all: first(|finding| finding.connections_after),
            findings,
        }
    }

    /// Something limits below the target, or is bad.
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
        // Where nothing more is gained, nothing is said.
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
