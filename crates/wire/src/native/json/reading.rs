//! Parts of frames that both directions read.

use super::{JsonError, MUST_UNDERSTAND, NUMBER_MAX};
use crate::native::{Attributes, Position, Tag};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A text, borrowed from the message where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The first look at an object: its type, and the first member that must be understood, which is
/// unknown in this version.
#[derive(Default)]
pub(super) struct Head<'a> {
    pub kind: Option<Cow<'a, str>>,
    pub unsupported: Option<String>,
}

impl<'de> Deserialize<'de> for Head<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Head<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head<'de>, A::Error> {
                let mut head = Head::default();
                while let Some(Text(name)) = map.next_key()? {
                    if name == "type" {
                        if head.kind.is_some() {
                            return Err(de::Error::duplicate_field("type"));
                        }
                        let Text(kind) = map.next_value()?;
                        head.kind = Some(kind);
                        continue;
                    }
                    map.next_value::<IgnoredAny>()?;
                    if name.starts_with(MUST_UNDERSTAND) && head.unsupported.is_none() {
                        head.unsupported = Some(name.into_owned());
                    }
                }
                Ok(head)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The parts of a list, each with the member that it must not have.
pub(super) fn parts<'a, T: Deserialize<'a>>(
    list: &[&'a RawValue],
) -> Result<Vec<(T, Option<String>)>, JsonError> {
    let part = |part: &&'a RawValue| -> Result<(T, Option<String>), JsonError> {
        let head: Head<'a> = serde_json::from_str(part.get())?;
        Ok((serde_json::from_str(part.get())?, head.unsupported))
    };
    list.iter().map(part).collect()
}

/// A number of 64 bits: a number up to [`NUMBER_MAX`], or decimal text.
#[derive(Clone, Copy)]
pub(super) struct Long(pub u64);

impl<'de> Deserialize<'de> for Long {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Long;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number below 2^53, or a number as decimal text")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Long, E> {
                if number > NUMBER_MAX {
                    return Err(E::invalid_value(de::Unexpected::Unsigned(number), &self));
                }
                Ok(Long(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Long, E> {
                let number = decimal(text);
                number.map(Long).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// A position: the text `<epoch>:<offset>`.
#[derive(Clone, Copy)]
pub(super) struct At(pub Position);

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        let position = text.split_once(':').and_then(|(epoch, offset)| {
            Some(Position { epoch: decimal(epoch)?, offset: decimal(offset)? })
        });
        let expected = "a position as text, <epoch>:<offset>";
        position
            .map(At)
            .ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&text), &expected))
    }
}

/// A decimal number in its shortest form.
fn decimal(text: &str) -> Option<u64> {
    let is_shortest = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_shortest)
}

/// Bytes under two names: as text, or as base64.
pub(super) fn bytes<'a>(
    text: Option<Text<'a>>,
    base64: Option<Text<'_>>,
) -> Result<Option<Cow<'a, [u8]>>, JsonError> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(JsonError::malformed("bytes are text or base64, not both")),
        (Some(Text(Cow::Borrowed(text))), None) => Ok(Some(Cow::Borrowed(text.as_bytes()))),
        (Some(Text(Cow::Owned(text))), None) => Ok(Some(Cow::Owned(text.into_bytes()))),
        (None, Some(text)) => from_base64(&text).map(|bytes| Some(Cow::Owned(bytes))),
        (None, None) => Ok(None),
    }
}

pub(super) fn from_base64(text: &Text<'_>) -> Result<Vec<u8>, JsonError> {
    let decoded = BASE64.decode(text.0.as_bytes());
    decoded.map_err(|error| JsonError::malformed(format!("bytes are not base64: {error}")))
}

/// Content type, tags and payload of a message.
pub(super) struct Body<'a> {
    pub content_type: Option<Text<'a>>,
    pub tags: Vec<(Text<'a>, Text<'a>)>,
    pub payload: Cow<'a, [u8]>,
}

impl<'a> Body<'a> {
    /// Collects the members of an object; without a payload it is empty.
    pub fn of(
        content_type: Option<Text<'a>>,
        tags: Vec<(Text<'a>, Text<'a>)>,
        payload: Option<Text<'a>>,
        payload_base64: Option<Text<'_>>,
    ) -> Result<Self, JsonError> {
        let payload = bytes(payload, payload_base64)?.unwrap_or_default();
        Ok(Self { content_type, tags, payload })
    }

    /// The tags, for [`Body::attributes`].
    pub fn tags(&self) -> Vec<Tag<'_>> {
        self.tags.iter().map(|(key, value)| Tag { key: &key.0, value: &value.0 }).collect()
    }

    pub fn attributes<'b>(&'b self, tags: &'b [Tag<'b>]) -> Attributes<'b> {
        let content_type = self.content_type.as_ref().map(|text| &*text.0);
        Attributes { content_type, tags: tags.into() }
    }
}
