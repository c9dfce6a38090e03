//! `docs/tutorial.md` works as written: its files are saved, its commands run in order, and a
//! browser shows the lines of the text on its page, across a kill of the node.

use std::fs;
use std::process::Command;
use std::time::Duration;

use end_to_end::process::Process;
use end_to_end::server::{Place, Server};
use end_to_end::tools::node;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/tutorial.md");

/// A browser may take long to start on a busy machine.
const BROWSER: Duration = Duration::from_secs(300);

const START: &str = "crore serve --config crore.toml";
const SERVE_PAGE: &str = "python3 -m http.server 8000 --bind 127.0.0.1";
const KILL: &str = "kill -9 $(pidof crore)";

/// The code blocks of the page: their language and their text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts: Vec<&str> = PAGE.split("```").collect();
    let blocks = parts.iter().skip(1).step_by(2);
    let blocks = blocks.map(|block| block.split_once('\n').expect("a language and a text"));
    blocks.map(|(language, text)| (language, text.trim_end())).collect()
}

/// The machine of the reader: the files of the page, its web server, the node, and the browser.
struct Reader {
    place: Place,
    web: Process,
    web_port: String,
    server: Option<Server>,
    browser: Option<Process>,
    /// The lines that the last commands printed.
    printed: Vec<String>,
}

impl Reader {
    /// The web server runs first, because its port stands in the configuration of the node.
    fn new() -> Reader {
        let place = Place::new("127.0.0.1:0");
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]);
        let mut web = Process::start(command.current_dir(place.path("")));
        let web_port = web.wait_for("port of the web server", |line| {
            let (_, rest) = line.split_once(" port ")?;
            Some(rest.split_once(' ')?.0.to_owned())
        });
        Reader { place, web, web_port, server: None, browser: None, printed: Vec::new() }
    }

    /// The page's text with the ports and folders of this test.
    fn here(&self, text: &str) -> String {
        let text = text.replace("localhost:8000", &format!("localhost:{}", self.web_port));
        match &self.server {
            Some(server) => text.replace("127.0.0.1:8800", &server.clients),
            None => text,
        }
    }

    fn configure(&self, text: &str) {
        let data = format!("data_dir = {:?}", self.place.path("data"));
        let text = self.here(text);
        assert!(text.contains("data_dir = \"data\""), "{text}");
        self.place.configure(&text.replace("data_dir = \"data\"", &data));
    }

    fn run(&mut self, commands: &str) {
        match commands {
            START => {
                assert!(self.server.is_none(), "the node runs");
                self.server = Some(self.place.start());
            }
            SERVE_PAGE => self.open_page(),
            KILL => {
                let server = self.server.take().expect("the node runs");
                server.process.signal("KILL");
                server.end();
                self.expect(&json!({"state": "reconnecting"}));
            }
            _ => self.shell(commands),
        }
    }

    fn shell(&mut self, commands: &str) {
        let output = Command::new("sh").args(["-ec", &self.here(commands)]).output();
        let output = output.expect("a shell is installed");
        assert!(output.status.success(), "{commands}: {output:?}");
        // Answers of curl have no line feed.
        let printed = String::from_utf8(output.stdout).expect("text").replace("}{", "}\n{");
        self.printed = printed.lines().map(str::to_owned).collect();
        let is_published = |line: &String| line.contains("\"duplicate\":false");
        assert!(self.printed.iter().all(is_published), "{commands}: {printed}");
    }

    /// The lines that the page shows, `…` standing for any text.
    fn expect_printed(&self, shown: &str) {
        assert_eq!(self.printed.len(), shown.lines().count(), "{:?}", self.printed);
        for (line, shown) in self.printed.iter().zip(shown.lines()) {
            let mut rest = line.as_str();
            for piece in shown.split('…') {
                let Some(place) = rest.find(piece) else {
                    panic!("{line} is not {shown}");
                };
                rest = &rest[place + piece.len()..];
            }
        }
    }

    /// Opens the page in a browser; it ends after the last update of the page.
    fn open_page(&mut self) {
        let url = format!("http://localhost:{}/", self.web_port);
        let arguments = [url.as_str(), "queue/paris: 9"];
        let browser = Process::start(&mut node("tutorial.cjs", &arguments));
        self.browser = Some(browser.with_patience(BROWSER));
        self.web.wait_for("request of the page", |line| line.contains("GET / ").then_some(()));
        self.expect(&json!({"state": "live"}));
    }

    /// The next line of the browser.
    fn next(&mut self) -> Value {
        self.browser.as_mut().expect("the page is open").json()
    }

    fn expect(&mut self, line: &Value) {
        assert_eq!(&self.next(), line);
    }

    fn expect_updates(&mut self, values: &[u32]) {
        for value in values {
            self.expect(&json!({"update": format!("queue/paris: {value}")}));
        }
    }
}

#[test]
fn the_tutorial_works_word_by_word() {
    let mut reader = Reader::new();
    let mut publishes = 0;
    for (language, text) in blocks() {
        match language {
            "toml" => reader.configure(text),
            "html" => {
                let path = reader.place.path("index.html");
                fs::write(path, reader.here(text)).expect("the folder is ours");
            }
            "json" => reader.expect_printed(text),
            "sh" => {
                reader.run(text);
                // The page's text about the browser after these commands.
                match text {
                    SERVE_PAGE => {
                        let both = [reader.next(), reader.next()];
                        assert!(both.contains(&json!({"update": "queue/paris: 3"})), "{both:?}");
                        assert!(both.contains(&json!({"update": "queue/lyon: 5"})), "{both:?}");
                    }
                    _ if text.starts_with("for ") => {
                        publishes += 1;
                        match publishes {
                            1 => reader.expect_updates(&[4, 5, 6]),
                            _ => {
                                reader.expect(&json!({"state": "live"}));
                                reader.expect_updates(&[7, 8, 9]);
                            }
                        }
                    }
                    _ => {}
                }
            }
            other => panic!("a block of {other}"),
        }
    }
    assert_eq!(publishes, 2);
    let end = reader.next();
    assert_eq!((&end["updates"], &end["gaps"]), (&json!("8"), &json!("0")), "{end}");
    let table = end["table"].as_str().expect("text");
    assert!(table.contains("queue/paris\t9") && table.contains("queue/lyon\t5"), "{table}");
    reader.browser.take().expect("the page is open").end_within(BROWSER).assert_success();
}
