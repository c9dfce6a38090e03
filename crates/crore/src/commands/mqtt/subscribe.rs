//! `crore mqtt sub`: prints messages as they arrive, and reconnects by itself.
//!
//! A message is acknowledged after its line was written, so a session that lasts loses nothing. A
//! message with QoS 2 is printed once, even if the server repeats it over a reconnect.

use super::arguments::{Session, SessionArguments, parse_qos, qos};
use super::output::{Form, Printer};
use super::session::{Begun, NoSession, begin, is_final, refusal};
use crate::commands::messages::escape;
use crate::exit::Ending;
use crate::signals;
use anyhow::{Context, anyhow};
use client::backoff::{Backoff, BackoffSettings};
use net::kernel::Waker;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use stdx::prng::Prng;
use wire::mqtt::{
    Ack, ClientPacket, Delivery, Disconnect, PacketId, Properties, Publish, ReasonCode,
    RetainHandling, ServerPacket, SubAck, Subscribe, SubscribeItem,
};

/// The identifier of SUBSCRIBE: the only request of a connection.
const SUBSCRIBE_ID: PacketId = PacketId::MIN;

/// Arguments of `mqtt sub`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Topic or filter: `prices/eur`, `prices/+`, `prices/#`. May be repeated.
    #[arg(long = "topic", short, required = true, value_name = "FILTER", value_parser = parse_filter)]
    topics: Vec<String>,
    /// Highest QoS of the messages.
    #[arg(long, short, value_name = "QOS", default_value_t = 1, value_parser = parse_qos())]
    qos: u8,
    /// Print the topic before each message.
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    /// Print one JSON object for each message: topic, payload, QoS, retain flag, properties.
    #[arg(long)]
    json: bool,
    /// Stop after this number of messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    session: SessionArguments,
}

/// Subscribes until a signal, or `--count` messages.
///
/// # Errors
/// The server refuses the client or all subscriptions, or standard output fails.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    signals::exit_at_signal();
    let session = arguments.session.session()?;
    let waker = Waker::new().context("cannot wait for the server")?;
    let mut backoff = Backoff::new(BackoffSettings::default());
    let mut random = Prng::new(bench::payload::seed_from_entropy());
    let mut subscriber = Subscriber::new(arguments, &session);
    let mut is_first = true;
    while subscriber.left > 0 {
        let started = Instant::now();
        let why = match begin(&session, is_first, backoff.attempts(), &waker) {
            Ok(begun) => {
                is_first = false;
                match subscriber.follow(begun)? {
                    End::Counted => return Ok(()),
                    End::Lost(why) => why,
                }
            }
            Err(NoSession::Never(why)) => return Err(anyhow!("{why}").into()),
            Err(NoSession::NoServer(why) | NoSession::NotNow(why)) => why,
        };
        let lasted_ms = started.elapsed().as_millis() as u64;
        let delay_ms = backoff.next_ms(lasted_ms, |max| random.between(0, max));
        eprintln!("not connected: {}; next attempt in {delay_ms} ms", escape(&why));
        std::thread::sleep(Duration::from_millis(delay_ms));
    }
    Ok(())
}

/// The end of a connection.
enum End {
    /// All requested messages have come.
    Counted,
    /// The connection is lost.
    Lost(String),
}

struct Subscriber<'a> {
    arguments: &'a Arguments,
    session: &'a Session,
    printer: Printer,
    /// Messages that are still wanted.
    left: u64,
    /// Identifiers of messages with QoS 2 that were printed and not released yet.
    printed: BTreeSet<PacketId>,
}

