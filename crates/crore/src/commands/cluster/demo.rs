//! The run of `crore cluster demo`: traffic, kills by key or by a schedule, and the verdict.

use super::DemoArguments;
use super::audit::Found;
use super::machines::{Life, Machine, Machines};
use super::traffic::{Counts, SUBSCRIBERS, Traffic};
use super::view::{View, says};
use crate::exit::Ending;
use crate::signals::{self, Signal};
use crate::terminal::{self, Screen};
use anyhow::anyhow;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two refreshes.
const REFRESH: Duration = Duration::from_secs(1);
/// Time limit for whatever the schedule waits for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Acknowledgements of each publisher between two steps of the schedule.
const BETWEEN: u64 = 20;

/// The schedule: each is killed, and restarted after further acknowledgements.
const SCHEDULE: [Machine; 4] =
    [Machine::Broker(0), Machine::Node(0), Machine::Broker(1), Machine::Node(2)];

/// The cause of a turn of the loop.
enum Happened {
    Key(u8),
    Signal(Signal),
}

/// Runs the demo.
///
/// # Errors
/// See [`super::run`].
pub fn run(arguments: &DemoArguments) -> Result<(), Ending> {
    let (sender, happened) = channel();
    let signals = sender.clone();
    let mut count = 0_u32;
    signals::watch(move |signal| {
        count += 1;
        if count > 1 || signals.send(Happened::Signal(signal)).is_err() {
            std::process::exit(i32::from(signal.exit_code()));
        }
    });
    let machines = Machines::start(&arguments.jars, says)?;
    let mut traffic = Traffic::subscribe(&machines.urls)?;
    let live = || traffic.is_live();
    super::traffic::wait_until("live subscription", PATIENCE, live)?;
    traffic.publish(&machines.urls, arguments.rate)?;
    let mut demo = Demo { machines, traffic, view: View::new(), happened, next: Instant::now() };
    let ending = if terminal::output_redraws() && !arguments.scheduled {
        demo.follow_keys(sender)
    } else {
        demo.follow_schedule()
    };
    demo.end(ending)
}

struct Demo {
    // First, so that clients end before their nodes.
    traffic: Traffic,
    machines: Machines,
    view: View,
    happened: Receiver<Happened>,
    next: Instant,
}

impl Demo {
    /// Draws each second, and kills and restarts by key, until `q`.
    fn follow_keys(&mut self, sender: Sender<Happened>) -> Result<(), Ending> {
        let screen = Screen::open()?;
        thread::spawn(move || watch_keys(&sender));
        loop {
            screen.show(&self.view.lines(&self.machines.lives()))?;
            match self.wait() {
                None => self.look(),
                Some(Happened::Signal(_) | Happened::Key(b'q' | b'Q' | 27)) => return Ok(()),
                Some(Happened::Key(key)) => {
                    if let Some(machine) = machine_of(key) {
                        self.view.note(describe(machine, self.machines.lives().of(machine)));
                        self.machines.toggle(machine);
                    }
                }
            }
        }
    }

    /// Kills and restarts by the schedule, with a line each second.
    fn follow_schedule(&mut self) -> Result<(), Ending> {
        self.go_on("the first messages")?;
        for machine in SCHEDULE {
            for wanted in [Life::Down, Life::Runs] {
                says(&describe(machine, self.machines.lives().of(machine)));
                self.machines.toggle(machine);
                self.wait_for("a broker or node", |demo| {
                    demo.machines.lives().of(machine) == wanted
                })?;
                self.go_on("messages afterwards")?;
            }
        }
        Ok(())
    }

    /// Waits until each publisher has further acknowledgements.
    fn go_on(&mut self, what: &str) -> Result<(), Ending> {
        let wanted = self.traffic.counts().audit.least_acknowledged() + BETWEEN;
        self.wait_for(what, |demo| demo.traffic.counts().audit.least_acknowledged() >= wanted)
    }

