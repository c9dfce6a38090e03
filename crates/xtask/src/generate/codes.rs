//! Generates the Rust enums of `wire` and the table of `spec/codes.md` from `spec/codes.toml`.
//!
//! The table is checked while it is read: numbers and names are unique within a kind, close and
//! unsubscribe codes are in the range for their effect, texts and statuses are valid. So a mistake
//! in it stops the build and not a client.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

/// The path of the Rust enums, from the workspace's root.
const RUST_PATH: &str = "crates/wire/src/native/codes.rs";

/// The path of the table for people, from the workspace's root.
const DOCUMENT_PATH: &str = "spec/codes.md";

/// Generates both files: paths from the workspace's root, and contents.
///
/// # Errors
/// `codes_toml` is not TOML, lacks a field, or breaks a rule of numbering.
pub fn generate(codes_toml: &str) -> Result<Vec<(PathBuf, String)>> {
    let document: toml::Table = codes_toml.parse().context("spec/codes.toml")?;
    for key in document.keys() {
        ensure!(
            ["error", "close", "unsubscribe"].contains(&key.as_str()),
            "unknown table [[{key}]]"
        );
    }
    let errors = read_kind(&document, Kind::Error)?;
    let closes = read_kind(&document, Kind::Close)?;
    let unsubscribes = read_kind(&document, Kind::Unsubscribe)?;
    Ok(vec![
        (PathBuf::from(RUST_PATH), rust(&errors, &closes, &unsubscribes)),
        (PathBuf::from(DOCUMENT_PATH), markdown(&errors, &closes, &unsubscribes)),
    ])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    Close,
    Unsubscribe,
}

impl Kind {
    fn table(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Close => "close",
            Self::Unsubscribe => "unsubscribe",
        }
    }

    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Error => &["number", "name", "http_status", "temporary", "text"],
            Self::Close | Self::Unsubscribe => &["number", "name", "text"],
        }
    }

    fn allows(self, number: u16) -> bool {
        match self {
            Self::Error => (100..1000).contains(&number),
            Self::Close => (3000..5000).contains(&number),
            Self::Unsubscribe => number == 0 || (2000..3000).contains(&number),
        }
    }
}

struct Code {
    number: u16,
    name: String,
    text: String,
    /// The HTTP status of an error; 0 for other kinds.
    http_status: u16,
    temporary: bool,
}

impl Code {
    fn variant(&self) -> String {
        self.name
            .split('_')
            .flat_map(|word| {
                let (first, rest) = word.split_at(1);
                [first.to_uppercase(), rest.to_owned()]
            })
            .collect()
    }

    fn reconnects(&self) -> bool {
        matches!(self.number, 3000..3500 | 4000..4500)
    }
}

fn read_kind(document: &toml::Table, kind: Kind) -> Result<Vec<Code>> {
    let rows = document
        .get(kind.table())
        .and_then(toml::Value::as_array)
        .with_context(|| format!("[[{}]] is missing", kind.table()))?;
    let mut codes = Vec::new();
    let mut names = BTreeSet::new();
    for row in rows {
        let code = read_code(row, kind).with_context(|| format!("[[{}]] {row}", kind.table()))?;
        ensure!(names.insert(code.name.clone()), "{} appears twice", code.name);
        codes.push(code);
    }
    ensure!(
        codes.is_sorted_by(|a, b| a.number < b.number),
        "the numbers of [[{}]] must increase",
        kind.table()
    );
    Ok(codes)
}

