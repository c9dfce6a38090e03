//! A node on a TCP of its own, over AF_XDP on veth, and clients on the kernel's sockets; root only.

use end_to_end::metrics::Metrics;
use end_to_end::network::Cable;
use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools;
use serde_json::Value;

/// Starts a node on the near host, with listeners on the cable and on the host's own loopback.
fn start(cable: &Cable, place: &mut Place, options: &str) -> Server {
    place.configure(&configuration(options));
    let process = place.launch_by(&cable.near.words());
    place.started(process)
}

fn configuration(options: &str) -> String {
    format!(
        "[listen]\nopen = true\n[node]\nio_threads = 2\n\
         [user_network]\ninterface = \"near\"\npartial_checksums = true\n{options}"
    )
}

fn texts(answer: &Value) -> Vec<&str> {
    let messages = answer["messages"].as_array().expect("messages");
    messages.iter().map(|message| message["data"].as_str().expect("text")).collect()
}

#[test]
fn clients_of_the_kernel_reach_a_node_on_its_own_tcp() {
    let Some(cable) = Cable::of_root() else { return };
    for device in ["xdp", "xdp-generic"] {
        let mut place = Place::new("10.77.0.1:0");
        let options = format!("addresses = [\"10.77.0.1\"]\ndevice = {device:?}\n");
        let server = start(&cable, &mut place, &options);
        let url = server.url("/topics/a");
        for text in ["one", "two"] {
            cable.far.curl(&["-d", text, &url]).expect(200);
        }
        let large = "x".repeat(100_000);
        cable.far.curl(&["-d", &large, &server.url("/topics/large")]).expect(200);
        assert_eq!(texts(&cable.far.curl(&[&url]).expect(200).json()), ["one", "two"]);
        let answer = cable.far.curl(&[&server.url("/topics/large")]).expect(200).json();
        assert_eq!(texts(&answer), [large]);
        let mut metrics = Metrics::on(&cable.near, &server);
        for name in ["crore_tcp_segments_received_total", "crore_tcp_segments_sent_total"] {
            metrics.wait_for(name, |count| count > 10);
        }
        server.process.signal("TERM");
        server.end().assert_success();
    }
}

/// MQTT comes over the kernel's sockets, to another thread.
#[test]
fn a_node_serves_both_networks() {
    let Some(cable) = Cable::of_root() else { return };
    let mut place = Place::new("10.77.0.1:0");
    let options = "addresses = [\"10.77.0.1\"]\n[mqtt]\nlisten = \"127.0.0.1:1883\"\n";
    let server = start(&cable, &mut place, options);
    let crore = tools::crore();
    let mut publish = cable.near.command(&crore.get_program().to_string_lossy());
    publish.args(["mqtt", "pub", "--topic", "a", "--message", "hello"]);
    publish.env_remove("CRORE_BINARY");
    Process::start(&mut publish).end().assert_success();
    let answer = cable.far.curl(&[&server.url("/topics/a")]).expect(200).json();
    assert_eq!(texts(&answer), ["hello"]);
}

#[test]
fn a_node_with_addresses_of_its_own_answers_its_neighbours() {
    let Some(cable) = Cable::of_root() else { return };
    let mut place = Place::new("10.77.0.9:0");
    let options = "addresses = [\"10.77.0.9\", \"10.77.0.8\"]\nframes = \"all\"\n";
    let server = start(&cable, &mut place, options);
    cable.far.curl(&["-d", "one", &server.url("/topics/a")]).expect(200);
    let answer = cable.far.curl(&[&server.url("/topics/a")]).expect(200).json();
    assert_eq!(texts(&answer), ["one"]);
}

#[test]
fn a_start_that_is_impossible_names_the_step() {
    let Some(cable) = Cable::of_root() else { return };
    let place = Place::new("10.77.0.1:0");
    let text = configuration("addresses = [\"10.77.0.1\"]\n").replace("near", "nothing");
    place.configure(&text);
    let ended = place.launch_by(&cable.near.words()).end();
    assert!(!ended.status.success());
    let lines = ended.lines.join("\n");
    assert!(lines.contains("cannot find the interface nothing: "), "{lines}");
}

#[test]
fn a_node_may_fall_back_to_the_sockets_of_the_kernel() {
    let Some(cable) = Cable::of_root() else { return };
    let mut place = Place::new("10.77.0.1:0");
    let text = configuration("addresses = [\"10.77.0.1\"]\nfallback = true\n");
    place.configure(&text.replace("\"near\"", "\"nothing\""));
    let process = place.launch_by(&cable.near.words());
    let server = place.started(process);
    cable.far.curl(&["-d", "one", &server.url("/topics/a")]).expect(200);
}
