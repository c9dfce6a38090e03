//! Runs many clients for the harness of `tests/src/fleet`, whose README has the lines.

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use client::{
    Client, Event, Events, GapCause, GapReason, Once, Options, Pending, Position, PublishOptions,
    Published, RequestError, Start, SubscriptionId,
};
use serde_json::{Value, json};

fn say(of: usize, mut line: Value) {
    line["of"] = of.into();
    // One write for each line, so that lines of two threads do not mix.
    let text = format!("{line}\n");
    if std::io::stdout().lock().write_all(text.as_bytes()).is_err() {
        std::process::exit(1); // The harness is gone.
    }
}

/// Slow readers stop while it is closed.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = is_closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_closed, |is_closed| *is_closed));
    }
}

type Call = (u64, Pending<Published>);

struct FleetClient {
    name: String,
    number: usize,
    work: Value,
    client: Arc<Client>,
    subscription: Option<SubscriptionId>,
    calls: u64,
    /// Calls for the thread that waits for their answers.
    waiting: Option<Sender<Call>>,
    thread: JoinHandle<()>,
}

impl FleetClient {
    fn begin(plan: &Value, number: usize, gate: Arc<Gate>) -> Result<FleetClient, Box<dyn Error>> {
        let work = plan["clients"][number].clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (client, events) = Client::connect(Options::new(text(&plan["url"])))?;
        let client = Arc::new(client);
        let (mut subscription, mut waiting) = (None, None);
        let thread = if let Some(filter) = work["subscribe"].as_str() {
            let since = work["since"].as_str().and_then(parse);
            subscription = Some(client.subscribe(filter, since.map_or(Start::Live, Start::Since))?);
            let gate = (work["slow"] == true).then_some(gate);
            thread::spawn(move || read(number, events, gate))
        } else {
            let (sender, calls) = channel();
            waiting = Some(sender);
            thread::spawn(move || wait(number, calls))
        };
        let name = text(&plan["name"]);
        let calls = work["calls"].as_u64().unwrap_or_default();
        Ok(FleetClient { name, number, work, client, subscription, calls, waiting, thread })
    }

    fn publish(&mut self, count: u64) -> Result<(), Box<dyn Error>> {
        let (Some(topics), Some(waiting)) = (self.work["publish"].as_array(), &self.waiting) else {
            return Ok(());
        };
        let once = (self.work["once"] == true).then_some(Once::Numbered);
        for _ in 0..count {
            self.calls += 1;
            let topic = topics[self.calls as usize % topics.len()].as_str().unwrap_or_default();
            let payload = format!("{}.{}.{}", self.name, self.number, self.calls);
            let options = PublishOptions { once: once.clone(), ..PublishOptions::default() };
            waiting.send((self.calls, self.client.publish(topic, payload, options)?))?;
        }
        Ok(())
    }

    fn end(self) -> Result<(), Box<dyn Error>> {
        if let Some(subscription) = self.subscription {
            let report = self.client.report(subscription)?.ok_or("the subscription has ended")?;
            let positions = report
                .positions
                .iter()
                .map(|it| (it.partition.to_string(), Value::from(shown(Some(it.position)))));
            let line = json!({"report": {
                "complete": report.is_complete(), "gaps": report.gaps, "skips": report.skips,
                "messages": report.messages, "position": shown(report.position),
                "positions": positions.collect::<serde_json::Map<_, _>>(),
            }});
            say(self.number, line);
        }
        self.client.close();
        drop(self.waiting);
        self.thread.join().map_err(|_| "a thread panicked".into())
    }
}

/// Prints all items. Publishers have none.
fn read(number: usize, events: Events, gate: Option<Arc<Gate>>) {
    for event in events {
        if let Some(line) = line(&event) {
            say(number, line);
            if let Some(gate) = &gate {
                gate.pass();
            }
        }
    }
}

fn wait(number: usize, calls: Receiver<Call>) {
    for (call, pending) in calls {
        say(
            number,
            match pending.wait() {
                Ok(published) => json!({"call": call, "at": shown(Some(published.position))}),
                Err(RequestError::Unknown) => json!({"call": call, "error": "Unknown"}),
                Err(RequestError::Closed) => json!({"call": call, "error": "Closed"}),
                Err(error) => json!({"call": call, "error": error.to_string()}),
            },
        );
    }
}

fn line(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Message(it) => json!({
            "item": "message", "topic": &*it.topic, "at": shown(Some(it.position)),
            "data": String::from_utf8_lossy(&it.payload),
        }),
        Event::Gap { from, to, cause, partition, .. } => json!({
            "item": "gap", "from": shown(*from), "to": shown(*to), "cause": word(*cause),
            "partition": partition,
        }),
        Event::Skipped { from, through, partition, .. } => {
            json!({"item": "skipped", "from": from, "through": through, "partition": partition})
        }
        Event::CaughtUp { position, partition, .. } => {
            json!({"item": "caught_up", "at": shown(Some(*position)), "partition": partition})
        }
        Event::Unsubscribed { error: Some(error), .. } => json!({"ended": error.to_string()}),
        Event::Disconnected { reason, retry_in_ms: None } => json!({"ended": reason.to_string()}),
        _ => return None,
    })
}

fn word(cause: GapCause) -> &'static str {
    match cause {
        GapCause::Announced(GapReason::Evicted) => "evicted",
        GapCause::Announced(GapReason::UnknownEpoch) => "unknown_epoch",
        GapCause::Announced(GapReason::BeyondHead) => "beyond_head",
        GapCause::Announced(GapReason::HistoryLimit) => "history_limit",
        GapCause::Announced(GapReason::Damaged) => "damaged",
        GapCause::Announced(_) => "other",
        GapCause::Unannounced => "unannounced",
        GapCause::Reconnected => "reconnected",
    }
}

fn shown(position: Option<Position>) -> Option<String> {
    position.map(|Position { epoch, offset }| format!("{epoch}:{offset}"))
}

fn parse(text: &str) -> Option<Position> {
    let (epoch, offset) = text.split_once(':')?;
    Some(Position { epoch: epoch.parse().ok()?, offset: offset.parse().ok()? })
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: fleet PLAN")?;
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let gate = Arc::new(Gate::default());
    let count = plan["clients"].as_array().map_or(0, Vec::len);
    let mut clients = Vec::new();
    for number in 0..count {
        clients.push(FleetClient::begin(&plan, number, Arc::clone(&gate))?);
    }
    for command in std::io::stdin().lock().lines() {
        match command?.split(' ').collect::<Vec<_>>()[..] {
            ["publish", count] => {
                let count = count.parse()?;
                clients.iter_mut().try_for_each(|client| client.publish(count))?;
            }
            ["pause"] => gate.set(true),
            ["resume"] => gate.set(false),
            ["end"] => return clients.into_iter().try_for_each(FleetClient::end),
            ref other => return Err(format!("unknown: {other:?}").into()),
        }
    }
    Err("the harness is gone".into())
}
