//! Answers to a native client: publications, history, refusals.

use super::{NativeClient, Stage, Todo, Waiting};
use crate::client::Context;
use crate::oracle::{Acknowledged, Oracle, Refusal};
use wire::native::{ErrorCode, ErrorFrame, HistoryPage, Position, Published, Reference};

impl NativeClient {
    pub(super) fn on_published(&mut self, context: &mut Context<'_>, published: &Published) {
        let id = self.peer.id;
        let Some(Waiting::Publication(publication)) = self.requests.remove(&published.request)
        else {
            return context.oracle.fail(id, format!("PUBLISHED for request {}", published.request));
        };
        let Position { epoch, offset } = published.position;
        let told = Acknowledged { epoch, offset, is_duplicate: published.duplicate };
        context.oracle.acknowledged(context.plan, self.peer.source(), publication, told);
        let topic = context.oracle.publications[publication].topic;
        let partition = context.plan.partition(topic);
        let newest = self.acknowledged.entry(partition).or_default();
        // Data that is already on disk is answered at once, before publications that still wait for
        // it.
        let is_new = !published.duplicate;
        if is_new && (newest.0 > published.request || newest.1 >= offset) {
            let (request, before) = *newest;
            context.oracle.fail(
                id,
                format!(
                    "request {} stands at {offset}, after request {request} at {before}",
                    published.request
                ),
            );
        }
        if !published.duplicate {
            *newest = (published.request, offset);
        }
        if self.has_visited {
            context.oracle.visited += 1;
        } else if self.is_auditor {
            context.oracle.markers.insert(topic, (epoch, offset));
            self.todo.push_back(Todo::Audit(topic, None));
        }
    }

    pub(super) fn on_history(&mut self, context: &mut Context<'_>, page: &HistoryPage<'_>) {
        let Some(Waiting::History { topic, reverse, position, audit, asked_at }) =
            self.requests.remove(&page.request)
        else {
            return context.oracle.fail(self.peer.id, format!("HISTORY_PAGE for {}", page.request));
        };
        let source = self.peer.source();
        let fail = |oracle: &mut Oracle, text: String| {
            let name = &context.plan.topics[topic];
            oracle.fail(source.client, format!("history of {name}: {text}"));
        };
        let partition = context.plan.partition(topic);
        let epoch = context.oracle.epoch(partition, source.instance);
        if page.epoch != epoch || page.reverse != reverse {
            fail(context.oracle, format!("epoch {}, reverse {}", page.epoch, page.reverse));
        }
        // Forward: everything up to here is settled. Reverse: the next record must have at least
        // this offset.
        let mut settled = position.unwrap_or(0);
        let mut is_bound = position.is_some();
        if let Some(gap) = page.gap {
            settled = if reverse { settled } else { gap.to };
        }
        let mut last = None;
        for record in page.records {
            let (offset, prev) = (record.offset, record.prev);
            if !context.oracle.delivered(
                context.plan,
                source,
                topic,
                offset,
                Some(prev),
                record.payload,
            ) {
                return;
            }
            if reverse {
                if is_bound && offset >= settled {
                    fail(context.oracle, format!("{offset} is not before {settled}"));
                } else if last.is_some() && is_bound && offset < settled_prev(last) {
                    fail(context.oracle, format!("{offset} is not the one before {last:?}"));
                }
                settled = offset;
            } else {
                if is_bound && prev > settled {
                    fail(
                        context.oracle,
                        format!("{offset} has prev {prev}, but the one before is {settled}"),
                    );
                }
                if is_bound && offset <= settled {
                    fail(context.oracle, format!("{offset} is not after {settled}"));
                }
                settled = offset;
            }
            is_bound = true;
            last = Some((offset, prev));
        }
        if audit {
            let seen: Vec<u64> = page.records.iter().map(|record| record.offset).collect();
            let present = context.oracle.present.entry(topic).or_default();
            present.extend(seen.into_iter().map(|offset| (offset, asked_at)));
            if page.more {
                let position = last.map(|(offset, _)| offset).or(position);
                self.todo.push_back(Todo::Audit(topic, position));
            }
        } else if page.more && page.records.is_empty() {
            fail(context.oracle, "no records, and more".into());
        }
    }

