//! HTTP/1.1 as scripts and transcripts: requests, answers, limits, cross-origin rules, history,
//! long polls, echo.

use crate::support::{check, check_with, script};

#[test]
fn publish_and_history() {
    script! { "
        c: GET /topics/news
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: POST /topics/news > hi => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: POST /topics/news | Content-Type: text/plain | ce-Source: pump > again
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        c: POST /topics/news?retain | Content-Type: application/octet-stream > hex:00ff
            c: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
        c: POST /topics/news >> chunk|ed => c: 200 {\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}
        c: POST /topics/news > empty => c: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
        c: POST /topics/news => c: 200 {\"epoch\":\"7\",\"offset\":6,\"duplicate\":false}
        c: GET /topics/news
            c: 200 561 bytes to 6,\"time_ms\":1000000,\"data\":\"\"}],\"more\":false,\"cursor\":\"7:6\"}
        c: GET /topics/news?since=7:2&limit=1
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"messages\":[{\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"retained\":true,\"content_type\":\"application/octet-stream\",\"b64data\":\"AP8=\"}],\"more\":true,\"cursor\":\"7:3\"}
        c: GET /topics/news?reverse&limit=2
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"messages\":[{\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"\"},{\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"\"}],\"more\":true,\"cursor\":\"7:5\"}
        c: GET /topics/news?since=7:3&reverse=true
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"messages\":[{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"tags\":{\"ce-source\":\"pump\"},\"data\":\"again\"},{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":false,\"cursor\":\"7:1\"}
        c: GET /topics/news?since=6:1&limit=1
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"gap\":{\"from\":0,\"to\":0,\"reason\":\"unknown_epoch\"},\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":true,\"cursor\":\"7:1\"}
        c: GET /topics/news?since=7:99
            c: 200 608 bytes to 6,\"time_ms\":1000000,\"data\":\"\"}],\"more\":false,\"cursor\":\"7:6\"}
        c: GET /topics?topic=news&limit=1
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":true,\"cursor\":\"7:1\"}
        c: GET /topics//a/b
            c: 200 {\"topic\":\"/a/b\",\"epoch\":\"7\",\"head\":6,\"messages\":[],\"more\":false,\"cursor\":\"7:6\"}
        c: POST /topics/a%2Fb%20c > x => c: 200 {\"epoch\":\"7\",\"offset\":7,\"duplicate\":false}
        c: GET /topics?topic=a%2Fb%20c
            c: 200 {\"topic\":\"a/b c\",\"epoch\":\"7\",\"head\":7,\"messages\":[{\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"x\"}],\"more\":false,\"cursor\":\"7:7\"}
    " }
}

/// A person that opens the clients' port with a browser or with curl learns what it is.
#[test]
fn the_root_tells_what_this_port_is() {
    script! { "
        c: GET /
            c: 200 [content-type: text/plain; charset=utf-8] 673 bytes to s says otherwise.|Documents: https://github.com/crore/crore|
        c: POST / > x => c: 405 close [allow: GET, OPTIONS] method_not_allowed, closed
    " }
}

#[test]
fn the_envelope() {
    script! { "
        a: session; subscribe 1 # => a: subscribed 1 filter
        c: POST /publish > {\"topic\":\"a\",\"data\":\"hi\"}
            a: named a 1<0 hi
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: POST /publish > {\"topic\":\"a\",\"data\":{\"x\":1},\"tags\":{\"k\":\"v\"}}
            a: named a 2<1 {\"x\":1} type application/json tag k v
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        c: POST /publish > {\"topic\":\"a\",\"b64data\":\"AP8=\",\"content_type\":\"image/x\",\"retain\":true}
            a: named a 3<2! 2 bytes type image/x
            c: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
        c: POST /publish > {\"topics\":[\"a\",\"b\"],\"data\":\"both\"}
            a: named a 4<3 both
            a: named b 5<0 both
            c: 200 {\"results\":[{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":4,\"duplicate\":false},{\"topic\":\"b\",\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}]}
        c: POST /publish > [{\"topic\":\"a\",\"data\":1},{\"topics\":[\"b\",\"c\"],\"data\":null}]
            a: named a 6<4 1 type application/json
            a: named b 7<5 null type application/json
            a: named c 8<0 null type application/json
            c: 200 {\"results\":[{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":6,\"duplicate\":false},{\"topic\":\"b\",\"epoch\":\"7\",\"offset\":7,\"duplicate\":false},{\"topic\":\"c\",\"epoch\":\"7\",\"offset\":8,\"duplicate\":false}]}
        c: POST /publish > {\"batch\":[{\"topic\":\"a\",\"data\":\"\"}]}
            a: named a 9<6 empty
            c: 200 {\"results\":[{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":9,\"duplicate\":false}]}
        c: POST /publish > [] => c: 200 {\"results\":[]}
        c: POST /publish > {\"topic\":\"a\"} => c: 400 payload_required
        c: POST /publish > {\"data\":\"x\"} => c: 400 topic_required
        c: POST /publish > {\"topic\":\"a/#\",\"data\":\"x\"} => c: 400 malformed_topic
        c: POST /publish > {\"topic\":\"a\",\"b64data\":\"%\"} => c: 400 malformed_json
        c: POST /publish > nonsense => c: 400 malformed_json
        c: POST /publish => c: 400 malformed_json
        c: POST /publish > hex:ff => c: 400 malformed_utf8
        c: POST /publish > [{\"topic\":\"a\",\"data\":1},{\"topic\":\"\",\"data\":2}] => c: 400 malformed_topic
    " }
}

/// Part of a batch may be refused by its home; the others stand.
#[test]
fn a_batch_in_part() {
    script! { |settings| {
        settings.limits.topics_max = 1;
        settings.limits.message_bytes_max = 100;
    }, "
        c: POST /publish > [{\"topic\":\"a\",\"data\":1},{\"topic\":\"b\",\"data\":2}]
            c: 200 {\"results\":[{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":1,\"duplicate\":false},{\"topic\":\"b\",\"error\":{\"code\":\"topics_full\",\"status\":503,\"temporary\":true,\"detail\":\"the node has reached topics_max\"}}]}
        c: POST /publish > {\"topic\":\"b\",\"data\":2} => c: 503 [retry-after: 1] topics_full
        c: POST /topics/b > x => c: 503 [retry-after: 1] topics_full
        c: POST /publish > {\"topic\":\"a\",\"data\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: 413 message_too_large
    " }
}

/// Answers come in the order of the requests, whatever each of them waits for.
#[test]
fn pipelining() {
    script! { "
        c: connect
        homes stop
        c: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 1\\r\\n\\r\\nxGET /nowhere HTTP/1.1\\r\\nHost: h\\r\\n\\r\\nGET /topics/a HTTP/1.1\\r\\nHost: h\\r\\n\\r\\nGET /topics/a?limit=1&reverse HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\nGET /lost HTTP/1.1\\r\\n
        homes go
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
            c: 404 not_found
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"x\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: 200 close {\"topic\":\"a\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"x\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: closed
        count connections => connections 0
    " }
}

/// More requests than one turn deals with; then the client ends its direction and still gets every
/// answer.
#[test]
fn pipelining_beyond_a_turn() {
    script! { |settings| settings.limits.turn_frames_max = 2, "
        c: connect
        c: raw GET /1 HTTP/1.1\\r\\nHost: h\\r\\n\\r\\nGET /2 HTTP/1.1\\r\\nHost: h\\r\\n\\r\\nGET /3 HTTP/1.1\\r\\nHost: h\\r\\n\\r\\nGET /4 HTTP/1.1\\r\\nHost: h\\r\\n\\r\\nPOST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 1\\r\\n\\r\\nxGET /topics/a HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n
            c: 404 not_found
            c: 404 not_found
            c: 404 not_found
            c: 404 not_found
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"x\"}],\"more\":false,\"cursor\":\"7:1\"}
        c: end => c: closed
        count connections => connections 0
    " }
}

/// An answer that is due still goes out after the client has ended its direction.
#[test]
fn half_close() {
    script! { "
        c: connect
        homes stop
        c: POST /topics/a > x
        c: end
        count connections => connections 1
        homes go => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}, closed
        count connections => connections 0
        c: GET /topics/a?wait=10s
        c: end
        time +5s
        time +6s
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":1,\"messages\":[],\"more\":false,\"cursor\":\"7:1\"}
            c: closed
        c: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 5\\r\\n\\r\\nx
        c: end => c: closed
        c: connect; end => c: closed
        count connections => connections 0
    " }
}

/// A poll that may not wait answers with what there is, as soon as its home says so; a home that
/// says nothing is overloaded.
#[test]
fn polls_without_time() {
    script! { "
        c: GET /topics/a?wait=0
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        time +1ms
        p: POST /topics/a > x => p: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: GET /topics/a?wait=0&since=7:0
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000001,\"data\":\"x\"}],\"more\":false,\"cursor\":\"7:1\"}
        time +1ms
        c: GET /topics/a?wait=0&since=7:1
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":1,\"messages\":[],\"more\":false,\"cursor\":\"7:1\"}
        time +1ms
        homes stop
        c: GET /topics/a?wait=1s&since=7:1
        time +1s
        homes go
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":1,\"messages\":[],\"more\":false,\"cursor\":\"7:1\"}
        homes stop
        c: GET /topics/a?wait=1s&since=7:1
        time +1s
        time +2s => c: 503 [retry-after: 1] overloaded
        homes go
    " }
}

#[test]
fn keep_alive() {
    script! { |settings| settings.limits.keep_alive_timeout_ms = 20_000, "
        c: GET /topics/a HTTP/1.0
            c: 200 close {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
            c: closed
        c: GET /topics/a HTTP/1.0 | Connection: keep-alive
            c: 200 keep-alive {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: GET /nowhere HTTP/1.0 | Connection: keep-alive => c: 404 keep-alive not_found
        c: GET /topics/a | Connection: close
            c: 200 close {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
            c: closed
        c: GET /topics/a
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        time +15s
        c: GET /topics/a
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        time +15s
        c: GET /topics/a
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        time +30s => c: closed
        c: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 5\\r\\n\\r\\nx
        time +30s => c: 408 close request_timeout, closed
        c: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 5\\r\\n\\r\\n1
        time +10s
        c: raw 2
        time +9s
        c: raw 3
        time +10s => c: 408 close request_timeout, closed
        c: GET /topics/b
            c: 200 {\"topic\":\"b\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: raw GET /topi
        time +15s
        c: raw cs/
        time +15s => c: 408 close request_timeout, closed
        c: GET /nowhere => c: 404 not_found
        c: block
        c: GET /nowhere
        time +60s => c: reset
        count connections pinned => connections 0 pinned 0
    " }
}

#[test]
fn expectations() {
    script! { |settings| settings.limits.message_bytes_max = 100, "
        c: connect
        c: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 1\\r\\nExpect: 100-continue\\r\\n\\r\\n
            c: 100
        c: raw x => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: raw POST /topics/a HTTP/1.0\\r\\nContent-Length: 1\\r\\nExpect: 100-continue\\r\\n\\r\\n
        c: raw x => c: 200 close {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}, closed
        c: connect
        c: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 101\\r\\nExpect: 100-continue\\r\\n\\r\\n
            c: 413 close message_too_large, closed
        c: connect
        c: raw POST /topics/a+ HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 10\\r\\nExpect: 100-continue\\r\\n\\r\\n
            c: 400 close malformed_topic, closed
        c: POST /topics/a | Expect: money > x => c: 417 close unsupported_expectation, closed
    " }
}

#[test]
fn refusals() {
    script! { |settings| {
        settings.limits.message_bytes_max = 100;
        settings.limits.head_bytes_max = 10_000;
    }, "
        c: GET /index.html => c: 404 not_found
        c: GET /connection/websocket => c: 404 not_found
        c: GET /topics/ => c: 400 topic_required
        c: GET /topics/a+ => c: 400 malformed_topic
        c: GET /topics/%zz => c: 400 malformed_request
        c: GET /topics/a?limit=x => c: 400 malformed_parameter
        c: GET /topics/a?since=x => c: 400 malformed_position
        c: GET /topics/a?wait=1h => c: 400 malformed_parameter
        c: GET /topics/a?wait=1s&reverse => c: 400 malformed_parameter
        c: GET /events => c: 400 topic_required
        c: GET /events?topic=a%23 => c: 400 malformed_filter
        c: DELETE /topics/a => c: 405 [allow: GET, POST, OPTIONS] method_not_allowed
        c: PUT /publish => c: 405 [allow: POST, OPTIONS] method_not_allowed
        c: POST /events => c: 405 [allow: GET, OPTIONS] method_not_allowed
        c: GET /publish => c: 405 [allow: POST, OPTIONS] method_not_allowed
        c: GET /topics/a > body => c: 400 close malformed_request, closed
        c: POST /nowhere > body => c: 404 close not_found, closed
        c: POST /topics/a > x*101 => c: 413 close message_too_large, closed
        c: POST /topics/a >> x*90|x*20 => c: 413 close message_too_large, closed
        c: connect
        c: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nzz\\r\\n
            c: 400 close malformed_request, closed
        c: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nTransfer-Encoding: gzip\\r\\n\\r\\n
            c: 400 close malformed_request, closed
        c: connect
        c: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nTransfer-Encoding: gzip, chunked\\r\\n\\r\\n
            c: 501 close unsupported_transfer_coding, closed
        c: connect; raw GET / HTTP/1.1\\r\\n\\r\\n => c: 400 close malformed_request, closed
        c: connect
        c: raw GET / HTTP/2.0\\r\\nHost: h\\r\\n\\r\\n => c: 505 close unsupported_http_version, closed
        c: connect; raw nonsense\\r\\n\\r\\n => c: 400 close malformed_request, closed
        c: connect
        c: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n
            c: 400 close malformed_request, closed
        c: GET /topics/a | X: x*10000 => c: 431 close header_too_large, closed
        c: GET /topics?topic=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            c: 200 {\"topic\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        count connections => connections 1
    " }
}

#[test]
fn a_target_that_is_too_long() {
    let target = "x".repeat(9_000);
    check(&format!(
        "
        c: GET /{target} => c: 414 close uri_too_long, closed
        "
    ));
}

/// The answer to HEAD has no body, so the next answer is found where it begins.
#[test]
fn head() {
    script! { "
        c: HEAD /topics/a => c: 405 [allow: GET, POST, OPTIONS]
        c: HEAD / => c: 405 [allow: GET, OPTIONS]
        c: GET /topics/a
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
    " }
}

#[test]
fn refused_upgrades() {
    script! { "
        c1: GET /crore => c1: 426 upgrade, close upgrade_required, closed
        c2: POST /crore > x => c2: 405 [allow: GET] close method_not_allowed, closed
        c3: GET /crore | Upgrade: websocket | Connection: Upgrade | Sec-WebSocket-Version: 13 | Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==
            c3: 400 close subprotocol_required, closed
        c4: GET /echo | Upgrade: websocket | Connection: Upgrade | Sec-WebSocket-Version: 12 | Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==
            c4: 426 upgrade, close unsupported_websocket_version, closed
        c5: GET /echo | Upgrade: websocket | Connection: Upgrade | Sec-WebSocket-Version: 13 | Sec-WebSocket-Key: AAAA
            c5: 400 close malformed_handshake, closed
        c6: GET /echo | Origin: http://evil | Upgrade: websocket | Connection: Upgrade | Sec-WebSocket-Version: 13 | Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==
            c6: 403 origin_forbidden
        count connections sessions => connections 1 sessions 0
        count error/upgrade_required error/method_not_allowed error/subprotocol_required
            error/upgrade_required 1 error/method_not_allowed 1 error/subprotocol_required 1
        count error/unsupported_websocket_version error/malformed_handshake
            error/unsupported_websocket_version 1 error/malformed_handshake 1
    " }
}

#[test]
fn cross_origin() {
    script! { |settings| settings.allowed_origins = vec!["https://app.example".into()], "
        c: connect
        c: GET /topics/a | Origin: http://h
            c: 200 [access-control-allow-origin: http://h] {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: GET /topics/a | Origin: https://H
            c: 200 [access-control-allow-origin: https://H] {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: GET /topics/a | Origin: https://app.example
            c: 200 [access-control-allow-origin: https://app.example] {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: GET /topics/a | Origin: https://evil.example => c: 403 origin_forbidden
        c: GET /topics/a | Origin: null => c: 403 origin_forbidden
        c: GET /topics/a | Origin: https://app.example | Origin: https://evil.example
            c: 403 origin_forbidden
        c: GET /nowhere | Origin: https://app.example
            c: 404 [access-control-allow-origin: https://app.example] not_found
        c: OPTIONS /topics/a | Origin: https://app.example | Access-Control-Request-Method: POST | Access-Control-Request-Headers: content-type
            c: 204 [access-control-allow-origin: https://app.example] [allow: GET, POST, OPTIONS] [access-control-allow-methods: GET, POST, OPTIONS] [access-control-max-age: 600] [access-control-allow-headers: content-type]
        c: OPTIONS /publish | Origin: https://evil.example => c: 403 origin_forbidden
        c: OPTIONS /events => c: 204 [allow: GET, OPTIONS]
        c: OPTIONS /crore => c: 204 [allow: GET, OPTIONS]
        c: OPTIONS /publish => c: 204 [allow: POST, OPTIONS]
        c: OPTIONS /topics/a > POST / HTTP/1.1
            c: 400 close malformed_request
            c: closed
        d: connect
        d: POST /topics/a | Origin: https://evil.example > x
            d: 403 close origin_forbidden
            d: closed
    " }
    script! { |settings| settings.allowed_origins = vec!["*".into()], "
        c: connect
        c: GET /topics/a | Origin: https://anybody
            c: 200 [access-control-allow-origin: https://anybody] {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
    " }
    // A page without TLS is another origin than the node with it.
    script! { |_| (), "
        c: connect tls; GET /nowhere | Origin: https://h
            c: 404 [access-control-allow-origin: https://h] not_found
        c: GET /topics/a | Origin: http://h => c: 403 origin_forbidden
    " }
}

/// A node on loopback without tokens refuses pages whose name resolves to loopback.
#[test]
fn hosts_of_a_node_on_loopback() {
    let script = |origin: &'static str, answer: &str| {
        let script = format!(
            "
            c: GET /nowhere => c: {answer}
            c: GET /nowhere | Origin: http://h => c: {}
            ",
            answer.replace("404 ", "404 [access-control-allow-origin: http://h] ")
        );
        check_with(
            |settings| {
                settings.addresses.are_loopback = true;
                settings.allowed_origins = vec![origin.into()];
            },
            &script,
        );
    };
    script("https://page.example", "421 misdirected");
    script("https://h", "404 not_found");
    script("http://h:8000", "404 not_found");
    script("*", "404 not_found");
}
