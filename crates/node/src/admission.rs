//! Admission of connections: counts and rates of connects, by address prefix and by listener kind,
//! over all I/O threads.
//!
//! Place: called by the doors of the I/O threads ([`crate::door`]) when a connection opens and when
//! it has closed, never on a message's path. Each lock protects the access to one entry, and locks
//! are never nested.
//!
//! Invariants: an IPv4 address counts by itself; an IPv6 address by its first 64 bits and, with
//! limits `NETWORK_SHARE` times as high, by its first 48 bits, so that a whole network gives no
//! more. Entries with connections are at most as many as the connections; of the others, each part
//! keeps at most `IDLE_MAX` for their rates, and drops the one that has been idle longest first.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use stdx::metrics::Metrics;
use stdx::networks::{Networks, address_of, number_of};
use stdx::rate::{Allowance, Bucket};
use stdx::slab::Slab;
use wire::native::ErrorCode;

/// Factor between the limits of a network of 48 bits and one of 64.
const NETWORK_SHARE: u64 = 16;
/// Maximum number of entries without connections in each part.
const IDLE_MAX: usize = 1_024;
/// Number of parts, each with its own lock; a power of two.
const PARTS_COUNT: usize = 64;
/// Number of bits of a pass for the entry's index in its part.
const PLACE_BITS: u32 = 32 - PARTS_COUNT.trailing_zeros();
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
/// No entry.
const NONE: u32 = u32::MAX;

/// Listener kind of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    /// Without TLS.
    Plain,
    /// With TLS.
    Tls,
}

/// Limits of all listeners of a kind together. `None`: unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EntranceLimits {
    /// Maximum number of connections.
    pub connections_max: Option<u32>,
    /// Maximum rate in connects per second, and maximum burst.
    pub connect_rate_max: Option<u32>,
}

/// The limits. `None`: unlimited.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AdmissionOptions {
    /// Maximum number of connections of one address.
    pub connections_per_address_max: Option<u32>,
    /// Maximum connect rate of one address per second, and maximum burst.
    pub connect_rate_per_address_max: Option<u32>,
    /// Addresses exempt from the two limits, such as networks behind one address.
    pub exempt: Networks,
    /// Limits of listeners without TLS.
    pub plain: EntranceLimits,
    /// Limits of listeners with TLS.
    pub tls: EntranceLimits,
}

impl AdmissionOptions {
    /// Whether there are no limits at all.
    pub fn is_off(&self) -> bool {
        let has_limit = |limits: &EntranceLimits| *limits != EntranceLimits::default();
        !(self.counts_addresses() || has_limit(&self.plain) || has_limit(&self.tls))
    }

    /// Whether addresses are limited.
    pub fn counts_addresses(&self) -> bool {
        self.connections_per_address_max.is_some() || self.connect_rate_per_address_max.is_some()
    }
}

/// The reason of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// `connections_full`, `too_many_connections` or `rate_limited`.
    pub code: ErrorCode,
    /// The limit, for a counter.
    pub limit: Limit,
    /// Time after which to try again.
    pub retry_after_s: u32,
}

/// A limit of this table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Limit {
    EntranceConnections,
    EntranceRate,
    AddressConnections,
    AddressRate,
}

/// Counts of refusals, and the size of the table; several can be added.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Metrics)]
pub struct AdmissionStatistics {
    /// Connections refused because their listener kind has reached its maximum.
    #[metric(limit = "listen.connections_max")]
    pub entrance_connections: u64,
    /// Connections refused because of the rate of their listener kind.
    #[metric(limit = "listen.connect_rate_max")]
    pub entrance_rate: u64,
    /// Connections refused because their address has reached its maximum.
    #[metric(limit = "connections_per_address_max")]
    pub address_connections: u64,
    /// Connections refused because of the rate of their address.
    #[metric(limit = "connect_rate_per_address_max")]
    pub address_rate: u64,
    /// Address prefixes with open connections or a recorded rate.
    #[metric("crore_addresses_remembered")]
    pub addresses: u64,
}

/// A permit for a connection, returned at its end. It is small, because each connection has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass(u32);

