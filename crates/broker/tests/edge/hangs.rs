//! Connections beside a log whose disk hangs: in these nodes every disk does, until `disks go`.

use crate::support::{add_log_on_disk, script};
use broker::settings::Settings;

/// `disk/#` lies in a log on disk, everything else in memory; a log has room for three requests.
fn two_logs(settings: &mut Settings) {
    add_log_on_disk(settings, "disk/#");
    settings.limits.requests_inflight_max = 3;
}

/// A client that fills the log waits, for a bounded time; users of other logs do not notice, and in
/// the end no client waits.
#[test]
fn one_log_hangs() {
    script! { two_logs, "
        large reads
        a, b: session
        a: publish 1 disk/a one; publish 2 disk/a two; publish 3 news hi => a: published 3 7:1
        a: publish 4 disk/a three
        a: ping 5
        b: subscribe 1 news since 7:0, 2 disk/a
            b: subscribed 1 through 7:0 continued replaying, 2 through 7:0
            b: message 1 1<0 hi
            b: caught-up 1 through 1
        b: publish 1 news there
            b: published 1 7:2
            b: message 1 2<1 there
        b: ping 2 => b: pong 2
        b: history 3 news => b: history 3 head 2 [1<0 hi, 2<1 there]
        b: unsubscribe 1 => b: unsubscribed 1 0
        c: POST /topics/news > http => c: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
        c: POST /topics/disk/a > four
        time +6s => a: pong 5
        a: publish 6 disk/a five => a: error request 6 log_unavailable
        a: publish 7 news again => a: published 7 7:4
        b: publish 8 disk/b six => b: error request 8 log_unavailable
        disks go
            a: published 1 7:1, 2 7:2, 4 7:3
            b: message 2 1<0 one, 2<1 two, 3<2 three, 4<3 four
            c: 200 {\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}
        a: publish 9 disk/a seven
        disks go
            a: published 9 7:5
            b: message 2 5<4 seven
    " }
}
