//! Detects by its text whether a test moves a figure: an assertion compares the figure with
//! something other than zero.
//!
//! Used by `tests/metrics.rs` for the figures that other tests move. It knows only our style of
//! tests, not Rust's grammar: a statement ends at the next `;`; scripts of `broker` answer `count`
//! with lines of names and numbers.

/// Whether some assertion of a test requires that this figure (a metric, or the test's name for it)
/// is not 0.
pub fn is_moved(text: &str, name: &str) -> bool {
    let is_counted = text.lines().any(|line| is_count(line, name));
    is_counted || is_asserted(&code_of(text), name, 2)
}

/// Whether the line has a result of `count` in a script: `pings 4 ping-timeouts 2`, alone or behind
/// its command and `=>`.
fn is_count(line: &str, name: &str) -> bool {
    let result = line.split_once(" => ").map_or(line, |(_, result)| result);
    let words: Vec<&str> = result.split_whitespace().collect();
    let (pairs, rest) = words.as_chunks::<2>();
    let numbers: Option<Vec<u64>> = pairs.iter().map(|[_, number]| number.parse().ok()).collect();
    let is_it = |([known, _], number): (&[&str; 2], &u64)| *known == name && *number > 0;
    rest.is_empty() && numbers.is_some_and(|numbers| pairs.iter().zip(&numbers).any(is_it))
}

/// Whether a name occurs in an assertion, directly or through a value, the list of a loop, or a
/// function.
fn is_asserted(code: &str, name: &str, depth: u32) -> bool {
    places_of(code, name).into_iter().any(|at| {
        let start = code[..at].rfind(';').map_or(0, |end| end + 1);
        let behind = &code[at + name.len()..];
        let behind = &behind[..behind.find(';').unwrap_or(behind.len())];
        let before = &code[start..at];
        let asserts = ["assert", "wait_for(", ".moves("];
        if asserts.iter().any(|word| before.contains(word)) {
            return !is_nothing(behind);
        }
        let text = behind.split('"').next().unwrap_or_default();
        let stands_for_it = [value_of(before), function_of(&code[..at])];
        let mut names = stands_for_it.into_iter().flatten();
        depth > 0 && !is_nothing(text) && names.any(|name| is_asserted(code, name, depth - 1))
    })
}

/// The name of the value that begins here: `let name = ...`, `name = ...`, `for name in ...`.
fn value_of(before: &str) -> Option<&str> {
    let start = before.rfind(['{', '}']).map_or(0, |at| at + 1);
    let mut own = before[start..].trim_start();
    for word in ["let ", "mut ", "for "] {
        own = own.strip_prefix(word).unwrap_or(own);
    }
    let (word, rest) = own.split_at(name_len(own));
    let is_value = [":", "=", "in "].iter().any(|sign| rest.trim_start().starts_with(sign));
    (is_value && !word.is_empty()).then_some(word)
}

/// The name of the function that begins here.
fn function_of(before: &str) -> Option<&str> {
    let (_, function) = before.rsplit_once("fn ")?;
    Some(&function[..name_len(function)]).filter(|name| !name.is_empty())
}

fn name_len(text: &str) -> usize {
    text.find(|letter: char| !is_of_name(letter)).unwrap_or(text.len())
}

/// Whether an assertion only compares with 0.
fn is_nothing(behind: &str) -> bool {
    let compact: String = behind.split_whitespace().collect();
    if [">0", "!=0"].iter().any(|word| compact.contains(word)) {
        return false;
    }
    let mut numbers = compact
        .split(|letter: char| !is_of_name(letter))
        .filter(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))
        .peekable();
    numbers.peek().is_some() && numbers.all(|number| number.trim_matches(['0', '_']).is_empty())
}

/// The positions of a whole name.
fn places_of(text: &str, name: &str) -> Vec<usize> {
    let is_alone = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let behind = text[at + name.len()..].chars().next();
        ![before, behind].into_iter().flatten().any(is_of_name)
    };
    let all = text.match_indices(name).map(|(at, _)| at);
    all.filter(is_alone).collect()
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The text without comment lines.
fn code_of(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_of_figures_are_found() {
        for text in [
            "assert_eq!(scrape.number(\"pings\"), 3);",
            "assert!(scrape.number(\"pings{by=\\\"0\\\"}\") > 0);",
            "metrics.wait_for(\"pings\", |count| count == 2);",
            "metrics.wait_for(\"pings\", |count| count != 0);",
            "assert_eq!((counts.pongs, counts.pings), (0, 1));",
            "assert_eq!(scrape.number(\"pings\"), refused);",
            "let all = \"pings\"; let x = 1; assert_eq!(scrape.number(all), 3);",
            "let of = |who: &str| scrape.number(&format!(\"pings{who}\")); assert_eq!(of(\"a\"), 3);",
            "fn pings_of(scrape: &Scrape) -> u64 { scrape.number(\"pings\") } #[test] fn a() { let x = 1; assert_eq!(pings_of(x), 3); }",
            "for line in [\"pings 0\", \"pings 4\"] { assert!(text.contains(line)); }",
            "fn fill() -> u64 { let x = 1; let now = scrape.number(\"pings\"); now } fn a() { assert!(fill() >= 3); }",
            "        count pongs pings\n            pongs 0 pings 4\n",
            "        count pongs pings => pongs 0 pings 4\n",
        ] {
            assert!(is_moved(text, "pings"), "{text}");
        }
    }

    #[test]
    fn other_statements_are_not_assertions() {
        for text in [
            "",
            "let pings = 3;",
            "// assert_eq!(scrape.number(\"pings\"), 3);",
            "assert_eq!(scrape.number(\"pings\"), 0);",
            "assert_eq!(scrape.number(\"pings_total\"), 1);",
            "metrics.wait_for(\"pings\", |count| count == 0);",
            "assert_eq!((counts.pongs, counts.pings), (0, 0));",
            "let all = \"pings\"; assert_eq!(scrape.number(all), 0);",
            "fn pings() { assert_eq!(1, 1); }",
            "for line in [\"pings 0\"] { assert!(text.contains(line)); }",
            "fn wait() { let now = scrape.number(\"pings\"); }",
            "        count pongs pings => pongs 3 pings 0\n",
            "        count pings => a: pings 4\n",
            "        count pongs pings\n            pongs 3 pings 0\n",
            "            a: pings 4\n",
            "            b: close 3507 pings\n",
        ] {
            assert!(!is_moved(text, "pings"), "{text}");
        }
    }
}