impl Pass {
    /// The permit of a connection whose address does not count.
    pub const FREE: Pass = Pass(NONE);

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn of(number: u32) -> Pass {
        Pass(number)
    }
}

/// The table of all threads.
#[derive(Debug)]
pub struct Admission {
    options: AdmissionOptions,
    /// Addresses of proxies, whose connections count for the clients behind them.
    proxies: RwLock<Networks>,
    hasher: RandomState,
    parts: Box<[Mutex<Part>]>,
    entrances: [Mutex<EntranceState>; 2],
    refused: [AtomicU64; 4],
}

#[derive(Debug, Default)]
struct EntranceState {
    connections: u32,
    bucket: Bucket,
}

#[derive(Debug, Default)]
struct Part {
    entries: Slab<Entry>,
    places: HashMap<u128, u32>,
    /// Entries without connections, the longest idle first, with their bucket level at that time;
    /// some have connections again.
    idle: VecDeque<(u32, u128, Bucket)>,
}

#[derive(Debug)]
struct Entry {
    key: u128,
    connections: u32,
    /// The permit of the surrounding network, for which the connections count, too.
    network: u32,
    bucket: Bucket,
}

impl Admission {
    /// Creates an empty table.
    pub fn new(options: AdmissionOptions) -> Admission {
        Admission {
            options,
            proxies: RwLock::default(),
            hasher: RandomState::new(),
            parts: (0..PARTS_COUNT).map(|_| Mutex::default()).collect(),
            entrances: [Mutex::default(), Mutex::default()],
            refused: [const { AtomicU64::new(0) }; 4],
        }
    }

    /// Sets the addresses of proxies, which are exempt from the two limits of addresses.
    pub fn trust(&self, proxies: Networks) {
        *self.proxies.write().unwrap_or_else(PoisonError::into_inner) = proxies;
    }

    /// Sets the limits.
    pub fn options(&self) -> &AdmissionOptions {
        &self.options
    }

    /// Counts a new connection. `now_ms` is the monotonic clock that all threads share.
    ///
    /// # Errors
    /// The connection must be refused, and was not counted.
    pub fn enter(&self, entrance: Entrance, address: IpAddr, now_ms: u64) -> Result<Pass, Refused> {
        self.enter_entrance(entrance, now_ms)?;
        let pass = self.enter_address(address, now_ms);
        if pass.is_err() {
            self.leave_entrance(entrance);
        }
        pass
    }

    /// An address with the same prefix as the permit's; none if the permit counts for no address.
    pub(crate) fn address_of(&self, Pass(pass): Pass) -> Option<IpAddr> {
        let part = self.parts.get((pass >> PLACE_BITS) as usize)?;
        let key = lock(part).entries.get(pass & PLACE_MASK)?.key;
        let is_ipv4 = address_of(key).is_ipv4();
        Some(address_of(if is_ipv4 { key } else { key >> 64 << 64 }))
    }

    /// Counts a connection that the old process has admitted, for its address if it counted there.
    /// Rates begin anew.
    pub(crate) fn count_again(&self, entrance: Entrance, address: Option<IpAddr>) -> Pass {
        if *self.limits(entrance) != EntranceLimits::default() {
            lock(&self.entrances[entrance as usize]).connections += 1;
        }
        address.map_or(Pass::FREE, |address| self.count_address(address))
    }

    /// Counts the end of a connection.
    pub fn leave(&self, entrance: Entrance, pass: Pass, now_ms: u64) {
        self.leave_entrance(entrance);
        self.leave_address(pass, now_ms);
    }

