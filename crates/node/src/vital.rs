//! Vital threads: the process ends with them.
//!
//! A node with a panicked log thread or I/O thread would be half alive: publications without
//! answers, connections that are never read, and a process that no supervisor restarts. So the
//! process ends with the thread, at once, however it was compiled; acknowledged messages are where
//! they were acknowledged to be, and clients reconnect.

use std::io::Write;

/// Ends the process if the thread that holds it panics.
pub(crate) struct Vital;

impl Drop for Vital {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        // A closed standard error has no remedy here.
        let _ =
            writeln!(std::io::stderr(), "crore: the thread {name} has panicked; the node stops");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const CHILD: &str = "CRORE_TEST_VITAL";
    const SIGABRT: i32 = 6;

    /// The test starts itself once more, as the process that is to end.
    #[test]
    fn a_panic_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            let thread = std::thread::Builder::new().name("crore-log-test".into()).spawn(|| {
                let _vital = Vital;
                panic!("a log thread that fails");
            });
            // Without the guard, this process would go on and report it.
            let _ = thread.map(std::thread::JoinHandle::join);
            println!("half alive");
            return;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "vital::tests::a_panic_ends_the_process"])
            .args(["--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
        assert!(said.contains("crore-log-test has panicked"), "{said}");
    }
}
