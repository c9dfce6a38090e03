//! Scripts and their transcripts: what both languages have in common, that of nodes (`edge`) and
//! that of one home (`home`).
//!
//! Each command stands on a line of its own, its answers stand indented below it. A single answer
//! stands behind the command if it fits: `b: flood news 1..1 => a: message 1 1<0 1`. Consecutive
//! answers of one kind share a line: `a: message 1 1<0 1, 2<1 2` are two messages. `closed`,
//! `reset` and `retry` stand behind the client's answer before. A test that fails prints its
//! transcript in this form; a script that code puts together may have each answer on its own line.

/// Columns of a line without the indent of the whole script.
const COLUMNS_MAX: usize = 92;

/// Runs each command of a script. Panics with the whole transcript if the script differs from it;
/// `about` says how it was run.
#[track_caller]
pub fn check(script: &str, about: &str, mut run: impl FnMut(&str) -> Vec<String>) {
    let lines = || script.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let indent = lines().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let mut lines = lines().map(|line| &line[indent..]).peekable();
    let (mut expected, mut actual) = (String::new(), String::new());
    while let Some(line) = lines.next() {
        let (command, answer) = line.split_once(" => ").unwrap_or((line, ""));
        let mut answers = vec![answer.to_string()];
        answers.retain(|answer| !answer.is_empty());
        while let Some(answer) = lines.next_if(|line| line.starts_with("    ")) {
            answers.push(answer[4..].into());
        }
        expected += &text_of(command, answers);
        actual += &text_of(command, run(command));
    }
    assert!(expected == actual, "{about}the transcript is:\n{actual}");
}

/// A command and its answers as they stand in a script.
fn text_of(command: &str, answers: Vec<String>) -> String {
    match &joined(answers)[..] {
        [only] if command.len() + " => ".len() + only.len() <= COLUMNS_MAX => {
            format!("{command} => {only}\n")
        }
        answers => {
            let lines = answers.iter().map(|answer| format!("    {answer}\n"));
            format!("{command}\n{}", lines.collect::<String>())
        }
    }
}

/// Consecutive answers of one kind share a line as long as it fits.
fn joined(answers: Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut head_before = String::new();
    for answer in answers {
        let head = head_of(&answer);
        let rest = &answer[head.len()..];
        match lines.last_mut() {
            Some(line) if ends(line, &answer) => {
                *line += ", ";
                *line += answer.split_once(' ').map_or("", |(_, end)| end);
            }
            Some(line)
                if !head.is_empty()
                    && head == head_before
                    && 4 + line.len() + ", ".len() + rest.len() <= COLUMNS_MAX =>
            {
                *line += ", ";
                *line += rest;
            }
            _ => {
                head_before = head.into();
                lines.push(answer);
            }
        }
    }
    lines
}

/// The answer is the end of its client's connection, or how long the client of a stream is to wait:
/// it stands behind the client's answer before, if it fits.
fn ends(line: &str, answer: &str) -> bool {
    let Some((client, end)) = answer.split_once(": ") else {
        return false;
    };
    let is_end = matches!(end, "closed" | "reset") || end.starts_with("retry ");
    let is_its = line.strip_prefix(client).is_some_and(|rest| rest.starts_with(": "));
    is_end && is_its && 4 + line.len() + ", ".len() + end.len() <= COLUMNS_MAX
}

/// The words that answers of one kind have in common: `a: message 1 `. Empty: the answer stands on
/// a line of its own.
fn head_of(answer: &str) -> &str {
    if answer.contains(", ") {
        return "";
    }
    let mut words = answer.split(' ');
    let words_count = match (words.next(), words.next()) {
        (Some("append"), _) | (_, Some("message" | "named")) => 3,
        (_, Some("subscribed" | "unsubscribed" | "published" | "caught-up" | "gap" | "error")) => 2,
        _ => return "",
    };
    let mut spaces = answer.match_indices(' ').map(|(place, _)| place);
    spaces.nth(words_count - 1).map_or("", |place| &answer[..=place])
}
