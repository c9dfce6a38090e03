//! What the doctor says about one thing.

pub use bench::units::show_count as count;
use std::fmt;

/// How it stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It holds something back.
    Limits,
    /// A node does not work like this, or not as it promises.
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

    /// The word for a person: what needs attention stands out.
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
    /// What sets it until the machine is started again.
    pub fn command(&self) -> String {
        format!("sysctl -w {}", self.line())
    }

    /// What sets it permanently, in a file of `/etc/sysctl.d/`.
    pub fn line(&self) -> String {
        match self.to.contains(char::is_whitespace) {
            true => format!("{}='{}'", self.name, self.to),
            false => format!("{}={}", self.name, self.to),
        }
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is about; short, and the same on all machines.
    pub name: &'static str,
    /// How it is here.
    pub value: String,
    /// What that means for a node.
    pub meaning: String,
    /// How it stands.
    pub verdict: Verdict,
    /// Connections that it allows at most, if it bounds them.
    pub connections_max: Option<u64>,
    /// The same when what is said here has been done.
    pub connections_after: Option<u64>,
    /// What to do: sentences and commands.
    pub advice: Vec<String>,
    /// What `--apply` does.
    pub change: Option<Change>,
}

impl Finding {
    /// One that is as it should be.
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

    /// Not as it should be, and what to do.
    pub fn but(self, verdict: Verdict, advice: impl Into<String>) -> Finding {
        let mut finding = Finding { verdict, ..self };
        finding.advice.push(advice.into());
        finding
    }

    /// A kernel parameter would make it better.
    pub fn with_change(mut self, verdict: Verdict, change: Change) -> Finding {
        self.verdict = verdict;
        self.change = Some(change);
        self
    }

    /// Connections that it allows when kernel parameters have been set.
    pub fn connections_after_apply(&self) -> Option<u64> {
        match self.change {
            Some(_) => self.connections_after,
            None => self.connections_max,
        }
    }

    /// It bounds connections: now, and when what is said has been done.
    pub fn bounds(mut self, now: u64, after: u64) -> Finding {
        self.connections_max = Some(now);
        self.connections_after = Some(after);
        self
    }
}

/// Bytes as people read them.
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
