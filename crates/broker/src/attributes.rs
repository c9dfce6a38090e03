//! Attributes of a record beside its payload, in the form of the native protocol.

use log::{Flags, RecordView};
use wire::native::{Attributes, Retained, Tag};

/// Whether the record was published to be retained.
pub(crate) fn retained(view: &RecordView<'_>) -> Retained {
    if view.flags().has(Flags::RETAINED) { Retained::Yes } else { Retained::No }
}

/// Appends the record's content type and tags, and a lineage, as one block of the native protocol;
/// nothing when there are none.
pub(crate) fn append_attributes(view: &RecordView<'_>, lineage: Option<u8>, block: &mut Vec<u8>) {
    if view.fields().next().is_none() && lineage.is_none() {
        return;
    }
    let tags: Vec<Tag<'_>> = view
        .tags()
        .filter_map(|(key, value)| {
            Some(Tag {
                key: std::str::from_utf8(key).ok()?,
                value: std::str::from_utf8(value).ok()?,
            })
        })
        .collect();
    let content_type = view.content_type().and_then(|text| std::str::from_utf8(text).ok());
    let attributes = Attributes { content_type, tags: tags.as_slice().into() };
    attributes.encode_message_block(lineage, block);
}
