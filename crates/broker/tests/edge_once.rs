//! Publishing once, as scripts and transcripts of whole nodes.

mod support;

use support::check;

/// A header's key belongs to its topic, with quotes as the standard has it or without.
#[test]
fn keys_over_http() {
    check(
        r#"
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 #
            a: subscribed 1 filter
        c: connect
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
        "#,
    );
}

/// A batch is repeated as a whole: each of its messages has a key of its own.
#[test]
fn batches() {
    check(
        r#"
        c: connect
        c: POST /publish | Idempotency-Key: k > [{"topic":"a","data":1},{"topics":["a","b"],"data":2}]
            c: 200 {"results":[{"topic":"a","epoch":"7","offset":1,"duplicate":false},{"topic":"a","epoch":"7","offset":2,"duplicate":false},{"topic":"b","epoch":"7","offset":3,"duplicate":false}]}
        c: POST /publish | Idempotency-Key: k > [{"topic":"a","data":1},{"topics":["a","b"],"data":2},{"topic":"a","data":3}]
            c: 200 {"results":[{"topic":"a","epoch":"7","offset":1,"duplicate":true},{"topic":"a","epoch":"7","offset":2,"duplicate":true},{"topic":"b","epoch":"7","offset":3,"duplicate":true},{"topic":"a","epoch":"7","offset":4,"duplicate":false}]}
        c: POST /publish > {"topic":"a","data":9,"idempotency_key":"k"}
            c: 200 {"epoch":"7","offset":1,"duplicate":true}
        "#,
    );
}

/// Requests are as new as they come, over however many connections: none fences another.
#[test]
fn producers_over_http() {
    check(
        r#"
        c: connect
        d: connect
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
            c: 200 {"results":[{"topic":"a","error":{"code":"out_of_order","status":409,"temporary":false,"detail":"the producer's sequence lies below its window"}}]}
        "#,
    );
}

#[test]
fn epochs_over_http() {
    check(
        r#"
        c: connect
        c: POST /topics/a | Crore-Expected-Epoch: 7 > hi
            c: 200 {"epoch":"7","offset":1,"duplicate":false}
        c: POST /topics/a | Crore-Expected-Epoch: 6 > hi
            c: 409 epoch_mismatch 7:1
        c: POST /publish > {"topic":"a","data":1,"expected_epoch":"8"}
            c: 409 epoch_mismatch 7:1
        c: POST /publish | Crore-Expected-Epoch: 8 > [{"topic":"a","data":1,"expected_epoch":"7"},{"topic":"a","data":1}]
            c: 200 {"results":[{"topic":"a","epoch":"7","offset":2,"duplicate":false},{"topic":"a","error":{"code":"epoch_mismatch","status":409,"temporary":false,"detail":"the log's epoch is not the expected one","epoch":"7","head":2}}]}
        "#,
    );
}

#[test]
fn malformed_headers() {
    check(
        r#"
        c: connect
        c: POST /topics/a | Idempotency-Key: "k > hi
            c: 400 close malformed_parameter
            c: closed
        d: connect
        d: POST /topics/a | Idempotency-Key: a | Idempotency-Key: b > hi
            d: 400 close malformed_parameter
            d: closed
        e: connect
        e: POST /publish | Crore-Expected-Epoch: seven > {"topic":"a","data":1}
            e: 400 close malformed_parameter
            e: closed
        "#,
    );
}
