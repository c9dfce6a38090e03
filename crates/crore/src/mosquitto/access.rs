//! Mosquitto's access lists: lines of `acl_file` become permissions.
//!
//! Grants have no exceptions, so a permission of which a line denies a part is left out: nothing
//! that Mosquitto refuses is permitted here.

use super::source::{Line, Remark, quote};
use broker::entitlement::{Permissions, SUBJECT_BYTES_MAX, SUBJECT_PLACE};
use broker::topic::Filter;
use std::collections::BTreeMap;

/// The clients that a line is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    /// Clients without a user name.
    Anonymous,
    /// Every client (`pattern`).
    All,
    /// One user.
    User(String),
}

/// Permissions from an access list.
#[derive(Default, Debug)]
pub struct Access {
    /// The permissions, without duplicates.
    pub permissions: BTreeMap<Who, Permissions>,
    /// Lines that are not permissions.
    pub remarks: Vec<Remark>,
}

/// A line about a topic.
struct Entry<'a> {
    line: &'a Line,
    who: Who,
    reads: bool,
    writes: bool,
    filter: String,
}

const NO_EXCEPTIONS: &str = "a grant has no exceptions: permit the topics one by one";

/// The permissions of the lines.
pub fn translate(lines: &[Line]) -> Access {
    let mut access = Access::default();
    let mut who = Who::Anonymous;
    let mut entries = Vec::new();
    for line in lines {
        match &*line.key {
            "user" if !is_name(&line.value) => {
                let bounds = format!("1 to {SUBJECT_BYTES_MAX} bytes and no control characters");
                access.remarks.push(line.remark(format!("a user's name has {bounds}")));
            }
            "user" => who = Who::User(line.value.clone()),
            "topic" | "pattern" => {
                let of = if line.key == "pattern" { Who::All } else { who.clone() };
                match entry(line, of) {
                    Ok(entry) => entries.push(entry),
                    Err(problem) => access.remarks.push(line.remark(problem)),
                }
            }
            other => {
                let text = format!("unknown word {}", quote(other));
                access.remarks.push(line.remark(text));
            }
        }
    }
    let (denials, grants): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| !entry.reads && !entry.writes);
    for entry in &grants {
        let denial = denials.iter().find(|denial| concerns(denial, entry));
        match denial {
            Some(denial) => access.remarks.push(entry.line.remark(format!(
                "{} {} is left out, because {} denies a part of it; {NO_EXCEPTIONS}",
                entry.line.key,
                quote(&entry.line.value),
                denial.line.place
            ))),
            None => permit(access.permissions.entry(entry.who.clone()).or_default(), entry),
        }
    }
    for denial in &denials {
        access.remarks.push(
            denial.line.remark("a denial has no meaning here: what no grant permits is forbidden"),
        );
    }
    access
}

