//! Publishing over HTTP: the raw body to one topic, or the JSON envelope to one or many, singly or
//! in a batch.

use crate::admission::Offer;
use crate::edge::{Edge, flag};
use crate::ids::ConnIndex;
use crate::mail::{Appended, ProducerStamp, Publication, Publish, PublishRefusal, Reply, ToHome};
use crate::session::State;
use crate::session::http::answer::Answer;
use crate::session::http::envelope::{Message, parse_envelope};
use crate::session::http::fault::Fault;
use crate::session::http::publish::{
    FIRST_REQUEST, Intent, Publishing, append_appended, append_results, without_type,
};

impl Edge {
    /// Publishes the messages of a complete body: all, or none if one of them is malformed or not
    /// admitted.
    pub(crate) fn publish_body(
        &mut self,
        index: ConnIndex,
        intent: Intent,
        body: Vec<u8>,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let (messages, single) = match intent {
            Intent::One { topic, attributes, is_guessed, retain, once } => (
                vec![Message {
                    topics: vec![topic],
                    attributes: if is_guessed && std::str::from_utf8(&body).is_err() {
                        without_type(&attributes)?
                    } else {
                        attributes
                    },
                    payload: body,
                    retain,
                    once,
                }],
                true,
            ),
            Intent::Envelope(all) => parse_envelope(&body, &all)?,
        };
        let offers = messages.iter().flat_map(|message| {
            message.topics.iter().map(|topic| Offer {
                topic,
                payload_bytes: message.payload.len(),
                attributes_bytes: message.attributes.len(),
                retain: message.retain,
            })
        });
        self.admit_all(index, offers)?;
        let count: usize = messages.iter().map(|message| message.topics.len()).sum();
        let mut results = Vec::with_capacity(count);
        for message in messages {
            self.publish_message(index, message, &mut results);
        }
        if results.is_empty() {
            self.answer_json(index, answer, 200, b"{\"results\":[]}");
            return Ok(());
        }
        self.connections.slots[index].set(flag::PAUSED);
        let waiting = results.len();
        self.set_state(
            index,
            State::Publishing(Box::new(Publishing {
                answer: answer.clone(),
                results,
                waiting,
                single,
            })),
        );
        Ok(())
    }

    /// Posts one message to each of its topics, and appends a pending result for each.
    fn publish_message(
        &mut self,
        index: ConnIndex,
        message: Message,
        results: &mut Vec<(String, Option<Result<Appended, PublishRefusal>>)>,
    ) {
        let key = self.connections.slots.key(index);
        // Clients pool their connections, so that a request counts as one that has just begun.
        let connection = self.request_stamp();
        let payload = self.work.mail.copy(&message.payload);
        let attributes = self.work.mail.copy(&message.attributes);
        let idempotency_key = self.work.mail.copy(&message.once.idempotency_key);
        let producer = message.once.producer.map(|(id, sequence)| ProducerStamp {
            id: self.work.mail.copy(id.as_bytes()),
            sequence,
            connection,
        });
        for topic in message.topics {
            let (rule, partition) = self.settings.locate(&topic);
            let publication = Publication {
                topic: self.work.mail.copy(topic.as_bytes()),
                attributes: attributes.clone(),
                payload: payload.clone(),
                retain: message.retain,
                producer: producer.clone(),
                idempotency_key: idempotency_key.clone(),
                expected_epoch: message.once.expected_epoch,
                qos: None,
                is_said_text: false,
                further: Default::default(),
            };
            let request = results.len() as u32 + FIRST_REQUEST;
            self.statistics.publishes += 1;
            self.request(
                self.settings.home_of(partition),
                ToHome::Publish(Publish {
                    partition,
                    rule,
                    reply: Some(Reply { connection: key, request }),
                    publication,
                }),
            );
            results.push((topic, None));
        }
    }

    pub(crate) fn http_published(
        &mut self,
        index: ConnIndex,
        request: u32,
        result: Result<Appended, PublishRefusal>,
    ) {
        let Some(State::Publishing(publishing)) = self.state(index) else {
            return;
        };
        let number = request.wrapping_sub(FIRST_REQUEST) as usize;
        if let Some((_, place)) = publishing.results.get_mut(number)
            && place.replace(result).is_none()
        {
            publishing.waiting -= 1;
        }
        if publishing.waiting > 0 {
            return;
        }
        let Some(State::Publishing(publishing)) = self.take_state(index) else {
            return;
        };
        let mut body = Vec::new();
        match &publishing.results[..] {
            [(_, Some(Err(refusal)))] if publishing.single => {
                return self.answer_fault(index, &publishing.answer, &(*refusal).into());
            }
            [(_, Some(Ok(appended)))] if publishing.single => {
                body.push(b'{');
                append_appended(&mut body, appended);
                body.push(b'}');
            }
            results => append_results(&mut body, results),
        }
        self.answer_json(index, &publishing.answer, 200, &body);
    }
}
