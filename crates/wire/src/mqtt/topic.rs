//! The syntax of topic names and topic filters (section 4.7), and of shared filters (4.8.2).

use super::MqttError;

/// The beginning of a shared filter (MQTT 5.0, section 4.8.2).
pub const SHARED_PREFIX: &str = "$share/";

/// A shared filter: `$share/group/filter`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedFilter<'a> {
    /// The name of the group; not empty, without `/`, `+` and `#`.
    pub group: &'a str,
    /// The filter of the group.
    pub filter: &'a str,
}

/// Checks a topic name: not empty, no wildcards.
///
/// # Errors
/// [`MqttError::TopicName`].
pub fn check_topic(name: &str) -> Result<(), MqttError> {
    if name.is_empty() || has_wildcard(name) { Err(MqttError::TopicName) } else { Ok(()) }
}

/// Checks a topic filter: not empty; `#` only as the last level, `+` only as a whole level. A
/// filter that begins with `$share/` must be a valid shared filter.
///
/// # Errors
/// [`MqttError::TopicFilter`].
pub fn check_filter(filter: &str) -> Result<(), MqttError> {
    match split_shared(filter)? {
        Some(_) => Ok(()),
        None => check_levels(filter),
    }
}

/// Splits a shared filter and checks its parts; `None` if the filter does not begin with `$share/`.
///
/// # Errors
/// [`MqttError::TopicFilter`] if it does, but the rest is malformed.
pub fn split_shared(filter: &str) -> Result<Option<SharedFilter<'_>>, MqttError> {
    let Some(rest) = filter.strip_prefix(SHARED_PREFIX) else {
        return Ok(None);
    };
    let (group, filter) = rest.split_once('/').ok_or(MqttError::TopicFilter)?;
    if group.is_empty() || has_wildcard(group) {
        return Err(MqttError::TopicFilter);
    }
    check_levels(filter)?;
    Ok(Some(SharedFilter { group, filter }))
}

pub(super) fn has_wildcard(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'+' | b'#'))
}

/// Checks the wildcards of a filter. Each one stands behind the start or a `/`, and before the end
/// or, `+` only, a `/`.
fn check_levels(filter: &str) -> Result<(), MqttError> {
    let bytes = filter.as_bytes();
    let is_bound = |at: Option<&u8>| at.is_none_or(|byte| *byte == b'/');
    let is_placed = |(at, byte): (usize, &u8)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(at + 1);
        match byte {
            b'#' => is_bound(before) && after.is_none(),
            b'+' => is_bound(before) && is_bound(after),
            _ => true,
        }
    };
    if !bytes.is_empty() && bytes.iter().enumerate().all(is_placed) {
        Ok(())
    } else {
        Err(MqttError::TopicFilter)
    }
}
