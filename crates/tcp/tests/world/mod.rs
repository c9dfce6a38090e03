//! Two stacks and a network between them that delays, loses, repeats, reorders and damages packets:
//! all by a seed, in virtual time, with an oracle.
//!
//! Applications at both ends write streams whose bytes are known, and read them slowly or fast. The
//! oracle demands that each stream arrives whole and in order, that nothing is left over at the
//! end, that connections progress when the faults are over, and that the number of packets has a
//! bound.

mod application;
mod network;

pub use application::{Application, Plan};
pub use network::{Faults, Network, Wire};

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use stdx::hash::Seed;
use stdx::prng::Prng;
use tcp::{Config, Event, Stack, Time};

/// The port on which the second end listens.
const PORT: u16 = 80;
/// Everything must be over by then.
const END: Time = Time(4_000 * 1_000_000);

/// One end: a stack, and the application above.
pub struct End {
    pub stack: Stack,
    pub application: Application,
    wire: Wire,
}

pub struct World {
    pub now: Time,
    pub ends: [End; 2],
    pub network: Network,
    prng: Prng,
    events: Vec<Event>,
    trace: bool,
}

/// One of some values.
fn pick<T: Copy, const N: usize>(prng: &mut Prng, values: [T; N]) -> T {
    values[prng.below(N as u64) as usize]
}

/// The result of a world.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub packets: u64,
    pub bytes: u64,
    pub resent: u64,
    pub timeouts: u64,
    pub probes: u64,
    pub ended_at: Time,
}

impl World {
    pub fn new(seed: u64, trace: bool) -> World {
        let mut prng = Prng::new(seed);
        let is_v6 = prng.chance(0.25);
        let address = |number: u8| -> IpAddr {
            if is_v6 {
                format!("2001:db8::{number}").parse().expect("an address")
            } else {
                format!("192.0.2.{number}").parse().expect("an address")
            }
        };
        let mut faults = Faults::random(&mut prng);
        if is_v6 {
            faults.mtu = faults.mtu.max(1280);
        }
        let connections = prng.between(1, 6) as usize;
        let end = |number: u8, prng: &mut Prng| {
            let secret = Seed(prng.next_u64(), prng.next_u64());
            let mut config = Config::new(vec![address(number)], secret);
            config.mtu = pick(prng, [576, 1280, 1500, 1500]);
            if is_v6 {
                config.mtu = config.mtu.max(1280);
            }
            config.table_segment_bits = 2;
            config.half_open_max = if prng.chance(0.2) { 0 } else { 100 };
            // Numbers wrap around within the stream now and then.
            let start = Time(prng.below(1 << 34));
            (Stack::new(config, start), start)
        };
        let (first, _) = end(1, &mut prng);
        let (mut second, _) = end(2, &mut prng);
        assert_eq!(second.listen(SocketAddr::new(address(2), PORT)), Some(0));
        let to = SocketAddr::new(address(2), PORT);
        let mut plans: Vec<Plan> = (0..connections).map(|_| Plan::random(&mut prng)).collect();
        for plan in &mut plans {
            // The listener forgets an opening that is answered by a cookie, or too often, so the
            // opener must have something to say.
            plan.bytes[0] = plan.bytes[0].max(1);
        }
        let application = |is_opener, prng: &mut Prng| {
            Application::new(is_opener, to, plans.clone(), prng.fork())
        };
        let ends = [
            End { stack: first, application: application(true, &mut prng), wire: Wire::default() },
            End {
                stack: second,
                application: application(false, &mut prng),
                wire: Wire::default(),
            },
        ];
        let network = Network::new(faults, prng.fork());
        World { now: Time(1 << 35), ends, network, prng, events: Vec::new(), trace }
    }

