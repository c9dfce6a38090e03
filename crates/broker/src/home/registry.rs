//! The table of MQTT clients by their names.
//!
//! A connected client costs 32 bytes, its name in an arena, and a place in a hash table. Growth
//! never pauses: the hash is split into [`TABLES_COUNT`] tables.
//!
//! Invariant: a place stands for one name until that is removed.

use crate::mail::{EdgeId, SleepingSession};
use hashbrown::HashTable;
use stdx::handing::{Hand, Input, Layout};
use stdx::hash::{Seed, keyed};
use stdx::key::Key;
use stdx::names::{Name, Names};
use stdx::slab::Slab;

const TABLES_COUNT: usize = 256;

/// A connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(super) struct Holder {
    pub edge: EdgeId,
    pub connection: Key,
}

/// The connection of a client, or its last one and the session that sleeps.
#[derive(Debug, Hand)]
pub(super) struct Client {
    pub holder: Holder,
    /// The user, as a hash: no other takes the name.
    pub user: u64,
    pub session: Option<Box<SleepingSession>>,
}

#[derive(Debug, Hand)]
struct Entry {
    name: Name,
    holder: Holder,
    /// Low and high half.
    user: [u32; 2],
    session: Option<Box<SleepingSession>>,
}

const _: () = assert!(Slab::<Entry>::ENTRY_BYTES == 32);

/// See the module.
#[derive(Debug)]
pub(super) struct Registry {
    entries: Slab<Entry>,
    names: Names,
    tables: Box<[HashTable<u32>]>,
    seed: Seed,
}

impl Registry {
    /// No clients. `seed` is secret: clients choose their names.
    pub fn new(seed: Seed) -> Registry {
        Registry {
            entries: Slab::new(),
            names: Names::new(),
            tables: (0..TABLES_COUNT).map(|_| HashTable::new()).collect(),
            seed,
        }
    }

    /// The place of a name.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let hash = keyed(self.seed, name);
        let is_it = |place: &u32| *self.name(*place) == *name;
        self.tables[table_of(hash)].find(hash, is_it).copied()
    }

    /// The name at a place.
    pub fn name(&self, place: u32) -> &[u8] {
        self.entries.get(place).map_or(&[], |entry| self.names.get(entry.name))
    }

    /// The user and the connection at a place, and whether the session sleeps.
    pub fn at(&self, place: u32) -> Option<(u64, Holder, bool)> {
        let entry = self.entries.get(place)?;
        Some((user_of(entry.user), entry.holder, entry.session.is_some()))
    }

    /// The connection that has a name.
    pub fn holder_of(&self, name: &[u8]) -> Option<Holder> {
        let (_, holder, is_asleep) = self.at(self.find(name)?)?;
        (!is_asleep).then_some(holder)
    }

    /// Enters a name that is not known; its place. None if there is no memory for names: at 8 GiB.
    pub fn insert(&mut self, name: &[u8], client: Client) -> Option<u32> {
        let hash = keyed(self.seed, name);
        let Client { holder, user, session } = client;
        let user = [user as u32, (user >> 32) as u32];
        let name = self.names.insert(name)?;
        let place = self.entries.insert(Entry { name, holder, user, session });
        self.enter(hash, place);
        Some(place)
    }

    /// Takes the client at a place away.
    pub fn remove(&mut self, place: u32) -> Option<Client> {
        let Entry { name, holder, user, session } = self.entries.remove(place)?;
        let hash = keyed(self.seed, self.names.get(name));
        if let Ok(found) = self.tables[table_of(hash)].find_entry(hash, |other| *other == place) {
            found.remove();
        }
        self.names.remove(name);
        Some(Client { holder, user: user_of(user), session })
    }

    /// Bytes of the table and of the names, without the sessions.
    pub fn memory_bytes(&self) -> usize {
        let places: usize = self.tables.iter().map(HashTable::allocation_size).sum();
        self.entries.memory_bytes() + self.names.memory_bytes() + places
    }

    fn enter(&mut self, hash: u64, place: u32) {
        let Registry { entries, names, tables, seed } = self;
        tables[table_of(hash)].insert_unique(hash, place, |other| {
            entries.get(*other).map_or(0, |entry| keyed(*seed, names.get(entry.name)))
        });
    }
}

fn user_of([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The high bits choose the table; `hashbrown` uses the lowest and the highest seven.
fn table_of(hash: u64) -> usize {
    (hash >> 40) as usize % TABLES_COUNT
}

impl Hand for Registry {
    fn give(&self, out: &mut Vec<u8>) {
        self.seed.give(out);
        self.names.give(out);
        self.entries.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let mut registry = Registry::new(Seed::take(input)?);
        registry.names = Names::take(input)?;
        registry.entries = Slab::take(input)?;
        for place in 0..registry.entries.places() {
            if registry.entries.contains(place) {
                registry.enter(keyed(registry.seed, registry.name(place)), place);
            }
        }
        Some(registry)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Registry");
        <(Seed, Names, Slab<Entry>)>::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> Client {
        let connection = Key { index: number, generation: 1 };
        let user = u64::from(number) << 20;
        Client { holder: Holder { edge: EdgeId(3), connection }, user, session: None }
    }

    #[test]
    fn clients_are_found_until_removed() {
        let mut registry = Registry::new(Seed(1, 2));
        let name = |number: u32| format!("sensor-{number}").into_bytes();
        for number in 0..5_000 {
            registry.insert(&name(number), client(number)).unwrap();
        }
        let mut bytes = Vec::new();
        registry.give(&mut bytes);
        let mut registry = Registry::take(&mut Input::new(&bytes)).unwrap();
        for number in 0..5_000 {
            let place = registry.find(&name(number)).unwrap();
            let Client { holder, user, .. } = client(number);
            assert_eq!(registry.name(place), name(number));
            assert_eq!(registry.at(place), Some((user, holder, false)));
            assert_eq!(registry.holder_of(&name(number)), Some(holder));
            assert_eq!(registry.remove(place).map(|it| it.user), Some(user));
            assert_eq!((registry.find(&name(number)), registry.at(place)), (None, None));
        }
        assert!(registry.tables.iter().all(HashTable::is_empty) && registry.names.is_empty());
    }
}
