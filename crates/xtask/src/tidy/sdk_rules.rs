//! Each rule of `spec/sdk.md` has a test in each client library: a scenario, which all of them run,
//! or, if the rule is marked `†`, a test of the library's own that carries the number.

use std::collections::BTreeSet;

use super::{File, Finding, Tree};

const RULES: &str = "spec/sdk.md";

/// A client library, and the rules marked `†` without a test in it, each with its reason. Entries
/// only ever go: a rule that has a test must not be listed.
struct Library {
    name: &'static str,
    is_test: fn(&str) -> bool,
    without_test: &'static [(&'static str, &'static str)],
}

const LIBRARIES: &[Library] = &[
    Library { name: "sdk/js", is_test: |path| path.starts_with("sdk/js/test/"), without_test: &[] },
    Library {
        name: "sdk/python",
        is_test: |path| path.starts_with("sdk/python/tests/"),
        without_test: &[],
    },
    Library {
        name: "sdk/go",
        is_test: |path| path.starts_with("sdk/go/") && path.ends_with("_test.go"),
        without_test: &[],
    },
    Library {
        name: "sdk/java",
        is_test: |path| path.starts_with("sdk/java/") && path.contains("/test/"),
        without_test: &[],
    },
    Library {
        name: "crates/client",
        is_test: |path| path.starts_with("crates/client/tests/"),
        without_test: &[
            ("P13", "events are the only interface: a gap is one of them"),
            ("P14", "the application keeps positions"),
            ("R11", "the application keeps positions"),
            ("T9", "a source of tokens is a function without an error"),
            ("U13", "the application keeps publications, the producer's id and its number"),
            ("X5", "the only callback is the source of tokens, which runs on the client's thread"),
            ("X6", "counters and reports are separate calls; there is no log"),
        ],
    },
];

/// Reports rules without a scenario or a test, and entries of the lists that are not true any more.
pub fn tests(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.file(RULES) else {
        return vec![Finding { path: RULES.into(), line: 0, text: "is missing".into() }];
    };
    let mut findings = Vec::new();
    let shown = scenarios(tree);
    for (line, rule, mark) in rules(document) {
        if mark != "†" {
            if !shown.contains(rule) {
                findings.push(document.finding(line, format!("{rule} has no scenario")));
            }
            continue;
        }
        for library in LIBRARIES {
            let mut tests = tree.files.iter().filter(|file| (library.is_test)(&file.path));
            let is_tested = tests.any(|file| names(&file.text, rule));
            let is_listed = library.without_test.iter().any(|(listed, _)| *listed == rule);
            let text = match (is_tested, is_listed) {
                (false, false) => format!("{rule} has no test in {} that names it", library.name),
                (true, true) => format!(
                    "{rule} has a test in {}: remove it from the list in crates/xtask/src/tidy/sdk_rules.rs",
                    library.name
                ),
                _ => continue,
            };
            findings.push(document.finding(line, text));
        }
    }
    findings
}

/// The rules of the document, each with its line and its mark: none, `†` or `‡`.
fn rules(document: &File) -> impl Iterator<Item = (usize, &str, &str)> {
    document.lines().filter_map(|(line, text)| {
        let cell = text.strip_prefix("| ")?.split(" |").next()?;
        let (rule, mark) = cell.split_once(' ').unwrap_or((cell, ""));
        let number = rule.strip_prefix(|letter: char| letter.is_ascii_uppercase())?;
        let is_rule = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_rule.then_some((line, rule, mark))
    })
}

/// The rules that scenarios name.
fn scenarios(tree: &Tree) -> BTreeSet<&str> {
    let files = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("spec/scenarios/") && file.path.ends_with(".json"));
    let lists = files.flat_map(|file| file.text.split("\"rules\": [").skip(1));
    let rules = lists.flat_map(|rest| rest.split(']').next().unwrap_or("").split(','));
    rules.map(|rule| rule.trim().trim_matches('"')).collect()
}

/// Whether a text has the rule's number as a word: `R11`, or `r11` in a name like `r11Resumes` or
/// `test_r11_resumes`.
fn names(text: &str, rule: &str) -> bool {
    let lower = rule.to_ascii_lowercase();
    let found = |number: &str, ends: fn(Option<&u8>) -> bool| {
        text.match_indices(number).any(|(at, _)| {
            let before = text.as_bytes()[..at].last();
            let after = text.as_bytes().get(at + number.len());
            !before.is_some_and(u8::is_ascii_alphanumeric) && ends(after)
        })
    };
    found(rule, |after| !after.is_some_and(u8::is_ascii_alphanumeric))
        || found(&lower, |after| {
            after.is_some_and(|byte| *byte == b'_' || byte.is_ascii_uppercase())
        })
}

#[cfg(test)]
mod tests {
    use super::super::testing::findings;
    use super::*;

    const DOCUMENT: &str = "| rule | |\n|---|---|\n| A1 | text |\n| A2 † | text |\n";

    #[test]
    fn a_number_is_a_word() {
        for text in ["R1: resumes", "(R1)", "void r1Resumes()", "def test_r1_resumes", "R1"] {
            assert!(names(text, "R1"), "{text}");
        }
        for text in ["R11", "XR1", "r1", "var1_x", "r1.x", "R1a"] {
            assert!(!names(text, "R1"), "{text}");
        }
    }

    #[test]
    fn a_rule_needs_a_scenario_or_a_test_of_each_library() {
        let all = [
            ("spec/sdk.md", DOCUMENT),
            ("spec/scenarios/a.json", "{\"rules\": [\"B1\", \"A1\"]}"),
            ("sdk/js/test/a.mjs", "// A2"),
            ("sdk/python/tests/a.py", "def test_a2_x():"),
            ("sdk/go/a_test.go", "// A2: text"),
            ("sdk/java/x/src/test/java/A.java", "void a2Text()"),
            ("crates/client/tests/a.rs", "// A2"),
        ];
        assert_eq!(findings(tests, &all), Vec::<String>::new());
        let mut without = all;
        without[1].1 = "{\"rules\": [\"B1\"]}";
        without[4].1 = "// A22";
        assert_eq!(
            findings(tests, &without),
            [
                "spec/sdk.md:3 A1 has no scenario",
                "spec/sdk.md:4 A2 has no test in sdk/go that names it"
            ]
        );
    }
}
