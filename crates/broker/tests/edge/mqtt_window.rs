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
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna receive=1 | sub 1 n/# 2
            a: connack 0
            a: suback 1 2
        p: mqtt flood 2 n/x 1..3
            a: publish n/x q2 id 1 1
            p: pubrec 1
            p: pubrec 2
            p: pubrec 3
        a: mqtt pubrec 1 => a: pubrel 1
        a: mqtt pubcomp 1 => a: publish n/x q2 id 2 2
        a: mqtt pubrec 2 | pubcomp 2
            a: pubrel 2
            a: publish n/x q2 id 3 3
        a: mqtt pubrec 3 | pubcomp 3 => a: pubrel 3
        p: mqtt pub 2 n/x 4 id=9
            a: publish n/x q2 id 4 4
            p: pubrec 9
        a: mqtt pubrec 4 0x80
        p: mqtt pub 2 n/x 5 id=10
            a: publish n/x q2 id 5 5
            p: pubrec 10
        count lagging => lagging 1
    " }
}

#[test]
fn a_window_of_two() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=2 | sub 1 news 1, n/+ 1
            a: connack 0
            a: suback 1 1 1
        p: flood news 1..3
            a: publish news q1 id 1 1
            a: publish news q1 id 2 2
        p: flood n/x 4..6
        p: flood news 7..8
        a: mqtt puback 2 => a: publish news q1 id 3 3
        a: mqtt puback 1 => a: publish news q1 id 4 7
        a: mqtt puback 3 => a: publish news q1 id 5 8
        a: mqtt puback 4 => a: publish n/x q1 id 6 4
        a: mqtt puback 5 | puback 6
            a: publish n/x q1 id 7 5
            a: publish n/x q1 id 8 6
        a: mqtt puback 7 | puback 8
        p: flood n/x 9..9 => a: publish n/x q1 id 9 9
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
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna receive=1 | sub 1 n/# 1
            a: connack 0
            a: suback 1 1
        p: mqtt pub 1 n/y 1 id=1 | pub 0 n/x 2 | pub 1 n/x 3 id=3 | pub 0 n/x 4 | pub 0 n/y 5
            a: publish n/y q1 id 1 1
            a: publish n/x q0 2
            p: puback 1
            p: puback 3
        a: mqtt puback 1 => a: publish n/x q1 id 2 3
        a: mqtt puback 2
            a: publish n/x q0 4
            a: publish n/y q0 5
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
        a: mqtt connect anna receive=1 acks on=1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect ben receive=3 acks on=2 => b: connack 0
        b: mqtt sub 1 # 2 => b: suback 1 2
        p: flood news 1..300
            a: publish news q1 1..300: 300 in order
            b: publish news q1 1..300: 300 in order
        p: flood n/x 1..300 => b: publish n/x q1 1..300: 300 in order
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
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna acks => a: connack 0
        a: mqtt sub 1 news 2 => a: suback 1 2
        b: mqtt connect ben acks => b: connack 0
        b: mqtt sub 1 n/# 2 => b: suback 1 2
        a: block
        b: block
        p: mqtt flood 2 news 1..100
            p: pubrec 1
            p: pubrec 2
            p: pubrec 3
            p: pubrec 4
            p: pubrec 5
            p: pubrec 6
            p: pubrec 7
            p: pubrec 8
            p: pubrec 9
            p: pubrec 10
            p: pubrec 11
            p: pubrec 12
            p: pubrec 13
            p: pubrec 14
            p: pubrec 15
            p: pubrec 16
            p: pubrec 17
            p: pubrec 18
            p: pubrec 19
            p: pubrec 20
            p: pubrec 21
            p: pubrec 22
            p: pubrec 23
            p: pubrec 24
            p: pubrec 25
            p: pubrec 26
            p: pubrec 27
            p: pubrec 28
            p: pubrec 29
            p: pubrec 30
            p: pubrec 31
            p: pubrec 32
            p: pubrec 33
            p: pubrec 34
            p: pubrec 35
            p: pubrec 36
            p: pubrec 37
            p: pubrec 38
            p: pubrec 39
            p: pubrec 40
            p: pubrec 41
            p: pubrec 42
            p: pubrec 43
            p: pubrec 44
            p: pubrec 45
            p: pubrec 46
            p: pubrec 47
            p: pubrec 48
            p: pubrec 49
            p: pubrec 50
            p: pubrec 51
            p: pubrec 52
            p: pubrec 53
            p: pubrec 54
            p: pubrec 55
            p: pubrec 56
            p: pubrec 57
            p: pubrec 58
            p: pubrec 59
            p: pubrec 60
            p: pubrec 61
            p: pubrec 62
            p: pubrec 63
            p: pubrec 64
            p: pubrec 65
            p: pubrec 66
            p: pubrec 67
            p: pubrec 68
            p: pubrec 69
            p: pubrec 70
            p: pubrec 71
            p: pubrec 72
            p: pubrec 73
            p: pubrec 74
            p: pubrec 75
            p: pubrec 76
            p: pubrec 77
            p: pubrec 78
            p: pubrec 79
            p: pubrec 80
            p: pubrec 81
            p: pubrec 82
            p: pubrec 83
            p: pubrec 84
            p: pubrec 85
            p: pubrec 86
            p: pubrec 87
            p: pubrec 88
            p: pubrec 89
            p: pubrec 90
            p: pubrec 91
            p: pubrec 92
            p: pubrec 93
            p: pubrec 94
            p: pubrec 95
            p: pubrec 96
            p: pubrec 97
            p: pubrec 98
            p: pubrec 99
            p: pubrec 100
        p: mqtt flood 2 n/x 101..200
            p: pubrec 101
            p: pubrec 102
            p: pubrec 103
            p: pubrec 104
            p: pubrec 105
            p: pubrec 106
            p: pubrec 107
            p: pubrec 108
            p: pubrec 109
            p: pubrec 110
            p: pubrec 111
            p: pubrec 112
            p: pubrec 113
            p: pubrec 114
            p: pubrec 115
            p: pubrec 116
            p: pubrec 117
            p: pubrec 118
            p: pubrec 119
            p: pubrec 120
            p: pubrec 121
            p: pubrec 122
            p: pubrec 123
            p: pubrec 124
            p: pubrec 125
            p: pubrec 126
            p: pubrec 127
            p: pubrec 128
            p: pubrec 129
            p: pubrec 130
            p: pubrec 131
            p: pubrec 132
            p: pubrec 133
            p: pubrec 134
            p: pubrec 135
            p: pubrec 136
            p: pubrec 137
            p: pubrec 138
            p: pubrec 139
            p: pubrec 140
            p: pubrec 141
            p: pubrec 142
            p: pubrec 143
            p: pubrec 144
            p: pubrec 145
            p: pubrec 146
            p: pubrec 147
            p: pubrec 148
            p: pubrec 149
            p: pubrec 150
            p: pubrec 151
            p: pubrec 152
            p: pubrec 153
            p: pubrec 154
            p: pubrec 155
            p: pubrec 156
            p: pubrec 157
            p: pubrec 158
            p: pubrec 159
            p: pubrec 160
            p: pubrec 161
            p: pubrec 162
            p: pubrec 163
            p: pubrec 164
            p: pubrec 165
            p: pubrec 166
            p: pubrec 167
            p: pubrec 168
            p: pubrec 169
            p: pubrec 170
            p: pubrec 171
            p: pubrec 172
            p: pubrec 173
            p: pubrec 174
            p: pubrec 175
            p: pubrec 176
            p: pubrec 177
            p: pubrec 178
            p: pubrec 179
            p: pubrec 180
            p: pubrec 181
            p: pubrec 182
            p: pubrec 183
            p: pubrec 184
            p: pubrec 185
            p: pubrec 186
            p: pubrec 187
            p: pubrec 188
            p: pubrec 189
            p: pubrec 190
            p: pubrec 191
            p: pubrec 192
            p: pubrec 193
            p: pubrec 194
            p: pubrec 195
            p: pubrec 196
            p: pubrec 197
            p: pubrec 198
            p: pubrec 199
            p: pubrec 200
        a: open => a: publish news q2 1..100: 100 in order
        b: open => b: publish n/x q2 101..200: 100 in order
        p: mqtt pubrel 1 | pub 2 n/x 201 id=1
            b: publish n/x q2 id 101 201
            p: pubcomp 1
            p: pubrec 1
        count pinned => pinned 0
    " }
    script! { small, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 news 0 => a: suback 1 0
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt sub 1 n/# 0 => b: suback 1 0
        a: block
        b: block
        p: flood news 1..100 size 100
        p: flood n/x 1..100 size 100
        a: open => a: publish news q0 1..100: 100 in order
        b: open => b: publish n/x q0 1..100: 100 in order
        p: flood news 101..101 => a: publish news q0 101
        p: flood n/x 101..101 => b: publish n/x q0 101
        count pinned => pinned 0
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
            a: publish n/x q1 1..100: 100 in order
            a: publish news q1 6..100: 95 in order
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
