//! `crore top` in a terminal: the screen, keys, another window size, and the terminal's state at
//! the end.

use end_to_end::curl::{publish, stream};
use end_to_end::process::Process;
use end_to_end::server::Server;
use end_to_end::terminal::{Left, Terminal};
use end_to_end::tools::crore;
use rustix::process::Signal;

/// Columns and rows.
const SIZE: (u16, u16) = (80, 24);

fn top(server: &Server, words: &[&str]) -> Terminal {
    let mut command = crore();
    command.args(["top", "--operators", &server.operators_url("")]);
    command.args(words);
    let mut terminal = Terminal::start(&command, SIZE);
    terminal.wait_for("first screen", |screen| {
        screen.is_alternate && !screen.has_cursor && screen.text().contains("published/s")
    });
    terminal
}

fn subscriber(server: &Server) -> Process {
    let mut subscriber = stream(&["-N", &server.url("/events?topic=news/one")]);
    subscriber.wait_for("the stream", |line| line.contains("crore.start").then_some(()));
    subscriber
}

/// Checks that the drawn and typed text is gone, and the modes are restored.
fn assert_restored(left: &Left) {
    assert!(left.has_modes_of_before, "{left:?}");
    assert!(!left.screen.is_alternate && left.screen.has_cursor, "{left:?}");
    assert_eq!(left.screen.text().trim(), "", "{left:?}");
}

/// A change at the node is visible after the next poll; `q` ends the program, and other keys do
/// not, whatever their bytes.
#[test]
fn the_screen_follows_the_node() {
    let server = Server::start();
    let mut terminal = top(&server, &[]);
    terminal.wait_for("what to do", |screen| {
        let lines = screen.lines();
        lines.iter().any(|line| line == "q quits") && lines[0].contains("ready")
    });
    let _first = subscriber(&server);
    terminal.wait_for("a subscription", |screen| has(&screen.lines(), "subscriptions", "1"));
    // A letter, up, F5, page down.
    terminal.type_keys("x");
    terminal.type_keys("\x1b[A");
    terminal.type_keys("\x1b[15~\x1b[6~");
    publish(&server.url("/topics/news/one"), "seen");
    let _second = subscriber(&server);
    terminal.wait_for("two of them", |screen| {
        !screen.is_cut
            && has(&screen.lines(), "subscriptions", "2")
            && has(&screen.lines(), "topics", "1")
    });
    terminal.type_keys("q");
    let left = terminal.end();
    assert!(left.status.success(), "{left:?}");
    assert_restored(&left);
}

/// Whether the number stands behind its name.
fn has(lines: &[String], name: &str, number: &str) -> bool {
    let words = lines.iter().flat_map(|line| line.split_whitespace());
    words.clone().zip(words.skip(1)).any(|pair| pair == (name, number))
}

/// A resized window is filled at once, long before the next poll, and nothing is drawn beyond its
/// edges.
#[test]
fn a_resized_window_is_redrawn_at_once() {
    let server = Server::start();
    let mut terminal = top(&server, &["--interval", "60"]);
    for size in [(40, 10), (120, 40), (20, 5), SIZE] {
        terminal.resize(size);
        terminal.wait_for("a screen that fits", |screen| {
            let lines = screen.lines();
            let last = lines.iter().rposition(|line| line == "q quits");
            !screen.is_cut && lines[0].starts_with("crore ") && last.is_some()
        });
    }
    terminal.type_keys("\x1b");
    let left = terminal.end();
    assert!(left.status.success(), "{left:?}");
    assert_restored(&left);
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let server = Server::start();
    let mut terminal = top(&server, &[]);
    // The terminal turns it into a signal.
    terminal.type_keys("\x03");
    let left = terminal.end();
    assert_eq!(left.status.code(), Some(130), "{left:?}");
    assert_restored(&left);
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let terminal = top(&server, &[]);
        terminal.signal(signal);
        let left = terminal.end();
        assert_eq!(left.status.code(), Some(code), "{left:?}");
        assert_restored(&left);
    }
}

/// A lost node is reported, and the last figures stay.
#[test]
fn a_lost_node_is_reported() {
    let server = Server::start();
    let mut terminal = top(&server, &[]);
    server.process.signal("KILL");
    terminal.wait_for("what is wrong", |screen| {
        let text = screen.text();
        text.contains("! no node answers") && text.contains("published/s")
    });
    terminal.type_keys("Q");
    let left = terminal.end();
    assert!(left.status.success(), "{left:?}");
    assert_restored(&left);
}