fn is_name(text: &str) -> bool {
    (1..=SUBJECT_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn permit(permissions: &mut Permissions, entry: &Entry<'_>) {
    let lists =
        [(entry.reads, &mut permissions.subscribe), (entry.writes, &mut permissions.publish)];
    for (is_granted, list) in lists {
        if is_granted && !list.iter().any(|filter| **filter == *entry.filter) {
            list.push(entry.filter.as_str().into());
        }
    }
}

fn entry(line: &Line, who: Who) -> Result<Entry<'_>, String> {
    let (word, rest) = line.value.split_once(char::is_whitespace).unwrap_or((&line.value, ""));
    let (reads, writes, topic) = match word {
        "read" => (true, false, rest.trim()),
        "write" => (false, true, rest.trim()),
        "readwrite" => (true, true, rest.trim()),
        "deny" => (false, false, rest.trim()),
        _ => (true, true, &*line.value),
    };
    let filter = if who == Who::All { pattern(topic)? } else { plain(topic)? };
    match Filter::parse(&filter) {
        Ok(_) => Ok(Entry { line, who, reads, writes, filter }),
        Err(error) => Err(format!("{} is not a filter: {error}", quote(topic))),
    }
}

/// The filter of a `topic` line, which has no placeholders.
fn plain(topic: &str) -> Result<String, String> {
    if topic.split('/').any(|level| level == SUBJECT_PLACE) {
        return Err(format!("{SUBJECT_PLACE} stands for the user's name here: use another topic"));
    }
    Ok(topic.into())
}

/// The filter of a `pattern` line: `%u` becomes `{sub}`.
fn pattern(topic: &str) -> Result<String, String> {
    plain(topic)?;
    if topic.contains("%c") {
        return Err("%c cannot be expressed: anybody can choose a client identifier; use %u, which becomes {sub}".into());
    }
    let level = |level: &str| match level {
        "%u" => Ok(SUBJECT_PLACE.to_owned()),
        level if level.contains("%u") => Err(format!(
            "%u in a part of a level ({}) cannot be expressed: give the user's name a level of its own",
            quote(level)
        )),
        level => Ok(level.to_owned()),
    };
    let levels: Result<Vec<String>, String> = topic.split('/').map(level).collect();
    Ok(levels?.join("/"))
}

/// Whether a denial takes a part of a grant.
fn concerns(denial: &Entry<'_>, grant: &Entry<'_>) -> bool {
    let is_same = denial.who == grant.who || denial.who == Who::All || grant.who == Who::All;
    is_same && overlap(&denial.filter, &grant.filter)
}

/// Whether there may be a topic that both filters match.
fn overlap(one: &str, other: &str) -> bool {
    let is_any = |level: &str| level == "+" || level == SUBJECT_PLACE;
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (None, Some(_)) | (Some(_), None) => return false,
            (Some(one), Some(other)) if one == other || is_any(one) || is_any(other) => {}
            (Some(_), Some(_)) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn told(text: &str) -> (Vec<String>, Vec<String>) {
        let access = translate(&source::lines(text, None));
        let list = |filters: &[Box<str>]| filters.join(" ");
        let permissions = access
            .permissions
            .iter()
            .map(|(who, of)| format!("{who:?} r {} w {}", list(&of.subscribe), list(&of.publish)));
        let remarks =
            access.remarks.iter().map(|remark| format!("{}: {}", remark.place, remark.text));
        (permissions.collect(), remarks.collect())
    }

    #[test]
    fn lines_become_permissions() {
        let (permissions, remarks) = told(
            "# all\ntopic read news/#\nuser anna b\ntopic a/b\ntopic readwrite a/b\ntopic write c d/+\n\npattern read u/%u/#\npattern write log\n",
        );
        assert_eq!(
            permissions,
            [
                "Anonymous r news/# w ",
                "All r u/{sub}/# w log",
                "User(\"anna b\") r a/b w a/b c d/+",
            ]
        );
        assert_eq!(remarks, [""; 0]);
    }

    #[test]
    fn a_permission_with_a_denied_part_is_left_out() {
        let (permissions, remarks) = told(
            "user anna\ntopic readwrite a/#\ntopic readwrite b/#\ntopic deny a/secret\nuser ben\ntopic a/#\n",
        );
        assert_eq!(permissions, ["User(\"anna\") r b/# w b/#", "User(\"ben\") r a/# w a/#"]);
        assert!(
            remarks[0].starts_with("line 2: topic readwrite a/# is left out, because line 4"),
            "{remarks:?}"
        );
        assert!(remarks[1].starts_with("line 4: a denial has no meaning"), "{remarks:?}");
        // A pattern concerns everybody.
        let (permissions, _) = told("user anna\ntopic u/anna/#\npattern deny u/%u/secret\n");
        assert_eq!(permissions, [""; 0]);
    }

    #[test]
    fn other_lines_are_named() {
        let check = |line: &str, expected: &str| {
            let (permissions, remarks) = told(line);
            assert_eq!(permissions, [""; 0], "{line}");
            assert!(remarks.len() == 1 && remarks[0].contains(expected), "{line}: {remarks:?}");
        };
        check("pattern read c/%c", "client identifier");
        check("pattern read dev-%u/x", "part of a level");
        check("topic read a/#/b", "not a filter");
        check("topic read", "not a filter");
        check("topic read u/{sub}", "stands for");
        check("tpic read a", "unknown word tpic");
        check("user", "name");
        check(&format!("topic {}", "a".repeat(300)), "not a filter");
    }

    #[test]
    fn filters_overlap_level_by_level() {
        for (one, other, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a/#", "a", true),
            ("a/+", "a/b", true),
            ("a/+", "a", false),
            ("+/b", "a/+", true),
            ("#", "a/b", true),
            ("u/{sub}", "u/x", true),
            ("a/b/#", "a/c/#", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{one} {other}");
        }
    }
}
