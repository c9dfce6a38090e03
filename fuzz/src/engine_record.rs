//! The target of an engine's records. It takes the file and not the crate, which has librdkafka in
//! it.

#[path = "../../crates/engine/src/record.rs"]
mod record;

use broker::engine::{EnginePublish, RunName, TailRecord};
use broker::mail::PartitionId;
use record::{Foreign, Mapping, Memory, RawRecord};
use stdx::hash::Partitioner;

/// A record of any bytes: it is a message that comes back from its own record, or unroutable.
pub fn engine_record(data: &[u8]) {
    let mapping = Mapping {
        topic_prefix: "t/".into(),
        partitioner: Partitioner::Murmur2,
        partitions_count: 2,
        foreign: Foreign { tag_headers: vec!["listed".into()], ..Foreign::default() },
        payload_bytes_max: 64,
        is_compacted: true,
    };
    let mut parts = parts(data).into_iter();
    let key = parts.next();
    let value = parts.next();
    let rest: Vec<&[u8]> = parts.collect();
    let headers: Vec<(&[u8], &[u8])> = rest.chunks_exact(2).map(|it| (it[0], it[1])).collect();
    let raw = RawRecord { offset: 7, lineage: 3, time_ms: 9, key, value, headers: &headers };
    let read = |raw: &RawRecord<'_>, place| mapping.to_message(place, raw, &mut Memory::default());
    let messages = [read(&raw, 0), read(&raw, 1)];
    let is_message = |it: &Result<TailRecord, _>| it.as_ref().is_ok_and(|it| !it.is_register);
    assert!(!messages.iter().all(is_message), "a key has one partition");
    for (place, message) in (0..).zip(messages) {
        let Ok(message) = message else { continue };
        let name = message.name.unwrap_or(RunName { run: 1, counter: 2 });
        let publication = message.publication.clone();
        let (restored, is_register) = (message.restored.clone(), message.is_register);
        let partition = PartitionId(place);
        let sent = EnginePublish { partition, name, publication, restored, is_register };
        let Ok(out) = mapping.to_record(&sent) else { panic!("{message:?} has no record") };
        let headers: Vec<(&[u8], &[u8])> =
            out.headers.iter().map(|(name, value)| (name.to_bytes(), &value[..])).collect();
        let raw = RawRecord { key: Some(out.key), value: out.value, headers: &headers, ..raw };
        let Ok(again) = read(&raw, place) else { panic!("{message:?} does not come back") };
        assert_eq!((again.name, &again.restored), (Some(name), &message.restored));
        assert_eq!(again.is_register, message.is_register);
        assert_eq!(format!("{:?}", again.publication), format!("{:?}", message.publication));
    }
}

/// Pieces of the data, each behind a byte with its length.
fn parts(mut data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (part, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        parts.push(part);
        data = rest;
    }
    parts
}

/// Records with each of the headers, and without.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let numbers = [1_u8; 16];
    let stamp = [&numbers[..], b"till"].concat();
    let restored = [&numbers[..4], &[0; 4], &numbers[..8], &numbers].concat();
    let records: [&[&[u8]]; 8] = [
        &[b"a", b"hello"],
        &[b"a/b", b"", b"content-type", b"text/plain", b"ce_id", b"7", b"crore.tag.unit", b"kg"],
        &[b"42", b"x", b"crore.n", &numbers, b"crore.p", &stamp, b"crore.k", b"once"],
        &[b"42", b"x", b"crore.n", &numbers, b"crore.r", &restored],
        &[b"k", b"v", b"listed", b"yes", b"internal", b"no"],
        &[b"a/+", b"v"],
        &[b"a", b"v", b"crore.n", b"short"],
        &[b"$groups/n1", b"register", b"crore.n", &numbers, b"crore.g", b""],
    ];
    let bytes = |parts: &&[&[u8]]| {
        parts.iter().flat_map(|part| [&[part.len() as u8], *part].concat()).collect()
    };
    records.iter().map(bytes).collect()
}
