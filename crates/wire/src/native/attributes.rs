//! Attributes of a message: the content type and the tags. One encoding in PUBLISH, messages,
//! history and the log.

use super::options::{Options, set_once, write_lineage, write_option};
use super::reader::{Reader, text, write_bytes};
use super::{FrameError, flag, option_key, varint};

/// A key and a value that the publisher gave to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag<'a> {
    /// The key, UTF-8.
    pub key: &'a str,
    /// The value, UTF-8.
    pub value: &'a str,
}

/// Content type and tags of a message.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Attributes<'a> {
    /// The payload's media type.
    pub content_type: Option<&'a str>,
    /// The tags, in the publisher's order; keys may repeat.
    pub tags: Tags<'a>,
}

impl<'a> Attributes<'a> {
    /// Whether there is nothing to encode, so that no options block is needed.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.content_type.is_none() && self.tags.is_empty()
    }

    /// Appends a complete options block, even an empty one. The log stores these bytes, and the
    /// caller of [`super::message_head`] appends them unchanged behind the head of each message.
    pub fn encode_block(&self, out: &mut Vec<u8>) {
        varint::encode(self.options_count() as u64, out);
        self.write_options(out);
    }

    /// Appends the options block of a MESSAGE; nothing for one without options.
    pub fn encode_message_block(&self, lineage: Option<u8>, out: &mut Vec<u8>) {
        let count = self.options_count() + usize::from(lineage.is_some());
        if count > 0 {
            varint::encode(count as u64, out);
            write_lineage(lineage, out);
            self.write_options(out);
        }
    }

    /// The number of options.
    pub(super) fn options_count(&self) -> usize {
        usize::from(self.content_type.is_some()) + self.tags.iter().count()
    }

    /// Writes the options without their count.
    pub(super) fn write_options(&self, out: &mut Vec<u8>) {
        if let Some(content_type) = self.content_type {
            write_option(option_key::CONTENT_TYPE, content_type.as_bytes(), out);
        }
        for tag in self.tags.iter() {
            let key_bytes = varint::length(tag.key.len() as u64) + tag.key.len();
            varint::encode(option_key::TAG, out);
            varint::encode((key_bytes + tag.value.len()) as u64, out);
            write_bytes(tag.key.as_bytes(), out);
            out.extend_from_slice(tag.value.as_bytes());
        }
    }

    /// Decodes the output of [`Self::encode_block`]; `block` must be exactly one block. An empty
    /// slice means no attributes.
    ///
    /// # Errors
    /// See [`FrameError`]; the rules are those of a frame's options block.
    pub fn decode_block(block: &'a [u8]) -> Result<Self, FrameError> {
        if block.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader::new(block);
        let options = Options::read(&mut reader, flag::OPTIONS)?;
        reader.end()?;
        match Self::read(options)? {
            (attributes, None) => Ok(attributes),
            (_, Some(key)) => {
                Err(FrameError::UnsupportedOption { key, reference: super::Reference::Connection })
            }
        }
    }

    /// Reads the attributes among `options`, and returns the first unknown odd key.
    #[inline]
    pub(super) fn read(options: Options<'a>) -> Result<(Self, Option<u64>), FrameError> {
        if options.is_empty() {
            return Ok((Self::default(), None));
        }
        Self::read_some(options)
    }

    fn read_some(options: Options<'a>) -> Result<(Self, Option<u64>), FrameError> {
        let mut content_type = None;
        let mut unsupported = None;
        for (key, value) in options.iter() {
            match key {
                option_key::CONTENT_TYPE => set_once(&mut content_type, key, text(value)?)?,
                option_key::TAG => _ = read_tag(value)?,
                _ if key % 2 == 1 => unsupported = unsupported.or(Some(key)),
                _ => {}
            }
        }
        let tags = Tags(Kept::Options(options));
        Ok((Self { content_type, tags }, unsupported))
    }
}

/// The tags of a message: borrowed from the input after decoding, from a slice when encoding.
#[derive(Clone, Copy)]
pub struct Tags<'a>(Kept<'a>);

#[derive(Clone, Copy)]
enum Kept<'a> {
    Slice(&'a [Tag<'a>]),
    Options(Options<'a>),
}

impl<'a> Tags<'a> {
    /// The tags in the publisher's order.
    pub fn iter(&self) -> impl Iterator<Item = Tag<'a>> + use<'a> {
        let (slice, options) = match self.0 {
            Kept::Slice(slice) => (slice, Options::default()),
            Kept::Options(options) => (&[][..], options),
        };
        let on_wire = options
            .iter()
            .filter(|(key, _)| *key == option_key::TAG)
            .filter_map(|(_, value)| read_tag(value).ok());
        slice.iter().copied().chain(on_wire)
    }

    /// True without tags.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self.0 {
            Kept::Slice(slice) => slice.is_empty(),
            Kept::Options(options) => options.is_empty() || self.iter().next().is_none(),
        }
    }
}

impl Default for Tags<'_> {
    fn default() -> Self {
        Self(Kept::Slice(&[]))
    }
}

impl<'a> From<&'a [Tag<'a>]> for Tags<'a> {
    fn from(slice: &'a [Tag<'a>]) -> Self {
        Self(Kept::Slice(slice))
    }
}

impl PartialEq for Tags<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for Tags<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Reads the value of a tag in the options block: the key with its length, then the value up to the
/// end.
fn read_tag(bytes: &[u8]) -> Result<Tag<'_>, FrameError> {
    let mut reader = Reader::new(bytes);
    let key = reader.string()?;
    let value = text(reader.payload())?;
    Ok(Tag { key, value })
}
