//! The judgement: a captured machine and a wish in, findings and a conclusion out. Pure.

use super::finding::{Finding, Verdict, count};
use super::machine::Machine;
use super::tuning;
use super::walls::{self, Wish};

/// What the doctor has to say.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// Connections that it judged against.
    pub target: u64,
    /// Nobody asked for so many: it is what the memory has room for.
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
    /// Judges a machine against a number of connections, or against what its memory could hold.
    pub fn of(machine: &Machine, target: Option<u64>, io_threads: Option<u64>) -> Judgement {
        let room = walls::memory_room(machine).unwrap_or(0);
        let connections = target.unwrap_or(room);
        let io_threads = io_threads.or(machine.cores()).unwrap_or(1).max(1);
        let wish = Wish {
            connections,
            io_threads,
        };
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
        let is_low = self
            .now
            .is_some_and(|(_, connections)| connections < self.target);
        is_low || self.findings.iter().any(is_bad)
    }

    /// The conclusion in sentences.
    pub fn conclusion(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let target = match self.is_own_target {
            true => format!(
                "Judged against {} connections: what the memory has room for.",
                count(self.target)
            ),
            false => format!("Judged against {} connections.", count(self.target)),
        };
        lines.push(target);
        match self.now {
            None => {
                lines.push("Nothing here tells how many connections this machine can hold.".into())
            }
            Some((wall, connections)) => {
                lines.push(format!(
                    "This machine can hold {} connections now; the first wall is {wall}.",
                    count(connections)
                ));
                if let Some((wall, after)) = self.after_apply {
                    lines.push(format!(
                        "After `crore doctor --apply`: {}; the first wall is then {wall}.",
                        count(after)
                    ));
                }
                if let Some((wall, after)) = self.after_all {
                    lines.push(format!(
                        "When everything above has been done: {}; the first wall is then {wall}.",
                        count(after)
                    ));
                }
            }
        }
        lines
    }
}
