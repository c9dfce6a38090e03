//! A terminal for tests: a program draws in it, keys are typed, and the test waits for text on its
//! screen.
//!
//! The screen knows the control sequences that `crore` uses: an unknown one is a failure.
//! Invariant: every wait has a deadline.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::PATIENCE;

/// A terminal and the program in it. Dropping it ends the program.
#[derive(Debug)]
pub struct Terminal {
    person: File,
    /// Kept open while the modes are needed: they are lost with the last descriptor.
    program: OwnedFd,
    modes_before: String,
    happened: Receiver<Happened>,
    screen: Screen,
    process: Option<Pid>,
}

#[derive(Debug)]
enum Happened {
    Drawn(Vec<u8>),
    Ended(ExitStatus),
}

/// The state after a program.
#[derive(Debug)]
pub struct Left {
    /// The exit status.
    pub status: ExitStatus,
    /// The present content of the screen.
    pub screen: Screen,
    /// Whether the terminal's modes are restored.
    pub has_modes_of_before: bool,
}

impl Terminal {
    /// Starts a program in a terminal of this size (columns, rows), as its controlling terminal.
    pub fn start(command: &Command, size: (u16, u16)) -> Terminal {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&person).expect("it is ours");
        unlockpt(&person).expect("it is ours");
        let name = ptsname(&person, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = rustix::fs::open(name, flags, Mode::empty()).expect("its other end");
        tcsetwinsize(&person, winsize(size)).expect("a size");
        let end = || Stdio::from(program.try_clone().expect("a descriptor"));
        let mut child = Command::new("setsid")
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args())
            .env("TERM", "xterm")
            .env_remove("CRORE_BINARY")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (sender, happened) = channel();
        let ended = sender.clone();
        thread::spawn(move || {
            let status = child.wait().expect("the child can be waited for");
            // The receiver may be gone.
            let _ = ended.send(Happened::Ended(status));
        });
        let person = File::from(person);
        let mut reader = person.try_clone().expect("a descriptor");
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // Fails when the other end is closed.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(Happened::Drawn(bytes[..length].into())).is_err() {
                    return;
                }
            }
        });
        let modes_before = described(&program);
        Terminal { person, program, modes_before, happened, screen: Screen::new(size), process }
    }

    /// Waits until `is_so` holds for the whole screen.
    pub fn wait_for(&mut self, what: &str, is_so: impl Fn(&Screen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !(self.screen.is_whole && is_so(&self.screen)) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.happened.recv_timeout(left) {
                Ok(Happened::Drawn(bytes)) => self.screen.take(&bytes),
                other => panic!("no {what} ({other:?}) in\n{}", self.screen.text()),
            }
        }
    }

    /// Types keys, all at once.
    pub fn type_keys(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).expect("an open terminal");
    }

    /// Resizes the window. The content of the screen is lost.
    pub fn resize(&mut self, size: (u16, u16)) {
        let (is_alternate, has_cursor) = (self.screen.is_alternate, self.screen.has_cursor);
        self.screen = Screen { is_alternate, has_cursor, ..Screen::new(size) };
        tcsetwinsize(&self.person, winsize(size)).expect("an open terminal");
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.process.expect("it runs"), signal).expect("our child");
    }

    /// Waits for its end.
    pub fn end(mut self) -> Left {
        let deadline = Instant::now() + PATIENCE;
        let next = |screen: &mut Screen| {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.happened.recv_timeout(left) {
                Ok(Happened::Drawn(bytes)) => {
                    screen.take(&bytes);
                    Ok(None)
                }
                Ok(Happened::Ended(status)) => Ok(Some(status)),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not end; it shows\n{}", screen.text())
                }
                Err(RecvTimeoutError::Disconnected) => Err(()),
            }
        };
        let mut screen = std::mem::replace(&mut self.screen, Screen::new((1, 1)));
        let status = loop {
            if let Some(status) = next(&mut screen).expect("its end comes first") {
                break status;
            }
        };
        self.process = None;
        let has_modes_of_before = described(&self.program) == self.modes_before;
        let (reader, _) = std::io::pipe().expect("a pipe");
        // The last descriptor: pending output is read, then the stream ends.
        drop(std::mem::replace(&mut self.program, reader.into()));
        while next(&mut screen).is_ok() {}
        Left { status, screen, has_modes_of_before }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(process) = self.process {
            // It may have ended by itself.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The visible screen.
#[derive(Debug)]
pub struct Screen {
    columns: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The bytes of an incomplete character or sequence.
    begun: Vec<u8>,
    /// Whether the alternate screen is active.
    pub is_alternate: bool,
    /// Whether the cursor is visible.
    pub has_cursor: bool,
    /// Whether it was drawn completely.
    pub is_whole: bool,
    /// Whether text went beyond the edges.
    pub is_cut: bool,
}

impl Screen {
    fn new((columns, rows): (u16, u16)) -> Screen {
        Screen {
            columns: columns.into(),
            rows: vec![Vec::new(); rows.into()],
            row: 0,
            column: 0,
            begun: Vec::new(),
            is_alternate: false,
            has_cursor: true,
            is_whole: false,
            is_cut: false,
        }
    }

    /// All rows, without trailing blanks.
    pub fn lines(&self) -> Vec<String> {
        let line = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
        self.rows.iter().map(line).collect()
    }

    /// All rows in one text.
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.begun.push(byte);
            let begun = std::mem::take(&mut self.begun);
            match begun[..] {
                [0x1b] | [0x1b, b'['] => self.begun = begun,
                [0x1b, b'[', .., last] if !last.is_ascii_alphabetic() => self.begun = begun,
                [0x1b, ..] => self.obey(&begun[1..]),
                [b'\r'] => self.column = 0,
                [b'\n'] => self.row += 1,
                _ => match std::str::from_utf8(&begun) {
                    Ok(text) => text.chars().for_each(|character| self.put(character)),
                    Err(error) if error.error_len().is_none() => self.begun = begun,
                    Err(_) => panic!("no UTF-8: {begun:?}"),
                },
            }
        }
    }

    fn put(&mut self, character: char) {
        let (row, column) = (self.row, self.column);
        self.column += 1;
        match self.rows.get_mut(row) {
            Some(row) if column < self.columns => {
                row.resize(row.len().max(column + 1), ' ');
                row[column] = character;
            }
            _ => self.is_cut = true,
        }
    }

    fn obey(&mut self, sequence: &[u8]) {
        match sequence {
            b"[H" => {
                (self.row, self.column) = (0, 0);
                (self.is_whole, self.is_cut) = (false, false);
            }
            b"[K" => {
                let column = self.column;
                if let Some(row) = self.rows.get_mut(self.row) {
                    row.truncate(column);
                }
            }
            b"[J" => {
                let below = self.rows.iter_mut().skip(self.row + 1);
                below.for_each(Vec::clear);
                self.is_whole = true;
            }
            b"[?1049h" | b"[?1049l" => {
                self.is_alternate = sequence.ends_with(b"h");
                // The content of the other screen is unknown.
                self.rows.iter_mut().for_each(Vec::clear);
                (self.row, self.column) = (0, 0);
            }
            b"[?25h" | b"[?25l" => self.has_cursor = sequence.ends_with(b"h"),
            other => panic!("an unknown sequence: {}", other.escape_ascii()),
        }
    }
}

fn winsize((columns, rows): (u16, u16)) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn described(terminal: &OwnedFd) -> String {
    let modes: Termios = tcgetattr(terminal).expect("a terminal");
    format!("{modes:?}")
}
