//! A server as a process: its cores, CPU time, memory and end.
//!
//! Place: below the experiments that start servers. A server ends with this process. Dropping it
//! kills it with all of its descendants, and removes its folder.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::run::{Cores, Folder, ProcessFigures};
use rustix::process::{Pid, Signal, kill_process};

/// An operators' address that no experiment uses.
pub const ANY_PORT: &str = "127.0.0.1:0";
/// Maximum time of a start.
const START_MAX: Duration = Duration::from_secs(60);
/// Time between two looks at a server that comes to rest.
const LOOK: Duration = Duration::from_millis(250);
/// A server that uses less CPU time between two looks rests.
const REST_NS: u64 = 2_500_000;
/// Maximum time to wait for rest; after it, the server is measured anyway.
const REST_MAX: Duration = Duration::from_secs(15);

/// A running server.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Its configuration and state, removed at its end.
    folder: Folder,
    /// The address of its clients.
    pub address: SocketAddr,
}

impl Process {
    /// Starts a server on these cores, at an unused address. `command` makes its command from a
    /// folder for configuration and state, and from that address.
    ///
    /// # Errors
    /// The server does not listen.
    pub fn start(
        cores: &Cores,
        command: impl FnOnce(&Path, SocketAddr) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Process> {
        Process::start_at(free_address()?, cores, command)
    }

    /// Starts a server at this address.
    ///
    /// # Errors
    /// The server does not listen.
    pub fn start_at(
        address: SocketAddr,
        cores: &Cores,
        command: impl FnOnce(&Path, SocketAddr) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Process> {
        let folder = Folder::new()?;
        let bare = command(&folder.0, address)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(bare.get_program()).args(bare.get_args());
        for (name, value) in bare.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let errors = std::fs::File::create(folder.0.join("stderr"))?;
        command.current_dir(&folder.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = cores.spawn(&mut command).context("setpriv")?;
        let mut process = Process { child, folder, address };
        process.wait_until_it_listens()?;
        Ok(process)
    }

    /// CPU time of all its processes until now, in nanoseconds.
    ///
    /// # Errors
    /// The kernel does not tell it.
    pub fn processor_ns(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for process in self.processes() {
            for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
                let first = text.split_ascii_whitespace().next().unwrap_or_default();
                sum += first.parse::<u64>().context("schedstat")?;
            }
        }
        Ok(sum)
    }

    /// Proportional set size of all its processes, in bytes.
    ///
    /// # Errors
    /// The kernel does not tell it.
    pub fn pss_bytes(&self) -> anyhow::Result<u64> {
        let bytes = |process| ProcessFigures::read(process)?.pss_bytes;
        self.processes().into_iter().map(bytes).sum::<Option<u64>>().context("smaps_rollup")
    }

    /// Waits until it does next to nothing, so that the CPU time of earlier work is spent.
    ///
    /// # Errors
    /// Those of `meanwhile`, which passes the time.
    pub fn wait_until_it_rests(
        &self,
        mut meanwhile: impl FnMut(Duration) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + REST_MAX;
        let mut calm = 0;
        let mut last_ns = self.processor_ns()?;
        while calm < 3 && Instant::now() < deadline {
            meanwhile(LOOK)?;
            let now_ns = self.processor_ns()?;
            calm = if now_ns - last_ns < REST_NS { calm + 1 } else { 0 };
            last_ns = now_ns;
        }
        Ok(())
    }

    /// Its status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// It and its descendants.
    fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.child.id()];
        let mut at = 0;
        while let Some(process) = found.get(at).copied() {
            at += 1;
            let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for task in tasks.flatten() {
                let text = std::fs::read_to_string(task.path().join("children"));
                let text = text.unwrap_or_default();
                found.extend(text.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
        }
        found
    }

    fn wait_until_it_listens(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(self.address).is_err() {
            if self.ended().is_some() || Instant::now() > deadline {
                let output = std::fs::read_to_string(self.folder.0.join("stderr"));
                bail!("the server does not listen: {}", output.unwrap_or_default().trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Workers would outlive a parent that is killed alone.
        for process in self.processes() {
            if let Some(id) = Pid::from_raw(process as i32) {
                // It may have ended by itself.
                let _ = kill_process(id, Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}

/// An unused address of this machine.
///
/// # Errors
/// All ports are in use.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The command of a node with this number of I/O threads and these addresses for clients and
/// operators. Further arguments may follow.
pub fn node(program: &Path, io_threads: u64, clients: SocketAddr, operators: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["serve", "--io-threads", &io_threads.to_string()]);
    command.args(["--listen", &clients.to_string(), "--admin-listen", operators]);
    command
}

/// The node's program, which is built beside this one.
///
/// # Errors
/// The path of this program is unknown.
pub fn crore() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("crore"))
}
