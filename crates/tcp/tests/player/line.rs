//! A line of a script.

/// A line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The time since the line before, in microseconds.
    pub after_us: u64,
    /// The input belongs to the turn of the input before.
    pub is_same_turn: bool,
    /// The connection, `a` without a letter.
    pub flow: char,
    /// The rest, words separated by single spaces.
    pub text: String,
    /// The number of the line, from 1.
    pub number: usize,
}

impl Line {
    /// Reads a line. None for an empty one.
    pub fn parse(at: usize, line: &str) -> Option<Line> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace().peekable();
        let mut parsed = Line {
            after_us: 0,
            is_same_turn: false,
            flow: 'a',
            text: String::new(),
            number: at + 1,
        };
        if let Some(time) = words.next_if(|word| word.starts_with('+')) {
            let seconds: f64 = time[1..].parse().unwrap_or_else(|_| panic!("line {at}: {line}"));
            parsed.after_us = (seconds * 1e6).round() as u64;
        }
        parsed.is_same_turn = words.next_if_eq(&"&").is_some();
        if let Some(flow) = words.next_if(|word| word.len() == 2 && word.ends_with(':')) {
            parsed.flow = flow.chars().next()?;
        }
        parsed.text = words.collect::<Vec<&str>>().join(" ");
        (!parsed.text.is_empty()).then_some(parsed)
    }

    pub fn is_setting(&self) -> bool {
        self.text.starts_with("config ")
    }

    /// Whether the player does something; else the stack did.
    pub fn is_input(&self) -> bool {
        !self.is_setting() && !self.text.starts_with('>') && !self.text.starts_with("event ")
    }

    /// The text with the connection's letter, as in a transcript.
    pub fn whole_text(&self) -> String {
        with_flow(self.flow, &self.text)
    }
}

/// A text with the letter of a connection.
pub fn with_flow(flow: char, text: &str) -> String {
    if flow == 'a' { text.to_string() } else { format!("{flow}: {text}") }
}

/// The words after `name` in a text.
pub fn word_after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut words = text.split(' ');
    words.find(|word| *word == name)?;
    words.next()
}

/// The number after `name` in a text.
pub fn number_after(text: &str, name: &str) -> Option<u32> {
    let word = word_after(text, name)?;
    Some(word.parse().unwrap_or_else(|_| panic!("not a number: {word} in {text}")))
}
