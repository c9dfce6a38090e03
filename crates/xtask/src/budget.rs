//! The budget of a message: instructions, allocations and network calls, compared with stored
//! figures.
//!
//! `crates/node/examples/budget/` runs a reactor on an in-memory network under callgrind, which
//! counts only inside its function `measured`. Differences of runs give the cost of one more
//! publication, delivery or connection. `docs/budget.toml` holds the stored figures; `cargo xtask
//! budget --store` writes them.
//!
//! It also runs each operation on many items with N, 2N and 4N of them ([`SCALING`]): the added
//! cost may about double each time.
//!
//! Invariants: a figure that grows by more than the tolerance fails the step. A figure that falls
//! by more is printed with a request to store it, and passes: an improvement must not stop a
//! landing. Instructions are compared only for the compiler and C library that they were stored
//! with; on others they are printed. Calls and allocations are always compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{self, Workspace};
use crate::tally::Tally;

const STORED: &str = "docs/budget.toml";
/// The tolerance of a figure, in percent.
const TOLERANCE_PERCENT: f64 = 5.0;
/// Smaller differences are not compared in percent: of calls and allocations, of instructions.
const SLACK: f64 = 0.05;
const SLACK_INSTRUCTIONS: f64 = 5.0;

/// The number of subscribers, topics or connections in the larger run of each pair.
const MANY: u32 = 1_000;
const TOPICS: u32 = 10_000;
/// Publications that come with one read, as in the program.
const BATCH: u32 = 32;

/// One run of the program: callgrind's counts, and the program's own.
#[derive(Clone, Debug, Default)]
struct Run {
    instructions: f64,
    allocations: f64,
    polls: f64,
    reads: f64,
    writes: f64,
}

/// The cost of one operation, by kind.
type Costs = BTreeMap<&'static str, f64>;

/// Measures, prints the table, and compares it with the stored figures.
pub fn check(workspace: &Workspace) -> Result<Tally> {
    let measured = measure(workspace)?;
    let place = place(workspace)?;
    let stored = fs::read_to_string(workspace.root.join(STORED))
        .with_context(|| format!("{STORED}; `cargo xtask budget --store` writes it"))?;
    let stored: toml::Table = stored.parse().context(STORED)?;
    let is_here = stored.get("place").and_then(toml::Value::as_str) == Some(&place);
    print!("{}", table(&measured));
    if !is_here {
        println!(
            "stored for another compiler or C library: instructions are printed, but not compared"
        );
    }
    let (mut passed, mut failed) = scaling(workspace)?;
    for (thing, costs) in &measured {
        for (kind, &value) in costs {
            if *kind == "instructions" && !is_here {
                continue;
            }
            let was = stored.get(*thing).and_then(|costs| costs.get(kind));
            match verdict(kind, value, was.and_then(number)) {
                Ok(Verdict::Kept) => passed += 1,
                Ok(Verdict::Better) => {
                    println!(
                        "{thing}, {kind}: {} is better than the stored figure; \
                         `cargo xtask budget --store` stores it",
                        shown(value)
                    );
                    passed += 1;
                }
                Err(why) => {
                    println!("{thing}, {kind}: {why}");
                    failed += 1;
                }
            }
        }
    }
    Ok(Tally { passed, failed })
}

/// Measures and writes the file.
pub fn store(workspace: &Workspace) -> Result<()> {
    let measured = measure(workspace)?;
    let mut text = format!(
        "# What the path of a message costs; `cargo xtask budget --store` writes this file, the gate's step `budget`\n\
         # compares. docs/performance.md explains the figures: \"Budget of a message\".\n\n\
         place = \"{}\"\n",
        place(workspace)?
    );
    for (thing, costs) in &measured {
        let _ = writeln!(text, "\n[{thing}]");
        for (kind, value) in costs {
            let _ = writeln!(text, "{kind} = {}", shown(*value));
        }
    }
    fs::write(workspace.root.join(STORED), text)?;
    print!("{}", table(&measured));
    Ok(())
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

/// The result of the comparison with the stored figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Within the tolerance.
    Kept,
    /// Below the stored figure by more than the tolerance.
    Better,
}

fn verdict(kind: &str, value: f64, stored: Option<f64>) -> Result<Verdict, String> {
    let Some(stored) = stored else {
        return Err("nothing is stored; run `cargo xtask budget --store`".to_owned());
    };
    let slack_min = match kind {
        "instructions" => SLACK_INSTRUCTIONS,
        _ => SLACK,
    };
    let slack = (stored * TOLERANCE_PERCENT / 100.0).max(slack_min);
    let (value_text, stored_text) = (shown(value), shown(stored));
    if value > stored + slack {
        Err(format!("{value_text} instead of {stored_text}: more than the budget"))
    } else if value < stored - slack {
        Ok(Verdict::Better)
    } else {
        Ok(Verdict::Kept)
    }
}

