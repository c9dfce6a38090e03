//! Rules about the text of single files.

use super::{File, Finding, Tree};

/// The crates that may contain `unsafe` blocks, each with its reason beside it.
const UNSAFE_CRATES: &[&str] = &["kafka", "net", "stdx"];

/// The maximum number of lines of a source file, with its tests.
const FILE_LINES_MAX: usize = 700;

/// The maximum number of lines of a function; a longer one does too much.
const FUNCTION_LINES_MAX: usize = 150;

/// Longer files, each with its own maximum. Entries only ever shrink.
const LONGER_FILES: &[(&str, usize)] = &[];

/// Module names without a meaning.
const VAGUE_MODULES: &[&str] = &["common", "helpers", "misc", "util", "utils"];

/// Words that mark unfinished work. Split, so that this file does not break its own rule.
const LEFTOVERS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("X", "XX"),
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
    concat!("dbg", "!"),
    concat!("#[ig", "nore"),
];

/// Folders of one developer's machine. Split for the same reason.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/t", "mp/"), concat!("/wo", "rk/")];

/// Every file that decodes untrusted input, and its fuzz target.
const FUZZ_TARGETS: &[(&str, &str)] = &[
    ("crates/broker/src/ticket.rs", "ticket"),
    ("crates/broker/src/home/groups/register.rs", "node_record"),
    ("crates/broker/src/home/shared/entry.rs", "node_record"),
    ("crates/engine/src/record.rs", "engine_record"),
    ("crates/wire/src/http/body.rs", "http_body"),
    ("crates/wire/src/http/event_stream.rs", "event_stream"),
    ("crates/wire/src/http/request.rs", "http_request"),
    ("crates/wire/src/http/response.rs", "http_response"),
    ("crates/wire/src/mqtt/client_packet.rs", "mqtt_client"),
    ("crates/wire/src/mqtt/server_packet.rs", "mqtt_server"),
    ("crates/wire/src/native/client_frame.rs", "native_client_frame"),
    ("crates/wire/src/native/json/client.rs", "json_client_frame"),
    ("crates/wire/src/native/json/server.rs", "json_server_frame"),
    ("crates/wire/src/native/server_codec.rs", "native_server_frame"),
    ("crates/wire/src/native/varint.rs", "native_client_frame"),
    ("crates/wire/src/proxy.rs", "proxy"),
    ("crates/wire/src/websocket/close.rs", "websocket_message"),
    ("crates/wire/src/websocket/deflate.rs", "websocket_deflate"),
    ("crates/wire/src/websocket/frame.rs", "websocket_frame"),
    ("crates/wire/src/websocket/message.rs", "websocket_message"),
    ("crates/tcp/src/packet/icmp.rs", "tcp_packet"),
    ("crates/tcp/src/packet/mod.rs", "tcp_packet"),
    ("crates/tcp/src/packet/options.rs", "tcp_options"),
    ("crates/tcp/src/packet/segment.rs", "tcp_packet"),
    ("crates/tcp/src/stack/arriving.rs", "tcp_stack"),
    ("crates/tcp/src/stack/recovering.rs", "tcp_life"),
    // Files that a crash, a disk or another process may have left in any state.
    ("crates/entitlement/src/revocation_file.rs", "token"),
    ("crates/log/src/store/end.rs", "store_index"),
    ("crates/log/src/store/epochs.rs", "store_index"),
    ("crates/log/src/store/format.rs", "store_segment"),
    ("crates/log/src/store/index_file.rs", "store_index"),
];

/// `#![forbid(unsafe_code)]` opens every crate except those with `unsafe`.
pub fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let has_line = |file: &File| file.lines().any(|(_, line)| line == "#![forbid(unsafe_code)]");
    tree.rust()
        .filter(|file| is_root(&file.path, UNSAFE_CRATES) && !has_line(file))
        .map(|file| file.finding(0, "`#![forbid(unsafe_code)]` is missing"))
        .collect()
}

/// `clippy::unwrap_used` is denied in every crate but those of tests. It is denied here and not in
/// the workspace, because there it would hold for the helpers of `tests/` as well.
pub fn unwraps(tree: &Tree) -> Vec<Finding> {
    let is_denied =
        |file: &File| file.lines().any(|(_, line)| line.starts_with("#![deny(clippy::unwrap_used"));
    tree.rust()
        .filter(|file| file.path.starts_with("crates/") && is_root(&file.path, &["script"]))
        .filter(|file| !is_denied(file))
        .map(|file| file.finding(0, "`#![deny(clippy::unwrap_used)]` is missing"))
        .collect()
}