impl<'a> Subscriber<'a> {
    fn new(arguments: &'a Arguments, session: &'a Session) -> Subscriber<'a> {
        let form = match (arguments.json, arguments.verbose) {
            (true, _) => Form::Json,
            (false, true) => Form::Verbose,
            (false, false) => Form::Payload,
        };
        Subscriber {
            arguments,
            session,
            printer: Printer::new(form),
            left: arguments.count.unwrap_or(u64::MAX),
            printed: BTreeSet::new(),
        }
    }

    /// Subscribes, and prints messages until the end of the connection.
    fn follow(&mut self, mut begun: Begun) -> Result<End, Ending> {
        if !begun.is_resumed {
            self.printed.clear();
        }
        let link = &mut begun.link;
        self.subscribe(|packet| link.send(packet)).map_err(|why| anyhow!(why))?;
        let mut replies = Vec::new();
        loop {
            let input = link.take_input();
            let mut consumed = 0;
            let mut end = None;
            while self.left > 0 && end.is_none() {
                match link.decode(&input[consumed..]) {
                    Ok(Some((packet, length))) => {
                        consumed += length;
                        end = self.take(&packet, &mut replies)?;
                    }
                    Ok(None) => break,
                    Err(why) => return Err(anyhow!(why).into()),
                }
            }
            // An acknowledged message is on standard output.
            self.printer.flush()?;
            for reply in replies.drain(..) {
                link.send(&reply).map_err(|why| anyhow!(why))?;
            }
            link.put_back(input, consumed);
            if let Some(end) = end {
                return Ok(end);
            }
            if self.left == 0 {
                let goodbye =
                    Disconnect { reason: ReasonCode::Success, properties: Properties::default() };
                // The messages are printed, so a failure of the end does not matter.
                let _ = link.send(&ClientPacket::Disconnect(goodbye));
                let _ = begun.link.end();
                return Ok(End::Counted);
            }
            if let Err(why) = link.wait(None) {
                return Ok(End::Lost(why));
            }
        }
    }

    fn subscribe(
        &self,
        send: impl FnOnce(&ClientPacket<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let handling = if self.session.version.has_properties() {
            RetainHandling::SendIfNew
        } else {
            RetainHandling::Send
        };
        let topics = self.arguments.topics.iter();
        let items: Vec<SubscribeItem<'_>> = topics
            .map(|filter| SubscribeItem {
                filter,
                qos: qos(self.arguments.qos),
                no_local: false,
                retain_as_published: false,
                retain_handling: handling,
            })
            .collect();
        send(&ClientPacket::Subscribe(Subscribe {
            packet_id: SUBSCRIBE_ID,
            properties: Properties::default(),
            items: items.as_slice().into(),
        }))
    }

    /// Processes a packet, and adds its answer to the replies.
    fn take(
        &mut self,
        packet: &ServerPacket<'_>,
        replies: &mut Vec<ClientPacket<'static>>,
    ) -> Result<Option<End>, Ending> {
        match packet {
            ServerPacket::Publish(publish) => {
                replies.extend(self.message(publish)?);
            }
            ServerPacket::PubRel(ack) => {
                self.printed.remove(&ack.packet_id);
                replies.push(ClientPacket::PubComp(Ack::success(ack.packet_id)));
            }
            ServerPacket::SubAck(answer) => self.subscribed(answer)?,
            ServerPacket::Disconnect(disconnect) => {
                let why = refusal(disconnect.reason, disconnect.properties.reason_string());
                if is_final(disconnect.reason) {
                    return Err(anyhow!("the server ended the session: {why}").into());
                }
                return Ok(Some(End::Lost(why)));
            }
            ServerPacket::PingResp => {}
            ServerPacket::ConnAck(_)
            | ServerPacket::PubAck(_)
            | ServerPacket::PubRec(_)
            | ServerPacket::PubComp(_)
            | ServerPacket::UnsubAck(_)
            | ServerPacket::Auth(_) => {
                return Ok(Some(End::Lost("the server sent an unexpected packet".to_owned())));
            }
        }
        Ok(None)
    }

    /// Prints a message; returns its acknowledgement.
    fn message(&mut self, publish: &Publish<'_>) -> Result<Option<ClientPacket<'static>>, Ending> {
        let (is_new, reply) = match publish.delivery {
            Delivery::Zero => (true, None),
            Delivery::One(attempt) => {
                (true, Some(ClientPacket::PubAck(Ack::success(attempt.packet_id))))
            }
            Delivery::Two(attempt) => {
                let is_new = self.printed.insert(attempt.packet_id);
                (is_new, Some(ClientPacket::PubRec(Ack::success(attempt.packet_id))))
            }
        };
        if is_new {
            self.printer.print(publish)?;
            self.left -= 1;
        }
        Ok(reply)
    }

    /// Reports refused subscriptions.
    fn subscribed(&mut self, answer: &SubAck<'_>) -> Result<(), Ending> {
        let mut has_any = false;
        for (filter, reason) in self.arguments.topics.iter().zip(answer.reasons.iter()) {
            if reason.is_failure() {
                let why = refusal(reason, answer.properties.reason_string());
                self.printer.flush()?;
                eprintln!("{}: {why}", escape(filter));
            } else {
                has_any = true;
            }
        }
        if has_any { Ok(()) } else { Err(Ending::FailedAndTold) }
    }
}

/// Checks a topic or filter.
fn parse_filter(text: &str) -> Result<String, String> {
    match wire::mqtt::check_filter(text) {
        Ok(()) if text.len() <= wire::mqtt::FIELD_BYTES_MAX => Ok(text.to_owned()),
        Ok(()) => Err("the filter is longer than 65,535 bytes".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
