//! Parameters of HTTP requests, and their refusals, as scripts and transcripts.

use crate::support::script;

/// A route refuses unknown parameters, and those that come twice.
#[test]
fn unknown_parameters() {
    script! { "
        c: GET /topics/a?start=first => c: 400 unknown_parameter
        c: GET /topics/a?last=5 => c: 400 unknown_parameter
        c: GET /topics/a?policy=drop => c: 400 unknown_parameter
        c: GET /topics/a?limit=1&limit=2 => c: 400 malformed_parameter
        c: GET /topics/a?topic=b => c: 400 unknown_parameter
        c: GET /topics?topic=a&topic=b => c: 400 malformed_parameter
        c: GET /topics?topic=a&limit=1&data=text
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: POST /topics/a?reverse > x => c: 400 close unknown_parameter, closed
        c: POST /topics/a?retain=1 > x => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: POST /topics?topic=a&retained=1 > x => c: 400 close unknown_parameter, closed
        c: POST /publish?topic=a > {\"topic\":\"a\",\"data\":1} => c: 400 close unknown_parameter, closed
        c: POST /publish?token=x > {\"topic\":\"a\",\"data\":1}
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        c: GET /events?topic=a&start=first => c: 400 unknown_parameter
        c: GET /events?topic=a&limit=5 => c: 400 unknown_parameter
        c: GET /events?topic=a&last=5&last=6 => c: 400 malformed_parameter
        c: GET /topics/a?limit=5 | Accept: text/event-stream => c: 400 unknown_parameter
        c: GET /topics/a?data=json | Accept: text/event-stream => c: 400 unknown_parameter
        c: GET /echo?x=1 | Connection: Upgrade => c: 400 unknown_parameter
        c: GET /crore?x=1 | Connection: Upgrade => c: 400 unknown_parameter
    " }
}

/// A position is of one partition, and the newest and retained messages are of topics: filters have
/// none of them.
#[test]
fn starts_of_streams() {
    script! { "
        b: session; publish 0 demo/a one; publish 0 demo/b two
        c: GET /events?topic=demo/%23&since=7:0 => c: 400 unsupported_start
        c: GET /events?topic=demo/%23&last=1 => c: 400 unsupported_start
        c: GET /events?topic=demo/%23&snapshot => c: 400 unsupported_start
        c: GET /events?topic=demo/%23&topic=x&last=1 => c: 400 unsupported_start
        c: GET /events?topic=demo/a&topic=demo/b&since=7:0 => c: 400 unsupported_start
        c: GET /events?topic=demo/a&since=7:0&last=1 => c: 400 malformed_parameter
        c: GET /events?topic=demo/%23&since=7:0 | Last-Event-ID: -/7:0 => c: 400 unsupported_start
        d: GET /events?topic=demo/a&since=7:0
            d: 200 close stream, retry 2000
            d: event crore.start {\"topic\":\"demo/a\",\"position\":\"7:0\",\"complete\":true}
            d: event id 7:1 {\"topic\":\"demo/a\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            d: event crore.caught_up id 7:2 {}
        e: GET /events?topic=demo/a&topic=demo/b&last=1
            e: 200 close stream, retry 2000
            e: event crore.start {\"topic\":\"demo/a\",\"position\":\"7:0\",\"complete\":true}
            e: event crore.start {\"topic\":\"demo/b\",\"position\":\"7:0\",\"complete\":true}
            e: event id 7:1,0 {\"topic\":\"demo/a\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            e: event crore.caught_up id 7:2,0 {}
            e: event id 7:2,2 {\"topic\":\"demo/b\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"two\"}
            e: event crore.caught_up {}
        f: GET /events?topic=demo/a&since=7:1 | Last-Event-ID: 7:0
            f: 200 close stream, retry 2000
            f: event crore.start {\"topic\":\"demo/a\",\"position\":\"7:0\",\"complete\":true}
            f: event id 7:1 {\"topic\":\"demo/a\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            f: event crore.caught_up id 7:2 {}
    " }
}

/// Names that a URL has made of filters are names of topics; the client gets a hint.
#[test]
fn spoilt_filters() {
    script! { "
        c: GET /events?topic= => c: 400 malformed_filter
        c: GET /events?topic=demo/&topic=demo/+&topic=demo/x&topic=/
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"demo/\",\"position\":\"7:0\",\"complete\":true,\"hint\":\"this topic ends in an empty level; the wildcard # is written %23 in a URL\"}
            c: event crore.start {\"topic\":\"demo/ \",\"position\":\"7:0\",\"complete\":true,\"hint\":\"a level of this topic is a space; the wildcard + is written %2B in a URL\"}
            c: event crore.start {\"topic\":\"demo/x\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"/\",\"position\":\"7:0\",\"complete\":true,\"hint\":\"this topic ends in an empty level; the wildcard # is written %23 in a URL\"}
            c: id 7:0,0,0,0
    " }
}

/// The retained message as the body of an answer.
#[test]
fn retained() {
    script! { |settings| {
        settings.homes_count = 2;
        settings.edges_count = 2;
        settings.logs[0].partitions_count = 2;
    }, "
        c: GET /retained/t => c: 404 not_found
        c: POST /topics/t > first => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: GET /retained/t => c: 404 not_found
        c: POST /topics/t?retain | Content-Type: application/json > {\"a\":1}
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        c: POST /topics/t > later => c: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
        c: GET /retained/t
            c: 200 [crore-position: 7:2] [crore-time-ms: 1000000] [content-security-policy: sandbox; default-src 'none'] {\"a\":1}
        c: GET /retained?topic=t
            c: 200 [crore-position: 7:2] [crore-time-ms: 1000000] [content-security-policy: sandbox; default-src 'none'] {\"a\":1}
        c: POST /topics/u?retain | Content-Type: text/html > <script>
            c: 200 {\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}
        c: GET /retained/u
            c: 200 [content-type: text/html] [crore-position: 7:4] [crore-time-ms: 1000000] [content-security-policy: sandbox; default-src 'none'] <script>
        c: POST /topics/v?retain > plain => c: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
        c: GET /retained/v
            c: 200 [content-type: text/plain; charset=utf-8] [crore-position: 7:5] [crore-time-ms: 1000000] [content-security-policy: sandbox; default-src 'none'] plain
        c: POST /topics/v?retain > hex:00ff => c: 200 {\"epoch\":\"7\",\"offset\":6,\"duplicate\":false}
        c: GET /retained/v
            c: 200 [content-type: application/octet-stream] [crore-position: 7:6] [crore-time-ms: 1000000] [content-security-policy: sandbox; default-src 'none'] [00, ff]
        c: HEAD /retained/t => c: 405 [allow: GET, OPTIONS]
        c: GET /retained/t?limit=1 => c: 400 unknown_parameter
        c: GET /retained => c: 400 topic_required
        c: GET /retained/a%23 => c: 400 malformed_topic
    " }
}

/// Payloads of JSON as the values that they are, where it is asked for and true.
#[test]
fn data_as_json() {
    script! { "
        c: connect
        s: GET /events?topic=%23&data=json
            s: 200 close stream, retry 2000
            s: event crore.start {\"topic\":\"#\",\"complete\":true}
            s: id -/7:
        p: GET /topics/t?wait=30s&data=json
        c: POST /topics/t | Content-Type: application/json > {\"a\": [1, \"x\"]}
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
            p: 200 {\"topic\":\"t\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"application/json\",\"data\":{\"a\": [1, \"x\"]}}],\"more\":false,\"cursor\":\"7:1\"}
            s: event id -/7:1 {\"topic\":\"t\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"application/json\",\"data\":{\"a\": [1, \"x\"]}}
        c: POST /topics/t | Content-Type: application/problem+json; charset=utf-8 > hex:7b0d0a2261223a0a317d
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
            s: event id -/7:2 {\"topic\":\"t\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"content_type\":\"application/problem+json; charset=utf-8\",\"data\":{  \"a\": 1}}
        c: POST /topics/t | Content-Type: application/json > no JSON
            c: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
            s: event id -/7:3 {\"topic\":\"t\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"content_type\":\"application/json\",\"data\":\"no JSON\"}
        c: POST /topics/t | Content-Type: application/json > hex:22ff22
            c: 200 {\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}
            s: event id -/7:4 {\"topic\":\"t\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"content_type\":\"application/json\",\"b64data\":\"Iv8i\"}
        c: POST /topics/t | Content-Type: text/plain > 17
            c: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
            s: event id -/7:5 {\"topic\":\"t\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"data\":\"17\"}
        c: POST /publish > {\"topic\":\"t\",\"data\":{\"b\":null}}
            c: 200 {\"epoch\":\"7\",\"offset\":6,\"duplicate\":false}
            s: event id -/7:6 {\"topic\":\"t\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"content_type\":\"application/json\",\"data\":{\"b\":null}}
        c: GET /topics/t?data=json&limit=1&since=7:1
            c: 200 {\"topic\":\"t\",\"epoch\":\"7\",\"head\":6,\"messages\":[{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"content_type\":\"application/problem+json; charset=utf-8\",\"data\":{  \"a\": 1}}],\"more\":true,\"cursor\":\"7:2\"}
        c: GET /topics/t?data=text&limit=1
            c: 200 {\"topic\":\"t\",\"epoch\":\"7\",\"head\":6,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"application/json\",\"data\":\"{\\\"a\\\": [1, \\\"x\\\"]}\"}],\"more\":true,\"cursor\":\"7:1\"}
        c: GET /topics/t?data=xml => c: 400 malformed_parameter
    " }
}

/// A key that comes more than once has a list of values; a message with one may be published so,
/// too.
#[test]
fn repeated_tags() {
    script! { "
        s: GET /events?topic=t
            s: 200 close stream, retry 2000
            s: event crore.start {\"topic\":\"t\",\"position\":\"7:0\",\"complete\":true}
            s: id 7:0
        b: session; publish 0 t one tag z 1 tag a 2 tag z 3
            s: event id 7:1 {\"topic\":\"t\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"tags\":{\"a\":\"2\",\"z\":[\"1\",\"3\"]},\"data\":\"one\"}
        b: publish 0 t two tag z 1 tag a 2
            s: event id 7:2 {\"topic\":\"t\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"tags\":{\"z\":\"1\",\"a\":\"2\"},\"data\":\"two\"}
        c: POST /publish > {\"topic\":\"t\",\"data\":\"\",\"tags\":{\"k\":[\"1\",\"2\"],\"l\":\"3\",\"k\":\"4\",\"m\":[]}}
            c: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
            s: event id 7:3 {\"topic\":\"t\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"tags\":{\"k\":[\"1\",\"2\",\"4\"],\"l\":\"3\"},\"data\":\"\"}
        c: POST /publish > {\"topic\":\"t\",\"data\":\"\",\"tags\":{\"k\":[1]}} => c: 400 malformed_json
        c: GET /topics/t?reverse&limit=1
            c: 200 {\"topic\":\"t\",\"epoch\":\"7\",\"head\":3,\"messages\":[{\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"tags\":{\"k\":[\"1\",\"2\",\"4\"],\"l\":\"3\"},\"data\":\"\"}],\"more\":true,\"cursor\":\"7:3\"}
    " }
}

/// curl's default type of a body says nothing about it.
#[test]
fn bodies_without_a_type() {
    script! { "
        c: POST /topics/t | Content-Type: application/x-www-form-urlencoded > hello
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: POST /topics/t | Content-Type: Application/X-WWW-Form-URLencoded | ce-id: 7 > hex:00ff
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        c: POST /topics/t | Content-Type: application/x-www-form-urlencoded; charset=utf-8 > a=1
            c: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
        c: POST /topics/t | Content-Type: text/plain; charset=utf-8 > hex:00ff
            c: 200 {\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}
        c: POST /topics/t > none => c: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
        c: GET /topics/t?limit=2
            c: 200 {\"topic\":\"t\",\"epoch\":\"7\",\"head\":5,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"text/plain; charset=utf-8\",\"data\":\"hello\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"tags\":{\"ce-id\":\"7\"},\"b64data\":\"AP8=\"}],\"more\":true,\"cursor\":\"7:2\"}
        c: GET /topics/t?limit=2&since=7:2
            c: 200 {\"topic\":\"t\",\"epoch\":\"7\",\"head\":5,\"messages\":[{\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"content_type\":\"application/x-www-form-urlencoded; charset=utf-8\",\"data\":\"a=1\"},{\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"content_type\":\"text/plain; charset=utf-8\",\"b64data\":\"AP8=\"}],\"more\":true,\"cursor\":\"7:4\"}
        c: GET /topics/t?since=7:4
            c: 200 {\"topic\":\"t\",\"epoch\":\"7\",\"head\":5,\"messages\":[{\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"none\"}],\"more\":false,\"cursor\":\"7:5\"}
    " }
}
