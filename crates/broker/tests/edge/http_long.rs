//! HTTP as scripts and transcripts: long polls, echoes, and the drain.

use crate::support::script;

#[test]
fn long_poll() {
    script! { "
        b: session; flood news 1..2
        c: GET /topics/news?since=7:1&wait=10s
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":2,\"messages\":[{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}],\"more\":false,\"cursor\":\"7:2\"}
        c: GET /topics/news?since=7:2&wait=10s
        b: publish 0 other x; publish 0 news three
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":4,\"messages\":[{\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"three\"}],\"more\":false,\"cursor\":\"7:4\"}
        c: GET /topics/news?since=7:4&wait=10s
        time +9s
        time +2s
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":4,\"messages\":[],\"more\":false,\"cursor\":\"7:4\"}
        c: GET /topics/news?wait=10s
        b: publish 0 news 5
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":5,\"messages\":[{\"position\":\"7:5\",\"offset\":5,\"time_ms\":1011000,\"data\":\"5\"}],\"more\":false,\"cursor\":\"7:5\"}
        b: publish 0 news 6
        c: GET /topics/news?since=6:1&wait=10s
            c: 200 426 bytes to ,\"time_ms\":1011000,\"data\":\"6\"}],\"more\":false,\"cursor\":\"7:6\"}
        c: GET /topics/none?since=6:1&wait=10s
            c: 200 {\"topic\":\"none\",\"epoch\":\"7\",\"head\":6,\"gap\":{\"from\":0,\"to\":6,\"reason\":\"unknown_epoch\"},\"messages\":[],\"more\":false,\"cursor\":\"7:6\"}
        c: GET /topics/news?since=7:0&wait=10s&limit=2
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":2,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}],\"more\":true,\"cursor\":\"7:2\"}
        c: GET /topics/news?since=7:0&wait=0s
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"},{\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"three\"},{\"position\":\"7:5\",\"offset\":5,\"time_ms\":1011000,\"data\":\"5\"},{\"position\":\"7:6\",\"offset\":6,\"time_ms\":1011000,\"data\":\"6\"}],\"more\":false,\"cursor\":\"7:6\"}
        c: GET /topics/news?wait=0s
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"messages\":[],\"more\":false,\"cursor\":\"7:6\"}
        c: GET /topics/news?since=7:6&wait=10s
        c: GET /topics/none
        time +9999ms
        time +1ms
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":6,\"messages\":[],\"more\":false,\"cursor\":\"7:6\"}
            c: 200 {\"topic\":\"none\",\"epoch\":\"7\",\"head\":6,\"messages\":[],\"more\":false,\"cursor\":\"7:6\"}
        c: GET /topics/none?wait=20s
        c: reset
        time +30s
        count subscriptions connections indexes => subscriptions 0 connections 1 indexes 0
    " }
}

/// The home that does not even answer is overloaded.
#[test]
fn a_poll_without_an_answer() {
    script! { "
        c: connect
        homes stop
        c: GET /topics/news?wait=2s
        time +3s
        time +2s => c: 503 [retry-after: 1] overloaded
        homes go
        count subscriptions indexes => subscriptions 0 indexes 0
        c: POST /topics/news > x => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
    " }
}

#[test]
fn a_refused_poll() {
    script! { |settings| settings.limits.topics_max = 0, "
        c: GET /topics/news?wait=2s => c: 503 [retry-after: 1] topics_full
        c: GET /topics/news
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        count subscriptions => subscriptions 0
    " }
}

#[test]
fn polls_by_pages() {
    script! { |settings| settings.limits.page_records_max = 3, "
        b: session; flood news 1..7
        c: GET /topics/news?since=7:0&wait=5s
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":3,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"},{\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3\"}],\"more\":true,\"cursor\":\"7:3\"}
        c: GET /topics/news?since=7:0&wait=5s&limit=1
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"}],\"more\":true,\"cursor\":\"7:1\"}
        c: GET /topics/news?since=7:6&wait=5s&limit=1
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":7,\"messages\":[{\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"7\"}],\"more\":false,\"cursor\":\"7:7\"}
    " }
}

#[test]
fn echo() {
    script! { |settings| settings.limits.echo_bytes_max = 100, "
        a: connect echo => a: 101
        a: text hello => a: text hello
        a: binary hex:00ff => a: binary 2 bytes
        a: text empty => a: text empty
        a: fragments text he|ll|o => a: text hello
        a: fragments binary ab|cd|empty => a: binary abcd
        a: fragments text hex:c3|hex:a4 => a: text ä
        a: control ping hi => a: control pong hi
        a: bytes 0183 00000000 616263
        a: control ping between => a: control pong between
        a: bytes 8083 00000000 646566 => a: text abcdef
        a: text x*100 => a: text 100 bytes
        a: fragments text x*60|x*41 => a: close 1009 message over the limit of 100 bytes, closed
        a: connect echo => a: 101
        a: text x*101 => a: close 1009 payload of 101 bytes over the limit of 100, closed
        a: connect echo => a: 101
        a: bytes 0183 00000000 616263 8183 00000000 646566
            a: close 1002 new message inside a fragmented one, closed
        a: connect echo => a: 101
        a: fragments text hex:c3|a => a: close 1007 text is not UTF-8, closed
        a: connect echo => a: 101
        a: close 4321 bye => a: close 4321, closed
        a: connect echo => a: 101
        a: bytes 0183 00000000 616263
        a: reset
        count connections sessions => connections 0 sessions 0
    " }
}

#[test]
fn drain() {
    script! { "
        c: connect
        d: GET /topics/a
            d: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        e: GET /topics/a?wait=10s
        homes stop
        f: POST /topics/a > x
        g: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 2\\r\\n\\r\\nx
        drain 1000
            c: closed
            d: closed
            e: 200 close {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
            e: closed
        homes go => f: 200 close {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}, closed
        g: raw y => g: 200 close {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}, closed
        time +11s
        h: GET /topics/a
            h: 200 close {\"topic\":\"a\",\"epoch\":\"7\",\"head\":2,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"x\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"xy\"}],\"more\":false,\"cursor\":\"7:2\"}
            h: closed
        i: connect native => i: 503 close [retry-after: 1] shutting_down, closed
        j: GET /events?topic=a => j: 503 close [retry-after: 1] shutting_down, closed
        k: GET /topics/a?wait=10s
            k: 200 close {\"topic\":\"a\",\"epoch\":\"7\",\"head\":2,\"messages\":[],\"more\":false,\"cursor\":\"7:2\"}
            k: closed
        count connections => connections 0
    " }
}