    pub(super) fn on_error(&mut self, context: &mut Context<'_>, error: &ErrorFrame<'_>) {
        let id = self.peer.id;
        let codes =
            |codes: &[ErrorCode]| codes.iter().any(|code| u32::from(code.number()) == error.code);
        let is_bound = codes(&[
            ErrorCode::MemoryFull,
            ErrorCode::LogFull,
            ErrorCode::RetainedFull,
            ErrorCode::MessageTooLarge,
            ErrorCode::TopicsFull,
        ]);
        let refuses = context.plan.disk.refuses();
        let is_unavailable = codes(&[ErrorCode::LogUnavailable, ErrorCode::LogFull]);
        // Retention may have dropped an unanswered publication, or damage may have removed it and
        // kept its successors.
        let is_gone = context.oracle.is_flipped || !context.plan.lossless;
        let is_repeat_late = codes(&[ErrorCode::OutOfOrder]) && is_gone;
        // Requested around GO_AWAY: available elsewhere, or later.
        let is_led_away = codes(&[ErrorCode::ShuttingDown]) && self.is_away;
        match error.reference {
            Reference::Subscription(_) if is_led_away => {}
            Reference::Request(request) => match self.requests.remove(&request) {
                Some(Waiting::Ticket) if is_led_away => {}
                Some(Waiting::Publication(publication))
                    if is_unavailable && (refuses || !context.plan.lossless) =>
                {
                    self.on_unavailable(context, publication);
                }
                Some(Waiting::Publication(publication))
                    if is_repeat_late
                        && context.oracle.publications[publication].attempts() > 1 =>
                {
                    let source = self.peer.source();
                    context.oracle.refused(context.plan, source, publication, Refusal::UntilCrash);
                }
                Some(Waiting::History { .. })
                    if is_unavailable && context.plan.disk.refuses_reads() => {}
                Some(Waiting::Publication(publication)) if is_bound && !context.plan.lossless => {
                    let source = self.peer.source();
                    context.oracle.refused(context.plan, source, publication, Refusal::Final);
                }
                None if request == 0 && (is_unavailable || !context.plan.lossless) => {}
                _ => context.oracle.fail(id, format!("request {request}: {}", error.message)),
            },
            Reference::Subscription(number) => self.on_subscription_error(context, number, error),
            Reference::Connection => {
                context.oracle.fail(id, format!("connection: {}", error.message))
            }
        }
    }

    /// Handles an error about a subscription.
    fn on_subscription_error(
        &mut self,
        context: &mut Context<'_>,
        number: u32,
        error: &ErrorFrame<'_>,
    ) {
        let id = self.peer.id;
        let codes =
            |codes: &[ErrorCode]| codes.iter().any(|code| u32::from(code.number()) == error.code);
        let is_bound = codes(&[
            ErrorCode::MemoryFull,
            ErrorCode::LogFull,
            ErrorCode::RetainedFull,
            ErrorCode::MessageTooLarge,
            ErrorCode::TopicsFull,
        ]);
        let is_unavailable = codes(&[ErrorCode::LogUnavailable, ErrorCode::LogFull]);
        if self.wide.contains_key(&number) {
            let may_end = is_unavailable && context.plan.disk.refuses_reads();
            return if may_end {
                self.on_filter_ended(context, number)
            } else {
                context.oracle.fail(id, format!("filter {number}: {}", error.message))
            };
        }
        let Some(plain) = self.plain.get_mut(&number) else {
            // CREDIT for a subscription that has ended meanwhile.
            return;
        };
        match error.restart {
            Some(restart) if codes(&[ErrorCode::PositionUnavailable]) && plain.fail_on_gap => {
                let partition = context.plan.partition(plain.run.topic);
                let place = (partition, self.peer.instance);
                plain.refused_from(context.oracle, place, restart);
                // `fail_on_gap` is still set.
                self.ticket = None;
                self.ask_plain(context, number);
            }
            _ if is_unavailable && context.plan.disk.refuses_reads() => {
                // It may resume with its position.
                plain.stage = Stage::Absent;
                plain.gap_due = None;
                self.peer.leave(context, false);
                self.lost(context);
            }
            _ if is_bound && !context.plan.lossless => {
                if let Some(plain) = self.plain.remove(&number) {
                    context.oracle.keep_run(plain.run);
                }
            }
            _ => context.oracle.fail(id, format!("subscription {number}: {}", error.message)),
        }
    }
}

fn settled_prev(last: Option<(u64, u64)>) -> u64 {
    last.map_or(0, |(_, prev)| prev)
}
