//! Messages as JSON, for history, long polls and event streams. Written by hand, because it is on
//! the path of a message; read with `serde_json` where clients write it.

use super::http::parameters::DataForm;
use crate::mail::Gap;
use crate::notice::LeftOut;
use crate::position::Position;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use log::{Flags, RecordView};
use wire::http::problem::append_json_string;
use wire::native::SkipReason;

/// Appends `"data":...`, or `"b64data":"..."` for a payload that is not UTF-8.
fn append_data(out: &mut Vec<u8>, view: &RecordView<'_>, data: DataForm) {
    let payload = view.payload();
    if data == DataForm::Json && is_json_type(view) && is_json(payload) {
        out.extend_from_slice(b"\"data\":");
        // Between its parts a line's end is as good as a space, and within them there is none.
        let of_one_line = |byte: &u8| match byte {
            b'\n' | b'\r' => b' ',
            byte => *byte,
        };
        out.extend(payload.iter().map(of_one_line));
        return;
    }
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

/// `application/json`, or a type whose name ends in `+json` (RFC 6839, section 3.1); whatever its
/// parameters.
fn is_json_type(view: &RecordView<'_>) -> bool {
    let content_type = view.content_type().unwrap_or_default();
    let name = content_type.split(|byte| *byte == b';').next();
    let name = name.unwrap_or_default().trim_ascii();
    let suffix = name.len().checked_sub(b"+json".len());
    name.eq_ignore_ascii_case(b"application/json")
        || suffix.is_some_and(|at| name[at..].eq_ignore_ascii_case(b"+json"))
}

/// Whether a payload is JSON: the publisher's media type may be wrong.
fn is_json(payload: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(payload).is_ok()
        && std::str::from_utf8(payload).is_ok()
}

/// Appends the members that every message has, without braces.
pub(crate) fn append_message(out: &mut Vec<u8>, epoch: u64, view: &RecordView<'_>, data: DataForm) {
    let position = Position { epoch, offset: view.offset() };
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
    if let Some(content_type) = view.content_type().and_then(|text| std::str::from_utf8(text).ok())
    {
        out.extend_from_slice(b"\"content_type\":");
        append_json_string(out, content_type);
        out.push(b',');
    }
    if view.tags().next().is_some() {
        append_tags(out, view);
    }
    append_data(out, view, data);
}

/// Appends `"tags":{...},`. The values of a key that comes more than once are an array, in the
/// message's order: of a member that came twice most readers would keep one.
fn append_tags(out: &mut Vec<u8>, view: &RecordView<'_>) {
    let mut tags: Vec<(&[u8], &[u8])> = view.tags().collect();
    let mut keys: Vec<&[u8]> = tags.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        tags.sort_by_key(|(key, _)| *key); // of equal ones the order stays
    }
    out.extend_from_slice(b"\"tags\":{");
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    for (count, group) in tags.chunk_by(|one, two| one.0 == two.0).enumerate() {
        if count > 0 {
            out.push(b',');
        }
        append_json_string(out, text(group[0].0));
        out.push(b':');
        match group {
            [(_, value)] => append_json_string(out, text(value)),
            _ => {
                for (count, (_, value)) in group.iter().enumerate() {
                    out.push(if count > 0 { b',' } else { b'[' });
                    append_json_string(out, text(value));
                }
                out.push(b']');
            }
        }
    }
    out.extend_from_slice(b"},");
}

/// Appends a gap as an object: the records after `from` up to and including `to`.
pub(crate) fn append_gap(out: &mut Vec<u8>, gap: &Gap) {
    let reason = gap.reason.word();
    append(
        out,
        format_args!("{{\"from\":{},\"to\":{},\"reason\":\"{reason}\"}}", gap.from, gap.to),
    );
}

/// Appends formatted text.
pub(crate) fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(text);
}

/// The end of an object about messages that a policy left out.
pub(crate) fn append_left_out(data: &mut Vec<u8>, left_out: &LeftOut) {
    let LeftOut { from, through, .. } = left_out;
    let reason = match left_out.reason {
        SkipReason::Conflated => "conflated",
        SkipReason::Dropped | SkipReason::Other(_) => "dropped",
    };
    append(data, format_args!("\"from\":{from},\"through\":{through},\"reason\":\"{reason}\"}}"));
}
