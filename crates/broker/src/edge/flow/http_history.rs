//! Pages of a topic's history over HTTP, and a topic's retained message.

use crate::edge::{Edge, Pressure, flag};
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::mail::{HistoryPage, PageLimits, ReadHistory, Reply, ToHome};
use crate::session::State;
use crate::session::http::answer::Answer;
use crate::session::http::fault::Fault;
use crate::session::http::history::{Form, HISTORY_LIMIT, HistoryWait, append_page};
use crate::session::http::parameters::{self};
use crate::session::poll::Poll;
use log::RecordView;
use wire::http::Target;
use wire::native::ErrorCode;

impl Edge {
    /// `GET /topics/...` without an event stream: a page of history, or a long poll.
    pub(crate) fn begin_history(
        &mut self,
        index: ConnIndex,
        target: &Target<'_>,
        topic: String,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let limit = parameters::number(target, "limit")?
            .unwrap_or(HISTORY_LIMIT)
            .min(self.settings.limits.page_records_max);
        let since = parameters::position(target, "since")?;
        let reverse = parameters::switch(target, "reverse")?;
        let wait_ms = parameters::duration_ms(target, "wait")?;
        let data = parameters::data_form(target)?;
        self.refuse_from(Pressure::Recoveries)?;
        // A long poll is a subscription that ends with its first messages.
        let action = match wait_ms {
            Some(_) => Action::Subscribe,
            None => Action::History,
        };
        self.permit_request(index, action, &topic)?;
        let limits = &self.settings.limits;
        if let Some(wait_ms) = wait_ms {
            if reverse {
                let detail = "`wait` and `reverse` exclude each other".to_owned();
                return Err(Fault::new(ErrorCode::MalformedParameter, detail));
            }
            let wait_ms =
                if self.is_draining() { 0 } else { wait_ms.min(u64::from(limits.wait_max_ms)) };
            let poll = Poll::new(topic, limit, data, answer.clone());
            self.begin_poll(index, poll, since, wait_ms);
            return Ok(());
        }
        let (rule, partition) = self.settings.locate(&topic);
        let limits = PageLimits { records_max: limit, bytes_max: limits.page_bytes };
        let request = ToHome::History(ReadHistory {
            partition,
            rule,
            topic: self.work.mail.copy(topic.as_bytes()),
            reply: self.history_reply(index),
            beyond: since,
            reverse,
            limits,
        });
        self.request(self.settings.home_of(partition), request);
        self.wait_for_history(index, topic, answer, Form::Page(data));
        Ok(())
    }

    /// `GET /retained/...`: what a new subscriber could begin with; so it takes the same
    /// permission.
    pub(crate) fn begin_retained(
        &mut self,
        index: ConnIndex,
        topic: String,
        answer: &Answer,
    ) -> Result<(), Fault> {
        self.permit_request(index, Action::Subscribe, &topic)?;
        let (_, partition) = self.settings.locate(&topic);
        let request = ToHome::Retained {
            partition,
            topic: self.work.mail.copy(topic.as_bytes()),
            reply: self.history_reply(index),
        };
        self.request(self.settings.home_of(partition), request);
        self.wait_for_history(index, topic, answer, Form::Retained);
        Ok(())
    }

    fn history_reply(&self, index: ConnIndex) -> Reply {
        Reply { connection: self.connections.slots.key(index), request: 0 }
    }

    fn wait_for_history(&mut self, index: ConnIndex, topic: String, answer: &Answer, form: Form) {
        let wait = HistoryWait { topic, answer: answer.clone(), form };
        self.set_state(index, State::History(Box::new(wait)));
        self.connections.slots[index].set(flag::PAUSED);
    }

    pub(crate) fn http_history(
        &mut self,
        index: ConnIndex,
        result: Result<HistoryPage, ErrorCode>,
    ) {
        let Some(State::History(wait)) = self.take_state(index) else {
            return;
        };
        match (result, wait.form) {
            (Err(code), _) => self.answer_fault(index, &wait.answer, &code.into()),
            (Ok(page), Form::Page(data)) => {
                let mut body = Vec::new();
                append_page(&mut body, &wait.topic, &page, data);
                self.answer_json(index, &wait.answer, 200, &body);
            }
            (Ok(page), Form::Retained) => self.answer_retained(index, &wait, &page),
        }
    }

    fn answer_retained(&mut self, index: ConnIndex, wait: &HistoryWait, page: &HistoryPage) {
        let record = page.records.first();
        let Some(record) = record.and_then(|record| RecordView::parse(record)) else {
            let detail = format!("{} has no retained message", wait.topic);
            let fault = Fault::new(ErrorCode::NotFound, detail);
            return self.answer_fault(index, &wait.answer, &fault);
        };
        let keep_alive = wait.answer.keep_alive && !self.is_draining();
        let out = wait.answer.retained(page.epoch, &record, keep_alive);
        self.finish_with(index, &wait.answer, 200, keep_alive, out);
    }
}
