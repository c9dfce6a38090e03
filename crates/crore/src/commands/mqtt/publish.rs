//! `crore mqtt pub`: publishes one message, or one for each line of standard input, in order.
//!
//! Lines are sent without waiting for each acknowledgement, up to a window. If the connection
//! breaks, unacknowledged messages are reported and never sent again, as in `crore pub`.

use super::arguments::{SessionArguments, parse_qos, parse_topic, qos};
use super::link::Link;
use super::session::{Begun, NoSession, begin, refusal};
use super::window::{Answer, Window};
use crate::commands::messages::parse_tag;
use crate::exit::Ending;
use crate::signals;
use anyhow::{Context, anyhow};
use bench::units::parse_duration;
use net::Wake;
use net::kernel::Waker;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use wire::mqtt::{
    ClientPacket, Disconnect, Properties, Property, Publish, Qos, ReasonCode, ServerPacket,
    UserProperty,
};

/// Lines that are read ahead.
const LINES_MAX: usize = 512;
/// Bytes that may wait for the socket before further lines do.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Arguments of `mqtt pub`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The topic.
    #[arg(long, short, value_name = "TOPIC", value_parser = parse_topic)]
    topic: String,
    /// The message. Without it, each line of standard input is a message.
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    /// QoS: 0 is not acknowledged, 1 at least once, 2 exactly once.
    #[arg(long, short, value_name = "QOS", default_value_t = 1, value_parser = parse_qos())]
    qos: u8,
    /// Make the message the topic's retained message. An empty message removes the retained
    /// message.
    #[arg(long, short)]
    retain: bool,
    /// Media type of the messages. Needs version 5, as the next three flags.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Topic for answers.
    #[arg(long, value_name = "TOPIC", value_parser = parse_topic)]
    response_topic: Option<String>,
    /// Time after which the server drops the messages.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expiry: Option<Duration>,
    /// User property of the messages; a node of Crore makes it a tag. May be repeated.
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = parse_tag)]
    properties: Vec<(String, String)>,
    /// Time to wait for an acknowledgement, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    session: SessionArguments,
}

/// Publishes the messages.
///
/// # Errors
/// There is no server, it refuses a message, or messages were not acknowledged.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    signals::exit_at_signal();
    let session = arguments.session.session()?;
    let properties = arguments.properties();
    if !session.version.has_properties() && !properties.is_empty() {
        let text = "--content-type, --response-topic, --expiry and --property need version 5";
        return Err(Ending::Usage(text.into()));
    }
    let waker = Waker::new().context("cannot wait for the server")?;
    let url = &arguments.session.url;
    let begun = begin(&session, true, 0, &waker).map_err(|failure| match failure {
        NoSession::NoServer(why) => anyhow!(
            "no server answers at {url}: {why}; start a node with `crore serve --set mqtt.listen=127.0.0.1:1883`, or set another address with --url or CRORE_MQTT_URL"
        ),
        NoSession::NotNow(why) | NoSession::Never(why) => anyhow!("{url}: {why}"),
    })?;
    check(arguments, &begun)?;
    let mut publisher = Publisher {
        window: Window::new(begun.limits.receive_max),
        link: begun.link,
        arguments,
        properties: &properties,
        count: 0,
    };
    let mut messages = Messages::new(arguments.message.clone(), waker);
    publisher.publish_all(&mut messages)?;
    publisher.end()
}

/// Refuses flags that the server does not support; it would end the connection.
fn check(arguments: &Arguments, begun: &Begun) -> Result<(), Ending> {
    let qos_max = begun.limits.qos_max;
    if qos(arguments.qos) > qos_max {
        let number = qos_max as u8;
        return Err(anyhow!("the server takes QoS {number} at most: use --qos {number}").into());
    }
    if arguments.retain && !begun.limits.has_retained {
        return Err(anyhow!("the server has no retained messages: omit --retain").into());
    }
    Ok(())
}

impl Arguments {
    fn properties(&self) -> Vec<Property<'_>> {
        let mut properties = Vec::new();
        properties.extend(self.expiry.map(|span| {
            Property::MessageExpiry(u32::try_from(span.as_secs()).unwrap_or(u32::MAX))
        }));
        properties.extend(self.content_type.as_deref().map(Property::ContentType));
        properties.extend(self.response_topic.as_deref().map(Property::ResponseTopic));
        let user = self.properties.iter();
        properties.extend(user.map(|(name, value)| Property::User(UserProperty { name, value })));
        properties
    }
}

/// The messages: one, or the lines of standard input, which a thread reads.
enum Messages {
    One(Option<Vec<u8>>),
    Lines(Receiver<std::io::Result<Vec<u8>>>),
}

