//! A test moves every metric of a node: here if a client from outside can cause that, and otherwise
//! in the test that the table below names, which has to assert that it is not 0
//! (`end_to_end::moved`). A metric in neither list fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use end_to_end::bench::Bench;
use end_to_end::curl::{curl, publish, stream};
use end_to_end::metrics::{Metrics, Scrape};
use end_to_end::moved::is_moved;
use end_to_end::process::{Process, assert_success};
use end_to_end::raw::Raw;
use end_to_end::server::{Place, Server};
use end_to_end::tools;

/// Metrics that a busy node moves by itself.
const ALWAYS: &[&str] = &[
    "crore_build_info",
    "crore_connections_max",
    "crore_io_threads",
    "crore_turns_total",
    "crore_turn_seconds",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "crore_process_proportional_bytes",
    "crore_memory_bytes",
    "crore_memory_used_bytes",
    "crore_memory_ceiling_bytes",
];

/// Metrics and their names in a test; an empty one is the metric's own name.
type Moved = &'static [(&'static str, &'static str)];

/// Metrics that other tests move: the file, its subject, and the metrics.
const ELSEWHERE: &[(&str, &str, Moved)] = &[
    (
        "tests/tests/shortages.rs",
        "what runs out",
        &[("crore_accept_errors_total", ""), ("crore_connections_refused_total", "")],
    ),
    (
        "tests/tests/user_network.rs",
        "packets of the node's own TCP",
        &[("crore_tcp_segments_received_total", ""), ("crore_tcp_segments_sent_total", "")],
    ),
    (
        "crates/net/src/user/tests.rs",
        "repeated segments",
        &[("crore_tcp_segments_resent_total", "resent"), ("crore_tcp_timeouts_total", "timeouts")],
    ),
    (
        "crates/tcp/tests/attack/flood.rs",
        "floods of the node's own TCP",
        &[
            ("crore_tcp_cookies_total", "cookies_sent"),
            ("crore_tcp_unacknowledged_bytes", "retained_bytes"),
        ],
    ),
    (
        "crates/tcp/tests/attack/addresses.rs",
        "packets that are not ours",
        &[("crore_tcp_packets_dropped_total", "foreign")],
    ),
    ("tests/tests/drain.rs", "the end", &[("crore_draining", "")]),
    (
        "crates/broker/tests/edge/drain.rs",
        "drained clients",
        &[("crore_sent_away_total", "sent-away")],
    ),
    ("tests/tests/users.rs", "connections of users", &[("crore_users", "")]),
    ("tests/tests/observed.rs", "log lines", &[("crore_log_lines_total", "")]),
    (
        "crates/crore/src/logging/writer.rs",
        "lost log lines",
        &[("crore_log_lines_dropped_total", "dropped")],
    ),
    (
        "crates/broker/tests/edge/sys.rs",
        "the node's own publications",
        &[("crore_sys_publications_lost_total", "own-publications-lost")],
    ),
    ("tests/src/bin/tcp_memory.rs", "memory of TCP", &[("crore_writes_without_memory_total", "")]),
    (
        "crates/net/tests/tables.rs",
        "descriptor tables",
        &[("crore_connections_passed_on_total", "passed_on")],
    ),
    (
        "tests/tests/abuse.rs",
        "refused clients",
        &[
            ("crore_addresses_remembered", ""),
            ("crore_connections_flooding_total", ""),
            ("crore_connections_turned_away_total", ""),
            ("crore_forwarded_unknown_total", ""),
            ("crore_limit_refusals_total", ""),
            ("crore_memory_pressure", ""),
            ("crore_memory_refusals_total", ""),
            ("crore_proxy_headers_total", ""),
        ],
    ),
    (
        "tests/tests/vanished.rs",
        "clients that vanish",
        &[("crore_connections_ended_by_node_total", "")],
    ),
    (
        "tests/tests/durable.rs",
        "logs on disk",
        &[("crore_disk_logs_unavailable", ""), ("crore_disk_reads_total", "")],
    ),
    (
        "tests/tests/tls.rs",
        "TLS",
        &[("crore_tls_handshakes_failed_total", ""), ("crore_subscriptions_lagged_total", "")],
    ),
    (
        "crates/tls/tests/peers.rs",
        "TLS",
        &[
            ("crore_tls_key_updates_total", "key_updates"),
            ("crore_tls_faults_total", "faults"),
            ("crore_tls_truncated_total", "truncated"),
        ],
    ),
    (
        "tests/tests/reload.rs",
        "reloads",
        &[("crore_configuration_changes_waiting", ""), ("crore_reloads_total", "")],
    ),
    (
        "crates/broker/tests/edge/compression.rs",
        "compression",
        &[
            ("crore_compressed_messages_total", "compressed"),
            ("crore_compressed_input_bytes_total", "plain-bytes"),
            ("crore_compressed_output_bytes_total", "packed-bytes"),
            ("crore_incompressible_messages_total", "incompressible"),
            ("crore_inflated_messages_total", "inflated"),
            ("crore_inflate_refusals_total", "inflate-too-large"),
        ],
    ),
    (
        "crates/broker/tests/edge/policies.rs",
        "subscriptions that lag",
        &[
            ("crore_subscriptions_conflated_total", "conflated"),
            ("crore_subscriptions_dropped_total", "dropped"),
            ("crore_subscriptions_disconnected_total", "disconnected"),
            ("crore_pages_total", "pages"),
        ],
    ),
    (
        "crates/broker/tests/edge/bounds.rs",
        "bounds",
        &[
            ("crore_kept_input_bytes", "kept"),
            ("crore_pinned_bytes", "pinned"),
            ("crore_ring_segment_bytes", "keeps-segments"),
        ],
    ),
    ("crates/broker/tests/edge/native_ends.rs", "pings", &[("crore_pings_total", "pings")]),
    (
        "crates/broker/tests/edge/counts.rs",
        "recoveries",
        &[
            ("crore_recoveries_total", "recovered"),
            ("crore_subscriptions_refused_total", "subscriptions-refused"),
        ],
    ),
    (
        "crates/broker/tests/edge/entitled.rs",
        "entitlement",
        &[
            ("crore_entitlements", "entitlements"),
            ("crore_credential_questions_total", "questions"),
            ("crore_credentials_refused_total", "credentials-refused"),
            ("crore_forbidden_total", "forbidden"),
        ],
    ),
    (
        "crates/broker/tests/edge/entitled_ends.rs",
        "the end of entitlement",
        &[
            ("crore_renewals_total", "renewals"),
            ("crore_tokens_expired_total", "expired"),
            ("crore_revoked_total", "revoked"),
        ],
    ),
    (
        "crates/entitlement/tests/authenticating.rs",
        "the authenticator",
        &[
            ("crore_credential_verdicts_total", "accepted"),
            ("crore_token_cache_hits_total", "cache_hits"),
            ("crore_token_signatures_total", "signatures"),
            ("crore_verified_tokens", "verified_tokens"),
            ("crore_api_keys", "api_keys"),
        ],
    ),
    (
        "crates/entitlement/tests/passwords.rs",
        "users with passwords",
        &[
            ("crore_password_hashes_total", "password_hashes"),
            ("crore_password_cache_hits_total", "password_cache_hits"),
            ("crore_password_users", "users"),
        ],
    ),
    ("tests/tests/entitlement_revocations.rs", "revocations", &[("crore_revocations", "")]),
    ("tests/tests/entitlement_tokens.rs", "keys of tokens", &[("crore_token_keys", "")]),
    (
        "crates/entitlement/tests/rotation.rs",
        "key sets",
        &[
            ("crore_key_set_fetches_total", "fetches"),
            ("crore_key_set_fetches_failed_total", "fetches_failed"),
        ],
    ),
    (
        "crates/broker/tests/edge/tickets.rs",
        "resume tickets",
        &[
            ("crore_tickets_issued_total", "tickets-issued"),
            ("crore_tickets_resumed_total", "tickets-resumed"),
        ],
    ),
    (
        "crates/broker/tests/edge/ticket_bounds.rs",
        "resume tickets that do not hold",
        &[("crore_tickets_refused_total", "tickets-refused")],
    ),
    (
        "crates/broker/tests/home/scripts.rs",
        "streams between shards",
        &[
            ("crore_streams_lagged_total", "lagged"),
            ("crore_streams_lagging", "lagging"),
            ("crore_stream_gaps_total", "stream-gaps"),
            ("crore_topics_forgotten_total", "forgotten"),
        ],
    ),
    (
        "crates/broker/tests/home/disk_hangs.rs",
        "a disk that hangs",
        &[("crore_disk_logs_stalled_total", "stalled"), ("crore_publishes_staged", "staged")],
    ),
    (
        "crates/broker/tests/home/disk.rs",
        "what waits for a disk",
        &[
            ("crore_disk_reads_waiting", "disk"),
            ("crore_pages_waiting", "pages"),
            ("crore_log_uncached_total", "uncached"),
        ],
    ),
    (
        "crates/node/tests/logs.rs",
        "log threads",
        &[
            ("crore_disk_batches_failed_total", "batches_failed"),
            ("crore_disk_records_refused_total", "records_refused"),
            ("crore_disk_reads_failed_total", "reads_failed"),
            ("crore_disk_reads_damaged_total", "reads_damaged"),
            ("crore_disk_segments_dropped_total", "segments_dropped"),
            ("crore_disk_expiries_failed_total", "expiries_failed"),
            ("crore_disk_removals_failed_total", "removals_failed"),
            ("crore_disk_retained_lost_total", "retained_lost"),
            ("crore_disk_torn_bytes", "torn_bytes"),
            ("crore_disk_damages", "damages"),
        ],
    ),
    (
        "crates/crore/src/metrics/hanging.rs",
        "a thread that hangs",
        &[("crore_io_threads_silent", "")],
    ),
    (
        "crates/node/src/log_thread.rs",
        "a log thread that hangs",
        &[("crore_log_threads_silent", "silent")],
    ),
    ("crates/node/src/timing.rs", "turns", &[("crore_turns_long_total", "long_turns")]),
    (
        "tests/src/bin/cluster/main.rs",
        "nodes on brokers",
        &[
            ("crore_engine_records_total", ""),
            ("crore_engine_record_bytes_total", ""),
            ("crore_engine_produced_total", ""),
            ("crore_engine_produce_seconds", "crore_engine_produce_seconds_count"),
            ("crore_engine_partitions", ""),
            ("crore_engine_received_total", ""),
            ("crore_engine_batches_total", ""),
            ("crore_engine_beginnings_total", ""),
            ("crore_engine_names", ""),
            ("crore_engine_partitions_unavailable", ""),
            ("crore_engine_partitions_closed", ""),
            ("crore_engine_pending", ""),
            ("crore_engine_silence_seconds", ""),
            ("crore_engine_errors_total", ""),
            ("crore_engine_stalls_total", ""),
            ("crore_cluster_nodes", ""),
            ("crore_cluster_silence_seconds", ""),
        ],
    ),
    (
        "tests/src/bin/cluster/compacted.rs",
        "a compacted log",
        &[("crore_engine_restorations_total", "")],
    ),
    (
        "crates/engine/tests/real/losses.rs",
        "losses of an engine",
        &[
            ("crore_engine_truncations_total", "truncations"),
            ("crore_engine_overtaken_total", "overtaken"),
            ("crore_engine_recreated_total", "recreated"),
        ],
    ),
    (
        "crates/engine/tests/real/foreign.rs",
        "messages of other producers",
        &[("crore_engine_unroutable_total", "unroutable")],
    ),
    ("crates/engine/src/partition.rs", "a tail", &[("crore_engine_lag_records", "lag")]),
    (
        "crates/node/tests/engine_worker.rs",
        "the engine's thread",
        &[
            ("crore_engine_restarts_total", "restarts"),
            ("crore_engine_partitions_behind", "behind"),
        ],
    ),
    (
        "crates/broker/tests/home/engine.rs",
        "verdicts on the tail",
        &[("crore_engine_dropped_total", "dropped")],
    ),
    (
        "crates/node/tests/mirror/main.rs",
        "a mirror without room",
        &[
            ("crore_mirror_records_total", "mirrored_records"),
            ("crore_mirrors_closed", "mirrors_closed"),
            ("crore_mirrors_dropped_total", "mirrors_dropped"),
            ("crore_mirrors_lost_total", "mirrors_lost"),
        ],
    ),
    (
        "crates/broker/tests/home/engine_waits.rs",
        "waits for an engine",
        &[
            ("crore_engine_outcomes_unknown_total", "unknown"),
            ("crore_engine_positions_ahead_total", "ahead"),
            ("crore_engine_positions_waiting", "waiting"),
        ],
    ),
];

