//! The state that one process hands to the next in a live upgrade: values of every kind, the table
//! of connections, and the messages.
//!
//! Assertions: no input panics or allocates much memory, whatever counts it contains; a decoded
//! value encodes to the same bytes, or, where order has no meaning, to bytes that decode to the
//! same value.

use net::kernel::ConnectionTable;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::handing::{Hand, Input};

#[derive(PartialEq, Debug, Hand)]
struct Values {
    texts: Vec<String>,
    names: VecDeque<Box<str>>,
    lists: Vec<Vec<Vec<u8>>>,
    wide: Vec<[u64; 40]>,
    map: BTreeMap<u32, Option<(u16, i64)>>,
    set: BTreeSet<(u8, bool)>,
    kinds: Box<[Kind]>,
    shared: Arc<Result<i32, ()>>,
    addresses: Vec<IpAddr>,
    numbers: (Vec<NonZeroU32>, Option<NonZeroU8>, usize, u128),
}

#[derive(PartialEq, Debug, Hand)]
enum Kind {
    Nothing,
    Named { name: Box<str>, count: u32 },
    Nested(Box<Vec<u16>>, [u8; 3]),
}

/// The target `handed`; see the module.
pub fn handed(data: &[u8]) {
    let mut input = Input::new(data);
    if let Some(values) = Values::take(&mut input) {
        let mut bytes = Vec::new();
        values.give(&mut bytes);
        let again = Values::take(&mut Input::new(&bytes));
        assert_eq!(again.as_ref(), Some(&values));
        assert!(values.wide.capacity() <= 2 * data.len());
        assert!(values.texts.capacity() <= 2 * data.len());
    }
    if let Some(slice) = Slice::take(&mut Input::new(data)) {
        assert!(slice.len() <= data.len());
    }
    if let Some(connection_table) = ConnectionTable::take(&mut Input::new(data)) {
        let mut bytes = Vec::new();
        connection_table.give(&mut bytes);
        assert_eq!(bytes, data[..bytes.len()]);
    }
    for bytes in node::upgrade::read_messages(data).into_iter().flatten() {
        // Decoding again gives the same message.
        let again = node::upgrade::read_messages(&bytes);
        assert!(again.contains(&Some(bytes)));
    }
}

/// Encoded values, and lists that announce more values than follow.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let values = Values {
        texts: vec!["a".into(), String::new()],
        names: ["b".into()].into(),
        lists: vec![vec![vec![1, 2], Vec::new()]],
        wide: vec![[7; 40]],
        map: [(1, None), (2, Some((3, -4)))].into(),
        set: [(5, true)].into(),
        kinds: [
            Kind::Nothing,
            Kind::Named { name: "c".into(), count: 6 },
            Kind::Nested(Box::new(vec![7]), [8; 3]),
        ]
        .into(),
        shared: Arc::new(Ok(9)),
        addresses: vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([10; 16])],
        numbers: (vec![NonZeroU32::MIN], NonZeroU8::new(2), 3, 4),
    };
    let mut whole = Vec::new();
    values.give(&mut whole);
    let list = |count: u64, value: u64| [count.to_le_bytes(), value.to_le_bytes()].concat();
    let mut worker = Vec::new();
    // Epoch, heads, floors, no sweep; nothing refused; a clock; no reads; counters at zero.
    (9_u64, vec![4_u64, 5], vec![1_u64, 1]).give(&mut worker);
    worker.resize(worker.len() + 600, 0);
    let counts = [1, 8, 200, u64::MAX];
    let mut seeds = vec![whole.clone(), whole[..whole.len() / 2].to_vec(), worker];
    seeds.extend(counts.map(|count| list(count, 3)));
    seeds.extend(counts.map(|count| [list(count, count), whole.clone()].concat()));
    seeds
}