/// The next message.
enum Next {
    Message(Vec<u8>),
    /// None yet: the waker tells when.
    NotYet,
    End,
}

impl Messages {
    fn new(message: Option<String>, waker: Arc<Waker>) -> Messages {
        if let Some(message) = message {
            return Messages::One(Some(message.into_bytes()));
        }
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().split(b'\n') {
                let is_over = line.is_err();
                if sender.send(line).is_err() || is_over {
                    break;
                }
                waker.wake();
            }
            drop(sender);
            waker.wake();
        });
        Messages::Lines(lines)
    }

    fn next(&mut self) -> Result<Next, Ending> {
        match self {
            Messages::One(message) => Ok(message.take().map_or(Next::End, Next::Message)),
            Messages::Lines(lines) => match lines.try_recv() {
                Ok(line) => Ok(Next::Message(line.context("cannot read standard input")?)),
                Err(TryRecvError::Empty) => Ok(Next::NotYet),
                Err(TryRecvError::Disconnected) => Ok(Next::End),
            },
        }
    }
}

struct Publisher<'a> {
    window: Window,
    link: Link,
    arguments: &'a Arguments,
    properties: &'a [Property<'a>],
    /// Messages sent.
    count: u64,
}

impl Publisher<'_> {
    fn publish_all(&mut self, messages: &mut Messages) -> Result<(), Ending> {
        let patience = Duration::from_secs(self.arguments.timeout);
        let mut is_over = false;
        let mut progress = Instant::now();
        loop {
            while !is_over && self.has_room() {
                match messages.next()? {
                    Next::Message(payload) => self.publish(&payload)?,
                    Next::NotYet => break,
                    Next::End => is_over = true,
                }
            }
            let waiting = self.window.len();
            if is_over && waiting == 0 {
                return Ok(());
            }
            let deadline = (waiting > 0).then(|| progress + patience);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let seconds = patience.as_secs();
                return Err(self.unknown(&format!("no acknowledgement within {seconds} s")));
            }
            self.link.wait(deadline).map_err(|why| self.unknown(&why))?;
            if self.receive()? || waiting == 0 {
                progress = Instant::now();
            }
        }
    }

    fn has_room(&self) -> bool {
        self.window.has_room() && self.link.waiting_bytes() < WAITING_BYTES_MAX
    }

    fn publish(&mut self, payload: &[u8]) -> Result<(), Ending> {
        self.count += 1;
        let publish = Publish {
            delivery: self.window.begin(self.count, qos(self.arguments.qos)),
            retain: self.arguments.retain,
            topic: &self.arguments.topic,
            properties: Properties::from(self.properties),
            payload,
        };
        let sent = self.link.send(&ClientPacket::Publish(publish));
        sent.map_err(|why| anyhow!("message {}: {why}", self.count).into())
    }

    /// Processes received packets; returns whether a publication has its answer.
    fn receive(&mut self) -> Result<bool, Ending> {
        let input = self.link.take_input();
        let mut consumed = 0;
        let mut has_answer = false;
        while let Some((packet, length)) =
            self.link.decode(&input[consumed..]).map_err(|why| self.unknown(&why))?
        {
            consumed += length;
            if let ServerPacket::Disconnect(disconnect) = &packet {
                let text = disconnect.properties.reason_string();
                return Err(self.unknown(&refusal(disconnect.reason, text)));
            }
            match self.window.answer(&packet) {
                Answer::None => continue,
                Answer::Done => {}
                Answer::Reply(reply) => self.link.send(&reply).map_err(|why| anyhow!(why))?,
                Answer::Refused(number, ack) => {
                    let why = refusal(ack.reason, ack.properties.reason_string());
                    return Err(anyhow!("message {number}: {why}").into());
                }
            }
            has_answer = true;
        }
        self.link.put_back(input, consumed);
        Ok(has_answer)
    }

    /// The end of a connection with publications under way.
    fn unknown(&self, why: &str) -> Ending {
        match self.window.len() {
            0 if self.arguments.qos == 0 => {
                anyhow!("{why}; messages with QoS 0 that were on their way may be lost").into()
            }
            0 => anyhow!("{why}").into(),
            count => anyhow!(
                "{why}; {count} messages were not acknowledged, they may or may not have been published"
            )
            .into(),
        }
    }

    fn end(mut self) -> Result<(), Ending> {
        let goodbye = Disconnect { reason: ReasonCode::Success, properties: Properties::default() };
        self.link.send(&ClientPacket::Disconnect(goodbye)).map_err(|why| anyhow!(why))?;
        let is_unknown = qos(self.arguments.qos) == Qos::Zero;
        match self.link.end() {
            // Everything was acknowledged, so the end does not matter.
            Err(why) if is_unknown => Err(anyhow!("{why}; the last messages may be lost").into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
