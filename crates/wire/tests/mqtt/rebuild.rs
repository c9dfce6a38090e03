//! Encoding of decoded packets, in two ways: with the lists as decoded, and with lists that were
//! rebuilt from their elements. Both must give the same bytes.

use wire::mqtt::{
    Ack, Auth, ClientPacket, ConnAck, Connect, Disconnect, Limits, Properties, Property, Publish,
    ServerPacket, SubAck, Subscribe, UnsubAck, Unsubscribe, Version, Will,
};

/// The bytes of a client's packet.
pub fn encode_client(packet: &ClientPacket<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(version, &Limits::default(), &mut bytes).expect("encodes");
    let mut again = Vec::new();
    with_client(packet, |packet| {
        packet.encode(version, &Limits::default(), &mut again).expect("encodes");
    });
    assert_eq!(bytes, again, "{packet:?}");
    bytes
}

/// The bytes of a server's packet.
pub fn encode_server(packet: &ServerPacket<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(version, &Limits::default(), &mut bytes).expect("encodes");
    let mut again = Vec::new();
    with_server(packet, |packet| {
        packet.encode(version, &Limits::default(), &mut again).expect("encodes");
    });
    assert_eq!(bytes, again, "{packet:?}");
    bytes
}

fn own<'a>(properties: &Properties<'a>) -> Vec<Property<'a>> {
    properties.iter().collect()
}

fn with_client(packet: &ClientPacket<'_>, then: impl FnOnce(ClientPacket<'_>)) {
    match packet {
        ClientPacket::Connect(connect) => {
            let properties = own(&connect.properties);
            let of_will = connect.will.map(|will| own(&will.properties)).unwrap_or_default();
            let will =
                connect.will.map(|will| Will { properties: of_will.as_slice().into(), ..will });
            let properties = properties.as_slice().into();
            then(ClientPacket::Connect(Connect { properties, will, ..*connect }));
        }
        ClientPacket::Publish(publish) => {
            let properties = own(&publish.properties);
            let properties = properties.as_slice().into();
            then(ClientPacket::Publish(Publish { properties, ..*publish }));
        }
        ClientPacket::PubAck(ack) => with_ack(ack, |ack| then(ClientPacket::PubAck(ack))),
        ClientPacket::PubRec(ack) => with_ack(ack, |ack| then(ClientPacket::PubRec(ack))),
        ClientPacket::PubRel(ack) => with_ack(ack, |ack| then(ClientPacket::PubRel(ack))),
        ClientPacket::PubComp(ack) => with_ack(ack, |ack| then(ClientPacket::PubComp(ack))),
        ClientPacket::Subscribe(subscribe) => {
            let (properties, items) = (own(&subscribe.properties), subscribe.items.iter());
            let (properties, items) = (properties.as_slice().into(), items.collect::<Vec<_>>());
            let items = items.as_slice().into();
            then(ClientPacket::Subscribe(Subscribe { properties, items, ..*subscribe }));
        }
        ClientPacket::Unsubscribe(request) => {
            let (properties, filters) = (own(&request.properties), request.filters.iter());
            let (properties, filters) = (properties.as_slice().into(), filters.collect::<Vec<_>>());
            let filters = filters.as_slice().into();
            then(ClientPacket::Unsubscribe(Unsubscribe { properties, filters, ..*request }));
        }
        ClientPacket::PingReq => then(ClientPacket::PingReq),
        ClientPacket::Disconnect(disconnect) => {
            let properties = own(&disconnect.properties);
            let properties = properties.as_slice().into();
            then(ClientPacket::Disconnect(Disconnect { properties, ..*disconnect }));
        }
        ClientPacket::Auth(auth) => {
            let properties = own(&auth.properties);
            then(ClientPacket::Auth(Auth { properties: properties.as_slice().into(), ..*auth }));
        }
    }
}

fn with_server(packet: &ServerPacket<'_>, then: impl FnOnce(ServerPacket<'_>)) {
    match packet {
        ServerPacket::ConnAck(connack) => {
            let properties = own(&connack.properties);
            let properties = properties.as_slice().into();
            then(ServerPacket::ConnAck(ConnAck { properties, ..*connack }));
        }
        ServerPacket::Publish(publish) => {
            let properties = own(&publish.properties);
            let properties = properties.as_slice().into();
            then(ServerPacket::Publish(Publish { properties, ..*publish }));
        }
        ServerPacket::PubAck(ack) => with_ack(ack, |ack| then(ServerPacket::PubAck(ack))),
        ServerPacket::PubRec(ack) => with_ack(ack, |ack| then(ServerPacket::PubRec(ack))),
        ServerPacket::PubRel(ack) => with_ack(ack, |ack| then(ServerPacket::PubRel(ack))),
        ServerPacket::PubComp(ack) => with_ack(ack, |ack| then(ServerPacket::PubComp(ack))),
        ServerPacket::SubAck(suback) => {
            let (properties, reasons) = (own(&suback.properties), suback.reasons.iter());
            let (properties, reasons) = (properties.as_slice().into(), reasons.collect::<Vec<_>>());
            let reasons = reasons.as_slice().into();
            then(ServerPacket::SubAck(SubAck { properties, reasons, ..*suback }));
        }
        ServerPacket::UnsubAck(unsuback) => {
            let (properties, reasons) = (own(&unsuback.properties), unsuback.reasons.iter());
            let (properties, reasons) = (properties.as_slice().into(), reasons.collect::<Vec<_>>());
            let reasons = reasons.as_slice().into();
            then(ServerPacket::UnsubAck(UnsubAck { properties, reasons, ..*unsuback }));
        }
        ServerPacket::PingResp => then(ServerPacket::PingResp),
        ServerPacket::Disconnect(disconnect) => {
            let properties = own(&disconnect.properties);
            let properties = properties.as_slice().into();
            then(ServerPacket::Disconnect(Disconnect { properties, ..*disconnect }));
        }
        ServerPacket::Auth(auth) => {
            let properties = own(&auth.properties);
            then(ServerPacket::Auth(Auth { properties: properties.as_slice().into(), ..*auth }));
        }
    }
}

fn with_ack(ack: &Ack<'_>, then: impl FnOnce(Ack<'_>)) {
    let properties = own(&ack.properties);
    then(Ack { properties: properties.as_slice().into(), ..*ack });
}
