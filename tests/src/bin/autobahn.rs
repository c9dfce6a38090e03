//! Autobahn's fuzzing client against `/echo`: every case but those of compression, judged one by one.
//!
//! With a WebSocket URL as its argument it tests that server instead. The last line is `N passed, N failed`;
//! the report for people lies in `target/reports/autobahn`.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use end_to_end::server::{Server, WIDE_SEND_BUFFER};
use end_to_end::tools;
use serde_json::{Value, json};

/// What the server is called in the report.
const AGENT: &str = "crore";

/// 12 and 13 are compression, which is not negotiated on `/echo`.
const EXCLUDED: [&str; 2] = ["12.*", "13.*"];

/// As many cases as version 0.8.2 of the suite has without the excluded ones: a shorter run proves less.
const CASES_COUNT: usize = 301;

/// The verdicts that pass: as required, allowed but not ideal, and cases that only report.
const PASSING: [&str; 3] = ["OK", "NON-STRICT", "INFORMATIONAL"];

fn main() -> ExitCode {
    let url = std::env::args().nth(1);
    let verdict = match &url {
        Some(url) => run(url),
        None => run(&Server::with_configuration(WIDE_SEND_BUFFER).ws_url("/echo")),
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

/// Runs all cases against the URL. True: all passed.
fn run(url: &str) -> Result<bool> {
    let reports = tools::reports("autobahn");
    if reports.exists() {
        fs::remove_dir_all(&reports)?;
    }
    fs::create_dir_all(&reports)?;
    let specification = json!({
        "outdir": reports,
        "servers": [{ "agent": AGENT, "url": url }],
        "cases": ["*"],
        "exclude-cases": EXCLUDED,
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
    judge(&serde_json::from_str(&index)?, &reports)
}

fn judge(index: &Value, reports: &Path) -> Result<bool> {
    let cases = index[AGENT]
        .as_object()
        .context("the report is about another server")?;
    let mut failed = 0;
    for (name, case) in cases {
        let verdicts = [&case["behavior"], &case["behaviorClose"]].map(|verdict| verdict.as_str());
        if verdicts
            .iter()
            .all(|verdict| verdict.is_some_and(|text| PASSING.contains(&text)))
        {
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
    if cases.len() != CASES_COUNT {
        bail!("{} cases ran, not {CASES_COUNT}", cases.len());
    }
    Ok(failed == 0)
}
