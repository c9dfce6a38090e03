//! Messages as JSON, for history, long polls and event streams. Written by hand, because it is on the path of a
//! message; read with `serde_json` where clients write it.

use crate::edge::LeftOut;
use crate::mail::{Gap, GapReason};
use crate::position::Position;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use log::{Flags, RecordView};
use wire::http::problem::append_json_string;
use wire::native::SkipReason;

/// Appends `"data":"..."`, or `"b64data":"..."` for a payload that is not UTF-8.
pub(super) fn append_data(out: &mut Vec<u8>, payload: &[u8]) {
    match std::str::from_utf8(payload) {
        Ok(text) => {
            out.extend_from_slice(b"\"data\":");
            append_json_string(out, text);
        }
        Err(_) => {
            out.extend_from_slice(b"\"b64data\":\"");
            out.extend_from_slice(BASE64.encode(payload).as_bytes());
            out.push(b'"');
        }
    }
}

/// Appends the members that every message has, without braces.
pub(crate) fn append_message(out: &mut Vec<u8>, epoch: u64, view: &RecordView<'_>) {
    let position = Position {
        epoch,
        offset: view.offset(),
    };
    append(
        out,
        format_args!(
            "\"position\":\"{position}\",\"offset\":{},\"time_ms\":{},",
            view.offset(),
            view.time_ms()
        ),
    );
    if view.flags().has(Flags::RETAINED) {
        out.extend_from_slice(b"\"retained\":true,");
    }
    if let Some(content_type) = view
        .content_type()
        .and_then(|text| std::str::from_utf8(text).ok())
    {
        out.extend_from_slice(b"\"content_type\":");
        append_json_string(out, content_type);
        out.push(b',');
    }
    let mut tags = view.tags().peekable();
    if tags.peek().is_some() {
        out.extend_from_slice(b"\"tags\":{");
        for (count, (key, value)) in tags.enumerate() {
            if count > 0 {
                out.push(b',');
            }
            append_json_string(out, std::str::from_utf8(key).unwrap_or_default());
            out.push(b':');
            append_json_string(out, std::str::from_utf8(value).unwrap_or_default());
        }
        out.extend_from_slice(b"},");
    }
    append_data(out, view.payload());
}

/// Appends a gap as an object: what lies after `from` up to and including `to` cannot be had.
pub(super) fn append_gap(out: &mut Vec<u8>, gap: &Gap) {
    let reason = match gap.reason {
        GapReason::Evicted => "evicted",
        GapReason::UnknownEpoch => "unknown_epoch",
        GapReason::BeyondHead => "beyond_head",
        GapReason::HistoryLimit => "history_limit",
        GapReason::Damaged => "damaged",
    };
    append(
        out,
        format_args!(
            "{{\"from\":{},\"to\":{},\"reason\":\"{reason}\"}}",
            gap.from, gap.to
        ),
    );
}

/// Appends formatted text.
pub(super) fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(text);
}

/// The end of an object that tells what a policy left out.
pub(super) fn append_left_out(data: &mut Vec<u8>, left_out: &LeftOut) {
    let LeftOut { from, through, .. } = left_out;
    let reason = match left_out.reason {
        SkipReason::Conflated => "conflated",
        _ => "dropped",
    };
    append(
        data,
        format_args!("\"from\":{from},\"through\":{through},\"reason\":\"{reason}\"}}"),
    );
}
