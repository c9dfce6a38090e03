//! Links to homes: how many requests may be under way to each, which connections wait until there
//! may be more, and the epochs that homes have posted. Owner of these counts; it knows connections
//! by their keys only.
//!
//! Requests that a home answers from memory are dealt with in its next turn. Those that may have to
//! wait for a log on disk are counted apart, log by log: a disk that hangs fills the count of its
//! own log and no other. A connection that has brought a log to its bound is not read until there
//! is room; the others continue, unless they use that log too. The home bounds how long it waits:
//! when the log makes no progress, the home reports `Stalled` and refuses at once the requests that
//! need the disk, so that no connection waits for room.
//!
//! Pages for subscriptions that replay or lag are counted apart from both. When thousands of
//! subscriptions catch up at once, most of them wait here, in order, at the cost of their place in
//! the queue: a home has a few turns' worth of pages to serve, and clients that publish or
//! subscribe meanwhile do not wait behind them.
//!
//! Invariant: a frame or request is handled as a whole, so each connection may go beyond the bound
//! of a log by one. All publications of a log that go beyond it take at most
//! [`BEYOND_BYTES_MAX`]: one that does not fit, with all that its request sends to that log, is
//! refused. Only a log with nothing in flight takes a request of any size.

use crate::epochs::Epochs;
use crate::mail::{HomeId, RequestClass};
use crate::settings::Limits;
use std::collections::{BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;

/// Requests in flight to each home, and the connections that wait for it.
#[derive(Hand)]
pub(crate) struct Links {
    homes: Vec<HomeLink>,
    /// A log on disk that has no room for more requests since the present frame began.
    full_log: Option<(HomeId, u16)>,
    /// The number of the newest question for names; an answer repeats it.
    describe_number: u32,
    /// The epochs that the homes of engines' partitions have posted.
    pub epochs: Epochs,
}

/// Bytes of requests in flight to one log and home, from which on an edge refuses publications to
/// it. Far above what a working disk leaves waiting, as connections are no longer read at
/// `stream_credit_bytes`.
const BEYOND_BYTES_MAX: u64 = 64 << 20;

/// Pages of a log in flight from one home to an edge, at most: some turns' worth, so that a home
/// never waits for the next question.
const PAGES_INFLIGHT_MAX: u32 = 128;

impl Links {
    /// Links to these numbers of homes and logs, without a request in flight.
    pub fn new(homes_count: usize, logs_count: usize) -> Links {
        Links {
            homes: (0..homes_count).map(|_| HomeLink::new(logs_count)).collect(),
            full_log: None,
            describe_number: 0,
            epochs: Epochs::default(),
        }
    }

    /// Whether a home has room for another request that it answers from memory.
    #[inline]
    pub fn may_request(&self, home: HomeId, limits: &Limits) -> bool {
        self.homes[usize::from(home)].memory.has_room(limits)
    }

    /// The first home without room for a request that it answers from memory.
    #[inline]
    pub fn full_home(&self, limits: &Limits) -> Option<HomeId> {
        let full = (0..).zip(&self.homes).find(|(_, link)| !link.memory.has_room(limits));
        full.map(|(home, _)| HomeId(home))
    }

    /// Whether a home has room for a page of a log.
    #[inline]
    pub fn may_read(&self, home: HomeId, log: u16, limits: &Limits) -> bool {
        self.homes[usize::from(home)].pages[usize::from(log)].pages_left(limits) > 0
    }

    /// Whether publications of this cost together may still be sent to a log on disk; if not, the
    /// log does not keep up and has too much waiting.
    pub fn may_publish(&self, home: HomeId, log: u16, cost: u64) -> bool {
        let bytes = self.homes[usize::from(home)].disks[usize::from(log)].bytes;
        bytes == 0 || bytes + cost <= BEYOND_BYTES_MAX
    }

    /// Counts a request that is posted.
    #[inline]
    pub fn post(&mut self, home: HomeId, class: RequestClass, cost: u32, limits: &Limits) {
        let window = self.window(home, class);
        window.requests += 1;
        window.bytes += u64::from(cost);
        if let RequestClass::Disk(log) = class
            && !window.has_room(limits)
        {
            self.full_log = Some((home, log));
        }
    }

    /// A home has handled this number of requests of a class, with these bytes together.
    pub fn consume(&mut self, home: HomeId, class: RequestClass, requests: u32, bytes: u64) {
        let window = self.window(home, class);
        debug_assert!(
            requests <= window.requests && bytes <= window.bytes,
            "a home consumes what it was sent"
        );
        window.requests = window.requests.saturating_sub(requests);
        window.bytes = window.bytes.saturating_sub(bytes);
    }

    /// The log of this class makes no progress, or does again.
    pub fn set_stalled(&mut self, home: HomeId, class: RequestClass, is_stalled: bool) {
        self.window(home, class).is_stalled = is_stalled;
    }

    /// Whether the homes have answered everything but pages.
    pub fn is_settled(&self) -> bool {
        let is_empty = |window: &Window| window.requests == 0;
        self.homes.iter().all(|link| is_empty(&link.memory) && link.disks.iter().all(is_empty))
    }

    /// A frame begins: a log that filled before is not its doing.
    #[inline]
    pub fn begin_frame(&mut self) {
        self.full_log = None;
    }

    /// The log on disk that has filled since the frame began.
    #[inline]
    pub fn take_full_log(&mut self) -> Option<(HomeId, u16)> {
        self.full_log.take()
    }

    /// Queues a connection that waits for room in a class.
    pub fn wait(&mut self, home: HomeId, class: RequestClass, key: Key) {
        let window = self.window(home, class);
        if window.waits.insert(key) {
            window.waiting.push_back(key);
        }
    }

    /// Queues a connection that waits for a home's memory class, in its turn: one that went on and
    /// found no room keeps its place, and one that found some comes after all others. Otherwise the
    /// first, with enough to send, would take all room for ever.
    pub fn wait_in_turn(&mut self, home: HomeId, key: Key, is_served: bool) {
        let window = self.window(home, RequestClass::Memory);
        if window.waits.insert(key) {
            if is_served { window.served.push_back(key) } else { window.waiting.push_back(key) }
        }
    }

    /// The connections that continue because a class has room again, in their order. Those that
    /// wait for pages are not among them: the flush takes them, some at a time.
    pub fn take_waiting(
        &mut self,
        home: HomeId,
        class: RequestClass,
        limits: &Limits,
    ) -> impl Iterator<Item = Key> + use<> {
        let window = self.window(home, class);
        let (mut waiting, mut served) = (VecDeque::new(), VecDeque::new());
        if !matches!(class, RequestClass::Pages(_))
            && !window.waits.is_empty()
            && window.has_room(limits)
        {
            window.waits.clear();
            served = std::mem::take(&mut window.served);
            waiting = std::mem::take(&mut window.waiting);
        }
        waiting.into_iter().chain(served)
    }

    /// Takes the connections that may ask for pages now, as many as there is room for. A connection
    /// may have no use for its page, so this is repeated as long as [`Links::has_readers`].
    pub fn take_readers(&mut self, limits: &Limits, mut wake: impl FnMut(Key)) {
        for window in self.homes.iter_mut().flat_map(|link| &mut link.pages) {
            for _ in 0..window.pages_left(limits) {
                let Some(key) = window.waiting.pop_front() else {
                    break;
                };
                window.waits.remove(&key);
                wake(key);
            }
        }
    }

    /// Whether a connection waits for a page that there is room for.
    pub fn has_readers(&self, limits: &Limits) -> bool {
        let mut pages = self.homes.iter().flat_map(|link| &link.pages);
        pages.any(|window| !window.waiting.is_empty() && window.pages_left(limits) > 0)
    }

    /// Counts live bytes that have been handled. Credit goes back in portions, so that it costs
    /// little: the bytes that are to be given back now.
    #[inline]
    pub fn credit(&mut self, home: HomeId, bytes: u32, limits: &Limits) -> Option<u32> {
        let due = &mut self.homes[usize::from(home)].credit_due;
        *due += bytes;
        (*due >= limits.stream_credit_bytes / 8).then(|| std::mem::take(due))
    }

    /// The number of the next question for names.
    pub fn next_describe_number(&mut self) -> u32 {
        self.describe_number = self.describe_number.wrapping_add(1);
        self.describe_number
    }

    /// Begins the numbers of questions at a value, for tests.
    pub fn begin_at(&mut self, value: u32) {
        self.describe_number = value;
    }

    #[inline]
    fn window(&mut self, home: HomeId, class: RequestClass) -> &mut Window {
        let link = &mut self.homes[usize::from(home)];
        match class {
            RequestClass::Memory => &mut link.memory,
            RequestClass::Disk(log) => &mut link.disks[usize::from(log)],
            RequestClass::Pages(log) => &mut link.pages[usize::from(log)],
        }
    }
}

/// The requests in flight to one home.
#[derive(Hand)]
struct HomeLink {
    /// Requests that the home answers from memory.
    memory: Window,
    /// Requests that may have to wait for a disk, by the logs' indexes.
    disks: Box<[Window]>,
    /// Pages, by the logs' indexes.
    pages: Box<[Window]>,
    /// Live bytes handled and not yet given back as credit.
    credit_due: u32,
}

impl HomeLink {
    fn new(logs_count: usize) -> HomeLink {
        let windows = || (0..logs_count).map(|_| Window::default()).collect();
        HomeLink { memory: Window::default(), disks: windows(), pages: windows(), credit_due: 0 }
    }
}

/// The in-flight window of one class to a home.
#[derive(Default, Hand)]
struct Window {
    /// Requests that the home has not handled, and their cost.
    requests: u32,
    bytes: u64,
    /// The log makes no progress: the home answers at once.
    is_stalled: bool,
    /// Connections that wait for room, each once.
    waiting: VecDeque<Key>,
    /// Connections that wait behind these, because they have just had room.
    served: VecDeque<Key>,
    /// The waiting connections of both lists.
    waits: BTreeSet<Key>,
}

impl Window {
    #[inline]
    fn has_room(&self, limits: &Limits) -> bool {
        self.is_stalled
            || self.requests < limits.requests_inflight_max
                && self.bytes < u64::from(limits.stream_credit_bytes)
    }

    /// The number of further pages that may be requested; [`Window::has_room`] for a class of
    /// pages.
    fn pages_left(&self, limits: &Limits) -> u32 {
        let pages_max = PAGES_INFLIGHT_MAX.min(limits.requests_inflight_max);
        if self.is_stalled { pages_max } else { pages_max.saturating_sub(self.requests) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(requests_inflight_max: u32) -> Limits {
        Limits { requests_inflight_max, ..Limits::default() }
    }

    fn key(index: u32) -> Key {
        Key { index, generation: 1 }
    }

    fn waiting(links: &mut Links, class: RequestClass, limits: &Limits) -> Vec<u32> {
        links.take_waiting(HomeId(0), class, limits).map(|key| key.index).collect()
    }

    #[test]
    fn connections_that_had_room_wait_behind_the_others() {
        let limits = limits(1);
        let mut links = Links::new(1, 1);
        links.post(HomeId(0), RequestClass::Memory, 10, &limits);
        assert_eq!(links.full_home(&limits), Some(HomeId(0)));
        for (index, is_served) in [(1, true), (2, false), (3, true), (4, false), (2, true)] {
            links.wait_in_turn(HomeId(0), key(index), is_served);
        }
        assert!(waiting(&mut links, RequestClass::Memory, &limits).is_empty(), "no room yet");
        links.consume(HomeId(0), RequestClass::Memory, 1, 10);
        assert_eq!(waiting(&mut links, RequestClass::Memory, &limits), [2, 4, 1, 3]);
        assert!(waiting(&mut links, RequestClass::Memory, &limits).is_empty(), "each goes on once");
    }

    #[test]
    fn a_full_log_leaves_memory_and_other_logs_alone() {
        let limits = limits(2);
        let mut links = Links::new(1, 2);
        links.post(HomeId(0), RequestClass::Disk(1), 10, &limits);
        assert_eq!(links.take_full_log(), None);
        links.post(HomeId(0), RequestClass::Disk(1), 10, &limits);
        assert_eq!(links.take_full_log(), Some((HomeId(0), 1)));
        assert!(links.may_request(HomeId(0), &limits) && !links.is_settled());
        links.wait(HomeId(0), RequestClass::Disk(1), key(7));
        assert!(waiting(&mut links, RequestClass::Disk(0), &limits).is_empty());
        links.set_stalled(HomeId(0), RequestClass::Disk(1), true);
        assert_eq!(
            waiting(&mut links, RequestClass::Disk(1), &limits),
            [7],
            "a stalled log refuses"
        );
    }

    #[test]
    fn readers_go_on_as_far_as_pages_have_room() {
        let limits = limits(3);
        let mut links = Links::new(1, 1);
        links.post(HomeId(0), RequestClass::Pages(0), 0, &limits);
        (0..4).for_each(|index| links.wait(HomeId(0), RequestClass::Pages(0), key(index)));
        let mut woken = Vec::new();
        assert!(links.has_readers(&limits));
        links.take_readers(&limits, |key| woken.push(key.index));
        assert_eq!(woken, [0, 1]);
        assert!(
            waiting(&mut links, RequestClass::Pages(0), &limits).is_empty(),
            "only the flush wakes"
        );
    }

    #[test]
    fn credit_goes_back_in_portions() {
        let limits = Limits { stream_credit_bytes: 800, ..Limits::default() };
        let mut links = Links::new(1, 1);
        assert_eq!(links.credit(HomeId(0), 99, &limits), None);
        assert_eq!(links.credit(HomeId(0), 2, &limits), Some(101));
        assert_eq!(links.credit(HomeId(0), 0, &limits), None);
    }
}
