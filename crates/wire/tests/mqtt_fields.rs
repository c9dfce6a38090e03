//! Parts of MQTT packets: topic names, filters, and the getters of properties.

use std::num::{NonZeroU16, NonZeroU32};
use wire::mqtt::{
    MqttError, PacketType, Properties, Property, Qos, ReasonCode, Secret, SharedFilter,
    SubscriptionId, UserProperty, VARIABLE_MAX, check_filter, check_topic, split_shared,
};

#[test]
fn topic_names_have_no_wildcards() {
    for topic in ["a", "/", "//", "a/b", "/a/", " ", "$SYS/a", "größe/€", "\u{feff}", "$share/g/a"]
    {
        assert_eq!(check_topic(topic), Ok(()), "{topic}");
    }
    for topic in ["", "+", "#", "a/+", "a/#", "a+b", "a#"] {
        assert_eq!(check_topic(topic), Err(MqttError::TopicName), "{topic}");
    }
}

#[test]
fn wildcards_fill_whole_levels_of_filters() {
    let valid = [
        "a",
        "/",
        "//",
        "#",
        "/#",
        "a/#",
        "+",
        "/+",
        "+/",
        "+/+",
        "a/+/b",
        "+/a/#",
        "+/+/#",
        "$SYS/#",
        "a/b/",
        "größe/+",
        "$share",
        "$sharer/g",
        "a/$share/g",
    ];
    for filter in valid {
        assert_eq!(check_filter(filter), Ok(()), "{filter}");
        assert_eq!(split_shared(filter), Ok(None), "{filter}");
    }
    let invalid = ["", "a#", "#/", "#/a", "a/#/b", "##", "a+", "+a", "++", "a/+b", "a/b+/c", "+#"];
    for filter in invalid {
        assert_eq!(check_filter(filter), Err(MqttError::TopicFilter), "{filter}");
    }
}

#[test]
fn shared_filters_split_into_group_and_filter() {
    let valid = [
        ("$share/g/a", "g", "a"),
        ("$share/g/a/#", "g", "a/#"),
        ("$share/group 1/+/b", "group 1", "+/b"),
        ("$share/g//a", "g", "/a"),
        ("$share/g//", "g", "/"),
        ("$share/g/#", "g", "#"),
        ("$share/g/$share/h/a", "g", "$share/h/a"),
    ];
    for (text, group, filter) in valid {
        assert_eq!(split_shared(text), Ok(Some(SharedFilter { group, filter })), "{text}");
        assert_eq!(check_filter(text), Ok(()), "{text}");
    }
    let invalid = [
        "$share/",
        "$share//",
        "$share//a",
        "$share/g",
        "$share/g/",
        "$share/+/a",
        "$share/#/a",
        "$share/g+/a",
        "$share/#",
        "$share/g/a#",
        "$share/g/+a",
    ];
    for text in invalid {
        assert_eq!(split_shared(text), Err(MqttError::TopicFilter), "{text}");
        assert_eq!(check_filter(text), Err(MqttError::TopicFilter), "{text}");
    }
}

#[test]
fn subscription_identifiers_have_a_range() {
    for (number, is_valid) in
        [(0, false), (1, true), (VARIABLE_MAX, true), (VARIABLE_MAX + 1, false), (u32::MAX, false)]
    {
        assert_eq!(
            SubscriptionId::new(number).map(SubscriptionId::get),
            is_valid.then_some(number)
        );
    }
}

