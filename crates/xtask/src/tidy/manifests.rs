//! Rules about crates: their dependencies, and their common parts.

use super::{File, Finding, Tree};

/// The arrows of the architecture: each crate, with our crates that it may depend on.
///
/// Among the libraries only `node` sees both `broker` and `net`; the programs `crore` and `sim` are
/// above it.
const ARROWS: &[(&str, &[&str])] = &[
    ("derive", &[]),
    ("stdx", &["derive"]),
    ("wire", &["stdx"]),
    ("log", &["stdx"]),
    ("broker", &["stdx", "wire", "log"]),
    ("disk", &["stdx", "log"]),
    ("tcp", &["stdx"]),
    ("net", &["stdx", "tcp"]),
    ("tls", &["stdx", "net"]),
    ("node", &["stdx", "wire", "log", "disk", "broker", "net", "tls"]),
    ("fetch", &["wire"]),
    ("kafka", &[]),
    ("brokers", &[]),
    ("engine", &["stdx", "wire", "broker", "kafka"]),
    ("entitlement", &["stdx", "wire", "broker", "fetch"]),
    ("client", &["stdx", "wire", "net", "tls"]),
    ("bench", &["stdx", "wire", "log", "disk", "net", "tls", "client", "fetch"]),
    ("sim", &["stdx", "wire", "log", "broker", "net", "node", "client", "tcp"]),
    (
        "crore",
        &[
            "stdx",
            "wire",
            "log",
            "disk",
            "broker",
            "brokers",
            "engine",
            "entitlement",
            "fetch",
            "net",
            "tls",
            "node",
            "client",
            "bench",
        ],
    ),
    (
        "lab",
        &[
            "stdx",
            "wire",
            "log",
            "disk",
            "broker",
            "entitlement",
            "fetch",
            "net",
            "tcp",
            "tls",
            "node",
            "client",
            "bench",
        ],
    ),
    ("script", &["stdx", "wire"]),
    ("xtask", &[]),
];

/// Pure crates: even their tests access nothing outside.
const PURE: &[&str] = &["stdx", "wire", "log", "broker", "tcp"];

/// Dependencies follow [`ARROWS`]. Tests may reach further, except those of the pure crates.
pub fn arrows(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, manifest) in tree.crates() {
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            findings.push(manifest.finding(0, format!("{name} has no place in the arrows")));
            continue;
        };
        for (dependency, is_for_tests) in own_dependencies(manifest) {
            let is_allowed = if is_for_tests {
                !PURE.contains(&name) || PURE.contains(&dependency.as_str())
            } else {
                allowed.contains(&dependency.as_str())
            };
            if !is_allowed {
                findings
                    .push(manifest.finding(0, format!("{name} may not depend on {dependency}")));
            }
        }
    }
    findings
}

/// Every crate takes the lint table of the workspace.
pub fn lint_table(tree: &Tree) -> Vec<Finding> {
    let inherits = |manifest: &File| {
        let table: Option<toml::Table> = manifest.text.parse().ok();
        table.is_some_and(|table| {
            let lints = table.get("lints").and_then(|lints| lints.get("workspace"));
            lints.and_then(toml::Value::as_bool) == Some(true)
        })
    };
    tree.crates()
        .map(|(_, manifest)| manifest)
        .chain(tree.file("tests/Cargo.toml"))
        .filter(|manifest| !inherits(manifest))
        .map(|manifest| manifest.finding(0, "`[lints] workspace = true` is missing"))
        .collect()
}

/// ARCHITECTURE.md names every crate.
pub fn architecture(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.file("ARCHITECTURE.md") else {
        return vec![Finding {
            path: "ARCHITECTURE.md".into(),
            line: 0,
            text: "the map of the crates is missing".into(),
        }];
    };
    tree.crates()
        .filter(|(name, _)| !map.text.contains(&format!("`{name}`")))
        .map(|(name, _)| map.finding(0, format!("`{name}` is not mentioned")))
        .collect()
}