/// Metrics that no test moves, because their causes are faults of librdkafka or races that a test
/// cannot bring about on purpose: a tail that falls silent, a producer that is of no use any more,
/// a broker's answer that is lost, a publication that meets a partition which has just closed, and
/// a home without room for a message or its retained messages.
const UNMOVED: &[&str] = &[
    "crore_engine_watchdog_total",
    "crore_engine_producers_replaced_total",
    "crore_engine_unknown_total",
    "crore_engine_refused_total",
    "crore_engine_lost_total",
    "crore_engine_unrestored_total",
    "crore_engine_retained_over_total",
    "crore_engine_unretained_total",
];

/// Series that must have moved since the watch began.
struct Watch {
    metrics: Metrics<'static>,
    before: Scrape,
    moved: BTreeSet<String>,
}

impl Watch {
    fn begin(server: &Server) -> Watch {
        let mut metrics = Metrics::of(&server.operators);
        let before = metrics.scrape();
        Watch { metrics, before, moved: BTreeSet::new() }
    }

    /// Waits until all of these have changed, and continues from there.
    fn moves(&mut self, what: &str, series: &[&str]) {
        for name in series {
            let before = self.before.number(name);
            println!("{what}: {name}");
            self.metrics.wait_for(name, |now| now != before);
            let family = name.split('{').next().unwrap_or_default();
            let family = family.strip_suffix("_count").unwrap_or(family);
            self.moved.insert(family.to_owned());
        }
        self.before = self.metrics.scrape();
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The families of a node with all features.
fn families(scrape: &Scrape) -> BTreeSet<String> {
    let names = scrape.text().lines();
    names
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_metric_is_moved_by_a_test_that_causes_it() {
    let (place, server) = start_place();
    let mut watch = Watch::begin(&server);
    let all = families(&watch.before);
    let mut held = Vec::new();
    connections(&server, &mut watch, &mut held);
    publications(&server, &place, &mut watch, &mut held);
    streams(&server, &mut watch, &mut held);
    mqtt(&server, &mut watch);
    errors(&server, &mut watch);
    bounds(&server, &mut watch);
    drop(held);
    watch.moves("all are gone", &["crore_connections_closed_total"]);

    let page = fs::read_to_string(root().join("docs/metrics.md")).expect("the page");
    let mut known: BTreeSet<String> = ALWAYS.iter().map(|name| (*name).to_owned()).collect();
    known.append(&mut watch.moved);
    for (file, _, metrics) in ELSEWHERE {
        let text = fs::read_to_string(root().join(file)).expect(file);
        for (name, word) in *metrics {
            let word = if word.is_empty() { name } else { word };
            assert!(is_moved(&text, word), "{file} does not assert that {name} moves ({word})");
            known.insert((*name).to_owned());
        }
    }
    known.extend(UNMOVED.iter().map(|name| (*name).to_owned()));
    let unmoved: Vec<&String> = all.iter().filter(|name| !known.contains(*name)).collect();
    assert!(unmoved.is_empty(), "no test moves {unmoved:?}");
    for name in &all {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not documented");
    }
    for name in &known {
        assert!(all.contains(name), "there is no {name} any more");
    }
}

/// A node with all features.
fn start_place() -> (Place, Server) {
    let mut place = Place::new("127.0.0.1:0");
    let path = |name: &str| place.path(name).to_string_lossy().into_owned();
    let (certificate, key, data) = (path("cert.pem"), path("key.pem"), path("data"));
    let pushed = path("pushed");
    let mut make = tools::crore();
    make.args(["tls", "self-signed", "--name", "localhost", "--out"]);
    assert_success(make.arg(place.path("")));
    place.configure(&format!(
        "[node]\nio_threads = 2\ndata_dir = {data:?}\n\
         [mqtt]\nlisten = \"127.0.0.1:0\"\n\
         [tls]\nlisten = \"127.0.0.1:0\"\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n\
         [metrics]\npush_to = \"file:{pushed}\"\npush_interval = \"1s\"\n\
         [limits]\ntopics_max = 40\n\
         [[log]]\nname = \"memory\"\nbytes_max = \"8MiB\"\npartitions_count = 2\n\
         [[log]]\nname = \"kept\"\ndurability = \"disk\"\n\
         [[rule]]\nfilter = \"kept/#\"\nlog = \"kept\"\n"
    ));
    let server = place.start();
    (place, server)
}

/// Resources that last until the end of the test.
enum Held {
    Bench(#[allow(dead_code, reason = "held")] Bench),
    Process(#[allow(dead_code, reason = "held")] Process),
    Raw(#[allow(dead_code, reason = "held")] Raw),
}

fn connections(server: &Server, watch: &mut Watch, held: &mut Vec<Held>) {
    let topics = ["--topics", "p/s{1..4}", "--clients", "8", "--threads", "1"];
    // All are connected before the comparison: one in its handshake would later be a session of
    // another kind.
    let subscribe = |url: &str, more: &[&str]| {
        let mut bench = Bench::start(&[&["sub", "--url", url], &topics[..], more].concat());
        bench.wait_for("all of them", |figures| figures["clients_live"].as_u64() == Some(8));
        bench
    };
    held.push(Held::Bench(subscribe(&server.ws_url("/crore"), &[])));
    watch.moves(
        "clients of the native protocol",
        &[
            "crore_connections_accepted_total",
            "crore_connections",
            "crore_sessions{protocol=\"native\"}",
            "crore_transport_connections{transport=\"tcp\"}",
            "crore_handshake_seconds_count",
            "crore_subscriptions",
            "crore_topics",
            "crore_received_bytes_total",
            "crore_sent_bytes_total",
            "crore_stored_bytes{part=\"topics\"}",
        ],
    );
    let tls = format!("wss://{}/crore", server.tls_clients);
    held.push(Held::Bench(subscribe(&tls, &["--insecure"])));
    watch.moves(
        "clients with TLS",
        &[
            "crore_transport_connections{transport=\"tls\"}",
            "crore_tls_connections{version=\"1.3\"}",
            "crore_tls_handshakes_total{kind=\"full\"}",
            "crore_tls_bytes{part=\"state\"}",
        ],
    );
    held.push(Held::Raw(Raw::connect(&server.tls_clients)));
    watch.moves("a silent connection", &["crore_tls_handshaking"]);
    held.push(Held::Raw(Raw::web_socket(&server.clients, "/echo", "")));
    held.push(Held::Raw(Raw::connect(&server.clients)));
    watch.moves(
        "an echo, and a silent connection",
        &["crore_sessions{protocol=\"echo\"}", "crore_sessions{protocol=\"http\"}"],
    );
    let mut leaver = Raw::web_socket(&server.clients, "/echo", "");
    leaver.send_frame(8, &1000_u16.to_be_bytes());
    assert_eq!(leaver.close_code(), 1000);
    drop(Raw::connect(&server.clients));
    watch.moves(
        "clients that leave, with a word and without",
        &[
            "crore_disconnects_total{by=\"client\",code=\"1000\"}",
            "crore_disconnects_total{by=\"client\",code=\"ended\"}",
            "crore_connections_closed_total",
        ],
    );
}

fn publications(server: &Server, place: &Place, watch: &mut Watch, held: &mut Vec<Held>) {
    let url = server.ws_url("/crore");
    let publisher = ["pub", "--url", &url, "--threads", "1", "--rate", "100"];
    let once = ["--exactly-once", "--topics", "p/s{1..4}"];
    held.push(Held::Bench(Bench::start(&[&publisher[..], &once].concat())));
    watch.moves(
        "publications",
        &[
            "crore_publishes_received_total",
            "crore_messages_appended_total",
            "crore_messages_posted_total",
            "crore_messages_delivered_total",
            "crore_publish_to_write_seconds_count",
            "crore_mailbox_delay_seconds_count",
            "crore_producers",
            "crore_log_records",
        ],
    );
    let kept = server.url("/topics/kept/a");
    publish(&kept, "one");
    watch.moves(
        "publications to a disk",
        &[
            "crore_disk_batches_total",
            "crore_disk_batch_records_total",
            "crore_disk_batch_bytes_total",
            "crore_disk_log_bytes",
            "crore_disk_sync_seconds_count",
        ],
    );
    let longest = watch.before.value("crore_disk_sync_seconds_max");
    assert!(longest.is_some_and(|seconds| seconds > 0.0), "{longest:?}");
    watch.moved.insert("crore_disk_sync_seconds_max".into());
    let keyed = ["-H", "Idempotency-Key: k", "-d", "x", &server.url("/topics/once")];
    curl(&keyed).expect(200);
    curl(&keyed).expect(200);
    publish(&server.url("/topics/retained?retain=true"), "x");
    watch.moves(
        "a key, twice, and a retained message",
        &["crore_publishes_duplicate_total", "crore_idempotency_keys", "crore_retained_messages"],
    );
    watch.moves("pushed metrics", &["crore_metrics_pushes_total{result=\"sent\"}"]);
    let pushed = fs::read_to_string(place.path("pushed")).expect("pushed");
    assert!(pushed.contains("crore_connections,"), "{pushed}");
}

fn streams(server: &Server, watch: &mut Watch, held: &mut Vec<Held>) {
    let topic = server.url("/topics/once");
    let event_stream = ["-H", "Accept: text/event-stream", &topic];
    held.push(Held::Process(stream(&event_stream)));
    held.push(Held::Process(stream(&[&format!("{topic}?wait=60s")])));
    let mut filter = tools::crore();
    filter.args(["sub", "--url", &server.ws_url("/crore"), "away/#"]);
    held.push(Held::Process(Process::start(&mut filter)));
    watch.moves(
        "a stream, a long poll and a filter",
        &[
            "crore_sessions{protocol=\"events\"}",
            "crore_sessions{protocol=\"long_poll\"}",
            "crore_filters",
        ],
    );
    curl(&[&topic]).expect(200);
    watch.moves("a history", &["crore_histories_total"]);
    let unknown = ["-H", "Last-Event-ID: 12345:1"];
    held.push(Held::Process(stream(&[&unknown[..], &event_stream].concat())));
    watch.moves(
        "a stream after a position of another life",
        &[
            "crore_recoveries_total{result=\"gap\"}",
            "crore_gaps_total",
            "crore_messages_replayed_total",
        ],
    );
}

/// A client of MQTT with a session, a will and a small maximum of a packet, which vanishes.
fn mqtt(server: &Server, watch: &mut Watch) {
    let mut client = Raw::connect(&server.clients);
    // CONNECT of version 5: will flag, session expiry 60 s, maximum packet size 40 bytes.
    client.send(b"\x10\x2a\0\x04MQTT\x05\x04\0\0\x0a\x11\0\0\0\x3c\x27\0\0\0\x28");
    client.send(b"\0\x01m\0\0\x09mqtt/will\0\x04gone");
    client.send(b"\x82\x0c\0\x01\0\0\x06mqtt/x\x01"); // SUBSCRIBE
    client.send(b"\x40\x02\0\x09"); // PUBACK of nothing
    let asked = ["crore_subscriptions", "crore_mqtt_unknown_acknowledgements_total"];
    watch.moves("a client of MQTT", &asked);
    publish(&server.url("/topics/mqtt/x"), &"x".repeat(100));
    watch.moves("a message that exceeds its maximum", &["crore_mqtt_packets_too_large_total"]);
    drop(client);
    let ended = ["crore_mqtt_wills_total", "crore_mqtt_sessions_sleeping"];
    watch.moves("the client has vanished", &ended);
}

fn errors(server: &Server, watch: &mut Watch) {
    curl(&[&server.url("/nothing")]).expect_problem(404, "not_found");
    let mut broken = Raw::web_socket(&server.clients, "/crore", "crore.v1");
    broken.send_frame(1, b"text");
    assert_eq!(broken.close_code(), 1003);
    watch.moves(
        "refusals",
        &[
            "crore_http_requests_total",
            "crore_http_errors_total",
            "crore_errors_total{code=\"not_found\"}",
            "crore_protocol_errors_total",
            "crore_disconnects_total{by=\"node\",code=\"1003\"}",
        ],
    );
}

fn bounds(server: &Server, watch: &mut Watch) {
    let url = server.ws_url("/crore");
    let large = ["--size", "64KiB", "--count", "400", "--rate", "2000"];
    let publisher = ["pub", "--url", &url, "--threads", "1", "--topics", "p/s1"];
    let total = Bench::start(&[&publisher[..], &large].concat()).end_within(end_to_end::PATIENCE);
    assert_eq!(total.code, Some(0), "{total:?}");
    watch.moves(
        "more than the log holds",
        &["crore_log_evicted_records_total", "crore_log_evicted_segments_total"],
    );
    let answers = (0..200).map(|number| {
        let url = server.url(&format!("/topics/many/{number}"));
        curl(&["-d", "x", &url]).status
    });
    assert!(answers.into_iter().any(|status| status >= 500));
    watch.moves(
        "more topics than there may be",
        &[
            "crore_refusals_total{reason=\"topics_full\"}",
            "crore_limits_hit_total{limit=\"topics_max\"}",
        ],
    );
}
