//! `--apply`: sets kernel parameters after the operator has agreed. Paths are below a root
//! directory, so that tests can use a directory.

use super::finding::{Change, Finding};
use std::fs;
use std::path::Path;

/// The result of one change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The change.
    pub change: Change,
    /// The new value in the kernel, or the error.
    pub result: Result<String, String>,
}

impl Outcome {
    /// Whether the kernel has the requested value.
    pub fn is_done(&self) -> bool {
        self.result.as_deref() == Ok(self.change.to.as_str())
    }
}

/// The proposed changes.
pub fn changes(findings: &[Finding]) -> Vec<Change> {
    findings.iter().filter_map(|finding| finding.change.clone()).collect()
}

/// Writes one parameter and reads it back.
pub fn apply(root: &Path, change: Change) -> Outcome {
    let path = root.join("proc/sys").join(change.name.replace('.', "/"));
    let result = fs::write(&path, format!("{}\n", change.to))
        .and_then(|()| fs::read_to_string(&path))
        .map(|text| text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
        .map_err(|error| format!("{}: {error}", path.display()));
    Outcome { change, result }
}

/// Instructions to make the changes permanent, and to undo them.
pub fn persistence(outcomes: &[Outcome]) -> Vec<String> {
    let done: Vec<&Change> = outcomes
        .iter()
        .filter(|outcome| outcome.is_done())
        .map(|outcome| &outcome.change)
        .collect();
    if done.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["To keep the values after a reboot:".to_owned()];
    lines.push("  cat > /etc/sysctl.d/90-crore.conf <<'EOF'".to_owned());
    lines.extend(done.iter().map(|change| format!("  {} = {}", change.name, change.to)));
    lines.push("  EOF".to_owned());
    lines.push("To undo the change:".to_owned());
    lines.extend(done.iter().map(|change| {
        let back = Change { to: change.from.clone(), ..(*change).clone() };
        format!("  {}", back.command())
    }));
    lines
}
