//! MQTT: shared subscriptions.

use crate::support::mqtt::on;
use crate::support::script;
use broker::settings::{GroupOrder, Settings};

fn with_three_threads(settings: &mut Settings) {
    on(settings);
    settings.edges_count = 3;
    settings.homes_count = 3;
    settings.logs[0].partitions_count = 6;
}

fn by_topic(settings: &mut Settings) {
    on(settings);
    settings.mqtt.group_order = GroupOrder::Topic;
}

fn with_a_window_of_one(settings: &mut Settings) {
    on(settings);
    settings.mqtt.inflight_max = 1;
}

/// Members get messages in turn, beside subscriptions of their own. A group grants QoS 1 at most.
#[test]
fn members_get_messages_in_turn() {
    script! { on, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 $share/g/news/# 2 id=7, news/1 0 => a: suback 1 1 0
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news/# 0 => b: suback 1 0
        c: mqtt connect carl v3 => c: connack 0
        c: mqtt sub 1 $share/other/news/1 1 => c: suback 1 1
        p: publish 0 news/1 1
            a: publish news/1 q1 id 1 1 {id 7}
            a: publish news/1 q0 1 {id 7}
            c: publish news/1 q1 id 1 1
        p: publish 0 news/2 2 => b: publish news/2 q0 2
        p: publish 0 news/1 3
            a: publish news/1 q1 id 2 3 {id 7}
            a: publish news/1 q0 3 {id 7}
            c: publish news/1 q1 id 2 3
        p: publish 0 old/1 4
        a: mqtt unsub 2 $share/g/news/# $share/g/news/1 => a: unsuback 2 0 0x11
        p: publish 0 news/2 5 => b: publish news/2 q0 5
        a: mqtt puback 1
        a: reset => b: publish news/1 q0 3
    " }
}

/// Messages that a member has not acknowledged go to others when its connection ends.
#[test]
fn a_member_vanishes() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 $share/g/news 1 => a: suback 1 1
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news 1 => b: suback 1 1
        p: publish 0 news 1 => a: publish news q1 id 1 1
        p: publish 0 news 2 => b: publish news q1 id 1 2
        p: publish 0 news 3 => a: publish news q1 id 2 3
        a: mqtt puback 2
        a: reset => b: publish news q1 id 2 1
        p: publish 0 news 4 => b: publish news q1 id 3 4
        b: reset
        p: publish 0 news 5
        a: mqtt connect anna expiry=60
            a: connack 0 present
            a: publish news q1 id 3 1
            a: publish news q1 id 4 2
            a: publish news q1 id 5 4
            a: publish news q1 id 6 5
    " }
}

/// A group without room is behind, and the log brings what it lacks.
#[test]
fn a_group_without_room() {
    script! { with_a_window_of_one, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 $share/g/news/# 1 => a: suback 1 1
        p: publish 0 news/a 1 => a: publish news/a q1 id 1 1
        p: publish 0 news/b 2
        p: publish 0 old 3
        p: publish 0 news/c 4
        a: mqtt puback 1 => a: publish news/b q1 id 2 2
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news/# 1
            b: suback 1 1
            b: publish news/c q1 id 1 4
        p: publish 0 news/d 5
        a: mqtt puback 2 => a: publish news/d q1 id 3 5
        a: mqtt puback 3
        b: mqtt puback 1
        p: publish 0 news/e 6 => b: publish news/e q1 id 2 6
    " }
}

/// With the order of topics a topic stays with its member while it is there.
#[test]
fn topics_stay_with_their_members() {
    script! { by_topic, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 $share/g/news/# 1 => a: suback 1 1
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news/# 1 => b: suback 1 1
        p: publish 0 news/a 1 => b: publish news/a q1 id 1 1
        p: publish 0 news/a 2 => b: publish news/a q1 id 2 2
        p: publish 0 news/e 3 => a: publish news/e q1 id 1 3
        p: publish 0 news/f 4 => b: publish news/f q1 id 3 4
        p: publish 0 news/g 5 => b: publish news/g q1 id 4 5
        p: publish 0 news/h 6 => a: publish news/h q1 id 2 6
        p: publish 0 news/i 7 => b: publish news/i q1 id 5 7
        p: publish 0 news/f 8 => b: publish news/f q1 id 6 8
    " }
}

/// A group waits for its sleeping sessions, until they end.
#[test]
fn groups_end() {
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 $share/g/news 1 => a: suback 1 1
        a: mqtt disconnect => a: closed
        p: publish 0 news 1
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news 1
            b: publish news q1 id 1 1
            b: suback 1 1
        b: mqtt puback 1
        b: mqtt disconnect => b: closed
        p: publish 0 news 2
        a: mqtt connect anna clean => a: connack 0
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news 1 => b: suback 1 1
        p: publish 0 news 3 => b: publish news q1 id 1 3
        b: mqtt puback 1
        b: mqtt disconnect expiry=0 => b: closed
        a: mqtt disconnect => a: closed
        a: mqtt connect anna expiry=5 => a: connack 0
        a: mqtt sub 1 $share/g/news 1 => a: suback 1 1
        a: mqtt disconnect => a: closed
        time +10s
        p: publish 0 news 4
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news 1 => b: suback 1 1
    " }
}

/// A retained message, an expired one, one that is too large, and an option that has no place here.
#[test]
fn what_groups_do_not_get() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 news old id=1 retain => p: puback 1 0x10
        a: mqtt connect anna size=40 => a: connack 0
        a: mqtt sub 1 $share/g/news 1 => a: suback 1 1
        p: mqtt pub 1 news x*100 id=1 => p: puback 1
        p: mqtt pub 1 news fits id=2
            a: publish news q1 id 1 fits
            p: puback 2
        a: mqtt sub 2 $share/g/news 1 nl => a: disconnect 0x82, closed
    " }
}

/// A blocked member does not hold up the others for more than its room.
#[test]
fn a_blocked_member() {
    script! { on, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 $share/g/news 1 => a: suback 1 1
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 $share/g/news 1 => b: suback 1 1
        a: block
        p: flood news 1..6
            b: publish news q1 id 1 2
            b: publish news q1 id 2 4
            b: publish news q1 id 3 6
        a: open
            a: publish news q1 id 1 1
            a: publish news q1 id 2 3
            a: publish news q1 id 3 5
    " }
}
