//! Rules that the tree still breaks. `crates/xtask/ratchet.toml` has the number of violations by
//! rule and area. A number may only fall.
//!
//! An area is a crate, or a folder or file of the root. Numbers are per area, not per file, so that
//! a move within a crate changes none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::sources::{functions, is_generated};
use super::{File, Finding, Tree};

/// The stored numbers, from the root.
const STORED: &str = "crates/xtask/ratchet.toml";

const COMMENT_COLUMNS_MAX: usize = 100;

const FUNCTION_LINES_MAX: usize = 70;

/// The maximum number of places in one message.
const PLACES_SHOWN_MAX: usize = 20;

/// Phrases that hide the subject or the verb. Each has a plain counterpart in CONTRIBUTING.md,
/// "Style". Split, so that this file does not break its own rule.
const PHRASES: &[&str] = &[
    concat!("cannot be ", "had"),
    concat!("can be ", "had"),
    concat!("led ", "away"),
    concat!("told ", "so"),
    concat!("who", "ever"),
    concat!("for so ", "long"),
    concat!("so many ", "of"),
    concat!("lack ", "no"),
    concat!("lacks ", "no"),
];

/// Openings of doc comments that have no subject.
const OPENINGS: &[&str] = &["/// Of ", "/// By ", "/// For ", "/// As ", "/// The same "];

/// Question words at the beginning of a doc comment instead of a noun: "How it ends".
const QUESTIONS: &[&str] = &["What ", "Who ", "How ", "Where ", "When ", "Why "];

/// The question words that are no better in other comments. "When it ends, ..." is fine there.
const PRONOUNS: &[&str] = &["What ", "Who "];

/// Words of comments that hide the subject. Split for the same reason as [`PHRASES`].
const DIALECT: &[&str] = &[
    concat!("no", "body"),
    concat!("is ", "told"),
    concat!("are ", "told"),
    concat!("was ", "told"),
    concat!("by ", "what"),
    concat!("of ", "what"),
    concat!("what ", "is"),
    concat!("what ", "has"),
    concat!("what ", "was"),
    concat!("goes ", "on"),
];

/// Words after which "is no" is ordinary English.
const AFTER_IS_NO: &[&str] = &["longer", "more", "other", "such", "need", "reason", "room"];

/// A counted rule: its name in the file, the advice, and the function that finds its lines.
struct Count {
    name: &'static str,
    advice: &'static str,
    lines: fn(&File) -> Vec<usize>,
}

const COUNTS: &[Count] = &[
    Count {
        name: "wording",
        advice: "write subject, verb and the field's noun (CONTRIBUTING.md, \"Style\")",
        lines: wording,
    },
    Count {
        name: "dialect",
        advice: "begin a comment with a noun or a verb, and name the subject (CONTRIBUTING.md, \"Style\")",
        lines: dialect,
    },
    Count { name: "wide-comments", advice: "break comments at 100 columns", lines: wide_comments },
    Count {
        name: "long-functions",
        advice: "split functions of more than 70 lines",
        lines: long_functions,
    },
];

/// Numbers by rule and area. Areas without a place are left out.
type Numbers = BTreeMap<String, BTreeMap<String, usize>>;

/// Reports each area with more places than stored.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let stored = match stored(tree) {
        Ok(stored) => stored,
        Err(error) => {
            return vec![Finding { path: STORED.into(), line: 0, text: format!("{error:#}") }];
        }
    };
    let mut findings = Vec::new();
    for count in COUNTS {
        for (area, places) in places(tree, count) {
            let max = stored.get(count.name).and_then(|areas| areas.get(&area)).copied();
            let max = max.unwrap_or(0);
            if places.len() > max {
                let text = format!(
                    "{}: {} places, at most {max}; {}. They are {}",
                    count.name,
                    places.len(),
                    count.advice,
                    listed(&places)
                );
                findings.push(Finding { path: area, line: 0, text });
            }
        }
    }
    findings
}

/// Writes today's numbers if they are lower than the stored ones.
pub fn store(tree: &Tree, root: &Path) -> Result<()> {
    let numbers = lowered(tree, tree.file(STORED).map(|_| stored(tree)).transpose()?);
    let mut text = String::from(
        "# Places that break a rule of `cargo xtask tidy` today, by rule and area. A number may only fall:\n\
         # `cargo xtask tidy --store` lowers it. When a crate is renamed or split, move its numbers by hand.\n",
    );
    for (name, areas) in &numbers {
        let _ = writeln!(text, "\n[{name}]");
        for (area, count) in areas {
            let _ = writeln!(text, "\"{area}\" = {count}");
        }
    }
    fs::write(root.join(STORED), text).context(STORED)
}

