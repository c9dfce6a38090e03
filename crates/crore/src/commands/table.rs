//! Tables for people: columns as wide as their cells, numbers aligned to the right, and no text
//! that could move a terminal's cursor.

use serde_json::Value;
use std::fmt::Write as _;

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Left, for words.
    Left,
    /// Right, for numbers.
    Right,
}

/// A table as lines: the heading, then the rows.
pub fn lines(columns: &[(&str, Side)], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| characters(&row[column]));
        cells.chain([characters(columns[column].0)]).max()
    };
    let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
    let heading: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for ((cell, (_, side)), width) in row.iter().zip(columns).zip(&widths) {
            let _ = match side {
                Side::Left => write!(text, "{cell:<width$}  "),
                Side::Right => write!(text, "{cell:>width$}  "),
            };
        }
        text.trim_end().to_owned()
    };
    std::iter::once(&heading).chain(rows).map(line).collect()
}

/// A member of an object as a cell; `-` if it is missing.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    }
}

/// A text from clients, without terminal control characters.
pub fn printable(text: &str) -> String {
    let plain = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    text.chars().map(plain).collect()
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [vec!["a".into(), "10".into()], vec!["long".into(), "5".into()]];
        let found = lines(&[("id", Side::Left), ("n", Side::Right)], &rows);
        assert_eq!(found, ["id     n", "a     10", "long   5"]);
    }

    #[test]
    fn cells() {
        assert_eq!(cell(&json!(null)), "-");
        assert_eq!(cell(&json!(true)), "yes");
        assert_eq!(cell(&json!("a\u{1b}[2Jb")), "a\u{fffd}[2Jb");
        assert_eq!(cell(&json!(5)), "5");
    }
}
