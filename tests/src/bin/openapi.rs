//! `spec/openapi.json` checked against the binary by schemathesis: valid and invalid requests,
//! generated from the document with a fixed seed. The document must list the status, the fields and
//! the body of each answer.
//!
//! The gate runs few examples, `--all` many. The last line is `N passed, N failed`: one for each
//! port, and one for the document on the server.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use end_to_end::curl::{curl, publish};
use end_to_end::process::Process;
use end_to_end::server::Server;
use end_to_end::tools;

/// Long polls are shorter than the client's timeout; all other options have their defaults.
const CONFIGURATION: &str = "[http]\nwait_max = \"100ms\"\n";

/// The configuration of a node with tokens, so that there are revocations.
const ENTITLED: &str = "[http]\nwait_max = \"100ms\"\n[entitlement]\nmode = \"tokens\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n";

/// Checks that cannot hold here: without entitlement no request lacks a token, and on loopback no
/// operator lacks a key; a topic without publications exists like any other.
const EXCLUDED_CHECKS: &str = "ignored_auth,use_after_free,ensure_resource_availability";

fn main() -> ExitCode {
    let (examples, patience) = if std::env::args().any(|word| word == "--all") {
        ("2000", Duration::from_secs(60 * 60))
    } else {
        ("30", Duration::from_secs(15 * 60))
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = here.join("../spec/openapi.json");
    let document = document.to_str().expect("a path in UTF-8");
    let settings = here.join("schemathesis/schemathesis.toml");
    let reports = tools::reports("openapi");
    fs::create_dir_all(&reports).expect("the target folder is ours");
    let server = Server::with_configuration(CONFIGURATION);
    let entitled = Server::with_configuration(ENTITLED);

    let mut failed = 0;
    let shown = curl(&[&server.operators_url("/openapi.json")]).expect(200);
    let written = fs::read_to_string(document).expect("the document is there");
    if shown.body != written {
        println!("the server shows another document than {document}");
        failed += 1;
    }
    for (tag, url) in [("clients", server.url("")), ("operators", entitled.operators_url(""))] {
        let mut command = tools::schemathesis();
        command
            .args(["--no-color", "--config-file"])
            .arg(&settings)
            .args(["run", document, "--url", &url, "--include-tag", tag])
            // A stream has no end; a faulty request for one is refused before it begins, which
            // other tests check.
            .args(["--exclude-path", "/events"])
            .args(["--phases", "examples,coverage,fuzzing", "--mode", "all"])
            .args(["--exclude-checks", EXCLUDED_CHECKS])
            .args(["--seed", "5", "--generation-deterministic", "--max-examples", examples])
            .args(["--request-timeout", "10", "--continue-on-failure"])
            .current_dir(&reports);
        let ended = Process::start(&mut command).end_within(patience);
        println!("{}", ended.lines.join("\n"));
        failed += usize::from(!ended.status.success());
    }
    // The server works after all requests.
    publish(&server.url("/topics/still/serves"), "yes");
    curl(&[&entitled.operators_url("/readyz")]).expect(200);
    println!("{} passed, {failed} failed", 3 - failed);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
