//! The slow tier, as root: a node started as root on a low port serves as another user, and keeps
//! no privilege of root.
//!
//! It has a separate network, where no other program listens on port 80. The last line is `N
//! passed, N failed`.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::panic::catch_unwind;
use std::process::{Command, ExitCode};

use end_to_end::curl::curl_by;
use end_to_end::process::Process;
use end_to_end::server::Place;
use end_to_end::tools;

/// User and group numbers that are not in use: no other process or file has them.
const USER: u32 = 54_321;
const GROUP: u32 = 54_322;

const CASES: [(&str, fn()); 3] = [
    ("root gives up all but low ports, and those when it listens", low_ports),
    ("an unknown user stops the start", nobody),
    ("only root can change to another user", not_root),
];

fn main() -> ExitCode {
    let mut failed = 0;
    for (name, case) in CASES {
        let verdict = catch_unwind(case).map_or("FAILED", |()| "ok");
        failed += usize::from(verdict != "ok");
        println!("{name} ... {verdict}");
    }
    println!("{} passed, {failed} failed", CASES.len() - failed);
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn low_ports() {
    let place = Place::new("127.0.0.1:80");
    let data = place.path("data");
    fs::create_dir(&data).expect("the folder is ours");
    std::os::unix::fs::chown(&data, Some(USER), Some(GROUP)).expect("this test needs root");
    // The parent folder belongs to root, and other users may traverse it.
    let above = data.parent().expect("a folder");
    fs::set_permissions(above, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    place.configure(&format!(
        "[node]\nuser = \"{USER}\"\ngroup = \"{GROUP}\"\ndata_dir = {data:?}\nio_threads = 2\n\n\
         [[log]]\nname = \"kept\"\ndurability = \"disk\"\n"
    ));
    let mut unshare = Command::new("unshare");
    let shell = "ip link set lo up && exec \"$@\"";
    unshare.args(["--net", "--", "sh", "-c", shell, "sh"]);
    let crore = tools::crore();
    unshare.arg(crore.get_program()).env_remove("CRORE_BINARY");
    unshare.args(["serve", "--config"]).arg(place.path("crore.toml"));
    unshare.args(["--listen", "127.0.0.1:80", "--admin-listen", "127.0.0.1:81"]);
    let mut process = Process::start(&mut unshare);
    process.wait_for("readiness", |line| (line == "ready").then_some(()));
    let id = process.id();

    let inside = |words: &[&str]| {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &id.to_string(), "--net", "--", "curl"]);
        curl_by(nsenter, words)
    };
    inside(&["-d", "x", "http://127.0.0.1:80/topics/a"]).expect(200);
    let metrics = inside(&["http://127.0.0.1:81/metrics"]).expect(200).body;
    assert!(metrics.contains("crore_memory_bytes{component=\"binary\"}"), "{metrics}");

    let tasks: Vec<_> = fs::read_dir(format!("/proc/{id}/task"))
        .expect("the node runs")
        .map(|task| task.expect("a thread").path())
        .collect();
    assert!(tasks.len() >= 5, "{} threads", tasks.len());
    for task in tasks {
        let status = fs::read_to_string(task.join("status")).expect("the node runs");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let words = line.unwrap_or_else(|| panic!("no {name}")).split_whitespace();
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(field("Uid:"), vec![USER.to_string(); 4], "{status}");
        assert_eq!(field("Gid:"), vec![GROUP.to_string(); 4], "{status}");
        assert!(field("Groups:").is_empty(), "{status}");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set), ["0000000000000000"], "{set} {status}");
        }
        assert_eq!(field("NoNewPrivs:"), ["1"], "{status}");
    }
    let log = fs::metadata(data.join("kept")).expect("the log's directory");
    assert_eq!((log.uid(), log.gid()), (USER, GROUP));
    process.signal("TERM");
    process.end().assert_success();
}

fn nobody() {
    let place = Place::new("127.0.0.1:0");
    for (configuration, told) in [
        ("user = \"no such user\"", "unknown user no such user"),
        ("user = \"1\"\ngroup = \"no such group\"", "unknown group no such group"),
        ("group = \"1\"", "node.group is set, but node.user is not"),
    ] {
        place.configure(&format!("[node]\n{configuration}\n"));
        let ended = place.launch().end();
        assert_eq!(ended.status.code(), Some(78), "{:?}", ended.lines);
        let is_told = ended.lines.iter().any(|line| line.contains(told));
        assert!(is_told, "{:?}", ended.lines);
    }
}

fn not_root() {
    let place = Place::new("127.0.0.1:0");
    place.configure(&format!("[node]\nuser = \"{GROUP}\"\n"));
    for name in ["", "crore.toml"] {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let user = USER.to_string();
    let group = GROUP.to_string();
    let ended =
        place.launch_by(&["setpriv", "--reuid", &user, "--regid", &group, "--clear-groups"]).end();
    assert_eq!(ended.status.code(), Some(78), "{:?}", ended.lines);
    let is_told = ended.lines.iter().any(|line| line.contains("only root can become"));
    assert!(is_told, "{:?}", ended.lines);
}