    /// Runs the world to its end.
    ///
    /// # Panics
    /// With the promise that does not hold.
    pub fn run(mut self) -> Summary {
        let start = self.now;
        self.network.begin(start);
        for side in 0..2 {
            self.turn(side);
        }
        let mut turns = 0_u64;
        while let Some((at, side)) = self.next() {
            turns += 1;
            assert!(turns < 1_000_000, "{turns} turns: {}", self.describe());
            self.now = self.now.max(at);
            let elapsed = Time(self.now.0 - start.0);
            assert!(elapsed < END, "not over after {elapsed:?}: {}", self.describe());
            self.turn(side);
            if self.is_over() {
                break;
            }
        }
        self.check_end();
        let statistics = self.ends.each_ref().map(|end| end.stack.statistics());
        let bytes = self.ends.iter().map(|end| end.application.read_bytes()).sum();
        let packets = self.network.sent;
        let writes: u64 = self.ends.iter().map(|end| end.application.writes()).sum();
        let bound = 2_000 + 8 * (writes + bytes / 400);
        assert!(packets < bound, "{packets} packets for {writes} writes of {bytes} bytes");
        Summary {
            packets,
            bytes,
            resent: statistics.iter().map(|one| one.resent).sum(),
            timeouts: statistics.iter().map(|one| one.timeouts).sum(),
            probes: statistics.iter().map(|one| one.probes).sum(),
            ended_at: Time(self.now.0 - start.0),
        }
    }

    /// The next moment at which a side has something to do.
    fn next(&mut self) -> Option<(Time, usize)> {
        let mut next: Option<(Time, usize)> = None;
        for side in 0..2 {
            let end = &self.ends[side];
            let moments = [
                self.network.next(side),
                end.stack.next_time(self.now),
                end.application.next_time(),
            ];
            for moment in moments.into_iter().flatten() {
                if next.is_none_or(|(at, _)| moment < at) {
                    next = Some((moment, side));
                }
            }
        }
        next
    }

    /// A turn of one side: packets, events, the application, the end of the turn.
    fn turn(&mut self, side: usize) {
        // A thread of a busy machine is late now and then.
        if self.prng.chance(0.01) {
            self.now = self.now + Duration::from_micros(self.prng.below(30_000));
        }
        let end = &mut self.ends[side];
        end.wire.begin_turn(&mut self.network, self.now);
        let mut is_first = true;
        loop {
            // As a thread's poll does it: the last turn ends, packets come, events go.
            end.stack.end_turn(self.now, &mut end.wire);
            while let Some(packet) = self.network.receive(side, self.now) {
                if self.trace {
                    println!("{:>12} {side} < {}", self.now.0, network::describe(&packet));
                }
                end.stack.receive(self.now, &packet, 1, &mut end.wire);
            }
            end.stack.take_events(&mut self.events);
            if self.events.is_empty() && !is_first {
                break;
            }
            is_first = false;
            for event in self.events.drain(..) {
                if self.trace {
                    println!("{:>12} {side}   {event:?}", self.now.0);
                }
                end.application.event(&event);
            }
            end.application.act(self.now, &mut end.stack, &mut end.wire);
        }
        for packet in end.wire.end_turn() {
            if self.trace {
                println!("{:>12} {side} > {}", self.now.0, network::describe(&packet));
            }
            self.network.send(side, self.now, packet);
        }
    }

    fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.application.is_over(&end.stack))
    }

    fn check_end(&self) {
        for end in &self.ends {
            end.application.check();
            let statistics = end.stack.statistics();
            let left = (
                statistics.connections,
                statistics.active,
                statistics.retained_bytes,
                statistics.unread_bytes,
            );
            assert_eq!(left, (0, 0, 0, 0), "left over: {}", self.describe());
        }
    }

    fn describe(&self) -> String {
        if self.trace {
            println!("{:?}", self.ends[0].stack);
        }
        let end =
            |end: &End| format!("{:?}\n{}", end.stack.statistics(), end.application.describe());
        format!("{:?}\n{}\n{}", self.network.faults, end(&self.ends[0]), end(&self.ends[1]))
    }
}
