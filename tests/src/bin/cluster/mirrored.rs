//! A node with a mirror on disk: recoveries beyond memory, warm starts, and mirrors that are lost.

use std::path::Path;

use end_to_end::PATIENCE;
use end_to_end::cluster::{Follower, wait_until, wait_until_ready};
use end_to_end::curl::{curl, publish};
use end_to_end::metrics::Metrics;

use super::{Cluster, MIRRORING};

/// The payloads behind a position at the node with the mirror, page by page, and whether there was
/// a gap.
#[track_caller]
fn recovered(cluster: &Cluster, topic: &str, since: &str) -> (bool, Vec<String>) {
    let (mut since, mut has_gap, mut payloads) = (since.to_owned(), false, Vec::new());
    loop {
        let url = cluster.node(MIRRORING).url(&format!("/topics/{topic}?limit=50&since={since}"));
        let page = curl(&[&url]).expect(200).json();
        if !page["gap"].is_null() {
            (has_gap, payloads) = (true, Vec::new());
        }
        let messages = page["messages"].as_array().expect("a list");
        let Some(last) = messages.last() else {
            return (has_gap, payloads);
        };
        since = format!("{}:{}", page["epoch"].as_str().expect("an epoch"), last["offset"]);
        let texts = messages.iter().filter_map(|message| message["data"].as_str());
        payloads.extend(texts.map(|text| text.trim_end_matches('.').to_owned()));
    }
}

pub fn a_mirror_lasts(cluster: &mut Cluster) {
    let padding = ".".repeat(1_000);
    let at = cluster.node(0).url("/topics/mirrored/1");
    let first = publish(&at, "0");
    let since = format!("{}:{}", first["epoch"].as_str().unwrap(), first["offset"]);
    for number in 1..=200 {
        publish(&at, &format!("{number}{padding}"));
    }
    let expected: Vec<String> = (1..=200).map(|number: u32| number.to_string()).collect();
    let found = |cluster: &Cluster| recovered(cluster, "mirrored/1", &since);
    let is_whole = |cluster: &Cluster| found(cluster) == (false, expected.clone());
    wait_until("all messages", || is_whole(cluster));
    let mut metrics = Metrics::of(&cluster.node(MIRRORING).operators);
    for name in ["crore_mirror_records_total", "crore_disk_reads_total"] {
        metrics.wait_for(name, |count| count > 0);
    }
    let restart = |cluster: &mut Cluster, prepare: fn(&Path), says: &str| {
        let server = cluster.servers[MIRRORING].take().expect("the node runs");
        server.process.signal("KILL");
        drop(server);
        prepare(&cluster.places[MIRRORING].path("data").join("orders"));
        let mut server = cluster.places[MIRRORING].start();
        cluster.nodes.lock().unwrap()[MIRRORING] = server.clients.clone();
        if !says.is_empty() {
            server.process.wait_for(says, |line| line.contains(says).then_some(()));
        }
        wait_until_ready(&server);
        cluster.servers[MIRRORING] = Some(server);
    };
    restart(cluster, |_| {}, "before that, from its mirror");
    assert!(is_whole(cluster), "after a warm start");
    // Damage is found at the start or by a read. Then there is a gap, and everything behind it.
    restart(cluster, flip_bytes, "");
    let (has_gap, payloads) = found(cluster);
    assert!(expected.ends_with(&payloads), "{payloads:?}");
    assert_eq!(has_gap, payloads.len() < expected.len());
    let live = Follower::begin(&cluster.nodes, MIRRORING, "mirrored/2");
    publish(&cluster.node(MIRRORING).url("/topics/mirrored/2"), "live");
    live.wait("a message", PATIENCE, |found| found.messages.len() == 1);
    drop(live.end());
    let remove = |directory: &Path| std::fs::remove_dir_all(directory).expect("the mirror");
    restart(cluster, remove, "");
    assert!(is_whole(cluster), "after a cold start");
    Metrics::of(&cluster.node(MIRRORING).operators)
        .wait_for("crore_mirror_records_total", |count| count > 0);
}

/// Damages the middle of each segment.
fn flip_bytes(directory: &Path) {
    for entry in std::fs::read_dir(directory).expect("the mirror") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|ending| ending == "log") {
            let mut bytes = std::fs::read(&path).expect("a segment");
            let middle = bytes.len() / 2;
            bytes[middle..].iter_mut().take(64).for_each(|byte| *byte ^= 0x55);
            std::fs::write(&path, bytes).expect("a segment");
        }
    }
}