/// Our crates that a manifest depends on, and whether for tests only.
fn own_dependencies(manifest: &File) -> Vec<(String, bool)> {
    let Ok(table) = manifest.text.parse::<toml::Table>() else {
        return Vec::new();
    };
    let mut sections = vec![&table];
    // Dependencies by target are in tables of the same form.
    if let Some(targets) = table.get("target").and_then(toml::Value::as_table) {
        sections.extend(targets.values().filter_map(toml::Value::as_table));
    }
    let mut found = Vec::new();
    for section in sections {
        for (kind, is_for_tests) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            let Some(dependencies) = section.get(kind).and_then(toml::Value::as_table) else {
                continue;
            };
            for (key, value) in dependencies {
                let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
                if ARROWS.iter().any(|(name, _)| *name == package) {
                    found.push((package.to_owned(), is_for_tests));
                }
            }
        }
    }
    found
}

/// Every page of `docs/` has its place in the map by reader.
pub fn documents(tree: &Tree) -> Vec<Finding> {
    const MAP: &str = "docs/README.md";
    let is_page = |file: &&File| {
        let name = file.path.strip_prefix("docs/").and_then(|rest| rest.strip_suffix(".md"));
        name.is_some_and(|name| !name.contains('/') && name != "README")
    };
    let map = tree.file(MAP).map_or("", |file| file.text.as_str());
    let is_missing = |file: &&File| !map.contains(&format!("({})", &file.path["docs/".len()..]));
    let pages = tree.with_extension(&["md"]).filter(is_page).filter(is_missing);
    pages.map(|file| file.finding(0, format!("{MAP} does not link to this page"))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::findings;
    use super::*;

    #[test]
    fn arrows_point_downwards() {
        let check = |manifests: &[(&str, &str)], expected: &[&str]| {
            assert_eq!(findings(arrows, manifests), expected);
        };
        let up = "crates/wire/Cargo.toml:0 wire may not depend on broker";
        check(&[("crates/wire/Cargo.toml", "[dependencies]\nstdx.workspace = true")], &[]);
        check(&[("crates/wire/Cargo.toml", "[dependencies]\nbroker.workspace = true")], &[up]);
        check(&[("crates/wire/Cargo.toml", "[build-dependencies]\nbroker = \"1\"")], &[up]);
        check(&[("crates/wire/Cargo.toml", "[dependencies]\nb = { package = \"broker\" }")], &[up]);
        check(
            &[("crates/wire/Cargo.toml", "[target.'cfg(unix)'.dependencies]\nbroker = \"1\"")],
            &[up],
        );
        check(&[("crates/log/Cargo.toml", "[dev-dependencies]\nwire.workspace = true")], &[]);
        check(
            &[("crates/log/Cargo.toml", "[dev-dependencies]\nnet.workspace = true")],
            &["crates/log/Cargo.toml:0 log may not depend on net"],
        );
        check(&[("crates/net/Cargo.toml", "[dev-dependencies]\nwire.workspace = true")], &[]);
        check(
            &[("crates/new/Cargo.toml", "")],
            &["crates/new/Cargo.toml:0 new has no place in the arrows"],
        );
    }

    #[test]
    fn crates_take_the_lint_table() {
        let missing = "`[lints] workspace = true` is missing";
        let found = findings(
            lint_table,
            &[
                ("crates/a/Cargo.toml", "[lints]\nworkspace = true"),
                ("crates/b/Cargo.toml", "[package]\nname = \"b\""),
                ("tests/Cargo.toml", "[lints]\nworkspace = false"),
            ],
        );
        let expected =
            [format!("crates/b/Cargo.toml:0 {missing}"), format!("tests/Cargo.toml:0 {missing}")];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_map_names_every_crate() {
        let files = [
            ("ARCHITECTURE.md", "- `a` does"),
            ("crates/a/Cargo.toml", ""),
            ("crates/b/Cargo.toml", ""),
        ];
        assert_eq!(findings(architecture, &files), ["ARCHITECTURE.md:0 `b` is not mentioned"]);
        assert_eq!(findings(architecture, &[]).len(), 1);
    }

    #[test]
    fn documents_have_a_place_in_the_map() {
        let map = ("docs/README.md", "[a](a.md)");
        let files = [map, ("docs/a.md", ""), ("docs/b.md", ""), ("docs/decisions/c.md", "")];
        let found = super::super::testing::findings(documents, &files);
        assert_eq!(found, ["docs/b.md:0 docs/README.md does not link to this page"]);
    }
}
