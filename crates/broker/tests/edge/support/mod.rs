//! A small language for whole nodes: clients on edges and homes, real bytes in, the messages of
//! each client out, as text.
//!
//! [`check`] runs a script; `transcript` has the form of it. The answers of a command are the bytes
//! that the clients received after it, in the order of their names. After each command the nodes
//! take turns until nothing is left to do. Everything runs twice, the second time with reads of a
//! few bytes: chunking never changes the transcript.
//!
//! | command | effect |
//! |---|---|
//! | `b, a: session [on 1]` | b, then a, connects natively; the usual answers are left out |
//! | `a: session kept`, `a: session token x` | `connect ws` and `hello` with these words |
//! | `a: reset; session kept` | `connect`, `session`, `reset`, `publish`: another command follows |
//! | `a: connect native [on 1]` | opens a connection to an edge, upgrades and sends HELLO at once |
//! | `a: connect ws` | opens a connection and upgrades, without HELLO |
//! | `a: connect json` | upgrades to JSON; the client sees texts as they are |
//! | `a: connect echo`, `a: connect` | connects to `/echo`; plain HTTP |
//! | `a: connect tls` | plain HTTP in TLS that the node has ended |
//! | `a: connect mqtt certified x` | behind TLS that has verified a certificate with this name |
//! | `a: connect ws key x` | presents an API key in the request |
//! | `a: connect ws token x`, `connect echo token x` | presents a token: words (`authenticator`) |
//! | `a: hello token x [kept]` | HELLO with a token, and with the ticket |
//! | `a: renew 5 x` | renews the session with another token |
//! | `revoke anna`, `revoke 7` | revokes a subject; a token by its number |
//! | `authenticator stop`, `authenticator go` | delays decisions on credentials; answers them |
//! | `users max 2` | limits the connections of a user |
//! | `users stop`, `users go`, `users` | the shell stops answering; answers; lists its counts |
//! | `a: connect mqtt`, `a: connect mqtt-ws` | MQTT without CONNECT; the same in a WebSocket |
//! | `a: mqtt connect NAME [v3] [clean] [on=1]` | connects if needed, and sends CONNECT |
//! | | `none`: without a name; `v3`, `v31`: versions 3.1.1 and 3.1; `acks`: acknowledges at once |
//! | | `positions`: the property `crore-positions` |
//! | | `expiry=`, `keep=`, `receive=`, `size=`, `password=`, `user=`, `aliases=` |
//! | | `method=`, `data=`: enhanced authentication |
//! | | `will=TOPIC=TEXT`, `will-qos=`, `will-delay=`, `will-expiry=`, `will-retain` and others |
//! | `a: mqtt sub 1 a/# 2 id=7, b 1 nl rap rh=1` | SUBSCRIBE with packet identifier 1 |
//! | | `start=last:3`: the property `crore-start` |
//! | `a: mqtt unsub 2 a/# b` | UNSUBSCRIBE |
//! | `a: mqtt pub 1 news hi id=5` | PUBLISH with QoS 1, and identifier 5; `-`: without a topic |
//! | | options `dup`, `retain`, `text`, `alias=`, `expiry=`, `reply=`, `correlation=`, `type=` |
//! | | and `tag=k=v` |
//! | `a: mqtt flood 1 news 1..9` | numbered publications with numbers as identifiers |
//! | `a: mqtt puback 1 [0x80]`, `pubrec`, `pubrel`, `pubcomp`, `ping` | |
//! | `a: mqtt auth 0x19 [method=crore-jwt] [data=x]` | AUTH |
//! | `a: mqtt disconnect [4] [expiry=9]`, `a: mqtt raw c0 00` | |
//! | `a: mqtt version v3` | bytes that follow belong to this version |
//! | `a: mqtt pub .. | ping` | several packets at once |
//! | `a: last mqtt ping | disconnect` | the connection is lost in the turn of these |
//! | `a: hello 30` | HELLO with a ping interval in seconds |
//! | `a: ticket 9` | asks for a resume ticket; the client keeps the newest, beyond its connection |
//! | `a: hello kept [flip 9]` | HELLO with the ticket, with one bit changed |
//! | `a: hello kept [cursor 1 7:3] [cursor 2 in 0 7:3]` | HELLO with the ticket and newer cursors |
//! | `a: subscribe 1 news since 7:3, 2 x/#` | subscribes to items: number, filter, options |
//! | | options: `live`, `since`, `last`, `snapshot`, `credit n`, `fail-on-gap` |
//! | `a: unsubscribe 1 2`, `a: credit 1 5`, `a: ping 7`, `a: pong 7` | |
//! | `a: publish 9 news hi [retain] [type t] [tag k v]` | publishes as request 9; 0: no answer |
//! | | `x*100` is a payload of 100 bytes |
//! | `a: flood news 1..300 [size 100] [producer p]` | publishes many without answer, numbered |
//! | | `, other 301..400` adds more |
//! | `a: history 1 news [since 7:3] [reverse] [max 2]` | |
//! | `a: frame 04 00`, `a: text hi`, `a: binary hi` | sends one WebSocket frame |
//! | `a: control ping hi`, `a: close 1000 bye` | sends one control frame |
//! | `a: fragments text he\|ll\|o` | sends a fragmented message |
//! | `c: GET /x \| Name: value > body` | sends an HTTP request; connects if needed |
//! | | `>> a\|b` is a body in chunks |
//! | `c: raw GET / HTTP/1.1\r\n`, `c: bytes 82fe 61*3000` | sends text; hexadecimal bytes |
//! | `a: block`, `a: drain 100`, `a: open` | the socket takes no, 100, or all bytes |
//! | `a: end`, `a: reset` | the client ends its direction; the network loses the connection |
//! | `time +60s` | time passes, second by second |
//! | `homes stop [1]`, `homes go` | delays requests to homes; delivers them |
//! | `letters stop`, `letters go` | delays letters to edges; delivers them |
//! | `sockets stop` | sockets are not read until `letters go before sockets` |
//! | `letters go before sockets` | delivers letters in a turn before the next one reads sockets |
//! | `reads fail`, `reads go` | homes answer pages as if their disk could not be read |
//! | `disks go` | delivers the requests to disks; until then the disks hang |
//! | `counters 4294967290` | starts the 32-bit counters of edges at this value |
//! | `pressure 2` | sets the memory pressure, 0 to 3 |
//! | `shell refuses 192.0.2.7` | refuses this client behind a proxy |
//! | `restart [2 1]` | another node in place of this one, with these keys for tickets |
//! | `reload 1 [edges] [homes]` | applies the settings that the test has under this number |
//! | `drain 1000` | drains the edges over this time in milliseconds |
//! | `count lagging pages` | prints counters of all edges |
//! | `operator connections lagging`, `operator topics a/` | asks the first shard (`operator.rs`) |
//! | `operator disconnect a return` | disconnects a client, which may return |
//! | `journal` | prints the edges' entries about their clients since the last time |
//! | `only binary` | the script depends on the binary form of frames |
//! | `large reads` | the script depends on large reads, and runs only once |

