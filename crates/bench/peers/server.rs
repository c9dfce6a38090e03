//! A server's process and those that it starts: their processor time, their memory, their end.
//!
//! Place: one life for each server and round. Dropping it ends all of them and removes their files.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::Options;
use crate::kind::{Kind, Place};

/// What a start may take.
const START_MAX: Duration = Duration::from_secs(20);
/// How often the server is looked at until it rests.
const LOOK: Duration = Duration::from_millis(250);
/// Less than that in one look is rest.
const REST_NS: u64 = 2_500_000;
/// Whoever does not come to rest is measured all the same.
const REST_MAX: Duration = Duration::from_secs(15);

/// A running server.
pub struct Server {
    process: Child,
    scratch: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts it on its cores and waits until it listens.
    pub fn start(kind: Kind, options: &Options) -> anyhow::Result<Server> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let scratch = std::env::temp_dir().join(format!("peers-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&scratch)?;
        let place = Place {
            foreign: &options.foreign,
            scratch: &scratch,
            port,
            cores: options.server_cores.len(),
            connections: options.clients + 100,
        };
        let bare = kind.command(&place)?;
        let cores: Vec<String> = options.server_cores.iter().map(usize::to_string).collect();
        // It ends with us, however we end.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "taskset", "-c", &cores.join(",")])
            .arg(bare.get_program());
        command.args(bare.get_args()).current_dir(&scratch);
        for (name, value) in bare.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let errors = std::fs::File::create(scratch.join("stderr"))?;
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .context("setpriv and taskset")?;
        let mut server =
            Server { process, scratch, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    /// Processor time of all its processes until now, in nanoseconds.
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
    pub fn pss_bytes(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for process in self.processes() {
            let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next());
            sum += kilobytes.context("smaps_rollup")?.parse::<u64>()? * 1024;
        }
        Ok(sum)
    }

    /// Waits until it does next to nothing, so that what has been done is paid.
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

    /// Itself and its descendants.
    fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.process.id()];
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
        while std::net::TcpStream::connect(self.address).is_err() {
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(self.scratch.join("stderr"));
                bail!("it does not listen: {}", said.unwrap_or_default().trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Workers would outlive a parent that is killed alone.
        for process in self.processes() {
            if let Some(id) = Pid::from_raw(process as i32) {
                // It may have ended by itself.
                let _ = kill_process(id, Signal::KILL);
            }
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}