/// Whether a file is the root of a crate, other than the libraries and programs of `exempt`.
fn is_root(path: &str, exempt: &[&str]) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", name, "src", "lib.rs" | "main.rs"] => !exempt.contains(name),
        ["crates", _, "src", "bin", _]
        | ["tests", "src", "lib.rs"]
        | ["tests", "src", "bin", _] => true,
        _ => false,
    }
}

/// Every Rust file opens with its purpose.
pub fn opening(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.finding(1, "the file must open with `//!`: purpose, place, invariants"))
        .collect()
}

/// Long files have more than one responsibility. Generated ones are not checked.
pub fn file_length(tree: &Tree) -> Vec<Finding> {
    let too_long = |file: &File| {
        let lines = file.lines().count();
        let longer = LONGER_FILES.iter().find(|(path, _)| *path == file.path);
        match longer {
            Some((_, max)) if lines > *max => Some(format!("{lines} lines; its bound is {max}")),
            Some(_) if lines <= FILE_LINES_MAX => Some("no longer needs an exception".to_owned()),
            None if lines > FILE_LINES_MAX => {
                Some(format!("{lines} lines; at most {FILE_LINES_MAX}, split by responsibility"))
            }
            _ => None,
        }
    };
    tree.with_extension(&["cjs", "css", "html", "js", "mjs", "py", "rs"])
        .filter(|file| !is_generated(file))
        .filter_map(|file| too_long(file).map(|text| file.finding(0, text)))
        .collect()
}

/// A function beyond this bound is refused; `ratchet` counts those beyond a lower one.
pub fn function_length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !is_generated(file)) {
        for (number, length) in functions(file) {
            if length > FUNCTION_LINES_MAX {
                let text = format!("a function of {length} lines; at most {FUNCTION_LINES_MAX}");
                findings.push(file.finding(number, text));
            }
        }
    }
    findings
}

/// The functions of a Rust file: line and length. Relies on the formatter: a function's last brace
/// has the indentation of its `fn`.
pub fn functions(file: &File) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = code.starts_with("fn ")
            || (code.starts_with("pub") || code.starts_with("const fn"))
                && code.contains("fn ")
                && code.contains('(');
        let indent = &line[..line.len() - code.len()];
        // A declaration over several lines ends like `) -> Decision;`.
        let is_end = |line: &&str| {
            let rest = line.strip_prefix(indent);
            rest.is_some_and(|rest| rest == "}" || rest.starts_with(')') && rest.ends_with(';'))
        };
        if !is_function || code.ends_with([';', '}']) {
            continue;
        }
        let length = lines[index..].iter().position(is_end).map_or(0, |end| end + 1);
        functions.push((index + 1, length));
    }
    functions
}

/// A shared helper has a name in `stdx`, or is beside its only user.
pub fn module_names(tree: &Tree) -> Vec<Finding> {
    let is_vague = |file: &&File| {
        let path = file.path.strip_suffix(".rs").unwrap_or(&file.path);
        path.split('/').any(|part| VAGUE_MODULES.contains(&part))
    };
    let mut findings: Vec<Finding> = tree
        .rust()
        .filter(is_vague)
        .map(|file| file.finding(0, "a module needs a name that describes its content"))
        .collect();
    for file in tree.rust() {
        for (number, line) in file.lines() {
            let name = line.split_once("mod ").and_then(|(_, rest)| rest.strip_suffix(" {"));
            if name.is_some_and(|name| VAGUE_MODULES.contains(&name)) {
                findings
                    .push(file.finding(number, "a module needs a name that describes its content"));
            }
        }
    }
    findings
}

/// No unfinished work and no disabled test.
pub fn leftovers(tree: &Tree) -> Vec<Finding> {
    words_in(
        tree.with_extension(&["cjs", "html", "js", "mjs", "py", "rs", "sh", "toml"]),
        LEFTOVERS,
    )
}

