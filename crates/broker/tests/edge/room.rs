//! Connections that wait for a home to have room for requests: in which order they go on, and that
//! waiting is not their fault.

use crate::support::{check_with, script};
use broker::settings::{Durability, Settings};

/// A home has room for one request. Who has been served waits behind those who have not, however
/// much it has sent.
#[test]
fn room_goes_round() {
    script! { |settings| settings.limits.requests_inflight_max = 1, "
        large reads
        a, b: session
        homes stop
        a: publish 1 t one; publish 2 t two; publish 3 t three; publish 4 t four
        b: publish 5 t five; publish 6 t six
        homes go
            a: published 1 7:1, 2 7:2, 3 7:4, 4 7:6
            b: published 5 7:3, 6 7:5
    " }
}

/// A request that has come in full and waits for a home to have room has not timed out: the server
/// is late, not the client. One of whom nothing has come has.
#[test]
fn a_connection_that_waits_for_room_is_not_late() {
    script! { |settings| settings.limits.requests_inflight_max = 1, "
        a: session
        homes stop
        a: publish 1 t one; publish 2 t two
        b: connect native
        c: connect
        time +25s => c: 408 close request_timeout, closed
        count handshake-timeouts => handshake-timeouts 1
        homes go
            a: published 1 7:1, 2 7:2
            b: 101 crore.v1
            b: welcome ping 60s
    " }
}

/// All topics in one log, whose disk hangs until `disks go`.
fn on_disk(settings: &mut Settings) {
    settings.logs[0].durability = Durability::Disk;
    settings.logs[0].cache_bytes = 1 << 20;
    settings.limits.request_bytes_max = 48 << 20;
}

/// A request for 40 topics of 1 MB each.
fn of_40_mb() -> String {
    let topics: Vec<String> = (0..40).map(|number| format!("\"t{number}\"")).collect();
    let payload = "x".repeat(1_000_000);
    format!("POST /publish > {{\"topics\":[{}],\"data\":\"{payload}\"}}", topics.join(","))
}

/// The bytes of one request count before any of it is sent: the second request would pass the
/// bound.
#[test]
fn a_request_has_room_as_a_whole() {
    let request = of_40_mb();
    check_with(
        on_disk,
        &format!(
            "
        large reads
        a: connect
        b: connect
        a: {request}
        b: {request} => b: 503 [retry-after: 1] log_unavailable
        count published staged => published 0 staged 40
        "
        ),
    );
}

/// Two edges bring as much as each may; what the home has no room for is refused for the moment,
/// and nothing else is lost.
#[test]
fn staged_publications_are_bounded() {
    let request = of_40_mb();
    check_with(
        |settings| {
            on_disk(settings);
            settings.edges_count = 2;
        },
        &format!(
            "
        large reads
        a: connect on 0
        b: connect on 1
        a: {request}
        b: {request}
        count published staged => published 0 staged 67
        disks go
            a: 200 2314 bytes to ,{{\"topic\":\"t39\",\"epoch\":\"7\",\"offset\":40,\"duplicate\":false}}]}}
            b: 200 3246 bytes to ry\":true,\"detail\":\"the log cannot take publications now\"}}}}]}}
        count published staged => published 67 staged 0
        a: POST /topics/t0 > again
        disks go => a: 200 {{\"epoch\":\"7\",\"offset\":68,\"duplicate\":false}}
        "
        ),
    );
}
