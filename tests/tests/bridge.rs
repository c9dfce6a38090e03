//! `crore bridge`: a node with the configuration of a Mosquitto.

use end_to_end::curl::curl;
use end_to_end::process::{Ended, Process};
use end_to_end::server::Place;
use end_to_end::tools::crore;
use std::fs;
use std::path::Path;

/// A line of `mosquitto_passwd`. The password is `secret`.
const ANNA: &str = "anna:$7$101$bQNogf9Z1MYoZdTe$uImp7gikJiBqWa+r5nZpqAm7GvBdVslmHqIhqEEnHN1O/0vhukJRgr2hWfaWX3XF3iMbLNu0VQ8KCQYRx1QBLg==\n";

fn bridge(file: &Path) -> Ended {
    Process::start(crore().arg("bridge").arg(file)).end()
}

#[test]
fn a_node_serves_the_users_of_mosquitto() {
    let mut place = Place::new("127.0.0.1:0");
    let write = |name: &str, text: &str| {
        fs::write(place.path(name), text).expect("the folder is ours");
    };
    write("users", ANNA);
    write("acl", "topic read news\nuser anna\ntopic readwrite news\npattern write u/%u\n");
    write(
        "mosquitto.conf",
        "listener 1883 127.0.0.1\nallow_anonymous true\npassword_file users\nacl_file acl\nlog_dest stdout\n",
    );
    let ended = bridge(&place.path("mosquitto.conf"));
    ended.assert_success();
    let remark = "# line 5: log_dest has no meaning here";
    assert!(ended.lines.iter().any(|line| line.starts_with(remark)), "{ended:?}");
    let text = ended.lines.join("\n");
    place.configure(&text);
    let file = place.path("crore.toml");
    Process::start(crore().args(["config", "check"]).arg(file)).end().assert_success();

    place.configure(&text.replace("127.0.0.1:1883", "127.0.0.1:0"));
    let server = place.start();
    let publish = |user: &[&str], topic: &str| {
        let url = server.url(&format!("/topics/{topic}"));
        curl(&[user, &["-d", "hello", &url]].concat()).status
    };
    let anna = ["-u", "anna:secret"];
    assert_eq!(publish(&anna, "news"), 200);
    assert_eq!(publish(&anna, "u/anna"), 200);
    assert_eq!(publish(&anna, "u/ben"), 403);
    assert_eq!(publish(&["-u", "anna:other"], "news"), 401);
    assert_eq!(publish(&[], "news"), 401);
}

#[test]
fn a_missing_file_is_named() {
    let place = Place::new("127.0.0.1:0");
    let ended = bridge(&place.path("mosquitto.conf"));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.lines.iter().any(|line| line.contains("mosquitto.conf")), "{ended:?}");
}
