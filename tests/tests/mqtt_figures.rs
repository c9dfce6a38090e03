//! The figures that Mosquitto has, on `$SYS/broker/...`: they are published, retained, protected
//! and withdrawn.

use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools::crore;

const MQTT: &str = "[mqtt]\nlisten = \"127.0.0.1:0\"\n";
const FIGURES: &str = "[sys]\nmosquitto = true\ninterval = \"1s\"\n";

fn command(server: &Server, arguments: &[&str]) -> Process {
    let url = format!("mqtt://{}", server.clients);
    let mut command = crore();
    Process::start(command.arg("mqtt").args(arguments).args(["--url", &url]))
}

/// The next value of a figure.
fn value(subscriber: &mut Process, name: &str) -> String {
    let topic = format!("$SYS/broker/{name} ");
    let of = |line: &str| Some(format!("{line} ").strip_prefix(&topic)?.trim_end().to_owned());
    subscriber.wait_for(name, of)
}

fn figures(server: &Server) -> Process {
    command(server, &["sub", "-t", "$SYS/#", "--verbose"])
}

#[test]
fn figures_are_published_retained_and_withdrawn() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&format!("{MQTT}{FIGURES}"));
    let server = place.start();
    let mut first = figures(&server);
    assert!(value(&mut first, "version").starts_with("crore version "));
    // A later client has them at once, although the version does not change again.
    let mut second = figures(&server);
    assert!(value(&mut second, "version").starts_with("crore version "));
    while value(&mut second, "clients/connected") != "2" {}
    assert!(value(&mut second, "uptime").ends_with(" seconds"));

    place.configure(MQTT);
    server.process.signal("HUP");
    while !value(&mut first, "version").is_empty() {}
}

#[test]
fn no_wildcard_covers_them_and_no_client_publishes_them() {
    let server = Server::with_configuration(&format!("{MQTT}{FIGURES}"));
    let mut figures = figures(&server);
    let everything = command(&server, &["sub", "-t", "#", "-t", "+/broker/#", "--verbose"]);
    // Both are there, and the figures have been published after that.
    while value(&mut figures, "clients/connected") != "2" {}
    value(&mut figures, "uptime");
    let publish = |topic: &str| {
        command(&server, &["pub", "-t", topic, "-m", "x", "--qos", "1", "--mqtt-version", "5"])
            .end()
    };
    for topic in ["$SYS/broker/uptime", "$SYS/mine", "$SYS/broker/connection/a/b/state"] {
        let refused = publish(topic);
        assert!(!refused.status.success(), "{topic}: {refused:?}");
    }
    publish("$SYS/broker/connection/office/state").assert_success();
    assert_eq!(value(&mut figures, "connection/office/state"), "x");
    publish("a").assert_success();
    let mut everything = everything;
    everything.wait_for("the first message", |line| {
        assert!(!line.starts_with('$'), "{line}");
        (line == "a x").then_some(())
    });
}