/// One decimal for single calls, none for thousands.
fn shown(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

fn table(measured: &BTreeMap<&str, Costs>) -> String {
    let mut text = String::new();
    for (thing, costs) in measured {
        let costs: Vec<String> =
            costs.iter().map(|(kind, value)| format!("{kind} {}", shown(*value))).collect();
        let _ = writeln!(text, "{thing:<18} {}", costs.join(", "));
    }
    text
}

fn measure(workspace: &Workspace) -> Result<BTreeMap<&'static str, Costs>> {
    // With `crore`, so that the crates are those of the release.
    let arguments =
        ["build", "--locked", "--release", "-p", "crore", "-p", "node", "--example", "budget"];
    shell::run(&mut workspace.cargo(&arguments))?;
    // The cost of `count` further operations after `beforehand` of them: by then buffers have
    // grown.
    let slope = |workload: &str, count: u32, beforehand: u32| -> Result<Run> {
        let less = run(workspace, workload, count, beforehand)?;
        let more = run(workspace, workload, 2 * count, beforehand)?;
        Ok(more.minus(&less).over(count))
    };
    let publish = slope("fan-out", 200, 0)?;
    let many = slope("fan-out", 50, MANY)?;
    let delivery = many.minus(&publish).over(MANY);
    // The same deliveries of a compressed message.
    let compression = slope("packed-fan-out", 50, MANY)?.minus(&many);
    let delivery_json = slope("json-fan-out", 50, MANY)?.minus(&publish).over(MANY);
    let unicast = slope("unicast", 1_000, TOPICS)?;
    let unicast_batch = slope("unicast-batches", 100, TOPICS)?.over(BATCH);
    let unicast_json = slope("json-unicast", 1_000, TOPICS)?;
    let connect = slope("connect", 1_000, 0)?;
    let connect_early = slope("connect-early", 1_000, 0)?;
    let ping = slope("pings", 2, MANY)?.over(MANY);
    let idle = slope("idle", 100, MANY)?.over(MANY);
    Ok(BTreeMap::from([
        ("publish", publish.costs()),
        ("delivery", delivery.costs()),
        ("delivery_json", delivery_json.costs()),
        ("unicast", unicast.costs()),
        ("unicast_batch", unicast_batch.costs()),
        ("unicast_json", unicast_json.costs()),
        ("compression", compression.costs()),
        ("connect", connect.costs()),
        ("connect_early", connect_early.costs()),
        ("ping", ping.costs()),
        ("idle_second", idle.costs()),
    ]))
}

/// The operations on many items, with the number of items in the smallest of three runs. A session
/// with a ticket has room for few.
const SCALING: [(&str, u32); 23] = [
    ("subscribe-topics", MANY_ITEMS),
    ("subscribe-filters", MANY_ITEMS),
    ("unsubscribe-topics", MANY_ITEMS),
    ("unsubscribe-filters", MANY_ITEMS),
    ("unsubscribe-singly", MANY_ITEMS),
    ("resubscribe-topics", MANY_ITEMS),
    ("end-topics", MANY_ITEMS),
    ("end-filters", MANY_ITEMS),
    ("publish-frames", MANY_ITEMS),
    ("publish-request", 200),
    ("publish-to-session", MANY_ITEMS),
    ("publish-to-filters", MANY_ITEMS),
    ("history-frames", MANY_ITEMS),
    ("lag-and-end", MANY_ITEMS),
    ("lag-topics", MANY_ITEMS),
    ("ticket", 200),
    ("resume", 200),
    ("go-away", MANY_ITEMS),
    ("renew", MANY_ITEMS),
    ("renew-at-once", MANY_ITEMS),
    ("revoke", MANY_ITEMS),
    ("reload", MANY_ITEMS),
    ("lag-filters", 100),
];
const MANY_ITEMS: u32 = 400;
/// The maximum growth of the added cost from one doubling to the next: 2 is linear, 4 is quadratic.
/// The room above 2 is for steps: a buffer that doubles, a tree one level deeper, names one digit
/// longer.
const GROWTH_MAX: f64 = 3.0;
/// A smaller added cost, in instructions per item, does not count as growth.
const GROWTH_SLACK: f64 = 50.0;

/// Checks whether twice as many items cost about twice as much, for all operations on many items.
/// Returns the numbers of passed and failed ones.
fn scaling(workspace: &Workspace) -> Result<(u64, u64)> {
    let (mut passed, mut failed) = (0, 0);
    for (workload, count) in SCALING {
        let of = |count| Ok::<f64, anyhow::Error>(run(workspace, workload, count, 0)?.instructions);
        let runs = [of(count)?, of(2 * count)?, of(4 * count)?];
        let (first, second) = (runs[1] - runs[0], runs[2] - runs[1]);
        let each = second / f64::from(2 * count);
        let growth = second / first;
        println!("{workload:<20} {each:.0} instructions an item, growth {growth:.2}");
        if growth > GROWTH_MAX && each > GROWTH_SLACK {
            println!("{workload}: more than linear ({runs:?} instructions)");
            failed += 1;
        } else {
            passed += 1;
        }
    }
    Ok((passed, failed))
}

