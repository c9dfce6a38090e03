//! `crore bench`: runs the crate `bench`, and handles signals and the exit code.

use crate::exit::Ending;
use crate::signals::{self, Signal};
use bench::BenchCommand;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The workload.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    workload: BenchCommand,
}

/// Runs the workload to its end. The first signal stops it with a report, a second one at once.
///
/// # Errors
/// The workload cannot run; messages were lost, repeated or out of order; or a signal stopped it.
pub fn run(arguments: Arguments) -> Result<(), Ending> {
    let stop = Arc::new(AtomicBool::new(false));
    let ended_by: Arc<OnceLock<Signal>> = Arc::default();
    let (asked, told) = (Arc::clone(&stop), Arc::clone(&ended_by));
    signals::watch(move |signal| {
        if told.set(signal).is_err() {
            std::process::exit(i32::from(signal.exit_code()));
        }
        asked.store(true, Ordering::Release);
    });
    let code = bench::run(arguments.workload, &stop)?;
    if code != ExitCode::SUCCESS {
        return Err(Ending::FailedAndTold);
    }
    match ended_by.get() {
        Some(signal) => Err(Ending::Signal(*signal)),
        None => Ok(()),
    }
}
