//! Brace patterns: one text that names many topics or addresses, `p/s{1..1200000}`,
//! `127.0.{1..20}.1`.
//!
//! Place: command line to topic numbers. A pattern is never expanded: member `n` is written when
//! needed, so that a million topics cost nothing. Pure.
//!
//! Forms: `{a..b}` (up or down), `{a..b..step}`, zero padded when a bound begins with `0`
//! (`{001..100}`), and `{red,green}`. Several braces in one pattern multiply, the last one varies
//! fastest, as in a shell.

use std::fmt::Write as _;

/// Members that one pattern may have.
pub const MEMBERS_MAX: u64 = u32::MAX as u64;

/// A parsed pattern: literal texts and varying parts in turn.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pattern {
    parts: Vec<Part>,
    len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Part {
    Literal(String),
    Range { first: u64, step: u64, down: bool, count: u64, width: usize },
    List(Vec<String>),
}

impl Part {
    fn count(&self) -> u64 {
        match self {
            Part::Literal(_) => 1,
            Part::Range { count, .. } => *count,
            Part::List(members) => members.len() as u64,
        }
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The reason, as a sentence: an unfinished or empty brace, a bound that is not a number, more
    /// than [`MEMBERS_MAX`] members.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let close = rest[open..]
                .find('}')
                .ok_or_else(|| format!("`{text}`: a `{{` without its `}}`"))?
                + open;
            if open > 0 {
                parts.push(Part::Literal(rest[..open].to_owned()));
            }
            parts.push(
                parse_brace(&rest[open + 1..close]).map_err(|why| format!("`{text}`: {why}"))?,
            );
            rest = &rest[close + 1..];
        }
        if rest.contains('}') {
            return Err(format!("`{text}`: a `}}` without its `{{`"));
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        let len = parts
            .iter()
            .try_fold(1u64, |product, part| product.checked_mul(part.count()))
            .filter(|len| *len <= MEMBERS_MAX)
            .ok_or_else(|| format!("`{text}` names more than {MEMBERS_MAX} members"))?;
        Ok(Pattern { parts, len })
    }

    /// Number of members; at least one.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether a member may contain one of these letters.
    pub fn has_any(&self, letters: &[char]) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Literal(text) => text.contains(letters),
            Part::List(members) => members.iter().any(|member| member.contains(letters)),
            Part::Range { .. } => false,
        })
    }

    /// Writes member `number` (from 0, modulo the length) at the end of `into`.
    pub fn write(&self, number: u64, into: &mut String) {
        let mut place = number % self.len;
        let mut block = self.len;
        for part in &self.parts {
            block /= part.count();
            let chosen = place / block;
            place %= block;
            match part {
                Part::Literal(text) => into.push_str(text),
                Part::List(members) => into.push_str(&members[chosen as usize]),
                Part::Range { first, step, down, width, .. } => {
                    let value = if *down { first - chosen * step } else { first + chosen * step };
                    let _ = write!(into, "{value:0width$}");
                }
            }
        }
    }

    /// Member `number` (from 0, modulo the length).
    pub fn get(&self, number: u64) -> String {
        let mut text = String::new();
        self.write(number, &mut text);
        text
    }

    /// All members in turn.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.len).map(|number| self.get(number))
    }
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        Pattern::parse(text)
    }
}

fn parse_brace(inner: &str) -> Result<Part, String> {
    let mut bounds = inner.split("..");
    let (Some(first), Some(last)) = (bounds.next(), bounds.next()) else {
        if inner.is_empty() {
            return Err("an empty pair of braces".to_owned());
        }
        return Ok(Part::List(inner.split(',').map(str::to_owned).collect()));
    };
    let step = bounds.next();
    if bounds.next().is_some() {
        return Err(format!("`{{{inner}}}` is not {{first..last}} or {{first..last..step}}"));
    }
    let number = |text: &str| -> Result<u64, String> {
        text.parse().map_err(|_| format!("`{text}` in `{{{inner}}}` is not a whole number"))
    };
    let padded = |text: &str| text.len() > 1 && text.starts_with('0');
    let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
    let (first, last) = (number(first)?, number(last)?);
    let step = step.map_or(Ok(1), number)?;
    if step == 0 {
        return Err(format!("the step in `{{{inner}}}` is zero"));
    }
    let count = (first.abs_diff(last) / step)
        .checked_add(1)
        .ok_or_else(|| format!("`{{{inner}}}` has too many members"))?;
    Ok(Part::Range { first, step, down: last < first, count, width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members() {
        fn check(text: &str, members: &[&str]) {
            let pattern = Pattern::parse(text).unwrap();
            assert_eq!(pattern.iter().collect::<Vec<_>>(), members, "{text}");
        }
        check("plain", &["plain"]);
        check("", &[""]);
        check("a{1..3}", &["a1", "a2", "a3"]);
        check("a{3..1}b", &["a3b", "a2b", "a1b"]);
        check("{08..10}", &["08", "09", "10"]);
        check("{1..10..4}", &["1", "5", "9"]);
        check("{x,y}/{1..2}", &["x/1", "x/2", "y/1", "y/2"]);
        check("127.0.{1..2}.{0..1}", &["127.0.1.0", "127.0.1.1", "127.0.2.0", "127.0.2.1"]);
        check("{1..1}", &["1"]);
    }

    #[test]
    fn large_patterns_are_not_expanded() {
        let pattern = Pattern::parse("p/s{1..1200000}").unwrap();
        assert_eq!(pattern.len(), 1_200_000);
        assert_eq!(pattern.get(0), "p/s1");
        assert_eq!(pattern.get(1_199_999), "p/s1200000");
        assert_eq!(pattern.get(1_200_000), "p/s1");
    }

    #[test]
    fn refused() {
        for wrong in ["{", "}", "a{1..2", "a1..2}", "{}", "{a..b}", "{1..2..0}", "{1..2..3..4}"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Pattern::parse("{1..100000}{1..100000}").is_err());
        assert!(Pattern::parse("{0..18446744073709551615}").is_err());
    }
}
