//! Plays a script against a stack, in virtual time, and compares everything that the stack does.
//!
//! A script has the lines of a transcript: what the test puts in, and what comes out of the stack.
//! The player carries out the first kind, records the second, and the record must equal the script,
//! line by line and to the microsecond. `tests/scripts/README.md` has the grammar.

mod line;
mod packet;
mod report;
mod stage;

use line::Line;
use stage::Stage;

/// A line of a transcript: its time in microseconds after the start, and its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub at_us: u64,
    pub text: String,
}

/// Plays a script.
///
/// # Panics
/// With a comparison, if the stack did something else.
pub fn play(name: &str, script: &str) {
    let lines: Vec<Line> =
        expand(script).iter().enumerate().filter_map(|(at, line)| Line::parse(at, line)).collect();
    let mut expected = Vec::new();
    let mut stage = Stage::default();
    let mut at_us = 0;
    let mut lines = lines.iter().peekable();
    while let Some(line) = lines.next() {
        at_us += line.after_us;
        if line.is_setting() {
            stage.set(&line.text);
            continue;
        }
        expected.push(Entry { at_us, text: line.whole_text() });
        if line.is_input() {
            // Outputs may stand between the inputs of a turn.
            let mut rest = lines.clone().filter(|line| line.is_input());
            let has_more = rest.next().is_some_and(|next| next.is_same_turn);
            stage.carry_out(at_us, line, !has_more);
        }
    }
    let expected = merged(expected);
    let found = merged(stage.finish());
    assert!(expected == found, "{name}\n{}", difference(&expected, &found));
}

/// Replaces `open` by the lines of an opening.
fn expand(script: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in script.lines() {
        let opening = match line.split('#').next().unwrap_or_default().trim() {
            "open" => {
                "listen
                < S 0 win 65535 <mss 1460, sackOK, wscale 7>
                > SA 0 ack 1 win 16384 <mss 1460, wscale 3, sackOK>
                +0.1 < A 1 ack 1 win 512
                event accepted"
            }
            "open plain" => {
                "listen
                < S 0 win 65535 <mss 1460>
                > SA 0 ack 1 win 16384 <mss 1460>
                +0.1 < A 1 ack 1 win 65535
                event accepted"
            }
            "connect and open" => {
                "connect = ok
                > S 0 win 16384 <mss 1460, wscale 3, sackOK> hop 0
                +0.1 < SA 0 ack 1 win 65535 <mss 1460, sackOK, wscale 7>
                > A 1 ack 1 win 2048
                event connected"
            }
            _ => line,
        };
        lines.extend(opening.lines().map(str::to_string));
    }
    lines
}

/// Equal entries of one moment become one, with their number.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    let mut merged: Vec<(Entry, usize)> = Vec::new();
    for entry in entries {
        match merged.last_mut() {
            Some((last, count)) if *last == entry && entry.text.contains('>') => *count += 1,
            _ => merged.push((entry, 1)),
        }
    }
    let text = |(entry, count): (Entry, usize)| match count {
        1 => entry,
        _ => Entry { text: format!("{} x {count}", entry.text), ..entry },
    };
    merged.into_iter().map(text).collect()
}

/// Both transcripts in one: lines of the script alone have `-`, lines of the stack alone `+`.
fn difference(expected: &[Entry], found: &[Entry]) -> String {
    // Lengths of the longest common transcripts from two places on.
    let mut common = vec![vec![0_usize; found.len() + 1]; expected.len() + 1];
    for (row, left) in expected.iter().enumerate().rev() {
        for (column, right) in found.iter().enumerate().rev() {
            common[row][column] = if left == right {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let mut text = String::new();
    let mut put = |sign: char, entry: &Entry| {
        let seconds = entry.at_us as f64 / 1e6;
        text.push_str(&format!("{sign} {seconds:>12.6} {}\n", entry.text));
    };
    let (mut row, mut column) = (0, 0);
    while row < expected.len() || column < found.len() {
        if row < expected.len() && column < found.len() && expected[row] == found[column] {
            put(' ', &expected[row]);
            (row, column) = (row + 1, column + 1);
        } else if column == found.len()
            || row < expected.len() && common[row + 1][column] >= common[row][column + 1]
        {
            put('-', &expected[row]);
            row += 1;
        } else {
            put('+', &found[column]);
            column += 1;
        }
    }
    text
}
