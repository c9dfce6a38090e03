//! Sequential requests: publishing, raw and in batches, with or without keys, and pages of history.
//!
//! Unanswered publications with keys are repeated unchanged, with the next connection and before
//! new ones; sometimes answered ones are repeated as well.

use super::{Asked, HttpClient, is_unavailable};
use crate::client::Context;
use crate::oracle::{Acknowledged, Once, Refusal, Run};
use serde_json::Value;

/// A request with publications.
#[derive(Clone)]
pub(super) struct Publishing {
    pub ids: Vec<usize>,
    form: Form,
    keys: Keys,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `POST /topics/..`
    Raw,
    /// `POST /publish`
    Batch,
}

/// The location of the keys of its messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    None,
    /// `Idempotency-Key`, for all messages of a batch.
    Header,
    /// A key in each message.
    Items,
}

impl HttpClient {
    pub(super) fn ask(&mut self, context: &mut Context<'_>) {
        if let Some(publishing) = self.repeats.pop_front() {
            for id in &publishing.ids {
                context.oracle.repeated(context.plan, *id);
            }
            return self.send_publications(context, publishing);
        }
        let topic = self.peer.random.below(context.plan.topics.len() as u64) as usize;
        let padding = crate::native::draw_padding(&mut self.peer.random, context.plan);
        match self.peer.random.below(4) {
            0 | 1 => {
                let (id, _) = context.oracle.publication(context.plan, topic, padding);
                self.publish(context, vec![id], Form::Raw);
            }
            2 => {
                let mut ids = Vec::new();
                for _ in 0..1 + self.peer.random.below(4) {
                    let topic = self.peer.random.below(context.plan.topics.len() as u64) as usize;
                    ids.push(context.oracle.publication(context.plan, topic, padding).0);
                }
                self.publish(context, ids, Form::Batch);
            }
            _ => {
                let floor = context.oracle.floor(context.plan.partition(topic));
                let since =
                    self.peer.random.chance(0.5).then(|| self.peer.random.between(0, floor));
                let epoch = context.oracle.present_epoch(context.plan.partition(topic));
                let query = since.map_or(String::new(), |since| format!("&since={epoch}:{since}"));
                let name = &context.plan.topics[topic];
                let head = format!("GET /topics/{name}?limit=5{query} HTTP/1.1\r\n");
                let run = Run { topic, epoch, client: self.peer.id, ..Run::default() };
                self.runs = vec![run];
                self.request(context, &head, &[], Asked::History { since });
            }
        }
    }

    fn publish(&mut self, context: &mut Context<'_>, ids: Vec<usize>, form: Form) {
        let mut keys = Keys::None;
        if self.names.chance(self.once) {
            keys = match form {
                Form::Batch if self.names.chance(0.5) => Keys::Items,
                _ => Keys::Header,
            };
            for id in &ids {
                context.oracle.publications[*id].once = Once::Key;
            }
        }
        self.send_publications(context, Publishing { ids, form, keys });
    }

    fn send_publications(&mut self, context: &mut Context<'_>, publishing: Publishing) {
        let Publishing { ids, form, keys } = &publishing;
        let key = |id: usize| format!("{id:x}");
        let of = |id: usize| &context.oracle.publications[id];
        let name = |id: usize| &context.plan.topics[of(id).topic];
        let mut head = match form {
            Form::Raw => format!("POST /topics/{} HTTP/1.1\r\n", name(ids[0])),
            Form::Batch => "POST /publish HTTP/1.1\r\n".to_owned(),
        };
        if *keys == Keys::Header {
            // With or without quotes.
            let quote = if ids[0].is_multiple_of(2) { "\"" } else { "" };
            head.push_str(&format!("Idempotency-Key: {quote}{}{quote}\r\n", key(ids[0])));
        }
        let body = match form {
            Form::Raw => of(ids[0]).payload().to_vec(),
            Form::Batch => {
                let item = |id: &usize| {
                    let text = String::from_utf8_lossy(of(*id).payload()).into_owned();
                    let mut item = serde_json::json!({"topic": name(*id), "data": text});
                    if *keys == Keys::Items {
                        item["idempotency_key"] = key(*id).into();
                    }
                    item
                };
                Value::Array(ids.iter().map(item).collect()).to_string().into_bytes()
            }
        };
        context.oracle.note(self.peer.id, || format!("publishes {ids:?}"));
        self.request(context, &head, &body, Asked::Publish(publishing.clone()));
    }

    /// Stores the unanswered publications of a lost connection.
    pub(super) fn keep_unanswered(&mut self) {
        if let Some(Asked::Publish(publishing)) = self.asked.take()
            && publishing.keys != Keys::None
        {
            self.repeats.push_back(publishing);
        }
    }

    pub(super) fn on_published(
        &mut self,
        context: &mut Context<'_>,
        publishing: &Publishing,
        status: u16,
        body: &Value,
    ) {
        let id = self.peer.id;
        let ids = &publishing.ids;
        let source = self.peer.source();
        let results: Vec<&Value> = match body["results"].as_array() {
            Some(results) => results.iter().collect(),
            None => vec![body],
        };
        if status >= 400 {
            for publication in ids {
                context.oracle.refused(context.plan, source, *publication, refusal(body));
            }
            return;
        }
        if results.len() != ids.len() {
            return context
                .oracle
                .fail(id, format!("{} results for {} messages", results.len(), ids.len()));
        }
        if publishing.keys != Keys::None && self.names.chance(0.1) {
            self.repeats.push_back(publishing.clone());
        }
        for (publication, result) in ids.iter().zip(results) {
            match result["offset"].as_u64() {
                Some(offset) => {
                    let epoch = result["epoch"].as_str().and_then(|text| text.parse().ok());
                    let told = Acknowledged {
                        epoch: epoch.unwrap_or(0),
                        offset,
                        is_duplicate: result["duplicate"] == true,
                    };
                    context.oracle.duplicates_over_http += u64::from(told.is_duplicate);
                    context.oracle.acknowledged(context.plan, source, *publication, told);
                }
                None if !context.plan.lossless
                    || (is_unavailable(&result["error"]) && context.plan.disk.refuses()) =>
                {
                    let refusal = refusal(&result["error"]);
                    context.oracle.refused(context.plan, source, *publication, refusal);
                }
                None => context.oracle.fail(id, format!("refused: {result}")),
            }
        }
    }
}

fn refusal(error: &Value) -> Refusal {
    if is_unavailable(error) { Refusal::UntilCrash } else { Refusal::Final }
}
