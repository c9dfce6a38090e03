//! A finding of the doctor.

pub use bench::units::show_count as count;
use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// No problem.
    Ok,
    /// Limits the node.
    Limits,
    /// Prevents a node from working, or breaks one of its guarantees.
    Bad,
}

impl Verdict {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Limits => "limits",
            Verdict::Bad => "bad",
        }
    }

    /// The word for people; problems are in capitals.
    pub fn mark(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Limits => "LOW",
            Verdict::Bad => "BAD",
        }
    }
}

/// A kernel parameter to set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its dotted name.
    pub name: &'static str,
    /// Its value now.
    pub from: String,
    /// Its value afterwards.
    pub to: String,
}

impl Change {
    /// The command that sets it until the next reboot.
    pub fn command(&self) -> String {
        format!("sysctl -w {}", self.line())
    }

    /// The line for a file of `/etc/sysctl.d/`, which sets it permanently.
    pub fn line(&self) -> String {
        if self.to.contains(char::is_whitespace) {
            format!("{}='{}'", self.name, self.to)
        } else {
            format!("{}={}", self.name, self.to)
        }
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The subject: short, and the same on all machines.
    pub name: &'static str,
    /// The value on this machine.
    pub value: String,
    /// The consequence for a node.
    pub meaning: String,
    /// The severity.
    pub verdict: Verdict,
    /// Maximum number of connections, if this limits it.
    pub connections_max: Option<u64>,
    /// This maximum after all advice has been followed.
    pub connections_after: Option<u64>,
    /// Advice: sentences and commands.
    pub advice: Vec<String>,
    /// The change that `--apply` makes.
    pub change: Option<Change>,
}

impl Finding {
    /// A finding without a problem.
    pub fn ok(name: &'static str, value: impl fmt::Display, meaning: impl Into<String>) -> Finding {
        Finding {
            name,
            value: value.to_string(),
            meaning: meaning.into(),
            verdict: Verdict::Ok,
            connections_max: None,
            connections_after: None,
            advice: Vec::new(),
            change: None,
        }
    }

    /// Adds a problem and its remedy.
    pub fn but(self, verdict: Verdict, advice: impl Into<String>) -> Finding {
        let mut finding = Finding { verdict, ..self };
        finding.advice.push(advice.into());
        finding
    }

    /// Adds a change of a kernel parameter.
    pub fn with_change(mut self, verdict: Verdict, change: Change) -> Finding {
        self.verdict = verdict;
        self.change = Some(change);
        self
    }

    /// Sets the maximum number of connections after changes of kernel parameters.
    pub fn connections_after_apply(&self) -> Option<u64> {
        match self.change {
            Some(_) => self.connections_after,
            None => self.connections_max,
        }
    }

    /// Sets the maximum number of connections, now and after all advice.
    pub fn bounds(mut self, now: u64, after: u64) -> Finding {
        self.connections_max = Some(now);
        self.connections_after = Some(after);
        self
    }
}

/// Formats bytes with a unit.
pub fn bytes(bytes: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let found = units.into_iter().find(|(_, size)| bytes as f64 >= *size);
    found.map_or(format!("{bytes} B"), |(unit, size)| format!("{:.1} {unit}", bytes as f64 / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        for (number, text) in [(12, "12 B"), (1_500, "1.5 kB"), (24_000_000_000, "24.0 GB")] {
            assert_eq!(bytes(number), text);
        }
    }
}
