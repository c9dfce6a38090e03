//! The beginning of a session: the connection, CONNECT and its answer.

use super::arguments::Session;
use super::link::Link;
use net::kernel::Waker;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::mqtt::{ClientPacket, ConnAck, Qos, ReasonCode, ServerPacket};

/// Time for the connection and the answer to CONNECT.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A session that has begun.
pub struct Begun {
    /// Its connection.
    pub link: Link,
    /// Whether the server has resumed a session.
    pub is_resumed: bool,
    /// The server's limits.
    pub limits: ServerLimits,
}

/// The server's limits.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Publications that may be under way.
    pub receive_max: u16,
    /// The highest QoS of publications.
    pub qos_max: Qos,
    /// Whether publications may be retained.
    pub has_retained: bool,
}

/// The reason why no session began.
#[derive(Debug)]
pub enum NoSession {
    /// No server answers.
    NoServer(String),
    /// The server refuses the client for now.
    NotNow(String),
    /// No attempt will succeed.
    Never(String),
}

/// Connects and begins a session. `attempt` selects one of the addresses of the server's name.
///
/// # Errors
/// The reason why there is none.
pub fn begin(
    session: &Session,
    is_first: bool,
    attempt: u32,
    waker: &Arc<Waker>,
) -> Result<Begun, NoSession> {
    let deadline = Instant::now() + CONNECT_PATIENCE;
    let endpoint = &session.endpoint;
    let addresses: Vec<SocketAddr> = (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .map(Iterator::collect)
        .unwrap_or_default();
    if addresses.is_empty() {
        return Err(NoSession::NoServer(format!("{} has no address", endpoint.host)));
    }
    let address = addresses[attempt as usize % addresses.len()];
    let tls = session.tls.as_ref().map(|client| (client, endpoint.host.as_str()));
    let mut link = Link::open(address, tls, session.version, waker.clone(), deadline)
        .map_err(NoSession::NoServer)?;
    session
        .connect(is_first, |connect| link.send(&ClientPacket::Connect(*connect)))
        .map_err(NoSession::Never)?;
    loop {
        let input = link.take_input();
        match link.decode(&input).map_err(NoSession::Never)? {
            Some((ServerPacket::ConnAck(answer), consumed)) => {
                let limits = answered(session, &answer, &mut link)?;
                let is_resumed = answer.session_present;
                link.put_back(input, consumed);
                return Ok(Begun { link, is_resumed, limits });
            }
            Some(_) => {
                return Err(NoSession::Never("the first packet is not CONNACK".to_owned()));
            }
            None => link.put_back(input, 0),
        }
        if Instant::now() >= deadline {
            return Err(NoSession::NoServer("no answer to CONNECT in time".to_owned()));
        }
        link.wait(Some(deadline)).map_err(NoSession::NoServer)?;
    }
}

/// Reads the answer to CONNECT.
fn answered(
    session: &Session,
    answer: &ConnAck<'_>,
    link: &mut Link,
) -> Result<ServerLimits, NoSession> {
    if answer.reason.is_failure() {
        let text = refusal(answer.reason, answer.properties.reason_string());
        let is_final = is_final(answer.reason);
        return Err(if is_final { NoSession::Never(text) } else { NoSession::NotNow(text) });
    }
    let properties = &answer.properties;
    let keep_alive_s = properties.server_keep_alive_s().unwrap_or(session.keep_alive_s());
    link.agree(keep_alive_s, properties.maximum_packet_size().map(Into::into));
    Ok(ServerLimits {
        receive_max: properties.receive_maximum().map_or(u16::MAX, NonZeroU16::get),
        qos_max: properties.maximum_qos().unwrap_or(Qos::Two),
        has_retained: properties.retain_available().unwrap_or(true),
    })
}

/// A refusal with its remedy, if there is one.
pub fn refusal(reason: ReasonCode, text: Option<&str>) -> String {
    let mut said = format!("refused: {reason}");
    if let Some(text) = text {
        said.push_str(": ");
        said.push_str(&crate::commands::messages::escape(text));
    }
    if matches!(reason, ReasonCode::BadCredentials | ReasonCode::NotAuthorized) {
        said.push_str("; use --user, and --password-file FILE or CRORE_MQTT_PASSWORD");
    }
    said
}

/// Whether the server would refuse every further attempt.
pub fn is_final(reason: ReasonCode) -> bool {
    matches!(
        reason,
        ReasonCode::MalformedPacket
            | ReasonCode::ProtocolError
            | ReasonCode::UnsupportedVersion
            | ReasonCode::ClientIdInvalid
            | ReasonCode::BadCredentials
            | ReasonCode::NotAuthorized
            | ReasonCode::Banned
            | ReasonCode::BadAuthenticationMethod
            | ReasonCode::TopicNameInvalid
            | ReasonCode::PacketTooLarge
            | ReasonCode::PayloadFormatInvalid
            | ReasonCode::RetainNotSupported
            | ReasonCode::QosNotSupported
            | ReasonCode::SessionTakenOver
    )
}