/// Today's numbers, limited to the stored ones. Without stored ones of a rule, all of today's.
fn lowered(tree: &Tree, stored: Option<Numbers>) -> Numbers {
    let mut numbers = Numbers::new();
    for count in COUNTS {
        let areas = numbers.entry(count.name.into()).or_default();
        for (area, places) in places(tree, count) {
            let stored = stored.as_ref().and_then(|stored| stored.get(count.name));
            let max = stored.map_or(usize::MAX, |areas| areas.get(&area).copied().unwrap_or(0));
            let number = places.len().min(max);
            if number > 0 {
                areas.insert(area, number);
            }
        }
    }
    numbers
}

fn stored(tree: &Tree) -> Result<Numbers> {
    let file = tree.file(STORED).context("the file is missing; run `cargo xtask tidy --store`")?;
    let table: toml::Table = file.text.parse()?;
    let mut numbers = Numbers::new();
    for (name, areas) in table {
        let areas = areas.as_table().with_context(|| format!("{name} must be a table"))?;
        let numbers = numbers.entry(name).or_default();
        for (area, number) in areas {
            let number = number.as_integer().and_then(|number| usize::try_from(number).ok());
            numbers.insert(area.clone(), number.with_context(|| format!("{area}: no count"))?);
        }
    }
    Ok(numbers)
}

/// The places of a rule by area, each as `path:line`.
fn places(tree: &Tree, count: &Count) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in tree.with_extension(&["cjs", "html", "js", "md", "mjs", "py", "rs", "toml"]) {
        if file.path == STORED || is_generated(file) {
            continue;
        }
        let lines = (count.lines)(file);
        if !lines.is_empty() {
            let named = lines.into_iter().map(|line| format!("{}:{line}", file.path));
            places.entry(area_of(&file.path)).or_default().extend(named);
        }
    }
    places
}

/// `crates/name`, or the first part of the path.
fn area_of(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => format!("crates/{name}"),
        (Some(first), _) => first.into(),
        (None, _) => String::new(),
    }
}

fn listed(places: &[String]) -> String {
    let shown = &places[..places.len().min(PLACES_SHOWN_MAX)];
    match places.len() - shown.len() {
        0 => shown.join(", "),
        hidden => format!("{} and {hidden} more", shown.join(", ")),
    }
}

/// The style page contains the phrases as examples.
const STYLE_PAGE: &str = "CONTRIBUTING.md";

fn wording(file: &File) -> Vec<usize> {
    if file.path == STYLE_PAGE {
        return Vec::new();
    }
    let is_rust = file.path.ends_with(".rs");
    let breaks = |line: &str| {
        let lower = line.to_lowercase();
        PHRASES.iter().any(|phrase| lower.contains(phrase))
            || is_no_noun(&lower)
            || is_rust && OPENINGS.iter().any(|opening| line.trim_start().starts_with(opening))
    };
    file.lines().filter(|(_, line)| breaks(line)).map(|(number, _)| number).collect()
}

/// Whether "no" stands between "is" and a noun. "There is no" is fine.
fn is_no_noun(lower: &str) -> bool {
    let pattern = concat!(" is ", "no ");
    lower.match_indices(pattern).any(|(start, _)| {
        let word = lower[start + pattern.len()..].split(|c: char| !c.is_alphabetic()).next();
        let word = word.unwrap_or("");
        !lower[..start].ends_with("there") && !word.is_empty() && !AFTER_IS_NO.contains(&word)
    })
}

/// Comments of Rust files, each line by itself. A question word counts at the beginning of a
/// comment only, not in the middle of a sentence that was broken there.
fn dialect(file: &File) -> Vec<usize> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut numbers = Vec::new();
    let mut continues = false;
    for (number, line) in file.lines() {
        let trimmed = line.trim_start();
        let comment = trimmed.strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']));
        let text = comment.map_or("", str::trim);
        let lower = text.to_lowercase();
        let is_doc = trimmed.starts_with("///") || trimmed.starts_with("//!");
        let words = if is_doc { QUESTIONS } else { PRONOUNS };
        let is_question = !continues && words.iter().any(|word| text.starts_with(word));
        if is_question || DIALECT.iter().any(|phrase| contains_words(&lower, phrase)) {
            numbers.push(number);
        }
        continues = !text.is_empty() && !text.ends_with('.');
    }
    numbers
}

/// Whether a text contains a phrase as whole words.
fn contains_words(text: &str, phrase: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(start, _)| {
        !is_letter(text[..start].chars().next_back())
            && !is_letter(text[start + phrase.len()..].chars().next())
    })
}

