//! rumqttc, and one session of it over a `kill -9` of the node.
//!
//! `sessions VERSION NAME HOST:PORT`; the version is 3.1.1 or 5. `sessions.py` says what a program
//! does.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

const COUNT: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests that may wait in the client.
const QUEUE: usize = 10;

/// A step that the connection has taken.
enum Step {
    /// The answer to CONNECT: whether the session was there.
    Connected(bool),
    /// SUBACK came.
    Subscribed,
    /// PUBACK came.
    Published,
    /// A message.
    Message(String),
    /// PUBCOMP went out: a message with QoS 2 is over. A new process that gets PUBREL of an old one
    /// ends its connection, so that nothing may be open when the client leaves.
    Completed,
    /// DISCONNECT went out, or the connection failed.
    Ended(String),
}

enum Client {
    Three(rumqttc::Client),
    Five(rumqttc::v5::Client),
}

struct Session {
    client: Client,
    steps: Receiver<Step>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [version, name, address] = &words[..] else { panic!("VERSION NAME HOST:PORT") };
    let topic = format!("sessions/{name}");
    let (reader, present) = Session::begin(version, name, address);
    assert!(!present, "a new session was there before");
    reader.subscribe(&topic);
    for qos in 0..3 {
        for number in 0..COUNT {
            reader.publish(&topic, &format!("{qos}-{number}"), qos);
        }
        reader.expect(&format!("{qos}-"), if qos == 2 { COUNT } else { 0 });
    }
    reader.end();
    let (writer, _) = Session::begin(version, &format!("{name}-writer"), address);
    for number in 0..COUNT {
        writer.publish(&topic, &format!("away-{number}"), 1);
        writer.wait(|step| matches!(step, Step::Published));
    }
    writer.end();
    println!("away");
    let address = io::stdin().lines().next().unwrap().unwrap();
    let (again, present) = Session::begin(version, name, &address);
    assert!(present, "the session is gone");
    again.expect("away-", 0);
    again.end();
    println!("done");
}

impl Session {
    fn begin(version: &str, name: &str, address: &str) -> (Session, bool) {
        let (host, port) = address.rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        let (sender, steps) = channel();
        let client = match version {
            "5" => {
                let mut options = rumqttc::v5::MqttOptions::new(name, host, port);
                options.set_clean_start(false).set_session_expiry_interval(Some(300));
                let (client, connection) = rumqttc::v5::Client::new(options, QUEUE);
                thread::spawn(move || follow_five(connection, &sender));
                Client::Five(client)
            }
            _ => {
                let mut options = rumqttc::MqttOptions::new(name, host, port);
                options.set_clean_session(false);
                let (client, connection) = rumqttc::Client::new(options, QUEUE);
                thread::spawn(move || follow_three(connection, &sender));
                Client::Three(client)
            }
        };
        let session = Session { client, steps };
        let step = session.steps.recv_timeout(PATIENCE).expect("CONNACK comes");
        let Step::Connected(present) = step else { panic!("CONNACK comes first") };
        (session, present)
    }

    fn subscribe(&self, topic: &str) {
        match &self.client {
            Client::Three(client) => client.subscribe(topic, rumqttc::QoS::ExactlyOnce).unwrap(),
            Client::Five(client) => {
                client.subscribe(topic, rumqttc::v5::mqttbytes::QoS::ExactlyOnce).unwrap();
            }
        }
        self.wait(|step| matches!(step, Step::Subscribed));
    }

    fn publish(&self, topic: &str, text: &str, qos: u8) {
        match &self.client {
            Client::Three(client) => {
                client.publish(topic, rumqttc::qos(qos).unwrap(), false, text).unwrap();
            }
            Client::Five(client) => {
                let qos = rumqttc::v5::mqttbytes::qos(qos).unwrap();
                client.publish(topic, qos, false, text.to_owned()).unwrap();
            }
        }
    }

    fn wait(&self, is_it: impl Fn(&Step) -> bool) {
        while !is_it(&self.steps.recv_timeout(PATIENCE).expect("the step comes")) {}
    }

    /// Waits for all messages of a kind, in order. Others may come again: they have QoS 1 at most.
    fn expect(&self, prefix: &str, completed: usize) {
        let (mut number, mut uncompleted) = (0, completed);
        while number < COUNT || uncompleted > 0 {
            match self.steps.recv_timeout(PATIENCE).expect("the next message comes") {
                Step::Message(text) if text.starts_with(prefix) => {
                    assert_eq!(text, format!("{prefix}{number}"));
                    number += 1;
                }
                Step::Completed => uncompleted = uncompleted.saturating_sub(1),
                Step::Ended(reason) => panic!("{reason}"),
                _ => {}
            }
        }
    }

    fn end(self) {
        match &self.client {
            Client::Three(client) => client.disconnect().unwrap(),
            Client::Five(client) => client.disconnect().unwrap(),
        }
        self.wait(|step| matches!(step, Step::Ended(_)));
    }
}

fn follow_three(mut connection: rumqttc::Connection, sender: &Sender<Step>) {
    use rumqttc::{Event, Outgoing, Packet};
    for event in connection.iter() {
        let step = match event {
            Ok(Event::Incoming(Packet::ConnAck(answer))) => Step::Connected(answer.session_present),
            Ok(Event::Incoming(Packet::SubAck(_))) => Step::Subscribed,
            Ok(Event::Incoming(Packet::PubAck(_))) => Step::Published,
            Ok(Event::Incoming(Packet::Publish(message))) => {
                Step::Message(String::from_utf8(message.payload.to_vec()).unwrap())
            }
            Ok(Event::Outgoing(Outgoing::PubComp(_))) => Step::Completed,
            Ok(Event::Outgoing(Outgoing::Disconnect)) => Step::Ended("DISCONNECT".into()),
            Err(error) => Step::Ended(error.to_string()),
            Ok(_) => continue,
        };
        let is_over = matches!(step, Step::Ended(_));
        if sender.send(step).is_err() || is_over {
            return;
        }
    }
}

fn follow_five(mut connection: rumqttc::v5::Connection, sender: &Sender<Step>) {
    use rumqttc::Outgoing;
    use rumqttc::v5::Event;
    use rumqttc::v5::mqttbytes::v5::Packet;
    for event in connection.iter() {
        let step = match event {
            Ok(Event::Incoming(Packet::ConnAck(answer))) => Step::Connected(answer.session_present),
            Ok(Event::Incoming(Packet::SubAck(_))) => Step::Subscribed,
            Ok(Event::Incoming(Packet::PubAck(_))) => Step::Published,
            Ok(Event::Incoming(Packet::Publish(message))) => {
                Step::Message(String::from_utf8(message.payload.to_vec()).unwrap())
            }
            Ok(Event::Outgoing(Outgoing::PubComp(_))) => Step::Completed,
            Ok(Event::Outgoing(Outgoing::Disconnect)) => Step::Ended("DISCONNECT".into()),
            Err(error) => Step::Ended(error.to_string()),
            Ok(_) => continue,
        };
        let is_over = matches!(step, Step::Ended(_));
        if sender.send(step).is_err() || is_over {
            return;
        }
    }
}
