//! MQTT: the window of a client, and clients that do not read.

use crate::support::mqtt::on;
use crate::support::script;
use broker::settings::Settings;

fn small(settings: &mut Settings) {
    on(settings);
    settings.limits.outbox_bytes_max = 4_096;
    (settings.limits.ring_bytes, settings.limits.page_bytes) = (1, 1);
}

fn with_three_threads(settings: &mut Settings) {
    on(settings);
    settings.edges_count = 3;
    settings.homes_count = 3;
    settings.logs[0].partitions_count = 6;
}

/// What does not fit into the window comes from the log, in order, when there is room.
#[test]
fn a_window_of_one() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 | sub 1 news 1
            a: connack 0
            a: suback 1 1
        p: flood news 1..3 => a: publish news q1 id 1 1
        a: mqtt puback 1 => a: publish news q1 id 2 2
        a: mqtt puback 2 => a: publish news q1 id 3 3
        a: mqtt puback 3
        p: publish 0 news 4 => a: publish news q1 id 4 4
        a: mqtt puback 4
        count lagging => lagging 1
    " }
    script! { on, "
        p: mqtt connect paul
        a: mqtt connect anna receive=1 | sub 1 n/# 2
        p: mqtt flood 2 n/x 1..3
        a: mqtt pubrec 1
        a: mqtt pubcomp 1
        a: mqtt pubrec 2 | pubcomp 2
        a: mqtt pubrec 3 | pubcomp 3
        p: mqtt pub 2 n/x 4 id=9
        a: mqtt pubrec 4 0x80
        p: mqtt pub 2 n/x 5 id=10
        count lagging
    " }
}

#[test]
fn a_window_of_two() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=2 | sub 1 news 1, n/+ 1
        p: flood news 1..3, n/x 4..6, news 7..8
        a: mqtt puback 2
        a: mqtt puback 1
        a: mqtt puback 3
        a: mqtt puback 4
        a: mqtt puback 5 | puback 6
        a: mqtt puback 7 | puback 8
        p: flood n/x 9..9
    " }
}

/// Messages with QoS 0 need no room, and those of the same topic do not overtake others.
#[test]
fn qos_0_beside_a_full_window() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna receive=1 | sub 1 news 1, n/+ 1
            a: connack 0
            a: suback 1 1 1
        p: mqtt pub 1 news 1 id=1 | pub 0 news 2 | pub 1 news 3 id=3 | pub 0 news 4 | pub 0 n/x 5
            a: publish news q1 id 1 1
            a: publish news q0 2
            a: publish n/x q0 5
            p: puback 1
            p: puback 3
        a: mqtt puback 1 => a: publish news q1 id 2 3
        a: mqtt puback 2 => a: publish news q0 4
    " }
    script! { on, "
        p: mqtt connect paul
        a: mqtt connect anna receive=1 | sub 1 n/# 1
        p: mqtt pub 1 n/y 1 id=1 | pub 0 n/x 2 | pub 1 n/x 3 id=3 | pub 0 n/x 4 | pub 0 n/y 5
        a: mqtt puback 1
        a: mqtt puback 2
    " }
}

/// A client that acknowledges everything gets everything, whatever its window.
#[test]
fn nothing_is_lost_behind_a_window() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 acks => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect ben receive=3 acks => b: connack 0
        b: mqtt sub 1 # 2 => b: suback 1 2
        c: mqtt connect carl v3 clean acks => c: connack 0
        c: mqtt sub 1 +/x 1, news 1 => c: suback 1 1 1
        d: mqtt connect dora receive=5 acks => d: connack 0
        d: mqtt sub 1 # 0 => d: suback 1 0
        p: flood news 1..300
            a: publish news q1 1..300: 300 in order
            b: publish news q1 1..300: 300 in order
            c: publish news q1 1..300: 300 in order
            d: publish news q0 1..300: 300 in order
        p: flood n/x 1..300
            b: publish n/x q1 1..300: 300 in order
            c: publish n/x q1 1..300: 300 in order
            d: publish n/x q0 1..300: 300 in order
    " }
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna receive=1 acks on=1
        a: mqtt sub 1 news 1
        b: mqtt connect ben receive=3 acks on=2
        b: mqtt sub 1 # 2
        p: flood news 1..300
        p: flood n/x 1..300
    " }
}

