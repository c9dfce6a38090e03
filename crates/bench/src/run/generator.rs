//! A load generator as its run sees it: a child process that takes orders and tells how far it has
//! come.
//!
//! Place: the other end of [`super::part`]. Dropping it ends the process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::cores::Cores;
use super::message::{Ended, Line, Measured, Order, PartConfig, Progress};

/// Maximum time for an answer of a generator.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time for its last answer: it waits for the server's answers first, and closing a million
/// sockets takes a minute.
const STOP_PATIENCE: Duration = Duration::from_secs(600);

/// Maximum time for the end of a generator whose answer is not needed.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// A running load generator.
#[derive(Debug)]
pub struct Generator {
    /// The role, in a word.
    pub what: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    lines: Receiver<Line>,
    /// The newest figures.
    pub progress: Progress,
    /// Number of received progress lines.
    pub intervals: u64,
    /// Clients that it carries, once it has said so.
    pub clients: Option<u64>,
    /// Its threads.
    pub threads: u64,
    /// The notes of its plan.
    pub notes: Vec<String>,
    measured: Option<Measured>,
    ended: Option<Ended>,
}

impl Generator {
    /// Starts it on these cores.
    ///
    /// # Errors
    /// This program cannot be started again.
    pub fn start(
        what: &'static str,
        config: &PartConfig,
        cores: &Cores,
    ) -> anyhow::Result<Generator> {
        let program = std::env::current_exe().context("cannot find the file of this program")?;
        let mut command = Command::new(program);
        command
            .args(["bench", "part"])
            // Ctrl-C is for the run, which then ends its children.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child =
            cores.spawn(&mut command).with_context(|| format!("cannot start the {what}"))?;
        let output = child.stdout.take().context("no output of a generator")?;
        let mut orders = child.stdin.take().context("no input of a generator")?;
        writeln!(orders, "{}", serde_json::to_string(config)?)?;
        let (sender, lines) = channel();
        std::thread::Builder::new().name("bench-lines".to_owned()).spawn(move || {
            for text in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(line) = serde_json::from_str(&text) else {
                    eprintln!("{text}"); // something went wrong in there; it may say what
                    continue;
                };
                if sender.send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Generator {
            what,
            child,
            orders: Some(orders),
            lines,
            progress: Progress::default(),
            intervals: 0,
            clients: None,
            threads: 0,
            notes: Vec::new(),
            measured: None,
            ended: None,
        })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order.
    ///
    /// # Errors
    /// It is gone.
    pub fn order(&mut self, order: &Order) -> anyhow::Result<()> {
        let orders = self.orders.as_mut().context("the load generator was stopped")?;
        writeln!(orders, "{}", serde_json::to_string(order)?)
            .with_context(|| format!("the {} have ended", self.what))
    }

    /// Takes the lines that have come.
    ///
    /// # Errors
    /// It has ended without having been told to.
    pub fn look(&mut self) -> anyhow::Result<()> {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.take(line)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) if self.ended.is_some() => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    let status = self.child.wait()?;
                    bail!("the {} stopped unexpectedly ({status})", self.what);
                }
            }
        }
    }

    fn take(&mut self, line: Line) -> anyhow::Result<()> {
        match line {
            Line::Started { clients, threads, notes } => {
                self.clients = Some(clients);
                self.threads = threads;
                self.notes = notes;
            }
            Line::Failed { why } => bail!("the {} cannot start: {why}", self.what),
            Line::Progress(progress) => {
                self.progress = *progress;
                self.intervals += 1;
            }
            Line::Measured(measured) => self.measured = Some(*measured),
            Line::Ended(ended) => self.ended = Some(*ended),
        }
        Ok(())
    }

    /// Waits for what it has measured.
    ///
    /// # Errors
    /// It does not answer.
    pub fn report(&mut self) -> anyhow::Result<Measured> {
        self.measured = None;
        self.order(&Order::Report)?;
        self.wait(ANSWER_PATIENCE, |generator| generator.measured.take())
    }

    /// Ends it and waits for what it leaves.
    ///
    /// # Errors
    /// It does not answer.
    pub fn stop(mut self) -> anyhow::Result<Ended> {
        self.order(&Order::Stop)?;
        self.wait(STOP_PATIENCE, |generator| generator.ended.take())
    }

    fn wait<T>(
        &mut self,
        patience: Duration,
        take: impl Fn(&mut Generator) -> Option<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            self.look()?;
            if let Some(taken) = take(self) {
                return Ok(taken);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("the {} do not answer", self.what)
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.orders = None;
        // A generator ends with its input, unless it waits for answers that are no longer needed.
        let deadline = Instant::now() + END_PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
