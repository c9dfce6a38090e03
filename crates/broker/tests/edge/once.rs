//! Publishing once, as scripts and transcripts of whole nodes.

use crate::support::script;

/// A header's key belongs to its topic, with quotes as the standard has it or without.
#[test]
fn keys_over_http() {
    script! { r#"
        a: session; subscribe 1 # => a: subscribed 1 filter
        c: POST /topics/a | Idempotency-Key: "k 1" > hi
            a: named a 1<0 hi
            c: 200 {"epoch":"7","offset":1,"duplicate":false}
        c: POST /topics/a | Idempotency-Key: k 1 > hi
            c: 200 {"epoch":"7","offset":1,"duplicate":true}
        c: POST /topics/b | Idempotency-Key: k 1 > hi
            a: named b 2<0 hi
            c: 200 {"epoch":"7","offset":2,"duplicate":false}
        c: POST /topics/a > hi
            a: named a 3<1 hi
            c: 200 {"epoch":"7","offset":3,"duplicate":false}
    "# }
}

/// A batch is repeated as a whole: each of its messages has a key of its own.
#[test]
fn batches() {
    script! { r#"
        c: POST /publish | Idempotency-Key: k > [{"topic":"a","data":1},{"topics":["a","b"],"data":2}]
            c: 200 {"results":[{"topic":"a","epoch":"7","offset":1,"duplicate":false},{"topic":"a","epoch":"7","offset":2,"duplicate":false},{"topic":"b","epoch":"7","offset":3,"duplicate":false}]}
        c: POST /publish | Idempotency-Key: k > [{"topic":"a","data":1},{"topics":["a","b"],"data":2},{"topic":"a","data":3}]
            c: 200 {"results":[{"topic":"a","epoch":"7","offset":1,"duplicate":true},{"topic":"a","epoch":"7","offset":2,"duplicate":true},{"topic":"b","epoch":"7","offset":3,"duplicate":true},{"topic":"a","epoch":"7","offset":4,"duplicate":false}]}
        c: POST /publish > {"topic":"a","data":9,"idempotency_key":"k"}
            c: 200 {"epoch":"7","offset":1,"duplicate":true}
    "# }
}

/// Requests are as new as they come, over however many connections: none fences another.
#[test]
fn producers_over_http() {
    script! { r#"
        c: connect
        d: POST /publish > {"topic":"a","data":1,"producer":{"id":"p","sequence":1}}
            d: 200 {"epoch":"7","offset":1,"duplicate":false}
        c: POST /publish > {"topic":"a","data":2,"producer":{"id":"p","sequence":2}}
            c: 200 {"epoch":"7","offset":2,"duplicate":false}
        d: POST /publish > {"topic":"a","data":2,"producer":{"id":"p","sequence":2}}
            d: 200 {"epoch":"7","offset":2,"duplicate":true}
        d: POST /publish > {"topic":"a","data":3,"producer":{"id":"p","sequence":5}}
            d: 200 {"epoch":"7","offset":3,"duplicate":false}
        c: POST /publish > {"topic":"a","data":3,"producer":{"id":"p","sequence":4}}
            c: 409 out_of_order
        c: POST /publish > [{"topic":"a","data":3,"producer":{"id":"p","sequence":4}}]
            c: 200 {"results":[{"topic":"a","error":{"code":"out_of_order","status":409,"temporary":false,"detail":"the producer's sequence is below its window"}}]}
    "# }
}

#[test]
fn epochs_over_http() {
    script! { r#"
        c: POST /topics/a | Crore-Expected-Epoch: 7 > hi
            c: 200 {"epoch":"7","offset":1,"duplicate":false}
        c: POST /topics/a | Crore-Expected-Epoch: 6 > hi => c: 409 epoch_mismatch 7:1
        c: POST /publish > {"topic":"a","data":1,"expected_epoch":"8"} => c: 409 epoch_mismatch 7:1
        c: POST /publish | Crore-Expected-Epoch: 8 > [{"topic":"a","data":1,"expected_epoch":"7"},{"topic":"a","data":1}]
            c: 200 {"results":[{"topic":"a","epoch":"7","offset":2,"duplicate":false},{"topic":"a","error":{"code":"epoch_mismatch","status":409,"temporary":false,"detail":"the log's epoch is not the expected one","epoch":"7","head":2}}]}
    "# }
}

#[test]
fn malformed_headers() {
    script! { r#"
        c: POST /topics/a | Idempotency-Key: "k > hi => c: 400 close malformed_parameter, closed
        d: POST /topics/a | Idempotency-Key: a | Idempotency-Key: b > hi
            d: 400 close malformed_parameter, closed
        e: POST /publish | Crore-Expected-Epoch: seven > {"topic":"a","data":1}
            e: 400 close malformed_parameter, closed
    "# }
}

#[test]
fn native_publications() {
    script! { "
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        a: publish 1 news hi key k
            a: published 1 7:1
            a: message 1 1<0 hi
        a: publish 2 news hi key k => a: published 2 7:1 duplicate
        a: publish 3 news two producer p 5
            a: published 3 7:2
            a: message 1 2<1 two
        a: publish 4 news two producer p 5 => a: published 4 7:2 duplicate
        a: publish 5 news two producer p 4 => a: error request 5 out_of_order
        a: publish 6 news three producer p 6 epoch 7
            a: published 6 7:3
            a: message 1 3<2 three
        a: publish 7 news three producer p 6 epoch 6
            a: error request 7 epoch_mismatch restart 7:3
        a: publish 0 news three key k
        a: publish 0 news three producer p 1 => a: error request 0 out_of_order
        count published duplicates out-of-order => published 3 duplicates 3 out-of-order 2
    " }
}

/// The earlier publications of a client that came back do not overtake the new ones; a connection
/// that ended takes nothing along.
#[test]
fn fencing() {
    script! { "
        a: session
        time +1ms
        b: session
        a: publish 1 news one producer p 1 => a: published 1 7:1
        b: publish 1 news one producer p 1 => b: published 1 7:1 duplicate
        a: publish 2 news two producer p 2 => a: error request 2 producer_fenced
        b: publish 2 news two producer p 2 => b: published 2 7:2
        a: publish 3 news other producer q 1 => a: published 3 7:3
        b: reset
        a: publish 4 news three producer p 3 => a: error request 4 producer_fenced
        c: session; publish 3 news three producer p 3 => c: published 3 7:4
    " }
}

/// Bytes of an older connection are read late: the newer one continues, though the older one was
/// the first to publish.
#[test]
fn late_bytes_fence_nobody() {
    script! { |settings| settings.edges_count = 2, "
        a: session on 1
        time +1ms
        b: session on 0; publish 1 news one producer p 1 => b: published 1 7:1
        time +30s
        a: publish 1 news one producer p 1 => a: error request 1 producer_fenced
        b: publish 2 news two producer p 2 => b: published 2 7:2
    " }
}

/// Two that began in the same millisecond do not fence each other; sequences keep the order.
#[test]
fn connections_of_one_millisecond() {
    script! { "
        a, b: session
        b: publish 1 news one producer p 2 => b: published 1 7:1
        a: publish 1 news one producer p 2 => a: published 1 7:1 duplicate
        b: publish 2 news two producer p 3 => b: published 2 7:2
        a: publish 2 news zero producer p 1 => a: error request 2 out_of_order
    " }
}

/// Two edges of one process know which connection is newer.
#[test]
fn fencing_over_edges() {
    script! { |settings| settings.edges_count = 2, "
        a: session on 1; publish 1 news one producer p 1 => a: published 1 7:1
        time +1s
        b: session on 0; publish 1 news two producer p 2 => b: published 1 7:2
        a: publish 2 news three producer p 3 => a: error request 2 producer_fenced
    " }
}

/// Publications of a connection stay in their order while it waits for room, turn after turn: not
/// one is out of order.
#[test]
fn order_under_pressure() {
    script! { |settings| {
        settings.limits.requests_inflight_max = 3;
        settings.limits.turn_frames_max = 2;
    }, "
        a: session
        homes stop
        a: flood news 1..200 producer p
        homes go
        count duplicates out-of-order published => duplicates 0 out-of-order 0 published 200
        a: flood news 1..200 producer p
        count duplicates out-of-order published => duplicates 200 out-of-order 0 published 200
    " }
}
