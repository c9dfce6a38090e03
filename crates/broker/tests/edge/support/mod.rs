//! A small language for whole nodes: clients on edges and homes, real bytes in, what each client
//! saw out, as text.
//!
//! [`check`] runs a script; `transcript` has the form of it. The answers of a command are what the
//! clients saw of it, in the order of their names. After each command the nodes take turns until
//! nothing is left to do. Everything runs twice, the second time with reads of a few bytes:
//! chunking never changes the transcript.
//!
//! | command | |
//! |---|---|
//! | `b, a: session [on 1]` | b, then a, connects native to an edge; exactly the usual answers are left out |
//! | `a: connect native [on 1]` | opens a connection to an edge, upgrades and sends HELLO at once |
//! | `a: connect ws`, `a: connect echo`, `a: connect` | the same without HELLO; to `/echo`; plain HTTP |
//! | `a: connect tls` | plain HTTP in TLS that the node has ended |
//! | `a: connect ws key x`, `connect ws token x`, `connect echo token x` | with a credential in the request; tokens are words (`judge.rs`) |
//! | `a: hello token x [kept]` | HELLO with a token, and with the ticket |
//! | `a: renew 5 x` | goes on with another token |
//! | `revoke anna`, `revoke 7` | a subject, a token by its number |
//! | `judge stop`, `judge go` | questions wait |
//! | `users max 2`, `users stop`, `users go`, `users` | connections of a user; the shell does not answer; who has how many |
//! | `a: hello 30` | HELLO with a wished ping interval |
//! | `a: ticket 9` | asks for a resume ticket; the client keeps the newest, beyond its connection |
//! | `a: hello kept [flip 9] [cursor 1 7:3] [cursor 2 in 0 7:3]` | HELLO with it, a bit changed, with newer cursors |
//! | `a: subscribe 1 news since 7:3, 2 x/#` | items: number, filter, `live`, `since`, `last`, `snapshot`, `credit n`, `fail-on-gap` |
//! | `a: unsubscribe 1 2`, `a: credit 1 5`, `a: ping 7`, `a: pong 7` | |
//! | `a: publish 9 news hi [retain] [type t] [tag k v]` | request 9, 0 for no answer; `x*100` is a payload of 100 bytes |
//! | `a: flood news 1..300 [size 100] [producer p]` | many without answer, numbered |
//! | `a: history 1 news [since 7:3] [reverse] [max 2]` | |
//! | `a: frame 04 00`, `a: text hi`, `a: binary hi`, `a: control ping hi`, `a: close 1000 bye` | one WebSocket frame |
//! | `a: fragments text he\|ll\|o` | a fragmented message |
//! | `c: GET /x \| Name: value > body` | an HTTP request, `>> a\|b` with a body in chunks |
//! | `c: raw GET / HTTP/1.1\r\n`, `c: bytes 82fe 61*3000` | bytes, as text and in hexadecimal |
//! | `a: block`, `a: drain 100`, `a: open` | the socket takes no, so many, or all bytes |
//! | `a: end`, `a: reset` | the client ends its direction; the network loses the connection |
//! | `time +60s` | time passes, second by second |
//! | `homes stop [1]`, `homes go`, `letters stop`, `letters go` | requests (letters) wait on their way |
//! | `reads fail`, `reads go` | homes answer pages as if their disk could not be read |
//! | `disks go` | what was sent to disks gets there; until then they hang |
//! | `counters 4294967290` | counters of edges that begin anew after 32 bits go on from there |
//! | `pressure 2` | how short of memory the process is, 0 to 3 |
//! | `shell refuses 192.0.2.7` | clients behind proxies that are not let in |
//! | `restart [2 1]` | another node in place of this one, with these keys for tickets |
//! | `reload 1 [edges] [homes]` | the node goes by the settings that the test has under this number |
//! | `drain 1000` | edges lead their clients away over so many milliseconds |
//! | `count lagging pages` | counters of all edges |
//! | `operator connections lagging`, `operator topics a/`, `operator disconnect a return`, ... | what an operator asks of the first shard (`operator.rs`) |
//! | `journal` | what edges have told of their clients since the last time |
//! | `large reads` | the script is about how much is read at once, and runs only once |

mod client;
mod journal;
mod judge;
mod operator;
mod request;
mod users;
mod world;

use crate::transcript;
use broker::filters::FilterTrie;
use broker::settings::{
    AddressSettings, Durability, JournalSettings, LagPolicy, Limits, LogSettings, RuleSettings,
    Settings, SysSettings, TicketSettings,
};

/// Runs a script on one edge and one home with a log of one partition and large limits.
#[track_caller]
#[allow(dead_code, reason = "not every test program needs it")]
pub fn check(script: &str) {
    check_with(|_| {}, script);
}

/// The same with other settings.
#[track_caller]
pub fn check_with(change: impl Fn(&mut Settings), script: &str) {
    check_in_reads_of(1 << 16, &change, script);
    if !script.contains("large reads") {
        check_in_reads_of(5, &change, script);
    }
}

/// The same with settings for `reload`, made from those of the start by the number of the reload.
#[track_caller]
#[allow(dead_code, reason = "not every test program needs it")]
pub fn check_reload(reload: impl Fn(usize, &mut Settings), script: &str) {
    for read_bytes in [1 << 16, 5] {
        check_world(read_bytes, &|_: &mut Settings| {}, &reload, script);
    }
}

#[track_caller]
fn check_in_reads_of(read_bytes: usize, change: &impl Fn(&mut Settings), script: &str) {
    check_world(read_bytes, change, &|_, _| {}, script);
}

#[track_caller]
fn check_world(
    read_bytes: usize,
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
    let about = format!("with reads of {read_bytes} bytes ");
    transcript::check(script, &about, |line| world.run(line));
}

/// What scripts begin with.
pub fn settings() -> Settings {
    Settings {
        edges_count: 1,
        homes_count: 1,
        logs: vec![LogSettings {
            name: "memory".into(),
            partitions_count: 1,
            first_partition: 0,
            durability: Durability::Memory,
            epoch: 7,
            older_epochs: Vec::new(),
            cache_bytes: 0,
            log_bytes_max: 64 << 20,
            age_max_ms: 1 << 40,
            segment_bytes: 1 << 20,
            retained_bytes_max: 1 << 20,
        }],
        tickets: TicketSettings::default(),
        rules: vec![RuleSettings {
            when_lagging: LagPolicy::Replay,
            log: 0,
            history_messages_max: 10_000,
            history_age_max_ms: 1 << 40,
            message_bytes_max: 1 << 20,
            ..RuleSettings::default()
        }],
        rule_filters: FilterTrie::default(),
        limits: Limits::default(),
        addresses: AddressSettings::default(),
        other_addresses: Vec::new(),
        node_name: "node".into(),
        compression: None,
        allowed_origins: Vec::new(),
        journal: JournalSettings::default(),
        sys: SysSettings::default(),
        entitlement: None,
    }
}
