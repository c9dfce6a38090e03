//! A real Prometheus server (Debian's) that scrapes a node of the test, every second.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PATIENCE;
use crate::curl::curl;
use crate::process::Process;
use crate::tools;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Prometheus {
    _process: Process,
    address: String,
}

impl Prometheus {
    /// Starts a server in this folder that scrapes the operators' `address:port` as the job `crore`
    /// and evaluates these rules.
    pub fn start(folder: &Path, operators: &str, rules: &Path) -> Prometheus {
        let configuration = folder.join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files:\n  - {rules:?}\n\
             scrape_configs:\n  - job_name: crore\n    static_configs:\n      - targets: [{operators:?}]\n"
        );
        fs::write(&configuration, text).expect("the folder is ours");
        // It cannot report its port, so it gets one that was free a moment ago.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let address = free_address();
            let process = launch(folder, &configuration, &address);
            let prometheus = Prometheus { _process: process, address };
            if prometheus.is_ready_within(Duration::from_secs(30)) {
                return prometheus;
            }
            assert!(Instant::now() < deadline, "no Prometheus starts");
        }
    }

    /// The present series of a query.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let query = format!("query={query}");
        let url = format!("http://{}/api/v1/query", self.address);
        let answer = curl(&["--get", "--data-urlencode", &query, &url]).expect(200);
        series(&answer.json()["data"]["result"])
    }

    /// The loaded rules, of all groups.
    pub fn rules(&self) -> Vec<Value> {
        let answer = curl(&[&format!("http://{}/api/v1/rules", self.address)]).expect(200);
        let groups = series(&answer.json()["data"]["groups"]);
        groups.iter().flat_map(|group| series(&group["rules"])).collect()
    }

    fn is_ready_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            let url = format!("http://{}/-/ready", self.address);
            let mut probe = std::process::Command::new("curl");
            probe.args(["--silent", "--fail", "--max-time", "5", "--output", "/dev/null", &url]);
            if probe.status().is_ok_and(|status| status.success()) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }
}

fn launch(folder: &Path, configuration: &Path, address: &str) -> Process {
    let mut command = tools::prometheus();
    command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=warn");
    Process::start(&mut command)
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    address.to_string()
}

fn series(list: &Value) -> Vec<Value> {
    list.as_array().expect("a list").clone()
}