/// A socket that takes nothing: messages with QoS 0 give way, others wait in the log.
#[test]
fn a_blocked_socket() {
    script! { small, "
        p: session
        a: mqtt connect anna acks => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect ben acks => b: connack 0
        b: mqtt sub 1 n/# 1 => b: suback 1 1
        a: block
        b: block
        p: flood news 1..200 size 100
        p: flood n/x 1..200 size 100
        a: open => a: publish news q1 1..200: 200 in order
        b: open => b: publish n/x q1 1..200: 200 in order
        count pinned lagging => pinned 0 lagging 2
    " }
    script! { small, "
        p: mqtt connect paul
        a: mqtt connect anna acks
        a: mqtt sub 1 news 2
        b: mqtt connect ben acks
        b: mqtt sub 1 n/# 2
        a: block
        b: block
        p: mqtt flood 2 news 1..100
        p: mqtt flood 2 n/x 101..200
        a: open
        b: open
        p: mqtt pubrel 1 | pub 2 n/x 201 id=1
        count pinned
    " }
    script! { small, "
        p: session
        a: mqtt connect anna
        a: mqtt sub 1 news 0
        b: mqtt connect ben v3 clean
        b: mqtt sub 1 n/# 0
        a: block
        b: block
        p: flood news 1..100 size 100
        p: flood n/x 1..100 size 100
        a: open
        b: open
        p: flood news 101..101, n/x 101..101
        count pinned
    " }
}

/// Small limits and small windows at once.
#[test]
fn a_slow_socket_and_a_small_window() {
    script! { small, "
        p: session
        a: mqtt connect anna receive=2 acks => a: connack 0
        a: mqtt sub 1 news 1, # 1 => a: suback 1 1 1
        a: drain 300
        p: flood news 1..100 size 100
            a: publish news q1 id 1 102 bytes
            a: publish news q1 id 2 102 bytes
        p: flood n/x 1..100 size 100
        a: drain 300
            a: publish news q1 id 3 102 bytes
            a: publish news q1 id 4 102 bytes
            a: publish news q1 id 5 102 bytes
        a: open
            a: publish n/x q1 id 6 102 bytes
            a: publish news q1 id 7 102 bytes
            a: publish news q1 id 8 102 bytes
            a: publish n/x q1 id 9 102 bytes
            a: publish news q1 id 10 102 bytes
            a: publish n/x q1 id 11 102 bytes
            a: publish news q1 id 12 102 bytes
            a: publish n/x q1 id 13 102 bytes
            a: publish news q1 id 14 103 bytes
            a: publish n/x q1 id 15 102 bytes
            a: publish news q1 id 16 103 bytes
            a: publish n/x q1 id 17 102 bytes
            a: publish news q1 id 18 103 bytes
            a: publish n/x q1 id 19 102 bytes
            a: publish news q1 id 20 103 bytes
            a: publish n/x q1 id 21 102 bytes
            a: publish news q1 id 22 103 bytes
            a: publish n/x q1 id 23 102 bytes
            a: publish news q1 id 24 103 bytes
            a: publish n/x q1 id 25 103 bytes
            a: publish news q1 id 26 103 bytes
            a: publish n/x q1 id 27 103 bytes
            a: publish news q1 id 28 103 bytes
            a: publish n/x q1 id 29 103 bytes
            a: publish news q1 id 30 103 bytes
            a: publish n/x q1 id 31 103 bytes
            a: publish news q1 id 32 103 bytes
            a: publish n/x q1 id 33 103 bytes
            a: publish news q1 id 34 103 bytes
            a: publish n/x q1 id 35 103 bytes
            a: publish news q1 id 36 103 bytes
            a: publish n/x q1 id 37 103 bytes
            a: publish news q1 id 38 103 bytes
            a: publish n/x q1 id 39 103 bytes
            a: publish news q1 id 40 103 bytes
            a: publish n/x q1 id 41 103 bytes
            a: publish news q1 id 42 103 bytes
            a: publish n/x q1 id 43 103 bytes
            a: publish news q1 id 44 103 bytes
            a: publish n/x q1 id 45 103 bytes
            a: publish news q1 id 46 103 bytes
            a: publish n/x q1 id 47 103 bytes
            a: publish news q1 id 48 103 bytes
            a: publish n/x q1 id 49 103 bytes
            a: publish news q1 id 50 103 bytes
            a: publish n/x q1 id 51 103 bytes
            a: publish news q1 id 52 103 bytes
            a: publish n/x q1 id 53 103 bytes
            a: publish news q1 id 54 103 bytes
            a: publish n/x q1 id 55 103 bytes
            a: publish news q1 id 56 103 bytes
            a: publish n/x q1 id 57 103 bytes
            a: publish news q1 id 58 103 bytes
            a: publish n/x q1 id 59 103 bytes
            a: publish news q1 id 60 103 bytes
            a: publish n/x q1 id 61 103 bytes
            a: publish news q1 id 62 103 bytes
            a: publish n/x q1 id 63 103 bytes
            a: publish news q1 id 64 103 bytes
            a: publish n/x q1 id 65 103 bytes
            a: publish news q1 id 66 103 bytes
            a: publish n/x q1 id 67 103 bytes
            a: publish news q1 id 68 103 bytes
            a: publish n/x q1 id 69 103 bytes
            a: publish news q1 id 70 103 bytes
            a: publish n/x q1 id 71 103 bytes
            a: publish news q1 id 72 103 bytes
            a: publish n/x q1 id 73 103 bytes
            a: publish news q1 id 74 103 bytes
            a: publish n/x q1 id 75 103 bytes
            a: publish news q1 id 76 103 bytes
            a: publish n/x q1 id 77 103 bytes
            a: publish news q1 id 78 103 bytes
            a: publish n/x q1 id 79 103 bytes
            a: publish news q1 id 80 103 bytes
            a: publish n/x q1 id 81 103 bytes
            a: publish news q1 id 82 103 bytes
            a: publish n/x q1 id 83 103 bytes
            a: publish news q1 id 84 103 bytes
            a: publish n/x q1 id 85 103 bytes
            a: publish news q1 id 86 103 bytes
            a: publish n/x q1 id 87 103 bytes
            a: publish news q1 id 88 103 bytes
            a: publish n/x q1 id 89 103 bytes
            a: publish news q1 id 90 103 bytes
            a: publish n/x q1 id 91 103 bytes
            a: publish news q1 id 92 103 bytes
            a: publish n/x q1 id 93 103 bytes
            a: publish news q1 id 94 103 bytes
            a: publish n/x q1 id 95 103 bytes
            a: publish news q1 id 96 103 bytes
            a: publish n/x q1 id 97 103 bytes
            a: publish news q1 id 98 103 bytes
            a: publish n/x q1 id 99 103 bytes
            a: publish news q1 id 100 103 bytes
            a: publish n/x q1 id 101 103 bytes
            a: publish news q1 id 102 103 bytes
            a: publish n/x q1 id 103 103 bytes
            a: publish news q1 id 104 103 bytes
            a: publish n/x q1 id 105 103 bytes
            a: publish news q1 id 106 103 bytes
            a: publish n/x q1 id 107 103 bytes
            a: publish news q1 id 108 103 bytes
            a: publish n/x q1 id 109 103 bytes
            a: publish news q1 id 110 103 bytes
            a: publish n/x q1 id 111 103 bytes
            a: publish news q1 id 112 103 bytes
            a: publish n/x q1 id 113 103 bytes
            a: publish news q1 id 114 103 bytes
            a: publish n/x q1 id 115 103 bytes
            a: publish news q1 id 116 103 bytes
            a: publish n/x q1 id 117 103 bytes
            a: publish news q1 id 118 103 bytes
            a: publish n/x q1 id 119 103 bytes
            a: publish news q1 id 120 103 bytes
            a: publish n/x q1 id 121 103 bytes
            a: publish news q1 id 122 103 bytes
            a: publish n/x q1 id 123 103 bytes
            a: publish news q1 id 124 103 bytes
            a: publish n/x q1 id 125 103 bytes
            a: publish news q1 id 126 103 bytes
            a: publish n/x q1 id 127 103 bytes
            a: publish news q1 id 128 103 bytes
            a: publish n/x q1 id 129 103 bytes
            a: publish news q1 id 130 103 bytes
            a: publish n/x q1 id 131 103 bytes
            a: publish news q1 id 132 103 bytes
            a: publish n/x q1 id 133 103 bytes
            a: publish news q1 id 134 103 bytes
            a: publish n/x q1 id 135 103 bytes
            a: publish news q1 id 136 103 bytes
            a: publish n/x q1 id 137 103 bytes
            a: publish news q1 id 138 103 bytes
            a: publish n/x q1 id 139 103 bytes
            a: publish news q1 id 140 103 bytes
            a: publish n/x q1 id 141 103 bytes
            a: publish news q1 id 142 103 bytes
            a: publish n/x q1 id 143 103 bytes
            a: publish news q1 id 144 103 bytes
            a: publish n/x q1 id 145 103 bytes
            a: publish news q1 id 146 103 bytes
            a: publish n/x q1 id 147 103 bytes
            a: publish news q1 id 148 103 bytes
            a: publish n/x q1 id 149 103 bytes
            a: publish news q1 id 150 103 bytes
            a: publish n/x q1 id 151 103 bytes
            a: publish news q1 id 152 103 bytes
            a: publish n/x q1 id 153 103 bytes
            a: publish news q1 id 154 103 bytes
            a: publish n/x q1 id 155 103 bytes
            a: publish news q1 id 156 103 bytes
            a: publish n/x q1 id 157 103 bytes
            a: publish news q1 id 158 103 bytes
            a: publish n/x q1 id 159 103 bytes
            a: publish news q1 id 160 103 bytes
            a: publish n/x q1 id 161 103 bytes
            a: publish news q1 id 162 103 bytes
            a: publish n/x q1 id 163 103 bytes
            a: publish news q1 id 164 103 bytes
            a: publish n/x q1 id 165 103 bytes
            a: publish news q1 id 166 103 bytes
            a: publish n/x q1 id 167 103 bytes
            a: publish news q1 id 168 103 bytes
            a: publish n/x q1 id 169 103 bytes
            a: publish news q1 id 170 103 bytes
            a: publish n/x q1 id 171 103 bytes
            a: publish news q1 id 172 103 bytes
            a: publish n/x q1 id 173 103 bytes
            a: publish news q1 id 174 103 bytes
            a: publish n/x q1 id 175 103 bytes
            a: publish news q1 id 176 103 bytes
            a: publish n/x q1 id 177 103 bytes
            a: publish news q1 id 178 103 bytes
            a: publish n/x q1 id 179 103 bytes
            a: publish news q1 id 180 103 bytes
            a: publish n/x q1 id 181 103 bytes
            a: publish news q1 id 182 103 bytes
            a: publish n/x q1 id 183 103 bytes
            a: publish news q1 id 184 103 bytes
            a: publish n/x q1 id 185 103 bytes
            a: publish news q1 id 186 103 bytes
            a: publish n/x q1 id 187 103 bytes
            a: publish news q1 id 188 103 bytes
            a: publish n/x q1 id 189 103 bytes
            a: publish news q1 id 190 103 bytes
            a: publish n/x q1 id 191 103 bytes
            a: publish news q1 id 192 103 bytes
            a: publish n/x q1 id 193 103 bytes
            a: publish news q1 id 194 104 bytes
            a: publish n/x q1 id 195 103 bytes
            a: publish n/x q1 id 196 103 bytes
            a: publish n/x q1 id 197 103 bytes
            a: publish n/x q1 id 198 103 bytes
            a: publish n/x q1 id 199 103 bytes
            a: publish n/x q1 id 200 104 bytes
        count pinned => pinned 0
    " }
}

/// Large messages fill half of the outbox, and the rest waits in the log.
#[test]
fn a_window_in_bytes() {
    script! { small, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: flood news 1..5 size 1500
            a: publish news q1 id 1 1502 bytes
            a: publish news q1 id 2 1502 bytes
        a: mqtt puback 1 => a: publish news q1 id 3 1502 bytes
        a: mqtt puback 2 => a: publish news q1 id 4 1502 bytes
        a: mqtt puback 3 => a: publish news q1 id 5 1502 bytes
        a: mqtt puback 4
        a: mqtt puback 5
    " }
}