impl Run {
    fn minus(&self, other: &Run) -> Run {
        Run {
            instructions: self.instructions - other.instructions,
            allocations: self.allocations - other.allocations,
            polls: self.polls - other.polls,
            reads: self.reads - other.reads,
            writes: self.writes - other.writes,
        }
    }

    fn over(&self, count: u32) -> Run {
        let count = f64::from(count);
        Run {
            instructions: self.instructions / count,
            allocations: self.allocations / count,
            polls: self.polls / count,
            reads: self.reads / count,
            writes: self.writes / count,
        }
    }

    fn costs(&self) -> Costs {
        BTreeMap::from([
            ("instructions", self.instructions),
            ("allocations", self.allocations),
            ("polls", self.polls),
            ("reads", self.reads),
            ("writes", self.writes),
        ])
    }
}

fn run(workspace: &Workspace, workload: &str, count: u32, beforehand: u32) -> Result<Run> {
    let folder = workspace.target.join("reports/budget");
    fs::create_dir_all(&folder)?;
    let profile = folder.join(format!("{workload}-{count}-{beforehand}.callgrind"));
    let output = format!("--callgrind-out-file={}", profile.display());
    let (count, beforehand) = (count.to_string(), beforehand.to_string());
    let program = program(workspace);
    let mut command = workspace.command(&[
        "valgrind",
        "-q",
        "--tool=callgrind",
        "--toggle-collect=*measured*",
        "--compress-strings=no",
        &output,
        &program.to_string_lossy(),
        workload,
        &count,
        &beforehand,
    ]);
    let said = shell::output(&mut command)?;
    let (instructions, allocations) =
        counted(&fs::read_to_string(&profile)?).with_context(|| profile.display().to_string())?;
    let call = |name: &str| {
        let value = said.lines().find_map(|line| {
            let (key, value) = line.split_once(' ')?;
            (key == name).then(|| value.parse::<f64>().ok())?
        });
        value.with_context(|| format!("{workload} does not report its {name}"))
    };
    Ok(Run {
        instructions,
        allocations,
        polls: call("polls")?,
        reads: call("reads")?,
        writes: call("writes")?,
    })
}

fn program(workspace: &Workspace) -> PathBuf {
    workspace.target.join("release/examples/budget")
}

/// The instructions, and calls of the allocator, in a profile with full names.
fn counted(profile: &str) -> Result<(f64, f64)> {
    let mut instructions = None;
    let mut allocations = 0.0;
    let mut callee = "";
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("cfn=") {
            callee = name;
        } else if let Some(rest) = line.strip_prefix("calls=") {
            let count = rest.split(' ').next().unwrap_or_default();
            if matches!(
                callee,
                "malloc" | "calloc" | "realloc" | "memalign" | "posix_memalign" | "aligned_alloc"
            ) {
                allocations += count.parse::<f64>().context("a count of calls")?;
            }
        } else if let Some(sum) = line.strip_prefix("totals: ") {
            instructions = sum.trim().parse::<f64>().ok();
        }
    }
    let instructions = instructions.context("a profile without a sum")?;
    ensure!(instructions > 0.0, "nothing was counted: `measured` has another name");
    Ok((instructions, allocations))
}

/// The facts that determine instructions, apart from the sources.
fn place(workspace: &Workspace) -> Result<String> {
    let compiler = shell::output(&mut workspace.command(&["rustc", "--version"]))?;
    let library = shell::output(&mut workspace.command(&["getconf", "GNU_LIBC_VERSION"]))?;
    let place = format!("{}, {}, {}", compiler.trim(), library.trim(), std::env::consts::ARCH);
    if place.contains('"') {
        bail!("a compiler with an unexpected name: {place}");
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_the_budget() {
        let (kept, better) = (Some(Verdict::Kept), Some(Verdict::Better));
        let check = |kind, value, stored, expected| {
            assert_eq!(verdict(kind, value, stored).ok(), expected, "{value} {stored:?}");
        };
        check("writes", 100.0, Some(100.0), kept);
        check("writes", 104.9, Some(100.0), kept);
        check("writes", 105.1, Some(100.0), None);
        check("writes", 94.9, Some(100.0), better);
        check("writes", 0.0, Some(0.0), kept);
        check("writes", 0.04, Some(0.0), kept);
        check("writes", 1.0, Some(0.0), None);
        check("writes", 1.0, None, None);
        check("instructions", 34.0, Some(30.0), kept);
        check("instructions", 36.0, Some(30.0), None);
    }

    #[test]
    fn profiles_are_read() {
        let profile = "fn=a\n1 20\ncfn=malloc\ncalls=3 0\n1 60\ncfn=free\ncalls=9 0\n1 9\n\
            cfn=realloc\ncalls=1 0\n1 5\ntotals: 94\n";
        assert_eq!(counted(profile).unwrap(), (94.0, 4.0));
        assert!(counted("totals: 0\n").is_err());
        assert!(counted("").is_err());
    }
}