fn read_code(row: &toml::Value, kind: Kind) -> Result<Code> {
    let row = row.as_table().context("not a table")?;
    for key in row.keys() {
        ensure!(kind.fields().contains(&key.as_str()), "unknown field {key}");
    }
    let integer = |key: &str| -> Result<u16> {
        let value = row.get(key).and_then(toml::Value::as_integer);
        let value = value.with_context(|| format!("{key} must be an integer"))?;
        u16::try_from(value).with_context(|| format!("{key} is out of range"))
    };
    let string = |key: &str| -> Result<String> {
        let value = row.get(key).and_then(toml::Value::as_str);
        Ok(value.with_context(|| format!("{key} must be a string"))?.to_owned())
    };
    let (number, name, text) = (integer("number")?, string("name")?, string("text")?);
    ensure!(kind.allows(number), "{number} is outside the ranges of its table");
    ensure!(
        name.split('_').all(|word| {
            word.starts_with(|first: char| first.is_ascii_lowercase())
                && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        }),
        "{name} is not a name"
    );
    ensure!(
        !text.is_empty() && !text.contains(['"', '\\', '|', '<', '\n']),
        "the text must be plain"
    );
    // RFC 6455, section 5.5: a close reason has at most 123 bytes.
    ensure!(text.len() <= 123, "the text must fit a close frame");
    let (mut http_status, mut temporary) = (0, false);
    if kind == Kind::Error {
        http_status = integer("http_status")?;
        ensure!((400..600).contains(&http_status), "{http_status} is not the status of an error");
        temporary = match row.get("temporary").and_then(toml::Value::as_bool) {
            Some(temporary) => temporary,
            None => bail!("temporary must be true or false"),
        };
    }
    Ok(Code { number, name, text, http_status, temporary })
}

fn rust(errors: &[Code], closes: &[Code], unsubscribes: &[Code]) -> String {
    let mut out = String::from(
        "//! Error, close and unsubscribe codes. Generated from `spec/codes.toml` by `cargo xtask generate`; do not edit.\n",
    );
    rust_enum(&mut out, "ErrorCode", "The code of an ERROR frame or an HTTP problem.", errors);
    out.push_str("\nimpl ErrorCode {\n");
    rust_method(
        &mut out,
        "The status of the answer over HTTP.",
        "http_status(self) -> u16",
        errors,
        |code| code.http_status.to_string(),
    );
    rust_method(
        &mut out,
        "Whether the same request may succeed later.",
        "temporary(self) -> bool",
        errors,
        |code| code.temporary.to_string(),
    );
    out.push_str("}\n");
    rust_enum(
        &mut out,
        "CloseCode",
        "The reason why a WebSocket connection is closed, if RFC 6455 has no code for it.",
        closes,
    );
    out.push_str("\nimpl CloseCode {\n");
    rust_method(
        &mut out,
        "Whether the client should reconnect.",
        "reconnects(self) -> bool",
        closes,
        |code| code.reconnects().to_string(),
    );
    out.push_str("}\n");
    rust_enum(
        &mut out,
        "UnsubscribeCode",
        "The reason why a subscription has ended.",
        unsubscribes,
    );
    out.push_str("\nimpl UnsubscribeCode {\n");
    rust_method(
        &mut out,
        "Whether the client should subscribe again from its last position.",
        "resubscribes(self) -> bool",
        unsubscribes,
        |code| (code.number >= 2500).to_string(),
    );
    out.push_str("}\n");
    out
}

fn rust_enum(out: &mut String, name: &str, purpose: &str, codes: &[Code]) {
    let mut push = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    push(format!("\n/// {purpose}"));
    push("#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]".into());
    push("#[repr(u16)]".into());
    push(format!("pub enum {name} {{"));
    for code in codes {
        push(format!("    /// {}.", sentence(&code.text)));
        push(format!("    {} = {},", code.variant(), code.number));
    }
    push("}".into());
    push(format!("\nimpl {name} {{"));
    push("    /// All codes, by number.".into());
    push(format!("    pub const ALL: [Self; {}] = [", codes.len()));
    for code in codes {
        push(format!("        Self::{},", code.variant()));
    }
    push("    ];\n".into());
    push("    /// The number on the wire.".into());
    push("    #[must_use]".into());
    push("    pub const fn number(self) -> u16 {".into());
    push("        self as u16".into());
    push("    }\n".into());
    push("    /// The code with this number; none if it is unknown.".into());
    push("    #[must_use]".into());
    push("    pub const fn from_number(number: u64) -> Option<Self> {".into());
    push("        Some(match number {".into());
    for code in codes {
        push(format!("            {} => Self::{},", code.number, code.variant()));
    }
    push("            _ => return None,".into());
    push("        })".into());
    push("    }\n".into());
    rust_method(
        out,
        "The name in `spec/codes.toml`, for programs.",
        "name(self) -> &'static str",
        codes,
        |code| format!("\"{}\"", code.name),
    );
    out.push('\n');
    rust_method(
        out,
        "One line for people, at most 123 bytes.",
        "text(self) -> &'static str",
        codes,
        |code| format!("\"{}\"", code.text),
    );
    out.push_str("}\n");
}

