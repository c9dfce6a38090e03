//! The native protocol as JSON, in the texts that clients send and see: lists, refusals, fan-out
//! beside binary clients. All other scripts with native clients run in JSON, too (`support`).

use crate::support::script;
use broker::settings::{CompressionSettings, EntitlementSettings};

#[test]
fn a_session_in_texts() {
    script! { r#"
        only binary
        b: session
        a: connect json => a: 101 crore.v1.json
        a: text [{"type":"hello"},{"type":"subscribe","items":[{"subscription":1,"filter":"news"}]}]
            a: welcome
            a: {"type":"subscribed","subscription":1,"alias":0,"through":"7:0"}
        b: publish 0 news hi tag k v
            a: {"type":"message","alias":0,"position":"7:1","prev":0,"tags":[["k","v"]],"payload":"hi"}
        b: publish 0 news hex:00ff retain
            a: {"type":"message","alias":0,"position":"7:2","prev":1,"retained":true,"payload_base64":"AP8="}
        a: text {"type":"publish","request":3,"topic":"other","payload":""}
            a: {"type":"published","request":3,"position":"7:3"}
        a: text {"type":"subscribe","items":[{"subscription":2,"filter":"+","start":{"kind":"since_each","positions":[{"partition":0,"position":"7:1"}]}}]}
            a: {"type":"subscribed","subscription":2,"partitions":[{"partition":0,"through":"7:1","replaying":true,"continued":true}]}
            a: {"type":"named_message","topic":"news","partition":0,"position":"7:2","prev":1,"subscription":2,"retained":true,"payload_base64":"AP8="}
            a: {"type":"named_message","topic":"other","partition":0,"position":"7:3","prev":0,"subscription":2,"payload":""}
            a: {"type":"caught_up","subscription":2,"partition":0,"through":"7:3"}
        a: text {"type":"history","request":4,"topic":"news","records_max":1}
            a: {"type":"history_page","request":4,"head":"7:3","more":true,"records":[{"position":"7:1","prev":0,"time_ms":1000000,"tags":[["k","v"]],"payload":"hi"}]}
        a: text {"type":"unsubscribe","subscriptions":[1]}
            a: {"type":"unsubscribed","subscription":1,"code":0}
        a: text {"type":"ping","token":"9007199254740992"}
            a: {"type":"pong","token":"9007199254740992"}
    "# }
}

/// The frames of a list are as if each came by itself: those before a fault are carried out, those
/// behind it are not.
#[test]
fn lists() {
    script! { r#"
        only binary
        b: session; subscribe 1 news => b: subscribed 1 through 7:0
        a: connect json => a: 101 crore.v1.json
        a: text []
        a: text [{"type":"hello"}] => a: welcome
        a: text [{"type":"publish","topic":"news","payload":"1"},{"type":"publish","request":2,"topic":""},{"type":"publish","topic":"news","payload":"2"}]
            a: {"type":"error","request":2,"code":101,"message":"the topic is malformed"}
            b: message 1 1<0 1, 2<1 2
        a: text [{"type":"publish","topic":"news","payload":"3"},[]]
            a: {"type":"error","code":100,"message":"a message is a frame or a list of frames"}
            a: close 3500 protocol_error, closed
        c: connect json => c: 101 crore.v1.json
        c: text [{"type":"hello"},{"type":"publish","topic":"news","payload":"4"},{"type":"no"},{"type":"publish","topic":"news","payload":"5"}]
            b: message 1 3<2 4
            c: welcome
            c: {"type":"error","code":112,"message":"unknown type `no`"}
            c: close 3505 unsupported_frame, closed
        count connections => connections 1
    "# }
}

#[test]
fn refusals() {
    script! { r#"
        only binary
        a: connect json => a: 101 crore.v1.json
        a: text {"type":"ping","token":1}
            a: {"type":"error","code":114,"message":"the first frame must be HELLO"}
            a: close 3504 hello_required, closed
        b: connect json => b: 101 crore.v1.json
        b: text {"type":"hello"} => b: welcome
        b: text {"type":"publish","request":5,"topic":"a","!later":1,"payload":""}
            b: {"type":"error","request":5,"code":111,"message":"member `!later` is not supported"}
        b: text {"type":"publish","request":6,"topic":"a","payload":{}}
            b: {"type":"error","code":100,"message":"invalid type: map, expected a string at line 1 column 52"}
            b: close 3500 protocol_error, closed
        c: connect json => c: 101 crore.v1.json
        c: text {"type":"hello","version":2}
            c: {"type":"error","code":110,"message":"unsupported version 2"}
            c: close 3501 unsupported_version, closed
        d: connect json => d: 101 crore.v1.json
        d: text {"type":"hello"} => d: welcome
        d: binary {"type":"ping","token":1}
            d: close 1003 frames in JSON are text messages, closed
        e: connect json => e: 101 crore.v1.json
        e: text {"type":"hello","!":0}
            e: {"type":"error","code":111,"message":"member `!` is not supported"}
            e: close 3506 unsupported_option, closed
    "# }
}

/// HELLO of a list waits for the decision on its token: the frames behind it wait, too.
#[test]
fn a_list_waits_for_the_decision_on_a_token() {
    script! { |settings| {
        settings.entitlement = Some(EntitlementSettings::default());
    }, r#"
        only binary
        authenticator stop
        a: connect json => a: 101 crore.v1.json
        a: text [{"type":"hello","token":"anna.s:news"},{"type":"subscribe","items":[{"subscription":1,"filter":"news"}]}]
        a: text {"type":"ping","token":7}
        authenticator go
            a: welcome
            a: {"type":"subscribed","subscription":1,"alias":0,"through":"7:0"}
            a: {"type":"pong","token":7}
    "# }
}

/// A turn handles a bounded number of the frames of a list.
#[test]
fn a_long_list_takes_turns() {
    script! { |settings| {
        settings.limits.turn_frames_max = 2;
    }, r#"
        only binary
        a: connect json => a: 101 crore.v1.json
        a: text [{"type":"hello"},{"type":"ping","token":1},{"type":"ping","token":2},{"type":"ping","token":3},{"type":"ping","token":4}]
            a: welcome
            a: {"type":"pong","token":1}
            a: {"type":"pong","token":2}
            a: {"type":"pong","token":3}
            a: {"type":"pong","token":4}
        a: text {"type":"ping","token":5} => a: {"type":"pong","token":5}
    "# }
}

/// One frame for all clients of a form, and one compressed frame for those that take it.
#[test]
fn both_forms_of_one_message() {
    script! { |settings| {
        settings.compression = Some(CompressionSettings { bytes_min: 64, level: 1 });
    }, r#"
        only binary
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        b: session; subscribe 1 # => b: subscribed 1 filter
        c: connect json => c: 101 crore.v1.json
        c: text [{"type":"hello"},{"type":"subscribe","items":[{"subscription":1,"filter":"news"},{"subscription":2,"filter":"news/+"}]}]
            c: welcome
            c: {"type":"subscribed","subscription":1,"alias":0,"through":"7:0"}
            c: {"type":"subscribed","subscription":2,"partitions":[{"partition":0,"through":"7:0"}]}
        d: connect packed-json
            d: 101 crore.v1.json [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
        d: text [{"type":"hello"},{"type":"subscribe","items":[{"subscription":1,"filter":"news"},{"subscription":2,"filter":"+"}]}]
            d: packed
            d: welcome
            d: packed
            d: {"type":"subscribed","subscription":1,"alias":0,"through":"7:0"}
            d: packed
            d: {"type":"subscribed","subscription":2,"partitions":[{"partition":0,"through":"7:0"}]}
        e: connect packed-json
            e: 101 crore.v1.json [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
        e: text [{"type":"hello"},{"type":"subscribe","items":[{"subscription":1,"filter":"news"}]}]
            e: packed
            e: welcome
            e: packed
            e: {"type":"subscribed","subscription":1,"alias":0,"through":"7:0"}
        a: publish 0 news a*80
            a: message 1 1<0 80 bytes
            b: named news 1<0 80 bytes
            c: {"type":"message","alias":0,"position":"7:1","prev":0,"payload":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
            d: packed
            d: {"type":"message","alias":0,"position":"7:1","prev":0,"payload":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
            d: packed
            d: {"type":"named_message","topic":"news","partition":0,"position":"7:1","prev":0,"payload":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
            e: packed
            e: {"type":"message","alias":0,"position":"7:1","prev":0,"payload":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
        count compressed => compressed 8
    "# }
}
