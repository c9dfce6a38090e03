//! The slow tier: Debian's `testssl` against the TLS port, in both settings of `tls.version_min`.
//!
//! No finding may be above low, except those about the certificate: it is self-signed, for
//! localhost. The last line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Duration;

use end_to_end::process::{Process, assert_success};
use end_to_end::server::Place;
use end_to_end::tools;
use serde_json::Value;

/// Findings of testssl about the certificate and its name: a real one comes from the node's
/// operator.
const ABOUT_THE_CERTIFICATE: &[&str] = &[
    "cert_chain_of_trust",
    "cert_trust",
    "cert_crlDistributionPoints",
    "cert_ocspURL",
    "cert_revocation",
    "cert_notAfter",
    "cert_validityPeriod",
    "cert_expirationStatus",
    "OCSP_stapling",
    "DNS_CAArecord",
    "certificate_transparency",
    "cert_commonName",
    "cert_subjectAltName",
    "grade_cap_reason",
    "overall_grade",
];
/// Severities from the best to the worst; those behind `LOW` fail.
const ABOVE_LOW: &[&str] = &["MEDIUM", "HIGH", "CRITICAL", "FATAL"];

fn main() -> ExitCode {
    let mut failed = 0;
    let versions = ["1.2", "1.3"];
    for version in versions {
        let findings = audit(version);
        for finding in &findings {
            println!("TLS {version}: {finding}");
        }
        failed += usize::from(!findings.is_empty());
    }
    println!("{} passed, {failed} failed", versions.len() - failed);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The findings above low, for a server with this minimum version.
fn audit(version_min: &str) -> Vec<String> {
    let mut place = Place::new("127.0.0.1:0");
    let text = |name: &str| place.path(name).to_str().expect("a path in UTF-8").to_owned();
    let folder = text("");
    let mut command = tools::crore();
    command.args(["tls", "self-signed", "--force", "--out", &folder, "--name", "localhost"]);
    assert_success(&mut command);
    let (certificate, key, report) = (text("cert.pem"), text("key.pem"), text("findings.json"));
    place.configure(&format!(
        "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\nversion_min = {version_min:?}\n"
    ));
    let server = place.start();
    let port = server.tls_clients.rsplit(':').next().expect("a port").to_owned();
    let mut testssl = Command::new("testssl");
    testssl
        .args([
            "--warnings",
            "off",
            "--color",
            "0",
            "--nodns",
            "none",
            "--ip",
            "127.0.0.1",
            "--quiet",
        ])
        .args(["--jsonfile", &report, &format!("localhost:{port}")]);
    // Its exit code counts findings of any severity; the report has them.
    let ended = Process::start(&mut testssl).end_within(Duration::from_secs(10 * 60));
    let findings = fs::read_to_string(&report).unwrap_or_default();
    let findings: Vec<Value> = serde_json::from_str(&findings)
        .unwrap_or_else(|error| panic!("no report ({error}) after\n{}", ended.lines.join("\n")));
    // A run that did not reach the server has a handful of lines.
    assert!(findings.len() > 60, "{} findings only\n{}", findings.len(), ended.lines.join("\n"));
    findings.iter().filter_map(above_low).collect()
}

fn above_low(finding: &Value) -> Option<String> {
    let member = |name: &str| finding[name].as_str().unwrap_or_default();
    let (id, severity) = (member("id"), member("severity"));
    // Each of several certificates has its number behind the name.
    let name = id.split(' ').next().unwrap_or(id);
    let counts = ABOVE_LOW.contains(&severity) && !ABOUT_THE_CERTIFICATE.contains(&name);
    counts.then(|| format!("{severity} {id}: {}", member("finding")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_above_low_count() {
        let finding = |id: &str, severity: &str| serde_json::json!({ "id": id, "severity": severity, "finding": "x" });
        assert_eq!(above_low(&finding("TLS1", "HIGH")).as_deref(), Some("HIGH TLS1: x"));
        assert_eq!(above_low(&finding("TLS1", "OK")), None);
        assert_eq!(above_low(&finding("BREACH", "LOW")), None);
        assert_eq!(above_low(&finding("cert_trust <cert#1>", "HIGH")), None);
    }
}
