//! Files with messages or keys are accessible only to their owner, regardless of the umask, and
//! open files of an older version are corrected.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use end_to_end::curl::curl;
use end_to_end::native::{Frame, Native};
use end_to_end::server::{Place, Server};
use end_to_end::tokens::{Issuer, configuration, revoke};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o777
}

/// Checks the directory and all below it; returns the number of files.
fn assert_private(directory: &Path) -> usize {
    assert_eq!(mode(directory), 0o700, "{}", directory.display());
    let entries = fs::read_dir(directory).expect("a directory of ours");
    let count = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return assert_private(&path);
        }
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        1
    });
    count.sum()
}

/// Creates one file of each kind: segments, their indexes, the lock, tickets' keys, revocations.
fn fill(server: &Server, token: &str) {
    let url = server.url(&format!("/topics/kept?token={token}"));
    curl(&["-d", "for few eyes", &url]).expect(200);
    revoke(server, r#"{"jti": "unknown"}"#).expect(201);
    let mut native = Native::with_token(&server.clients, token);
    native.subscribe_one(1, "kept");
    native.ask_ticket();
    assert!(matches!(native.next_frame(), Frame::Ticket(_)));
}

#[test]
fn a_nodes_files_are_private() {
    for umask in ["000", "022"] {
        let mut place = Place::new("127.0.0.1:0");
        let issuer = Issuer::new(&place, "HS256", "");
        let directory = place.path("deep/data");
        let log = "[[log]]\nname = \"main\"\ndurability = \"disk\"\n";
        let text = format!("[node]\ndata_dir = {directory:?}\n{log}");
        place.configure(&(text + &configuration("", &[&issuer])));
        let by_umask = format!("umask {umask} && exec \"$0\" \"$@\"");
        let process = place.launch_by(&["sh", "-c", &by_umask]);
        let mut server = place.started(process);
        let token = issuer.token("--sub anna --all #");
        fill(&server, &token);
        assert!(assert_private(&place.path("deep")) > 4, "{umask}");
        // After a live upgrade, too.
        let successor = server.process.upgrade();
        fill(&server, &token);
        assert_private(&directory);
        successor.kill(server);

        // A start removes open modes of files and logs that.
        let open = |path: &Path, mode| {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(path, permissions).expect("it is ours");
        };
        let opened = [directory.join("main"), directory.join("revocations.json")];
        open(&opened[0], 0o755);
        open(&opened[1], 0o644);
        let mut secret = fs::read_dir(place.path("issuer-HS256-")).expect("a directory");
        let secret = secret.next().expect("a file").expect("a file").path();
        open(&secret, 0o604);
        let server = place.start();
        server.process.signal("TERM");
        let lines = server.end().lines;
        for path in opened.iter().chain([&secret]) {
            let name = path.to_str().expect("a path of ours");
            let reported = |line: &String| line.contains(name);
            assert!(lines.iter().any(reported), "{name}\n{lines:#?}");
        }
        assert_private(&directory);
        assert_eq!(mode(&secret), 0o604, "it is the operator's to change");
    }
}
