//! `[user_network]`: the addresses, threads and devices that fit together.

use super::*;

fn text(options: &str) -> String {
    format!(
        "[listen]\nclients = [\"192.0.2.1:8800\", \"127.0.0.1:8800\"]\nopen = true\n\
         [user_network]\ninterface = \"eth1\"\n{options}\n"
    )
}

#[test]
fn addresses_threads_and_devices_must_fit() {
    for (options, fault) in [
        ("", "0 addresses"),
        ("addresses = [\"eth1\"]", "`eth1` is not an IP address"),
        ("addresses = [\"192.0.2.9\"]", "no listener has one of these addresses"),
        ("addresses = [\"192.0.2.1\", \"192.0.2.2\"]", "several addresses of one version"),
        ("addresses = [\"192.0.2.1\"]\ndevice = \"tun\"\nio_threads = 2", "2 threads with"),
        ("addresses = [\"192.0.2.1\"]\nframes = \"all\"\nfallback = true", "does not have the"),
        ("addresses = [\"192.0.2.1\"]\n[node]\nio_threads = 1", "1 of node.io_threads = 1"),
    ] {
        let faults = faults_of(&text(options));
        assert!(faults.contains(fault), "{options}: {faults}");
    }
    let without = faults_of("[user_network]\naddresses = [\"192.0.2.1\"]\n");
    assert!(without.contains("user_network.interface is not"), "{without}");
}

/// Each network has a thread, whatever the number of cores.
#[test]
fn listeners_of_both_networks_have_threads() {
    let options = "addresses = [\"192.0.2.1\"]\nio_threads = 3";
    let configuration = load_text(Path::new("crore.toml"), &text(options)).unwrap();
    assert_eq!(assemble::settings(&configuration, 1).edges_count, 4);
    let user = assemble::user_network(&configuration).unwrap();
    assert_eq!((user.threads_count, user.interface.as_str()), (3, "eth1"));
}