    /// Moves a proxy's connection to another client.
    ///
    /// # Errors
    /// The connection must be refused, and counts for no address now.
    pub fn change(&self, pass: Pass, address: IpAddr, now_ms: u64) -> Result<Pass, Refused> {
        self.leave_address(pass, now_ms);
        self.enter_address(address, now_ms)
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> AdmissionStatistics {
        let refused = |place: usize| self.refused[place].load(Ordering::Relaxed);
        let addresses = self.parts.iter().map(|part| lock(part).places.len() as u64);
        AdmissionStatistics {
            entrance_connections: refused(0),
            entrance_rate: refused(1),
            address_connections: refused(2),
            address_rate: refused(3),
            addresses: addresses.sum(),
        }
    }

    fn count(&self, place: usize) {
        self.refused[place].fetch_add(1, Ordering::Relaxed);
    }

    fn refuse(&self, limit: Limit, retry_after_ms: u64) -> Refused {
        let (place, code) = match limit {
            Limit::EntranceConnections => (0, ErrorCode::ConnectionsFull),
            Limit::EntranceRate => (1, ErrorCode::RateLimited),
            Limit::AddressConnections => (2, ErrorCode::TooManyConnections),
            Limit::AddressRate => (3, ErrorCode::RateLimited),
        };
        self.count(place);
        Refused {
            code,
            limit,
            retry_after_s: retry_after_ms.div_ceil(1_000).clamp(1, 3_600) as u32,
        }
    }

    fn enter_entrance(&self, entrance: Entrance, now_ms: u64) -> Result<(), Refused> {
        let limits = self.limits(entrance);
        if *limits == EntranceLimits::default() {
            return Ok(());
        }
        let mut state = lock(&self.entrances[entrance as usize]);
        if limits
            .connections_max
            .is_some_and(|connections_max| state.connections >= connections_max)
        {
            return Err(self.refuse(Limit::EntranceConnections, RETRY_FULL_MS));
        }
        if let Some(rate_max) = limits.connect_rate_max {
            let allowance = Allowance::per_second(rate_max.into());
            let taken = state.bucket.take(allowance, now_ms, 1);
            taken.map_err(|wait_ms| self.refuse(Limit::EntranceRate, wait_ms))?;
        }
        state.connections += 1;
        Ok(())
    }

    fn leave_entrance(&self, entrance: Entrance) {
        if *self.limits(entrance) != EntranceLimits::default() {
            let mut state = lock(&self.entrances[entrance as usize]);
            state.connections = state.connections.saturating_sub(1);
        }
    }

    fn limits(&self, entrance: Entrance) -> &EntranceLimits {
        match entrance {
            Entrance::Plain => &self.options.plain,
            Entrance::Tls => &self.options.tls,
        }
    }

    fn enter_address(&self, address: IpAddr, now_ms: u64) -> Result<Pass, Refused> {
        let (wide, narrow) = match self.prefixes(address) {
            None => return Ok(Pass::FREE),
            Some((None, only)) => return self.enter_prefix(only, 1, NONE, now_ms),
            Some((Some(wide), narrow)) => (wide, narrow),
        };
        let Pass(network) = self.enter_prefix(wide, NETWORK_SHARE, NONE, now_ms)?;
        let pass = self.enter_prefix(narrow, 1, network, now_ms);
        if pass.is_err() {
            // A refused connect does not count for the network's rate: an address that connects too
            // often takes nothing from its neighbours.
            self.give_rate_back(Pass(network), NETWORK_SHARE);
            self.leave_address(Pass(network), now_ms);
        }
        pass
    }

    fn count_address(&self, address: IpAddr) -> Pass {
        let Some((wide, narrow)) = self.prefixes(address) else {
            return Pass::FREE;
        };
        let network = wide.map_or(NONE, |wide| self.count_prefix(wide, NONE).number());
        self.count_prefix(narrow, network)
    }

    /// The prefixes of an address: its own, and its network's for IPv6. None if the address does
    /// not count.
    fn prefixes(&self, address: IpAddr) -> Option<(Option<u128>, u128)> {
        let address = address.to_canonical();
        if !self.options.counts_addresses() || self.is_exempt(address) {
            return None;
        }
        let number = number_of(address);
        Some(if address.is_ipv4() {
            (None, number)
        } else {
            (Some(number >> 80 << 80 | 48), number >> 64 << 64 | 64)
        })
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        let proxies = self.proxies.read().unwrap_or_else(PoisonError::into_inner);
        self.options.exempt.contains(address) || proxies.contains(address)
    }

    fn enter_prefix(
        &self,
        key: u128,
        share: u64,
        network: u32,
        now_ms: u64,
    ) -> Result<Pass, Refused> {
        let (number, mut part) = self.part(key);
        let place = part.place(key);
        let entry = &mut part.entries[place];
        let connections_max = self.options.connections_per_address_max;
        let is_full = connections_max
            .is_some_and(|max| u64::from(entry.connections) >= u64::from(max) * share);
        let taken = match self.options.connect_rate_per_address_max {
            Some(rate_max) if !is_full => {
                let allowance = Allowance::per_second(u64::from(rate_max) * share);
                entry.bucket.take(allowance, now_ms, 1)
            }
            _ => Ok(()),
        };
        if is_full {
            return Err(self.refuse(Limit::AddressConnections, RETRY_FULL_MS));
        }
        // A refused address has an entry: an idle one, or one with connections.
        taken.map_err(|wait_ms| self.refuse(Limit::AddressRate, wait_ms))?;
        Ok(entry.admit(network, number, place))
    }

    fn count_prefix(&self, key: u128, network: u32) -> Pass {
        let (number, mut part) = self.part(key);
        let place = part.place(key);
        part.entries[place].admit(network, number, place)
    }

    /// The part of a prefix, and the number of that part.
    fn part(&self, key: u128) -> (u32, MutexGuard<'_, Part>) {
        let number = self.hasher.hash_one(key) as usize % PARTS_COUNT;
        (number as u32, lock(&self.parts[number]))
    }

    fn give_rate_back(&self, Pass(pass): Pass, share: u64) {
        let Some(rate_max) = self.options.connect_rate_per_address_max else {
            return;
        };
        let mut part = lock(&self.parts[(pass >> PLACE_BITS) as usize]);
        if let Some(entry) = part.entries.get_mut(pass & ((1 << PLACE_BITS) - 1)) {
            let allowance = Allowance::per_second(u64::from(rate_max) * share);
            entry.bucket.give_back(allowance, 1);
        }
    }

    fn leave_address(&self, Pass(pass): Pass, now_ms: u64) {
        let mut pass = pass;
        while pass != NONE {
            let mut part = lock(&self.parts[(pass >> PLACE_BITS) as usize]);
            let place = pass & PLACE_MASK;
            let Some(entry) = part.entries.get_mut(place) else {
                debug_assert!(false, "a pass is given back once");
                return;
            };
            entry.connections -= 1;
            pass = entry.network;
            part.rest(place, now_ms);
        }
    }
}

impl Entry {
    /// Adds a connection to an existing entry; returns its permit.
    fn admit(&mut self, network: u32, part: u32, place: u32) -> Pass {
        self.connections += 1;
        self.network = network;
        Pass(part << PLACE_BITS | place)
    }
}

/// The refusal when connections must close first.
const RETRY_FULL_MS: u64 = 5_000;

impl Part {
    /// The entry of a prefix, created if it is missing.
    fn place(&mut self, key: u128) -> u32 {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let place = self.entries.insert(Entry {
            key,
            connections: 0,
            network: NONE,
            bucket: Bucket::default(),
        });
        self.places.insert(key, place);
        place
    }

    /// Removes an entry without connections whose rate has recovered, or keeps it idle until then.
    fn rest(&mut self, place: u32, now_ms: u64) {
        let entry = &self.entries[place];
        if entry.connections > 0 {
            return;
        }
        let (key, bucket) = (entry.key, entry.bucket);
        if bucket.is_full(now_ms) {
            self.forget(place);
        } else {
            self.idle.push_back((place, key, bucket));
        }
        while let Some(&(place, key, bucket)) = self.idle.front() {
            let is_over = bucket.is_full(now_ms);
            if !is_over && self.idle.len() <= IDLE_MAX {
                break;
            }
            self.idle.pop_front();
            let entry = self.entries.get(place);
            if entry.is_some_and(|entry| {
                entry.key == key && entry.connections == 0 && entry.bucket == bucket
            }) {
                self.forget(place);
            }
        }
    }

    fn forget(&mut self, place: u32) {
        if let Some(entry) = self.entries.remove(place) {
            self.places.remove(&entry.key);
            if self.places.capacity() > 4 * self.places.len() + 64 {
                self.places.shrink_to_fit();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