/// Every decoder of `wire`, and that of tickets, has a fuzz target, named in [`FUZZ_TARGETS`].
pub fn fuzz_targets(tree: &Tree) -> Vec<Finding> {
    let decoder_line = |file: &File| {
        let is_decoder = |line: &str| {
            let name = line.trim_start().strip_prefix("pub fn decode");
            name.is_some_and(|rest| rest.starts_with(['(', '<']))
        };
        file.lines().find(|(_, line)| is_decoder(line)).map(|(number, _)| number)
    };
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| {
        file.path.starts_with("crates/wire/src/") || file.path == "crates/broker/src/ticket.rs"
    }) {
        let target = FUZZ_TARGETS.iter().find(|(path, _)| *path == file.path);
        match (decoder_line(file), target) {
            (None, None) => {}
            (None, Some(_)) => findings.push(file.finding(0, "tidy's table names no decoder")),
            (Some(number), None) => {
                findings.push(
                    file.finding(number, "the decoder is not in tidy's table of fuzz targets"),
                );
            }
            (Some(number), Some((_, target))) => {
                if tree.file(&format!("fuzz/fuzz_targets/{target}.rs")).is_none() {
                    findings
                        .push(file.finding(number, format!("there is no fuzz target `{target}`")));
                }
            }
        }
    }
    findings
}

/// No committed file depends on a developer's folder.
pub fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (number, line) in file.lines() {
            let is_absolute = |folder: &&&str| {
                line.match_indices(**folder).any(|(start, _)| {
                    let before = line[..start].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || "._-}#+*/$".contains(c))
                })
            };
            if let Some(folder) = MACHINE_FOLDERS.iter().find(is_absolute) {
                findings.push(file.finding(number, format!("a path under {folder}")));
            }
        }
    }
    findings
}

/// No white space at the end of a line, no tab in Rust, one line feed at the end of a file.
pub fn whitespace(tree: &Tree) -> Vec<Finding> {
    let extensions = ["css", "html", "js", "json", "md", "mjs", "py", "rs", "sh", "toml", "yml"];
    let mut findings = Vec::new();
    for file in tree.with_extension(&extensions) {
        for (number, line) in file.text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(file.finding(number + 1, "white space at the end of the line"));
            }
            if file.path.ends_with(".rs") && line.starts_with('\t') {
                findings.push(file.finding(number + 1, "a tab"));
            }
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            findings.push(file.finding(0, "the file must end with one line feed"));
        }
    }
    findings
}

pub fn is_generated(file: &File) -> bool {
    file.lines().take(3).any(|(_, line)| line.contains("Generated from"))
}