/// A method that returns `value` for each code. Codes with the same value share an arm.
fn rust_method(
    out: &mut String,
    purpose: &str,
    signature: &str,
    codes: &[Code],
    value: impl Fn(&Code) -> String,
) {
    let mut values: Vec<String> = Vec::new();
    for code in codes {
        if !values.contains(&value(code)) {
            values.push(value(code));
        }
    }
    let _ = writeln!(out, "    /// {purpose}");
    let _ = writeln!(out, "    #[must_use]");
    let _ = writeln!(out, "    pub const fn {signature} {{");
    let _ = writeln!(out, "        match self {{");
    for shared in &values {
        let variants: Vec<String> = codes
            .iter()
            .filter(|code| value(code) == *shared)
            .map(|code| format!("Self::{}", code.variant()))
            .collect();
        let _ = writeln!(out, "            {} => {shared},", variants.join("\n            | "));
    }
    let _ = writeln!(out, "        }}");
    let _ = writeln!(out, "    }}");
}

fn markdown(errors: &[Code], closes: &[Code], unsubscribes: &[Code]) -> String {
    let mut out = String::from(
        "# Codes\n\nGenerated from `codes.toml` by `cargo xtask generate`; do not edit. A number never changes its meaning.\n\n\
         ## Errors\n\nAn ERROR frame has the number, the body of an HTTP problem has the name.\n\n\
         | number | name | HTTP | temporary | text |\n|---|---|---|---|---|\n",
    );
    for code in errors {
        let temporary = if code.temporary { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "| {} | `{}` | {} | {temporary} | {} |",
            code.number, code.name, code.http_status, code.text
        );
    }
    out.push_str(
        "\n## Close codes\n\nA client reconnects after 3000-3499 and does not after 3500-3999. The application requests both: reconnect after \
         4000-4499, and not after 4500-4999. The range also decides for numbers that are not listed.\n\n\
         | number | name | reconnect | text |\n|---|---|---|---|\n",
    );
    for code in closes {
        let reconnect = if code.reconnects() { "yes" } else { "no" };
        let _ =
            writeln!(out, "| {} | `{}` | {reconnect} | {} |", code.number, code.name, code.text);
    }
    out.push_str(
        "\n## Unsubscribe codes\n\nBelow 2500 the end is final; from 2500 on the client subscribes again, from its last position.\n\n\
         | number | name | subscribe again | text |\n|---|---|---|---|\n",
    );
    for code in unsubscribes {
        let again = if code.number >= 2500 { "yes" } else { "no" };
        let _ = writeln!(out, "| {} | `{}` | {again} | {} |", code.number, code.name, code.text);
    }
    out
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::generate;

    fn row(kind: &str, fields: &str) -> String {
        format!("[[{kind}]]\n{fields}\n")
    }

    fn check(error: &str, expected: Result<(), &str>) {
        let close = row("close", "number = 3000\nname = \"shutdown\"\ntext = \"t\"");
        let unsubscribe = row("unsubscribe", "number = 0\nname = \"requested\"\ntext = \"t\"");
        let table = format!("{}{close}{unsubscribe}", row("error", error));
        match (generate(&table), expected) {
            (Ok(files), Ok(())) => assert_eq!(files.len(), 2),
            (Err(error), Err(part)) => {
                let text = format!("{error:#}");
                assert!(text.contains(part), "{text}");
            }
            (Ok(_), Err(part)) => panic!("accepted, but: {part}"),
            (Err(error), Ok(())) => panic!("{error:#}"),
        }
    }

    #[test]
    fn a_wrong_table_is_refused() {
        let good =
            "number = 100\nname = \"a_b\"\nhttp_status = 400\ntemporary = false\ntext = \"t\"";
        check(good, Ok(()));
        check(&good.replace("100", "99"), Err("outside the ranges of its table"));
        check(&good.replace("400", "200"), Err("not the status of an error"));
        check(&good.replace("a_b", "a__b"), Err("not a name"));
        check(&good.replace("false", "1"), Err("temporary must be"));
        check(&good.replace("\"t\"", "\"a|b\""), Err("must be plain"));
        check(&format!("{good}\nmore = 1"), Err("unknown field more"));
        check(&format!("{good}\n[[error]]\n{good}"), Err("appears twice"));
        check(&format!("{good}\n[[error]]\n{}", good.replace("a_b", "c")), Err("must increase"));
    }
}
