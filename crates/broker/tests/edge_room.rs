//! Connections that wait for a home to have room for requests: in which order they go on, and that waiting is not their fault.

mod support;

use support::check_with;

/// A home has room for one request. Who has been served waits behind those who have not, however much it has sent.
#[test]
fn room_goes_round() {
    check_with(
        |settings| settings.limits.requests_inflight_max = 1,
        "
        large reads
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        homes stop
        a: publish 1 t one
        a: publish 2 t two
        a: publish 3 t three
        a: publish 4 t four
        b: publish 5 t five
        b: publish 6 t six
        homes go
            a: published 1 7:1
            a: published 2 7:2
            a: published 3 7:4
            a: published 4 7:6
            b: published 5 7:3
            b: published 6 7:5
        ",
    );
}

/// A request that has come in full and waits for a home to have room has not timed out: the server is late, not
/// the client. One of whom nothing has come has.
#[test]
fn who_waits_for_room_is_not_late() {
    check_with(
        |settings| settings.limits.requests_inflight_max = 1,
        "
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        homes stop
        a: publish 1 t one
        a: publish 2 t two
        b: connect native
        c: connect
        time +25s
            c: 408 close request_timeout
            c: closed
        count handshake-timeouts
            handshake-timeouts 1
        homes go
            a: published 1 7:1
            a: published 2 7:2
            b: 101 crore.v1
            b: welcome ping 60s
        ",
    );
}
