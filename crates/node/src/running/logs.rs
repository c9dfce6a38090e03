//! Logs on disk at the start of a node: opened, or taken over from the old process, and their
//! threads.

use super::Node;
use crate::log_thread::{self, OpenLog, OpenOptions, Surroundings};
use crate::mailbox::ToLog;
use crate::options::{NodeOptions, StartError};
use crate::restore::Restoration;
use crate::upgrade::Inherited;
use broker::engine::MirrorEnd;
use broker::settings::{Durability, LogSettings, Settings};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The restored state of each home, and the ends of mirrors.
type Opened = (Vec<Vec<Restoration>>, Vec<MirrorEnd>);

impl Node {
    /// Starts the log threads, with opened logs or with those of the old process; returns the
    /// restored state of each home, and the ends of mirrors.
    pub(super) fn start_logs(
        &mut self,
        open_logs: Vec<Option<OpenLog>>,
        heir: &mut Option<Inherited>,
        receivers: Vec<Option<Receiver<ToLog>>>,
        directory: &Path,
    ) -> io::Result<Opened> {
        let settings = self.settings();
        match heir {
            Some(heir) => {
                let restorations = self.adopt_logs(heir, directory, receivers, &settings)?;
                Ok((restorations, Vec::new()))
            }
            None => self.spawn_logs(open_logs, receivers, &settings),
        }
    }

    /// Starts the threads of opened logs.
    fn spawn_logs(
        &mut self,
        open_logs: Vec<Option<OpenLog>>,
        receivers: Vec<Option<Receiver<ToLog>>>,
        settings: &Settings,
    ) -> io::Result<Opened> {
        let mut mirrored = Vec::new();
        let mut restorations: Vec<Vec<Restoration>> =
            self.shards.0.iter().map(|_| Vec::new()).collect();
        for (open, incoming) in open_logs.into_iter().zip(receivers) {
            let (Some(mut open), Some(incoming)) = (open, incoming) else {
                continue;
            };
            self.notices.append(&mut open.notices);
            mirrored.append(&mut open.mirrored);
            for (home, restoration) in open.restorations.drain(..).enumerate() {
                restorations[home].push(restoration);
            }
            let thread = open.spawn(settings, self.surroundings(incoming))?;
            self.log_threads.push(thread);
        }
        Ok((restorations, mirrored))
    }

    /// Starts the log threads of a node that takes over. Homes get their state with their shards.
    fn adopt_logs(
        &mut self,
        heir: &mut Inherited,
        directory: &Path,
        receivers: Vec<Option<Receiver<ToLog>>>,
        settings: &Arc<Settings>,
    ) -> io::Result<Vec<Vec<Restoration>>> {
        for (log, incoming) in (0..).zip(receivers) {
            if let Some(incoming) = incoming {
                let adoption = heir.adopt_log(log, settings, directory);
                let surroundings = self.surroundings(incoming);
                let thread = log_thread::spawn_adopting(adoption, surroundings)?;
                self.log_threads.push(thread);
            }
        }
        Ok(self.shards.0.iter().map(|_| Vec::new()).collect())
    }

    fn surroundings(&self, incoming: Receiver<ToLog>) -> Surroundings {
        Surroundings {
            incoming,
            homes: self.shards.0.clone(),
            began: self.began,
            troubles: self.troubles.clone(),
        }
    }
}

/// Opens the logs on disk and the mirrors, by their indexes. A log whose mirror cannot be opened
/// has none in this run; a notice says so.
pub(super) fn open<T>(
    options: &mut NodeOptions<T>,
    notices: &mut Vec<String>,
) -> Result<Vec<Option<OpenLog>>, StartError> {
    let directory = options.data_dir.clone().unwrap_or_default();
    let open_options = OpenOptions { directory: &directory, hash_seed: options.hash_seed };
    let mut opened = Vec::new();
    for log in 0..options.settings.logs.len() {
        let settings = &mut options.settings;
        let has_mirror = settings.logs[log].has_mirror();
        let LogSettings { durability, ref name, .. } = settings.logs[log];
        let name = name.clone();
        opened.push(match durability {
            Durability::Engine if has_mirror => {
                let open = log_thread::open_mirror(settings, log as u16, &open_options);
                match open.map_err(|error| StartError::Log(name, error))? {
                    Ok(open) => Some(open),
                    Err(notice) => {
                        notices.push(notice);
                        settings.logs[log].is_mirrored = false;
                        None
                    }
                }
            }
            Durability::Memory | Durability::Engine => None,
            Durability::Disk => {
                let open = log_thread::open(settings, log as u16, &open_options);
                Some(open.map_err(|error| StartError::Log(name, error))?)
            }
        });
    }
    Ok(opened)
}