#[test]
fn each_property_has_its_getter() {
    let id = |number| SubscriptionId::new(number).expect("in range");
    let user = |name, value| UserProperty { name, value };
    let (seven, many) = (NonZeroU16::new(7).expect("not 0"), NonZeroU32::MAX);
    let list = [
        Property::User(user("k", "1")),
        Property::PayloadFormat(true),
        Property::MessageExpiry(1),
        Property::ContentType("c"),
        Property::ResponseTopic("r"),
        Property::CorrelationData(b"d"),
        Property::SubscriptionId(id(3)),
        Property::SessionExpiry(2),
        Property::AssignedClientId("i"),
        Property::ServerKeepAlive(3),
        Property::AuthenticationMethod("m"),
        Property::AuthenticationData(Secret(b"s")),
        Property::RequestProblemInformation(false),
        Property::WillDelay(4),
        Property::RequestResponseInformation(true),
        Property::ResponseInformation("x"),
        Property::ServerReference("y"),
        Property::ReasonString("z"),
        Property::ReceiveMaximum(seven),
        Property::TopicAliasMaximum(5),
        Property::TopicAlias(seven),
        Property::MaximumQos(Qos::One),
        Property::RetainAvailable(false),
        Property::MaximumPacketSize(many),
        Property::WildcardSubscriptionAvailable(false),
        Property::SubscriptionIdAvailable(true),
        Property::SharedSubscriptionAvailable(false),
        Property::SubscriptionId(id(4)),
        Property::User(user("k", "2")),
    ];
    let all = Properties::from(&list);
    assert_eq!(all.payload_format(), Some(true));
    assert_eq!(all.message_expiry_s(), Some(1));
    assert_eq!(all.content_type(), Some("c"));
    assert_eq!(all.response_topic(), Some("r"));
    assert_eq!(all.correlation_data(), Some(&b"d"[..]));
    assert_eq!(all.subscription_id(), Some(id(3)));
    assert_eq!(all.session_expiry_s(), Some(2));
    assert_eq!(all.assigned_client_id(), Some("i"));
    assert_eq!(all.server_keep_alive_s(), Some(3));
    assert_eq!(all.authentication_method(), Some("m"));
    assert_eq!(all.authentication_data(), Some(Secret(b"s")));
    assert_eq!(all.request_problem_information(), Some(false));
    assert_eq!(all.will_delay_s(), Some(4));
    assert_eq!(all.request_response_information(), Some(true));
    assert_eq!(all.response_information(), Some("x"));
    assert_eq!(all.server_reference(), Some("y"));
    assert_eq!(all.reason_string(), Some("z"));
    assert_eq!(all.receive_maximum(), Some(seven));
    assert_eq!(all.topic_alias_maximum(), Some(5));
    assert_eq!(all.topic_alias(), Some(seven));
    assert_eq!(all.maximum_qos(), Some(Qos::One));
    assert_eq!(all.retain_available(), Some(false));
    assert_eq!(all.maximum_packet_size(), Some(many));
    assert_eq!(all.wildcard_subscription_available(), Some(false));
    assert_eq!(all.subscription_id_available(), Some(true));
    assert_eq!(all.shared_subscription_available(), Some(false));
    assert!(all.subscription_ids().eq([id(3), id(4)]));
    assert!(all.user().eq([user("k", "1"), user("k", "2")]));
    assert!(all.iter().eq(list));

    let none = Properties::default();
    assert!(none.is_empty() && none.user().next().is_none());
    assert_eq!((none.receive_maximum(), none.subscription_id()), (None, None));
}

/// The tables of sections 3.2 to 3.15, in full.
#[test]
fn each_packet_permits_the_reason_codes_of_its_table() {
    use PacketType::*;
    let of_publish: &[u8] = &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
    let of_release: &[u8] = &[0x00, 0x92];
    let tables: [(PacketType, &[u8]); 15] = [
        (Connect, &[]),
        (
            ConnAck,
            &[
                0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90,
                0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
            ],
        ),
        (Publish, &[]),
        (PubAck, of_publish),
        (PubRec, of_publish),
        (PubRel, of_release),
        (PubComp, of_release),
        (Subscribe, &[]),
        (SubAck, &[0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2]),
        (Unsubscribe, &[]),
        (UnsubAck, &[0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91]),
        (PingReq, &[]),
        (PingResp, &[]),
        (
            Disconnect,
            &[
                0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90,
                0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0,
                0xA1, 0xA2,
            ],
        ),
        (Auth, &[0x00, 0x18, 0x19]),
    ];
    for (number, (kind, table)) in (1..).zip(tables) {
        assert_eq!(PacketType::from_number(number), Some(kind));
        let permitted = ReasonCode::ALL.iter().filter(|code| code.is_permitted_in(kind));
        assert!(permitted.map(|code| code.byte()).eq(table.iter().copied()), "{kind:?}");
    }
    assert_eq!((PacketType::from_number(0), PacketType::from_number(16)), (None, None));
}

#[test]
fn secrets_are_not_printed() {
    let list = [Property::AuthenticationData(Secret(b"hunter2"))];
    let text = format!("{:?} {:?}", Properties::from(&list), Secret(b"hunter2"));
    assert!(text.contains("Secret(7 bytes)") && !text.contains("104"), "{text}");
}
