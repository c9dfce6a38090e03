//! Which process of a run may use which cores.
//!
//! Place: from the command line to each child. A thread that starts a process hands its own set of
//! cores on, so that none of the child's threads ever runs elsewhere.

use std::process::{Child, Command};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Cores(pub Vec<usize>);

impl Cores {
    /// Those that this process may use.
    pub fn available() -> Cores {
        let Ok(set) = sched_getaffinity(None) else {
            return Cores(Vec::new());
        };
        Cores((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
    }

    /// The first half for the server, the second one for its clients; all for both where there is
    /// only one.
    pub fn halves(&self) -> (Cores, Cores) {
        if self.0.len() < 2 {
            return (self.clone(), self.clone());
        }
        let (server, clients) = self.0.split_at(self.0.len() / 2);
        (Cores(server.to_vec()), Cores(clients.to_vec()))
    }

    /// Starts a process that uses these cores only; all that this thread may use where there are
    /// none.
    ///
    /// # Errors
    /// It cannot be started, or the cores are not ours to use.
    pub fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        if self.0.is_empty() {
            return command.spawn();
        }
        let before = sched_getaffinity(None)?;
        sched_setaffinity(None, &self.set())?;
        let child = command.spawn();
        sched_setaffinity(None, &before)?;
        child
    }

    /// Keeps the present thread on these.
    ///
    /// # Errors
    /// They are not ours to use.
    pub fn keep(&self) -> std::io::Result<()> {
        Ok(sched_setaffinity(None, &self.set())?)
    }

    fn set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for core in self.0.iter().filter(|core| **core < CpuSet::MAX_CPU) {
            set.set(*core);
        }
        set
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts: Vec<String> = self.0.iter().map(usize::to_string).collect();
        formatter.write_str(&texts.join(","))
    }
}

impl std::str::FromStr for Cores {
    type Err = String;

    /// Reads `0-3,8`.
    fn from_str(text: &str) -> Result<Cores, String> {
        let wrong = || format!("`{text}` is not a list of cores such as 0-3,8");
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().map_err(|_| wrong())?;
            let last: usize = last.trim().parse().map_err(|_| wrong())?;
            if first > last || last >= CpuSet::MAX_CPU {
                return Err(wrong());
            }
            cores.extend(first..=last);
        }
        cores.sort_unstable();
        cores.dedup();
        Ok(Cores(cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, cores) in [
            ("0", Some(vec![0])),
            ("0-3,8", Some(vec![0, 1, 2, 3, 8])),
            ("5,1-2,2", Some(vec![1, 2, 5])),
            ("", None),
            ("3-1", None),
            ("a", None),
            ("1,", None),
            ("99999", None),
        ] {
            assert_eq!(text.parse::<Cores>().ok().map(|cores| cores.0), cores, "{text}");
        }
        assert_eq!(Cores(vec![1, 2, 5]).to_string(), "1,2,5");
    }

    #[test]
    fn halves_are_apart() {
        let halves = |cores: &[usize]| {
            let (server, clients) = Cores(cores.to_vec()).halves();
            (server.0, clients.0)
        };
        assert_eq!(halves(&[4]), (vec![4], vec![4]));
        assert_eq!(halves(&[0, 1, 2]), (vec![0], vec![1, 2]));
    }

    #[test]
    fn a_child_has_the_cores_that_it_was_given() {
        let available = Cores::available();
        let last = Cores(available.0.last().copied().into_iter().collect());
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdout(std::process::Stdio::piped());
        let output = last.spawn(&mut command).unwrap().wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        assert_eq!(
            line.and_then(|line| line.split_once(':')).map(|(_, list)| list.trim()),
            Some(&last.to_string()[..])
        );
        assert_eq!(Cores::available(), available, "ours are as before");
    }
}
