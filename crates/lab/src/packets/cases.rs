//! The cases: frames, carrier, load, and the conduct of the ends.

use net::device::xdp::{BusyPoll, Mode, Options};

/// Frames on their way in a saturated case, over all queues.
const IN_FLIGHT: u32 = 200;
/// More than the peer's ring of veth has places (256), fewer than a socket's rings (4,096).
const IN_FLIGHT_DEEP: u32 = 2_000;
/// `SO_SNDBUF` that keeps frames within the peer's ring: the kernel doubles it, and charges 768.
const SEND_BUFFER_BYTES: usize = 96_000;
/// Frames of one `sendto`; the kernel's own bound is 32.
const SEND_BUDGET_FRAMES: u32 = 256;
/// Bytes of a request, and of a frame to one side if the name does not say otherwise.
const LARGE_BYTES: usize = 600;
/// Bytes of an answer: the shortest Ethernet frame.
pub const SMALL_BYTES: usize = 60;

/// One measurement.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the row.
    pub name: String,
    pub way: Way,
    /// Bytes of a frame of the sender, with the Ethernet header.
    pub bytes: usize,
    pub load: Load,
    pub waiting: Waiting,
    pub link: Link,
    pub cores: Cores,
}

/// The direction of the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To one side only. A counter in shared memory tells the sender how many have arrived.
    OneWay,
    /// Each frame has an answer of 60 bytes.
    RequestResponse,
}

/// The number of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// The next one as soon as fewer than this are on their way, over all queues.
    Saturated { in_flight_max: u32 },
    /// At evenly spread times, at the rate of the command.
    Rate,
}

/// The conduct of an end without work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It looks again.
    Spin,
    /// It sleeps in `poll` until frames arrive or are due.
    Poll,
    /// It sleeps until its next turn, one each 500 us; the two ends are half a turn apart.
    Turns,
}

/// The cores of the threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cores {
    /// The scheduler's choice.
    Any,
    /// All senders on one core, all receivers on the next.
    OnePerEnd,
    /// Both ends of a queue on one core.
    OnePerQueue,
}

/// The carrier.
#[derive(Clone, Debug)]
pub enum Link {
    /// AF_XDP over veth, in copy mode.
    Veth(Veth),
    /// Two TUN interfaces of one host that forwards between them.
    Tun,
    /// Shared memory.
    Pair,
}

/// Pairs of veth interfaces between two namespaces.
#[derive(Clone, Debug)]
pub struct Veth {
    pub mode: Mode,
    /// Pairs of interfaces.
    pub pairs: u32,
    /// Queues of each pair.
    pub queues: u32,
    pub socket: Options,
    /// A kernel thread polls each queue, in place of softirqs.
    pub is_threaded: bool,
    /// Softirqs wait for busy polling: `napi_defer_hard_irqs` and `gro_flush_timeout`.
    pub is_deferred: bool,
    /// A qdisc `pfifo` at both ends.
    pub has_pfifo: bool,
    /// The program of an address and a port, in place of one that takes every frame.
    pub has_port: bool,
}

/// All cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let mut cases = saturated_pairs();
    cases.extend(pairs_at_a_rate());
    cases.extend(one_way());
    cases
}

/// Requests and answers, as many as the machine can.
fn saturated_pairs() -> Vec<Case> {
    let native = Case::new("rr max, native", Link::veth(Mode::Native));
    let generic = Case::new("rr max, generic", Link::veth(Mode::Generic));
    let asleep = |case: Case| case.waiting(Waiting::Poll).cores(Cores::Any);
    let by_queue = |case: Case| case.waiting(Waiting::Poll).cores(Cores::OnePerQueue);
    vec![
        native.clone(),
        native.but(", budget 256", |veth| veth.budget()),
        native.but(", SNDBUF 96,000", |veth| veth.send_buffer()),
        native.but(", budget 256, SNDBUF 96,000", |veth| veth.budget().send_buffer()),
        native.but(", pfifo", Veth::pfifo),
        native.but(", PREFER_BUSY_POLL", Veth::busy_poll),
        native.but(", PREFER_BUSY_POLL, deferred softirqs", |veth| veth.busy_poll().deferred()),
        native.but(", no need-wakeup", Veth::no_need_wakeup),
        native.but(", program of a port", Veth::port),
        asleep(native.but(", poll, unpinned", |veth| veth)),
        asleep(native.but(", threaded NAPI, poll, unpinned", Veth::threaded)),
        asleep(native.but(", 2 queues, poll, unpinned", |veth| veth.queues(1, 2))),
        by_queue(native.but(", 2 queues, poll, a core each", |veth| veth.queues(1, 2))),
        by_queue(native.but(", 2 pairs, poll, a core each", |veth| veth.queues(2, 1))),
        generic.clone(),
        generic.but(", budget 256", |veth| veth.budget()),
        generic.but(", SNDBUF 96,000", |veth| veth.send_buffer()),
        generic.but(", pfifo", Veth::pfifo),
        generic.but(", program of a port", Veth::port),
        asleep(generic.but(", poll, unpinned", |veth| veth)),
        asleep(generic.but(", 2 pairs, poll, unpinned", |veth| veth.queues(2, 1))),
        by_queue(generic.but(", 2 pairs, poll, a core each", |veth| veth.queues(2, 1))),
        Case::new("rr max, TUN", Link::Tun),
        asleep(Case::new("rr max, TUN, poll, unpinned", Link::Tun)),
        Case::new("rr max, shared memory", Link::Pair),
    ]
}

