//! The topic table of a home: every topic that it knows, by name and by a small id.
//!
//! Place on the path: a publish or subscribe looks its topic up here once; behind it, records,
//! indexes and retained messages name the topic by its id. Names lie in an arena, once.
//!
//! Invariants: a topic is known while an edge has interest, its log holds a record of it, or a
//! retained message of it is kept; only then is its id free for another, so that an id in a record
//! that can still be read is never ambiguous. An edge has at most one [`Interest`] in a topic.
//!
//! Growth never pauses: entries and names grow by pages, and the hash is split into
//! [`TABLES_COUNT`] tables.

use crate::mail::EdgeId;
use hashbrown::HashTable;
use stdx::handing::{Hand, Input, Layout};
use stdx::hash::{Seed, keyed};
use stdx::memory::vector_bytes;
use stdx::names::{Name, Names};
use stdx::prefetch::prefetch;
use stdx::slab::Slab;

/// One table holds about a thousandth of the topics, so that its growth moves ten thousand of ten
/// million.
const TABLES_COUNT: usize = 1024;
/// Topics that are looked for at once, at most.
pub(super) const AHEAD: usize = 32;
/// No handle.
pub(super) const NONE: u32 = u32::MAX;

/// The entry of one topic. The size is asserted: ten million of them are the design point.
#[derive(Debug, Hand)]
pub(super) struct Topic {
    name: Name,
    /// The home's own number of the partition.
    pub partition: u32,
    /// Low and high half of `last`.
    last: [u32; 2],
    /// The interest of one edge, or vacant.
    first: Interest,
    /// Interest of further edges: a place in `TopicTable::more`, or `NONE`.
    more: u32,
    /// The retained message: a place in the store, or `NONE`.
    pub retained: u32,
    /// The version of the home's filters that interest by filter was computed from.
    pub filters_version: u32,
}

const _: () = assert!(Slab::<Topic>::ENTRY_BYTES <= 36 && size_of::<Interest>() == 8);

/// The interest of one edge in a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(super) struct Interest {
    /// The index that stands for the topic between this home and the edge.
    pub index: u32,
    pub edge: EdgeId,
    /// Bits of `interest`; 0 is vacant.
    pub flags: u8,
}

/// Bits of [`Interest::flags`].
pub(super) mod interest {
    /// A plain subscription.
    pub const EXACT: u8 = 1;
    /// A filter of the edge covers the topic.
    pub const BY_FILTER: u8 = 1 << 1;
    /// The edge has learned the name since it last added a filter.
    pub const ANNOUNCED: u8 = 1 << 2;
    /// The edge has seen the index, by grant or announcement, and must hear when it is released.
    pub const SEEN: u8 = 1 << 3;
}

#[derive(Debug)]
pub(super) struct TopicTable {
    topics: Slab<Topic>,
    names: Names,
    tables: Box<[HashTable<u32>]>,
    seed: Seed,
    more: Slab<Vec<Interest>>,
    /// Places for interests in these.
    more_places: usize,
}

impl Interest {
    const VACANT: Interest = Interest { index: 0, edge: EdgeId(0), flags: 0 };