fn wide_comments(file: &File) -> Vec<usize> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let is_wide = |line: &str| {
        line.trim_start().starts_with("//") && line.chars().count() > COMMENT_COLUMNS_MAX
    };
    file.lines().filter(|(_, line)| is_wide(line)).map(|(number, _)| number).collect()
}

fn long_functions(file: &File) -> Vec<usize> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let is_long = |&(_, length): &(usize, usize)| length > FUNCTION_LINES_MAX;
    functions(file).into_iter().filter(is_long).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::findings;
    use super::*;

    const NOTHING: (&str, &str) = (STORED, "");

    fn number_of(path: &str, text: &str) -> usize {
        findings(check, &[NOTHING, (path, text)]).len()
    }

    #[test]
    fn phrases_are_found() {
        for phrase in PHRASES {
            assert_eq!(number_of("docs/a.md", &format!("It {phrase} there.\n")), 1, "{phrase}");
        }
        assert_eq!(number_of("a.rs", concat!("// A name that is ", "no address.\n")), 1);
        assert_eq!(number_of("a.rs", "// There is no address. It is no longer here.\n"), 0);
    }

    #[test]
    fn doc_comments_need_a_subject() {
        for opening in OPENINGS {
            assert_eq!(number_of("a.rs", &format!("    {opening}frames.\n")), 1, "{opening}");
            assert_eq!(number_of("a.md", &format!("    {opening}frames.\n")), 0, "{opening}");
        }
    }

    #[test]
    fn comments_begin_with_a_noun_or_verb() {
        for word in QUESTIONS {
            assert_eq!(number_of("a.rs", &format!("    /// {word}it keeps.\n")), 1, "{word}");
            assert_eq!(number_of("a.md", &format!("    /// {word}it keeps.\n")), 0, "{word}");
            let broken = format!("// The reason, and\n// {word}it keeps.\n");
            assert_eq!(number_of("a.rs", &broken), 0, "{word}");
        }
        for phrase in DIALECT {
            assert_eq!(number_of("a.rs", &format!("//! Then {phrase} kept.\n")), 1, "{phrase}");
            assert_eq!(number_of("a.rs", &format!("let a = \"{phrase}\";\n")), 0, "{phrase}");
        }
        assert_eq!(number_of("a.rs", "// When it ends, the file is closed.\n"), 0);
    }

    #[test]
    fn a_new_rule_stores_todays_numbers() {
        let file = File { path: "crates/a/b.rs".into(), text: "// What it keeps.\n".into() };
        let tree = Tree { files: vec![file] };
        let older = Numbers::from([("wording".into(), BTreeMap::new())]);
        assert_eq!(lowered(&tree, Some(older))["dialect"]["crates/a"], 1);
    }

    #[test]
    fn comments_have_a_width() {
        let comment = |length: usize| format!("    // {}\n", "a".repeat(length - 7));
        assert_eq!(number_of("a.rs", &comment(COMMENT_COLUMNS_MAX)), 0);
        assert_eq!(number_of("a.rs", &comment(COMMENT_COLUMNS_MAX + 1)), 1);
    }

    #[test]
    fn long_functions_are_counted() {
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "    b();\n".repeat(lines));
        assert_eq!(number_of("a.rs", &function(FUNCTION_LINES_MAX - 2)), 0);
        assert_eq!(number_of("a.rs", &function(FUNCTION_LINES_MAX - 1)), 1);
    }

    #[test]
    fn a_number_may_only_fall() {
        let wide = format!("// {}\n", "a".repeat(COMMENT_COLUMNS_MAX));
        let two = wide.repeat(2);
        let one_is_stored = (STORED, "[wide-comments]\n\"crates/a\" = 1\n");
        let of = |text: &str| findings(check, &[one_is_stored, ("crates/a/src/b.rs", text)]);
        assert_eq!(of(&wide).len(), 0);
        assert!(of(&two)[0].contains("crates/a/src/b.rs:1, crates/a/src/b.rs:2"), "{:?}", of(&two));

        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let tree =
            Tree { files: vec![file("crates/a/src/b.rs", &two), file("crates/c/d.rs", &wide)] };
        let one = Numbers::from([("wide-comments".into(), [("crates/a".into(), 1)].into())]);
        let lower = &lowered(&tree, Some(one))["wide-comments"];
        assert_eq!(lower, &BTreeMap::from([("crates/a".to_owned(), 1)]));
        assert_eq!(lowered(&tree, None)["wide-comments"]["crates/a"], 2);
    }

    #[test]
    fn the_numbers_must_be_there() {
        assert_eq!(findings(check, &[("a.rs", "")]).len(), 1);
    }
}