mod authenticator;
mod client;
mod journal;
pub mod mqtt;
mod operator;
mod request;
mod users;
mod world;

use crate::transcript;
use broker::filters::FilterTrie;
use broker::mail::PartitionId;
use broker::settings::{Durability, LagPolicy, LogSettings, RuleSettings, Settings};
use broker::topic::Filter;

/// A test's script as it stands in the source, perhaps with other settings: `check`, `check_with`.
macro_rules! script {
    ($script:literal) => {
        $crate::support::check($script)
    };
    ($change:expr, $script:literal) => {
        $crate::support::check_with($change, $script)
    };
}
pub(crate) use script;

/// Runs a script on one edge and one home with a log of one partition and large limits.
#[track_caller]
#[allow(dead_code, reason = "not every test program needs it")]
pub fn check(script: &str) {
    check_with(|_| {}, script);
}

/// Runs a script with other settings.
#[track_caller]
pub fn check_with(change: impl Fn(&mut Settings), script: &str) {
    check_in_reads_of(1 << 16, &change, script);
    if !script.contains("large reads") {
        check_in_reads_of(5, &change, script);
    }
    if !script.contains("only binary") {
        check_world(1 << 16, true, &change, &|_, _| {}, script);
    }
}

/// Runs a script with settings for `reload`, made from those of the start by the number of the
/// reload.
#[track_caller]
#[allow(dead_code, reason = "not every test program needs it")]
pub fn check_reload(reload: impl Fn(usize, &mut Settings), script: &str) {
    for read_bytes in [1 << 16, 5] {
        check_world(read_bytes, false, &|_: &mut Settings| {}, &reload, script);
    }
}

/// Runs a command; returns the lines that it causes.
pub type Run<'a> = &'a mut dyn FnMut(&str) -> Vec<String>;

/// Gives a world to code that chooses the commands.
pub fn run_random(change: &dyn Fn(&mut Settings), mut script: impl FnMut(Run<'_>)) {
    let make = || {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let mut world = world::World::new(&make, 1 << 16);
    script(&mut |line| world.run(line));
}

#[track_caller]
fn check_in_reads_of(read_bytes: usize, change: &impl Fn(&mut Settings), script: &str) {
    check_world(read_bytes, false, change, &|_, _| {}, script);
}

#[track_caller]
fn check_world(
    read_bytes: usize,
    speaks_json: bool,
    change: &impl Fn(&mut Settings),
    reload: &dyn Fn(usize, &mut Settings),
    script: &str,
) {
    let make = || {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let mut world = world::World::new(&make, read_bytes);
    world.reload = reload;
    world.speaks_json = speaks_json;
    let form = if speaks_json { "JSON and " } else { "" };
    let about = format!("with {form}reads of {read_bytes} bytes ");
    transcript::check(script, &about, |line| world.run(line));
}

/// The settings at the start of a script.
pub fn settings() -> Settings {
    Settings {
        edges_count: 1,
        homes_count: 1,
        logs: vec![LogSettings {
            name: "memory".into(),
            partitions_count: 1,
            epoch: 7,
            log_bytes_max: 64 << 20,
            age_max_ms: 1 << 40,
            segment_bytes: 1 << 20,
            retained_bytes_max: 1 << 20,
            ..LogSettings::default()
        }],
        rules: vec![RuleSettings {
            when_lagging: LagPolicy::Replay,
            log: 0,
            history_messages_max: 10_000,
            history_age_max_ms: 1 << 40,
            message_bytes_max: 1 << 20,
            ..RuleSettings::default()
        }],
        node_name: "node".into(),
        ..Settings::default()
    }
}

/// A second log, on a disk that hangs until `disks go`, for the topics of a filter.
pub fn add_log_on_disk(settings: &mut Settings, filter: &str) {
    let mut log = settings.logs[0].clone();
    log.name = "disk".into();
    log.durability = Durability::Disk;
    log.first_partition = PartitionId(1);
    log.cache_bytes = 1 << 20;
    settings.logs.push(log);
    let mut rule = settings.rules[0].clone();
    rule.log = 1;
    settings.rules.push(rule);
    let mut filters = FilterTrie::default();
    filters.insert(Filter::parse(filter).unwrap(), 1);
    settings.rule_filters = filters;
    settings.limits.log_stall_timeout_ms = 5_000;
}
