//! Compressed messages as scripts and transcripts: negotiation, fan-out in two formats, windows,
//! bounds.
//!
//! `packed` before a line says that the frame behind it came compressed.

use crate::support::script;
use broker::settings::{CompressionSettings, Settings};

fn on(settings: &mut Settings) {
    settings.compression = Some(CompressionSettings { bytes_min: 64, level: 1 });
}

#[test]
fn off_unless_configured() {
    script! { "
        a: connect packed-native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: publish 0 news a*600 => a: message 1 1<0 600 bytes
        a: packed publish 0 news a*600 => a: close 1002 reserved bits 0x40 set, closed
        count compressed inflated connections => compressed 0 inflated 0 connections 0
    " }
}

/// A message is compressed once for all that accept it; a client without compression, or with a
/// smaller window, gets it uncompressed.
#[test]
fn one_frame_for_all() {
    script! { on, "
        only binary
        a: connect packed-native
            a: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
            a: welcome ping 60s
        b: connect packed-native
            b: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
            b: welcome ping 60s
        c: session
        d: connect packed-native-9
            d: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=9]
            d: welcome ping 60s
        a: subscribe 1 news => a: subscribed 1 through 7:0
        b: subscribe 2 news => b: subscribed 2 through 7:0
        c: subscribe 3 news => c: subscribed 3 through 7:0
        d: subscribe 4 news => d: subscribed 4 through 7:0
        c: publish 0 news a*400
            a: packed
            a: message 1 1<0 400 bytes
            b: packed
            b: message 2 1<0 400 bytes
            c: message 3 1<0 400 bytes
            d: packed
            d: message 4 1<0 400 bytes
        count compressed incompressible => compressed 1 incompressible 0
        c: publish 0 news a*600
            a: packed
            a: message 1 2<1 600 bytes
            b: packed
            b: message 2 2<1 600 bytes
            c: message 3 2<1 600 bytes
            d: message 4 2<1 600 bytes
        count compressed incompressible => compressed 2 incompressible 0
        c: publish 0 news short
            a: message 1 3<2 short
            b: message 2 3<2 short
            c: message 3 3<2 short
            d: message 4 3<2 short
        count compressed incompressible => compressed 2 incompressible 0
        c: publish 0 news hex:63b99e6d8c4a2f51d07e3819c5e4f2a76b0d9c38e17f5a42c6910de3b8745f2a9be1734d0c5f86a219d73ec4b05f8e6127da93fc14b86d5037e2c94a8b1f60d5e37c
            a: message 1 4<3 66 bytes
            b: message 2 4<3 66 bytes
            c: message 3 4<3 66 bytes
            d: message 4 4<3 66 bytes
        count compressed incompressible plain-bytes packed-bytes
            compressed 2 incompressible 1 plain-bytes 1010 packed-bytes 28
    " }
}

#[test]
fn filters_and_addressed_frames() {
    script! { on, "
        only binary
        a: connect packed-native
            a: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
            a: welcome ping 60s
        b: session
        c: connect packed-native-8
            c: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=8]
            c: welcome ping 60s
        a: subscribe 1 news/# => a: subscribed 1 filter
        b: subscribe 2 news/# => b: subscribed 2 filter
        c: subscribe 3 news/# => c: subscribed 3 filter
        b: publish 0 news/x a*200
            a: packed
            a: named news/x 1<0 200 bytes
            b: named news/x 1<0 200 bytes
            c: packed
            c: named news/x 1<0 200 bytes
        b: publish 0 news/x a*300
            a: packed
            a: named news/x 2<1 300 bytes
            b: named news/x 2<1 300 bytes
            c: named news/x 2<1 300 bytes
        count compressed => compressed 2
    " }
}

/// Replays and answers too.
#[test]
fn pages() {
    script! { on, "
        only binary
        a: session; publish 0 news a*200; publish 0 news short; publish 0 news b*200
        b: connect packed-native
            b: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
            b: welcome ping 60s
        b: subscribe 1 news since 7:0
            b: subscribed 1 through 7:0 continued replaying
            b: packed
            b: message 1 1<0 200 bytes, 2<1 short
            b: packed
            b: message 1 3<2 200 bytes
            b: caught-up 1 through 3
        b: history 2 news
            b: packed
            b: history 2 head 3 [1<0 200 bytes, 2<1 short, 3<2 200 bytes]
        c: connect packed-native-8
            c: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=8]
            c: welcome ping 60s
        c: subscribe 1 news since 7:0
            c: subscribed 1 through 7:0 continued replaying
            c: packed
            c: message 1 1<0 200 bytes, 2<1 short
            c: packed
            c: message 1 3<2 200 bytes
            c: caught-up 1 through 3
        c: publish 0 news c*200
            b: packed
            b: message 1 4<3 200 bytes
            c: packed
            c: message 1 4<3 200 bytes
        count compressed => compressed 6
    " }
}

#[test]
fn compressed_input() {
    script! { on, "
        only binary
        a: connect packed-native
            a: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
            a: welcome ping 60s
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: packed publish 5 news a*600
            a: published 5 7:1
            a: packed
            a: message 1 1<0 600 bytes
        a: packed publish 0 news b*20 => a: message 1 2<1 bbbbbbbbbbbbbbbbbbbb
        count inflated compressed => inflated 2 compressed 1
    " }
}

#[test]
fn echoes() {
    script! { on, "
        a: connect packed-echo
            a: 101 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
        a: packed text x*1000
            a: packed
            a: text 1000 bytes
        a: text short => a: text short
        a: packed binary y*63 => a: binary 63 bytes
        a: text y*63 => a: text 63 bytes
        a: text z*64
            a: packed
            a: text 64 bytes
        a: bytes c1 83 00 00 00 00 f2 48 cd
            a: close 1007 compressed message cannot be inflated, closed
        b: connect packed-echo-10
            b: 101 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=10]
        b: packed text x*1024
            b: packed
            b: text 1024 bytes
        b: packed text x*1025 => b: text 1025 bytes
        c: connect echo => c: 101
        c: bytes c1 81 00 00 00 00 00 => c: close 1002 reserved bits 0x40 set, closed
        count inflated compressed => inflated 4 compressed 3
    " }
}

#[test]
fn bombs() {
    let small = |settings: &mut Settings| {
        on(settings);
        settings.limits.frame_bytes_max = 1_000;
        settings.limits.echo_bytes_max = 100_000;
    };
    script! { small, "
        only binary
        a: connect packed-echo
            a: 101 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
        a: packed text x*100000
            a: packed
            a: text 100000 bytes
        a: packed text x*100001 => a: close 1009 message inflates to more than 100000 bytes, closed
        b: connect packed-native
            b: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
            b: welcome ping 60s
        b: packed publish 1 news a*980 => b: published 1 7:1
        b: packed publish 2 news a*1000
            b: close 1009 message inflates to more than 1000 bytes, closed
        count inflated inflate-too-large => inflated 2 inflate-too-large 2
    " }
}
