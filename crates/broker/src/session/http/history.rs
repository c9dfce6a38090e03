//! Pages of a topic's history over HTTP, and a topic's retained message.

use super::answer::Answer;
use super::parameters::DataForm;
use crate::mail::HistoryPage;
use crate::position::Position;
use crate::session::json;
use log::RecordView;
use stdx::handing::Hand;
use wire::http::problem::append_json_string;

/// A request that waits for its home.
#[derive(Hand)]
pub(crate) struct HistoryWait {
    pub topic: String,
    pub answer: Answer,
    pub form: Form,
}

/// The form in which the records of a page are answered.
#[derive(Clone, Copy, Hand)]
pub(crate) enum Form {
    /// A page of JSON.
    Page(DataForm),
    /// The one record that there is, its payload as the body.
    Retained,
}

/// Records of a page without `limit`.
pub(crate) const HISTORY_LIMIT: u32 = 100;

/// Appends a page as the body of an answer. `cursor` is the start of the next page.
pub(crate) fn append_page(out: &mut Vec<u8>, topic: &str, page: &HistoryPage, data: DataForm) {
    out.extend_from_slice(b"{\"topic\":");
    append_json_string(out, topic);
    json::append(out, format_args!(",\"epoch\":\"{}\",\"head\":{},", page.epoch, page.head));
    if let Some(gap) = &page.gap {
        out.extend_from_slice(b"\"gap\":");
        json::append_gap(out, gap);
        out.push(b',');
    }
    out.extend_from_slice(b"\"messages\":[");
    let mut last = None;
    for (count, record) in page.records.iter().enumerate() {
        let Some(view) = RecordView::parse(record) else {
            continue;
        };
        if count > 0 {
            out.push(b',');
        }
        out.push(b'{');
        json::append_message(out, page.epoch, &view, data);
        out.push(b'}');
        last = Some(view.offset());
    }
    // With nothing more to come, everything up to the head is known; going back, the last record is
    // the place. A page of nothing but damage is settled up to there.
    let offset = match (last, &page.gap) {
        (Some(last), _) if page.more || page.reverse => last,
        (None, Some(gap)) if page.more => gap.to,
        _ => page.head,
    };
    let cursor = Position { epoch: page.epoch, offset };
    json::append(out, format_args!("],\"more\":{},\"cursor\":\"{cursor}\"}}", page.more));
}