    fn wait_for(&mut self, what: &str, is_so: impl Fn(&Demo) -> bool) -> Result<(), Ending> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            if let Some(trouble) = self.machines.lives().trouble {
                return Err(anyhow!("{trouble}").into());
            }
            if Instant::now() > deadline {
                return Err(anyhow!("still waiting for {what} after {PATIENCE:?}").into());
            }
            match self.happened.recv_timeout(REFRESH / 20) {
                Ok(Happened::Signal(signal)) => return Err(Ending::Signal(signal)),
                Ok(Happened::Key(_)) | Err(_) => {}
            }
            if Instant::now() >= self.next {
                self.next = Instant::now() + REFRESH;
                self.look();
                says(&self.view.line());
            }
        }
        Ok(())
    }

    /// The next key or signal; none at the time of the next refresh.
    fn wait(&mut self) -> Option<Happened> {
        let left = self.next.saturating_duration_since(Instant::now());
        match self.happened.recv_timeout(left) {
            Ok(happened) => Some(happened),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.next = Instant::now() + REFRESH;
                None
            }
        }
    }

    fn look(&mut self) {
        let mut counts = self.traffic.counts();
        self.view.look(&counts);
        counts.latency.clear();
    }

    /// Restarts killed machines, waits for the last messages, and tells the verdict.
    fn end(mut self, ending: Result<(), Ending>) -> Result<(), Ending> {
        if let Err(Ending::Signal(signal)) = ending {
            return Err(Ending::Signal(signal));
        }
        says("The last messages, with all brokers and nodes ...");
        self.machines.mend();
        let all_run = super::traffic::wait_until("broker or node", PATIENCE, || {
            self.machines.lives().all_run()
        });
        let has_finished = self.traffic.finish(PATIENCE);
        // A message that does not arrive by then is lost.
        let arrived = super::traffic::wait_until("last message", PATIENCE / 4, || {
            self.traffic.counts().audit.found().missing == 0
        });
        let (found, text) = verdict(&self.traffic.counts());
        says(&text);
        ending?;
        all_run?;
        if !has_finished {
            return Err(anyhow!("a publisher got no acknowledgement of its last message").into());
        }
        // The verdict names the faults.
        if found.is_clean() && arrived.is_ok() { Ok(()) } else { Err(Ending::FailedAndTold) }
    }
}

/// The figures at the end, and a sentence.
fn verdict(counts: &Counts) -> (Found, String) {
    let found = counts.audit.found();
    let all = counts.latency_all.digest();
    let figures = format!(
        "{} messages acknowledged, {} delivered to {SUBSCRIBERS} subscribers; latency p50 {:.1} ms, \
         p99 {:.1} ms, max {:.0} ms; longest wait for an acknowledgement {:.1} s; {} refusals, {} \
         lost connections",
        found.acknowledged,
        found.delivered,
        all.p50_us / 1e3,
        all.p99_us / 1e3,
        all.max_us / 1e3,
        counts.silence_max.as_secs_f64(),
        counts.refusals,
        counts.disconnects,
    );
    let Found { missing, twice, out_of_order, gaps, .. } = found;
    let verdict = if found.is_clean() {
        "Verdict: each acknowledged message came once and in order, without a gap.".to_owned()
    } else {
        format!(
            "Verdict: FAULTS: {missing} lost, {twice} twice, {out_of_order} out of order, {gaps} gaps."
        )
    };
    (found, format!("{figures}.\n{verdict}"))
}

/// The line of a kill or a restart.
fn describe(machine: Machine, life: Life) -> String {
    let name = match machine {
        Machine::Broker(number) => format!("broker {}", number + 1),
        Machine::Node(number) => format!("node n{}", number + 1),
    };
    match life {
        Life::Runs => format!("Kill {name}."),
        Life::Down => format!("Restart {name}."),
        Life::Starting => format!("Wait for {name}: it starts."),
    }
}

fn machine_of(key: u8) -> Option<Machine> {
    match key {
        b'1'..=b'3' => Some(Machine::Broker(usize::from(key - b'1'))),
        b'a'..=b'c' => Some(Machine::Node(usize::from(key - b'a'))),
        _ => None,
    }
}

/// Reports keys until standard input ends.
fn watch_keys(happened: &Sender<Happened>) {
    let mut input = std::io::stdin().lock();
    let mut typed = [0; 64];
    while let Ok(length @ 1..) = input.read(&mut typed) {
        // Several bytes that begin with Escape are a key without a letter, such as an arrow.
        let keys = if length > 1 && typed[0] == 27 { &[][..] } else { &typed[..length] };
        for key in keys {
            if happened.send(Happened::Key(*key)).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_machines() {
        assert_eq!(machine_of(b'2'), Some(Machine::Broker(1)));
        assert_eq!(machine_of(b'c'), Some(Machine::Node(2)));
        assert_eq!((machine_of(b'4'), machine_of(b'd'), machine_of(b'0')), (None, None, None));
    }
}
