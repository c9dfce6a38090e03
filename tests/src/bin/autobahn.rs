//! Autobahn's fuzzing client against `/echo`, with a check of every case.
//!
//! Cases of compression send a thousand messages each and take minutes together: without `--all`
//! one of each kind runs. With a WebSocket URL as its argument it tests that server instead. The
//! last line is `N passed, N failed`; the report for people is `target/reports/autobahn`.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use end_to_end::server::{Server, WIDE_SEND_BUFFER};
use end_to_end::tools;
use serde_json::{Value, json};

/// The server's name in the report.
const AGENT: &str = "crore";

/// The selected cases, and their number in version 0.8.2 of the suite: a shorter run proves less.
struct Selection {
    cases: &'static [&'static str],
    count: usize,
}

const ALL: Selection = Selection { cases: &["*"], count: 517 };

/// Chapter 12 is compression: five kinds of messages, 18 lengths and fragmentations. Chapter 13 is
/// negotiation: seven combinations of offers, with the same lengths.
const SOME: Selection = Selection {
    cases: &[
        "1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*", "12.1.1", "12.2.5",
        "12.3.3", "12.4.11", "12.5.4", "13.1.2", "13.2.5", "13.3.4", "13.4.11", "13.5.3",
        "13.6.11", "13.7.5",
    ],
    count: 313,
};

/// Compresses short messages too, so that the cases receive them compressed.
const COMPRESSION: &str = "[websocket]\ncompression = true\ncompression_bytes_min = \"16B\"\n";

/// The results that pass: as required, allowed but not ideal, and cases that only report.
const PASSING: [&str; 3] = ["OK", "NON-STRICT", "INFORMATIONAL"];

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_all = arguments.iter().any(|argument| argument == "--all");
    arguments.retain(|argument| argument != "--all");
    let selection = if is_all { &ALL } else { &SOME };
    let configuration = format!("{WIDE_SEND_BUFFER}\n{COMPRESSION}");
    let verdict = match arguments.first() {
        Some(url) => run(url, selection),
        None => run(&Server::with_configuration(&configuration).ws_url("/echo"), selection),
    };
    match verdict {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases against the URL. Returns whether all passed.
fn run(url: &str, selection: &Selection) -> Result<bool> {
    let reports = tools::reports("autobahn");
    if reports.exists() {
        fs::remove_dir_all(&reports)?;
    }
    fs::create_dir_all(&reports)?;
    let specification = json!({
        "outdir": reports,
        "servers": [{ "agent": AGENT, "url": url }],
        "cases": selection.cases,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let file = reports.join("specification.json");
    fs::write(&file, specification.to_string())?;
    let log = fs::File::create(reports.join("log.txt"))?;
    let status = tools::wstest()
        .args(["-m", "fuzzingclient", "-s"])
        .arg(file)
        .stdin(Stdio::null())
        .stderr(log.try_clone()?)
        .stdout(log)
        .status()?;
    ensure!(
        status.success(),
        "wstest failed ({status}); see {}",
        reports.join("log.txt").display()
    );
    let index = fs::read_to_string(reports.join("index.json")).context("wstest wrote no report")?;
    judge(&serde_json::from_str(&index)?, &reports, selection.count)
}

fn judge(index: &Value, reports: &Path, cases_count: usize) -> Result<bool> {
    let cases = index[AGENT].as_object().context("the report is about another server")?;
    let mut failed = 0;
    for (name, case) in cases {
        let verdicts = [&case["behavior"], &case["behaviorClose"]].map(|verdict| verdict.as_str());
        if verdicts.iter().all(|verdict| verdict.is_some_and(|text| PASSING.contains(&text))) {
            continue;
        }
        failed += 1;
        let [behavior, close] = verdicts.map(|verdict| verdict.unwrap_or("unknown"));
        println!("case {name}: {behavior}, on closing {close}");
    }
    if failed > 0 {
        println!("the report: {}", reports.join("index.html").display());
    }
    println!("{} passed, {failed} failed", cases.len() - failed);
    if cases.len() != cases_count {
        bail!("{} cases ran, not {cases_count}", cases.len());
    }
    Ok(failed == 0)
}