    pub fn has(self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

impl Topic {
    /// The topic's newest offset; for a topic without a record, one at or above all that it may
    /// ever have had.
    pub fn last(&self) -> u64 {
        u64::from(self.last[1]) << 32 | u64::from(self.last[0])
    }

    pub fn set_last(&mut self, offset: u64) {
        self.last = [offset as u32, (offset >> 32) as u32];
    }
}

impl TopicTable {
    pub fn new(seed: Seed) -> TopicTable {
        TopicTable {
            topics: Slab::new(),
            names: Names::new(),
            tables: (0..TABLES_COUNT).map(|_| HashTable::new()).collect(),
            seed,
            more: Slab::new(),
            more_places: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// One more than the highest id ever given.
    pub fn places(&self) -> u32 {
        self.topics.places()
    }

    pub fn get(&self, topic: u32) -> Option<&Topic> {
        self.topics.get(topic)
    }

    pub fn get_mut(&mut self, topic: u32) -> Option<&mut Topic> {
        self.topics.get_mut(topic)
    }

    pub fn name(&self, topic: u32) -> &[u8] {
        self.topics.get(topic).map_or(&[], |topic| self.names.get(topic.name))
    }

    pub fn find(&self, name: &[u8], partition: u32) -> Option<u32> {
        let hash = keyed(self.seed, name);
        let same = |topic: &u32| self.is(*topic, name, partition);
        self.tables[table_of(hash)].find(hash, same).copied()
    }

    /// Looks for several topics at once, and asks for the memory that their use will need. A found
    /// id may be that of another topic ([`TopicTable::is`]), rarely; and a known topic may not be
    /// found.
    pub fn find_ahead<'a>(
        &self,
        names: impl Iterator<Item = Option<&'a [u8]>>,
        found: &mut [Option<u32>; AHEAD],
    ) {
        let mut places: [Option<&u32>; AHEAD] = [None; AHEAD];
        for (place, name) in places.iter_mut().zip(names) {
            let Some(name) = name else {
                continue;
            };
            let hash = keyed(self.seed, name);
            *place = self.tables[table_of(hash)].iter_hash(hash).next();
            place.iter().for_each(|place| prefetch(*place));
        }
        for (found, place) in found.iter_mut().zip(&places) {
            *found = place.copied();
            found.iter().for_each(|topic| self.topics.prefetch(*topic));
        }
        for topic in found.iter().flatten() {
            if let Some(topic) = self.topics.get(*topic) {
                self.names.prefetch(topic.name);
            }
        }
    }

    /// Whether the id stands for this topic.
    pub fn is(&self, topic: u32, name: &[u8], partition: u32) -> bool {
        self.topics
            .get(topic)
            .is_some_and(|topic| topic.partition == partition && self.names.get(topic.name) == name)
    }

    /// Adds a topic that is not known. None if the name is too long or the arena is full.
    pub fn insert(&mut self, name: &[u8], partition: u32, last: u64, version: u32) -> Option<u32> {
        let hash = keyed(self.seed, name);
        let mut topic = Topic {
            name: self.names.insert(name)?,
            partition,
            last: [0; 2],
            first: Interest::VACANT,
            more: NONE,
            retained: NONE,
            filters_version: version,
        };
        topic.set_last(last);
        let id = self.topics.insert(topic);
        let TopicTable { topics, names, tables, seed, .. } = self;
        tables[table_of(hash)].insert_unique(hash, id, |topic| {
            topics.get(*topic).map_or(0, |topic| keyed(*seed, names.get(topic.name)))
        });
        Some(id)
    }

    /// Forgets a topic; its interest must have gone.
    pub fn remove(&mut self, id: u32) {
        let Some(topic) = self.topics.remove(id) else {
            return;
        };
        let hash = keyed(self.seed, self.names.get(topic.name));
        if let Ok(slot) = self.tables[table_of(hash)].find_entry(hash, |other| *other == id) {
            slot.remove();
        }
        self.names.remove(topic.name);
        self.more_places -= self.more.remove(topic.more).map_or(0, |more| more.capacity());
    }

    /// The topic's interests one after the other: the n-th, until there is none.
    pub fn interest_at(&self, topic: u32, nth: usize) -> Option<Interest> {
        let topic = self.topics.get(topic)?;
        let found = match nth.checked_sub(1) {
            None => topic.first,
            Some(place) => *self.more.get(topic.more)?.get(place)?,
        };
        Some(found).filter(|found| found.flags != 0)
    }

    /// The interest of one edge, to change its flags; never to 0.
    pub fn interest_mut(&mut self, topic: u32, edge: EdgeId) -> Option<&mut Interest> {
        let topic = self.topics.get_mut(topic)?;
        if topic.first.flags != 0 && topic.first.edge == edge {
            return Some(&mut topic.first);
        }
        self.more.get_mut(topic.more)?.iter_mut().find(|interest| interest.edge == edge)
    }

    pub fn interest_of(&self, topic: u32, edge: EdgeId) -> Option<Interest> {
        let topic = self.topics.get(topic)?;
        if topic.first.flags != 0 && topic.first.edge == edge {
            return Some(topic.first);
        }
        self.more.get(topic.more)?.iter().find(|interest| interest.edge == edge).copied()
    }

    /// Adds the interest of an edge that has none yet.
    pub fn add_interest(&mut self, topic: u32, interest: Interest) {
        let Some(topic) = self.topics.get_mut(topic) else {
            return;
        };
        if topic.first.flags == 0 {
            topic.first = interest;
        } else if let Some(more) = self.more.get_mut(topic.more) {
            self.more_places -= more.capacity();
            more.push(interest);
            self.more_places += more.capacity();
        } else {
            let more = vec![interest];
            self.more_places += more.capacity();
            topic.more = self.more.insert(more);
        }
    }

    /// Takes the interest of an edge away.
    pub fn remove_interest(&mut self, topic: u32, edge: EdgeId) -> Option<Interest> {
        let topic = self.topics.get_mut(topic)?;
        let is_first = topic.first.flags != 0 && topic.first.edge == edge;
        let removed = match self.more.get_mut(topic.more) {
            Some(more) if is_first => {
                std::mem::replace(&mut topic.first, more.pop().unwrap_or(Interest::VACANT))
            }
            None if is_first => std::mem::replace(&mut topic.first, Interest::VACANT),
            Some(more) => more.swap_remove(more.iter().position(|interest| interest.edge == edge)?),
            None => return None,
        };
        if self.more.get(topic.more).is_some_and(Vec::is_empty) {
            self.more_places -= self.more.remove(topic.more).map_or(0, |more| more.capacity());
            topic.more = NONE;
        }
        Some(removed)
    }

    /// Bytes touched by names.
    pub fn names_bytes(&self) -> usize {
        self.names.memory_bytes()
    }

    /// Bytes touched by entries, hash slots and interests.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.tables.iter().map(HashTable::allocation_size);
        self.topics.memory_bytes()
            + size_of_val(&*self.tables)
            + slots.sum::<usize>()
            + self.more.memory_bytes()
            + vector_bytes::<Interest>(self.more_places)
    }

    /// Allocated bytes of names, entries and hash slots.
    pub fn allocated_bytes(&self) -> usize {
        let slots: usize = self.tables.iter().map(HashTable::allocation_size).sum();
        self.topics.allocated_bytes() + self.names.allocated_bytes() + slots
    }
}

fn table_of(hash: u64) -> usize {
    // The table itself uses the lowest bits and the seven highest.
    (hash >> 40) as usize % TABLES_COUNT
}

impl Hand for TopicTable {
    fn give(&self, out: &mut Vec<u8>) {
        self.seed.give(out);
        self.names.give(out);
        self.topics.give(out);
        self.more.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let mut table = TopicTable::new(Seed::take(input)?);
        table.names = Names::take(input)?;
        table.topics = Slab::take(input)?;
        table.more = Slab::take(input)?;
        let TopicTable { topics, names, tables, seed, more, more_places } = &mut table;
        let hash_of = |id: u32| {
            let name = topics.get(id).map(|topic| names.get(topic.name));
            keyed(*seed, name.unwrap_or_default())
        };
        for id in (0..topics.places()).filter(|id| topics.contains(*id)) {
            let hash = hash_of(id);
            tables[table_of(hash)].insert_unique(hash, id, |id| hash_of(*id));
        }
        *more_places =
            (0..more.places()).filter_map(|place| more.get(place)).map(Vec::capacity).sum();
        Some(table)
    }

    fn layout(layout: &mut Layout) {
        layout.name("TopicTable");
        <(Seed, Names, Slab<Topic>, Slab<Vec<Interest>>)>::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(edge: EdgeId) -> Interest {
        Interest { index: u32::from(edge.0), edge, flags: interest::EXACT }
    }

    #[test]
    fn names_are_found_until_removed() {
        let mut table = TopicTable::new(Seed(1, 2));
        let ids: Vec<u32> = (0..5_000)
            .map(|number| table.insert(format!("t/{number}").as_bytes(), number % 3, 7, 0).unwrap())
            .collect();
        for (number, id) in (0u32..).zip(&ids) {
            let name = format!("t/{number}");
            assert_eq!(table.find(name.as_bytes(), number % 3), Some(*id));
            assert_eq!(table.find(name.as_bytes(), number % 3 + 1), None);
            assert_eq!(table.name(*id), name.as_bytes());
        }
        ids.iter().for_each(|id| table.remove(*id));
        assert_eq!((table.len(), table.find(b"t/1", 1)), (0, None));
        assert!(table.tables.iter().all(HashTable::is_empty) && table.names.is_empty());
    }

    #[test]
    fn a_look_ahead_finds_topics_that_are_known() {
        let mut table = TopicTable::new(Seed(1, 2));
        let names: Vec<String> = (0..5_000).map(|number| format!("t/{number}")).collect();
        let ids: Vec<u32> =
            names.iter().map(|name| table.insert(name.as_bytes(), 0, 7, 0).unwrap()).collect();
        let mut right = 0;
        for (names, ids) in names.chunks(AHEAD).zip(ids.chunks(AHEAD)) {
            let mut found = [None; AHEAD];
            table.find_ahead(names.iter().map(|name| Some(name.as_bytes())), &mut found);
            let of_found = ids.iter().zip(&found).zip(names);
            right += of_found
                .filter(|((id, found), name)| {
                    **found == Some(**id) && table.is(**id, name.as_bytes(), 0)
                })
                .count();
        }
        assert!(right > 4_900, "a tag of seven bits rarely stands for two names: {right}");
        let mut found = [None; AHEAD];
        TopicTable::new(Seed(1, 2)).find_ahead([Some(&b"t/1"[..]), None].into_iter(), &mut found);
        assert_eq!(found, [None; AHEAD]);
    }

    #[test]
    fn interests_come_and_go_in_any_order() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
            let mut table = TopicTable::new(Seed(1, 2));
            let topic = table.insert(b"a", 0, u64::MAX - 5, 0).unwrap();
            assert_eq!(table.get(topic).unwrap().last(), u64::MAX - 5);
            (0..3).for_each(|edge| table.add_interest(topic, interest(EdgeId(edge))));
            for (gone, edge) in order.into_iter().enumerate() {
                let mut edges: Vec<EdgeId> =
                    (0..).map_while(|nth| table.interest_at(topic, nth)).map(|i| i.edge).collect();
                edges.sort();
                assert_eq!(edges.len(), 3 - gone);
                assert_eq!(table.interest_of(topic, EdgeId(edge)), Some(interest(EdgeId(edge))));
                assert_eq!(
                    table.remove_interest(topic, EdgeId(edge)),
                    Some(interest(EdgeId(edge)))
                );
                assert_eq!(table.remove_interest(topic, EdgeId(edge)), None);
            }
            assert!(table.interest_at(topic, 0).is_none() && table.more.is_empty());
        }
    }

    /// The budget of an idle topic: entry, index entry and hash slot at most 62 bytes; the name
    /// beside it.
    #[test]
    fn bytes_of_a_topic() {
        let mut table = TopicTable::new(Seed(3, 4));
        const TOPICS: usize = 400_000;
        for number in 0..TOPICS {
            table.insert(format!("device/{number:09}").as_bytes(), 0, 0, 0).unwrap();
        }
        let names = table.names.allocated_bytes() / TOPICS;
        let rest = (table.allocated_bytes() - table.names.allocated_bytes()) / TOPICS;
        let index = Slab::<super::super::edges::Indexed>::ENTRY_BYTES;
        println!("a topic: {rest} bytes, {index} for its index, {names} for its name of 16");
        assert!(rest + index <= 62, "{rest} + {index}");
        assert!(names <= 19, "{names}");
    }
}