/// Requests and answers at the rate of the command.
fn pairs_at_a_rate() -> Vec<Case> {
    let case = |name: &str, link: Link| Case::new(name, link).load(Load::Rate).cores(Cores::Any);
    let turns = |case: Case| case.waiting(Waiting::Turns).named(", turns of 500 us");
    let poll = |case: Case| case.waiting(Waiting::Poll).named(", poll");
    let native = case("rr at rate, native", Link::veth(Mode::Native));
    let generic = case("rr at rate, generic", Link::veth(Mode::Generic));
    vec![
        poll(native.clone()),
        turns(native.clone()),
        turns(native.but(", budget 256", |veth| veth.budget())),
        turns(native.but(", SNDBUF 96,000", |veth| veth.send_buffer())),
        turns(native.but(", pfifo", Veth::pfifo)),
        turns(native.but(", PREFER_BUSY_POLL", Veth::busy_poll)),
        turns(native.but(", 2 queues", |veth| veth.queues(1, 2))),
        turns(native.but(", 2 queues, a core each", |veth| veth.queues(1, 2)))
            .cores(Cores::OnePerQueue),
        turns(native.but(", threaded NAPI", Veth::threaded)),
        poll(generic.clone()),
        turns(generic.clone()),
        turns(generic.but(", budget 256", |veth| veth.budget())),
        turns(generic.but(", pfifo", Veth::pfifo)),
        turns(generic.but(", 2 pairs", |veth| veth.queues(2, 1))),
        turns(generic.but(", 2 pairs, a core each", |veth| veth.queues(2, 1)))
            .cores(Cores::OnePerQueue),
        turns(case("rr at rate, TUN", Link::Tun)),
        turns(case("rr at rate, shared memory", Link::Pair)),
    ]
}

/// Frames to one side.
fn one_way() -> Vec<Case> {
    let mut cases = Vec::new();
    for bytes in [SMALL_BYTES, LARGE_BYTES] {
        let case = |name: &str, link: Link| {
            let case = Case::new(&format!("one way {bytes} B, {name}"), link);
            Case { way: Way::OneWay, bytes, ..case }
        };
        let deep = |case: Case| {
            case.load(Load::Saturated { in_flight_max: IN_FLIGHT_DEEP }).named(", 2,000 in flight")
        };
        let native = case("native", Link::veth(Mode::Native));
        let generic = case("generic", Link::veth(Mode::Generic));
        let turns = |case: Case| {
            case.load(Load::Rate).waiting(Waiting::Turns).cores(Cores::Any).named(", at rate")
        };
        cases.extend([
            native.clone(),
            deep(native.clone()),
            deep(native.but(", SNDBUF 96,000", |veth| veth.send_buffer())),
            deep(native.but(", pfifo", Veth::pfifo)),
            turns(native.clone()),
            generic.clone(),
            deep(generic.clone()),
            turns(generic.clone()),
            case("TUN", Link::Tun),
            case("shared memory", Link::Pair),
        ]);
    }
    cases
}

impl Case {
    /// Saturated pairs, spinning, each end on a core of its own.
    fn new(name: &str, link: Link) -> Case {
        Case {
            name: name.to_owned(),
            way: Way::RequestResponse,
            bytes: LARGE_BYTES,
            load: Load::Saturated { in_flight_max: IN_FLIGHT },
            waiting: Waiting::Spin,
            link,
            cores: Cores::OnePerEnd,
        }
    }

    fn named(mut self, addition: &str) -> Case {
        self.name.push_str(addition);
        self
    }

    fn load(self, load: Load) -> Case {
        Case { load, ..self }
    }

    fn waiting(self, waiting: Waiting) -> Case {
        Case { waiting, ..self }
    }

    fn cores(self, cores: Cores) -> Case {
        Case { cores, ..self }
    }

    /// A copy of the case with another veth.
    fn but(&self, addition: &str, change: impl Fn(Veth) -> Veth) -> Case {
        let link = match &self.link {
            Link::Veth(veth) => Link::Veth(change(veth.clone())),
            Link::Tun => Link::Tun,
            Link::Pair => Link::Pair,
        };
        Case { link, ..self.clone() }.named(addition)
    }
}

impl Link {
    fn veth(mode: Mode) -> Link {
        Link::Veth(Veth {
            mode,
            pairs: 1,
            queues: 1,
            socket: Options::default(),
            is_threaded: false,
            is_deferred: false,
            has_pfifo: false,
            has_port: false,
        })
    }
}

impl Veth {
    fn queues(self, pairs: u32, queues: u32) -> Veth {
        Veth { pairs, queues, ..self }
    }

    fn budget(mut self) -> Veth {
        self.socket.send_budget_frames = Some(SEND_BUDGET_FRAMES);
        self
    }

    fn send_buffer(mut self) -> Veth {
        self.socket.send_buffer_bytes = Some(SEND_BUFFER_BYTES);
        self
    }

    fn busy_poll(mut self) -> Veth {
        self.socket.busy_poll = Some(BusyPoll { time_us: 20, frames: 64 });
        self
    }

    fn no_need_wakeup(mut self) -> Veth {
        self.socket.need_wakeup = false;
        self
    }

    fn deferred(self) -> Veth {
        Veth { is_deferred: true, ..self }
    }

    fn threaded(self) -> Veth {
        Veth { is_threaded: true, ..self }
    }

    fn pfifo(self) -> Veth {
        Veth { has_pfifo: true, ..self }
    }

    fn port(self) -> Veth {
        Veth { has_port: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let cases = all();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn no_case_waits_for_a_descriptor_that_does_not_exist() {
        let is_asleep =
            |case: &Case| matches!(case.link, Link::Pair) && case.waiting == Waiting::Poll;
        assert!(!all().iter().any(is_asleep));
    }
}