/// The lines with one of the words, as a whole word.
fn words_in<'a>(files: impl Iterator<Item = &'a File>, words: &[&str]) -> Vec<Finding> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            let stands_alone = |word: &&&str| {
                line.match_indices(**word).any(|(start, _)| {
                    let before = line[..start].chars().next_back();
                    let after = line[start + word.len()..].chars().next();
                    !before.is_some_and(is_word)
                        && (!word.ends_with(is_word) || !after.is_some_and(is_word))
                })
            };
            if let Some(word) = words.iter().find(stands_alone) {
                findings.push(file.finding(number, format!("`{word}` is a leftover")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::testing::findings;
    use super::*;

    /// The number of violations in one file.
    fn count(find: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> usize {
        findings(find, &[(path, text)]).len()
    }

    #[test]
    fn unsafe_code_is_forbidden() {
        let forbidden = "//! A crate.\n#![forbid(unsafe_code)]\n";
        assert_eq!(count(unsafe_code, "crates/wire/src/lib.rs", forbidden), 0);
        assert_eq!(count(unsafe_code, "crates/wire/src/lib.rs", "//! A crate.\n"), 1);
        assert_eq!(count(unsafe_code, "crates/crore/src/main.rs", "//! A crate.\n"), 1);
        assert_eq!(count(unsafe_code, "crates/wire/src/frame.rs", "//! A module.\n"), 0);
        assert_eq!(count(unsafe_code, "crates/net/src/lib.rs", "//! A crate.\n"), 0);
    }

    #[test]
    fn unwraps_are_denied() {
        let denied = "//! A crate.\n#![deny(clippy::unwrap_used)]\n";
        assert_eq!(count(unwraps, "crates/wire/src/lib.rs", denied), 0);
        assert_eq!(count(unwraps, "crates/wire/src/lib.rs", "//! A crate.\n"), 1);
        assert_eq!(count(unwraps, "crates/script/src/lib.rs", "//! A crate.\n"), 0);
        assert_eq!(count(unwraps, "crates/wire/tests/a.rs", "//! A test.\n"), 0);
        assert_eq!(count(unwraps, "tests/src/lib.rs", "//! Tests.\n"), 0);
    }

    #[test]
    fn files_open_with_their_purpose() {
        assert_eq!(count(opening, "a.rs", "//! Purpose.\n"), 0);
        assert_eq!(count(opening, "a.rs", "use std::fmt;\n"), 1);
        assert_eq!(count(opening, "a.rs", ""), 1);
    }

    #[test]
    fn files_are_short() {
        let lines = |count: usize| "let a = 1;\n".repeat(count);
        assert_eq!(count(file_length, "a.rs", &lines(FILE_LINES_MAX)), 0);
        assert_eq!(count(file_length, "a.rs", &lines(FILE_LINES_MAX + 1)), 1);
        let generated = format!("//! Generated from a table.\n{}", lines(FILE_LINES_MAX));
        assert_eq!(count(file_length, "a.rs", &generated), 0);
        assert_eq!(count(file_length, "a.txt", &lines(FILE_LINES_MAX + 1)), 0);
    }

    #[test]
    fn functions_are_short() {
        let function = |lines: usize| {
            format!(
                "impl A {{\n    pub fn a(&self) {{\n{}    }}\n}}\n",
                "        b();\n".repeat(lines)
            )
        };
        assert_eq!(count(function_length, "a.rs", &function(FUNCTION_LINES_MAX - 2)), 0);
        assert_eq!(count(function_length, "a.rs", &function(FUNCTION_LINES_MAX - 1)), 1);
        let declarations = format!("fn a();\n{}}}\n", "const B: u8 = 1;\n".repeat(200));
        assert_eq!(count(function_length, "a.rs", &declarations), 0);
        let wide = format!("fn a(\n    b: u8,\n) -> u8;\n{}}}\n", "const B: u8 = 1;\n".repeat(200));
        assert_eq!(count(function_length, "a.rs", &wide), 0);
    }

    #[test]
    fn modules_have_meaningful_names() {
        assert_eq!(count(module_names, "crates/wire/src/utils.rs", ""), 1);
        assert_eq!(count(module_names, "crates/wire/src/common/frame.rs", ""), 1);
        assert_eq!(count(module_names, "a.rs", concat!("pub mod he", "lpers {\n")), 1);
        assert_eq!(count(module_names, "crates/wire/src/mask.rs", "mod utf8;\n"), 0);
    }

    #[test]
    fn unfinished_work_is_found() {
        for word in LEFTOVERS {
            assert_eq!(count(leftovers, "a.rs", &format!("a // {word}\n")), 1, "{word}");
        }
        let longer: String = LEFTOVERS
            .iter()
            .filter(|word| !word.starts_with('#'))
            .map(|word| format!("a{word} "))
            .collect();
        assert_eq!(count(leftovers, "a.rs", &longer), 0, "{longer}");
    }

    #[test]
    fn decoders_are_fuzzed() {
        let (path, target) = FUZZ_TARGETS[0];
        let decoder = (path, "pub fn decode(bytes: &[u8]) {\n");
        let fuzz = format!("fuzz/fuzz_targets/{target}.rs");
        assert_eq!(findings(fuzz_targets, &[decoder, (&fuzz, "")]).len(), 0);
        assert_eq!(findings(fuzz_targets, &[decoder]).len(), 1);
        assert_eq!(findings(fuzz_targets, &[(path, "")]).len(), 1);
        assert_eq!(count(fuzz_targets, "crates/wire/src/new.rs", "    pub fn decode<'a>(\n"), 1);
        assert_eq!(count(fuzz_targets, "crates/wire/src/new.rs", "fn decode(\n"), 0);
    }

    #[test]
    fn paths_of_machines_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(count(machine_paths, "a.md", &format!("see `{folder}a`\n")), 1, "{folder}");
            assert_eq!(count(machine_paths, "a.md", &format!("{folder}a\n")), 1, "{folder}");
            assert_eq!(count(machine_paths, "a.md", &format!("net{folder}a\n")), 0, "{folder}");
        }
    }

    #[test]
    fn whitespace_is_clean() {
        assert_eq!(count(whitespace, "a.rs", "a\n\nb\n"), 0);
        assert_eq!(count(whitespace, "a.rs", "a \nb\n"), 1);
        assert_eq!(count(whitespace, "a.rs", "a\r\nb\n"), 1);
        assert_eq!(count(whitespace, "a.rs", "\ta\n"), 1);
        assert_eq!(count(whitespace, "a.rs", "a"), 1);
        assert_eq!(count(whitespace, "a.rs", "a\n\n"), 1);
        assert_eq!(count(whitespace, "a.txt", "a "), 0);
    }
}
