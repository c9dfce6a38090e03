//! The adapter over sockets: the client as it is delivered.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, Events, EventsError, HistoryPage, Pending, Published};
use script::Adapter;
use serde_json::{Value, json};

use super::{Labels, failure, page, published, string};

enum Waiting {
    Publish(Pending<Published>),
    History(Pending<HistoryPage>),
}

/// The adapter.
#[derive(Default)]
pub struct Wire {
    client: Option<Arc<Client>>,
    events: Option<Events>,
    labels: Labels,
    waiting: Vec<(String, Waiting)>,
    effects: Vec<Value>,
    is_closing: bool,
}

impl Adapter for Wire {
    fn call(&mut self, command: Value) -> Result<Value, String> {
        let label = string(&command["as"]).unwrap_or_default();
        let mut report = Value::Null;
        match command["do"].as_str().unwrap_or_default() {
            "start" => {
                let options = super::options(&command, &self.labels);
                let (client, events) = Client::connect(options).map_err(|it| it.to_string())?;
                (self.client, self.events) = (Some(Arc::new(client)), Some(events));
            }
            "stop" => self.stop(),
            "poll" => self.poll(Duration::from_millis(command["ms"].as_u64().unwrap_or(0))),
            "close" => {
                self.is_closing = true;
                self.in_the_background(|client| client.close());
            }
            "report" => {
                let client = self.client.as_ref().ok_or("no client")?;
                let id = self.labels.ids.get(&label).copied();
                report = super::report(id.and_then(|id| client.report(id).ok().flatten()));
            }
            _ => self.command(&label, &command)?,
        }
        Ok(json!({"effects": std::mem::take(&mut self.effects), "report": report}))
    }
}

impl Wire {
    fn command(&mut self, label: &str, command: &Value) -> Result<(), String> {
        let client = self.client.as_ref().ok_or("no client")?;
        let topic = command["topic"].as_str().unwrap_or_default();
        let failed = match command["do"].as_str().unwrap_or_default() {
            "subscribe" => {
                let options = super::subscribe_options(command);
                match client.subscribe_with(topic, super::start(&command["start"]), options) {
                    Ok(id) => {
                        self.labels.ids.insert(label.to_owned(), id);
                        None
                    }
                    Err(error) => Some(error),
                }
            }
            "unsubscribe" => client.unsubscribe(self.labels.ids[label]).err(),
            "publish" => {
                let payload = super::bytes(command["payload"].as_str().unwrap_or_default());
                match client.publish(topic, payload, super::publish_options(command)) {
                    Ok(pending) => {
                        self.waiting.push((label.to_owned(), Waiting::Publish(pending)));
                        None
                    }
                    Err(error) => Some(error),
                }
            }
            "history" => match client.history(topic, super::history_options(command)) {
                Ok(pending) => {
                    self.waiting.push((label.to_owned(), Waiting::History(pending)));
                    None
                }
                Err(error) => Some(error),
            },
            "renew" => client.renew(string(&command["token"]).unwrap_or_default()).err(),
            _ => None,
        };
        self.effects.extend(failed.map(|error| failure(label, &error)));
        Ok(())
    }

    /// Waits for the first effect.
    fn poll(&mut self, wait: Duration) {
        let deadline = Instant::now() + wait;
        loop {
            self.take_answers();
            let left = deadline.saturating_duration_since(Instant::now());
            let next = match &self.events {
                Some(events) => events.next_within(left.min(Duration::from_millis(1))),
                None => return,
            };
            match next {
                Ok(event) => self.effects.extend(self.labels.effects(event)),
                Err(EventsError::Timeout) => {}
                Err(EventsError::Ended) => {
                    self.events = None;
                    if self.is_closing {
                        self.effects.push(json!({"state": "closed", "reason": "requested"}));
                    }
                }
            }
            self.effects.extend(self.labels.token_effects());
            if !self.effects.is_empty() || left.is_zero() {
                return;
            }
        }
    }

    fn take_answers(&mut self) {
        let effects = &mut self.effects;
        self.waiting.retain(|(label, waiting)| {
            let answer = match waiting {
                Waiting::Publish(pending) => {
                    pending.wait_within(Duration::ZERO).map(|result| published(label, result))
                }
                Waiting::History(pending) => {
                    pending.wait_within(Duration::ZERO).map(|result| page(label, result))
                }
            };
            let waits = answer.is_none();
            effects.extend(answer);
            waits
        });
    }

    /// A close waits for answers that the scenario may never give.
    fn in_the_background(&self, what: impl FnOnce(&Client) + Send + 'static) {
        if let Some(client) = self.client.clone() {
            thread::spawn(move || what(&client));
        }
    }

    fn stop(&mut self) {
        self.events = None;
        self.in_the_background(|client| client.close());
        self.client = None;
    }
}
