//! `crore token` from end to end: what it makes a node takes, what it says a node does, and
//! revocations that outlive a node.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The binary, without what this process's environment could tell it.
fn crore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crore"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CRORE_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Exit code and both outputs.
fn run(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = crore()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn done(arguments: &[&str]) -> String {
    let (code, output, errors) = run(arguments, "");
    assert_eq!(code, 0, "{arguments:?}\n{output}{errors}");
    output
}

/// A directory of its own that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("crore-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.file(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A node that ends with the test.
struct Node {
    child: Child,
    operators: String,
}

impl Node {
    fn start(configuration: &str) -> Node {
        let mut child = crore()
            .args(["serve", "--config", configuration])
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(["--io-threads", "1", "--end-with-stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut operators = String::new();
        loop {
            let line = lines.next().expect("a node that is ready").unwrap();
            if let Some(url) = line.strip_prefix("listening operators ") {
                operators = url.into();
            }
            if line == "ready" {
                break;
            }
        }
        // The rest is read, so that the node never waits for it.
        std::thread::spawn(move || lines.for_each(drop));
        Node { child, operators }
    }

    fn ask(&self, request: &str) -> String {
        let address = self.operators.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn tokens_of_every_kind_of_key() {
    let directory = Directory::new("token-kinds");
    for algorithm in ["HS256", "HS512", "RS256", "RS512", "ES256", "ES384", "EdDSA"] {
        let (key, signing) = match algorithm {
            "HS256" | "HS512" => {
                let secret = done(&["token", "key", "--algorithm", algorithm]);
                let file = directory.write(&format!("{algorithm}.secret"), &secret);
                (format!("secret_file = {file:?}"), ["--secret-file".to_owned(), file])
            }
            _ => {
                let out = directory.file(algorithm);
                let made = done(&["token", "key", "--algorithm", algorithm, "--out", &out]);
                assert_eq!(made, format!("{out}/private.pem\n{out}/public.pem\n"));
                let (code, _, errors) =
                    run(&["token", "key", "--algorithm", algorithm, "--out", &out], "");
                assert_eq!(code, 1);
                assert!(errors.contains("exists already"), "{errors}");
                let key = format!("public_key_file = \"{out}/public.pem\"");
                (key, ["--key-file".to_owned(), format!("{out}/private.pem")])
            }
        };
        let text = format!(
            "[entitlement]\nmode = \"tokens\"\n[[token_key]]\nid = \"k1\"\nalgorithm = \"{algorithm}\"\n{key}\n"
        );
        let configuration = directory.write(&format!("{algorithm}.toml"), &text);
        let gen_arguments = [
            "token",
            "gen",
            &signing[0],
            &signing[1],
            "--algorithm",
            algorithm,
            "--kid",
            "k1",
            "--sub",
            "anna",
            "--subscribe",
            "news/#",
            "--publish",
            "chat/{sub}",
            "--connections",
            "2",
        ];
        let token = done(&gen_arguments);
        let check = ["token", "check", "--config", &configuration];
        let (code, output, errors) = run(&check, &token);
        assert_eq!(code, 0, "{algorithm}\n{output}{errors}");
        for line in [
            "valid",
            "subject        anna",
            "subscribe      news/#",
            "publish        chat/{sub}",
            "history        nothing",
            "connections    2",
        ] {
            assert!(output.lines().any(|own| own == line), "{line}\n{output}");
        }
        let mut forged = token.trim().to_owned();
        forged.replace_range(..1, "f");
        let (code, output, _) = run(&check, &forged);
        assert_eq!(code, 1);
        assert!(output.starts_with("refused (unauthorized): "), "{output}");
    }
}

/// A key in a file is its owner's alone, whatever the umask is, and no file is written over.
#[test]
fn keys_in_files() {
    let directory = Directory::new("token-files");
    for (more, lines) in [(&["--algorithm", "HS256"][..], 0), (&[], 7)] {
        let file = directory.file(&format!("key-{lines}"));
        let mut arguments = vec!["token", "key", "-o", &file];
        arguments.extend(more);
        let printed = done(&arguments);
        assert_eq!(printed.lines().count(), lines, "{printed}");
        let mode = std::fs::metadata(&file).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let secret = std::fs::read_to_string(&file).unwrap();
        assert!(secret.len() > 40 && !printed.contains(secret.trim()));
        let (code, _, errors) = run(&arguments, "");
        assert!(code == 1 && errors.contains("cannot write"), "{errors}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), secret);
    }
}

/// A command line is everybody's to read.
#[test]
fn no_secret_on_the_command_line() {
    let secret = "0123456789abcdef0123456789abcdef";
    for (key, value) in
        [("entitlement.secret", secret.to_owned()), ("tickets.keys", secret.repeat(2))]
    {
        let set = format!("{key}={value}");
        let (code, _, errors) = run(&["config", "check", "--set", &set], "");
        assert_eq!(code, 78, "{errors}");
        let variable = format!("CRORE_{}_FILE", key.replace('.', "_").to_uppercase());
        let first = format!("flag --set: {key}: ");
        assert!(errors.contains(&first), "{errors}");
        assert!(errors.contains(&variable), "{errors}");
        assert!(!errors.contains(secret), "{errors}");
    }
}

#[test]
fn what_is_permitted_is_said_and_what_is_wrong_too() {
    let directory = Directory::new("token-check");
    let secret = directory.write("secret", "0123456789abcdef0123456789abcdef\n");
    let configuration = directory.write(
        "crore.toml",
        "[entitlement]\nmode = \"tokens\"\nsecret = \"0123456789abcdef0123456789abcdef\"\naudiences = [\"crore\"]\ntoken_lifetime_max = \"1d\"\n",
    );
    let check = |token: &str, more: &[&str]| {
        let mut arguments = vec!["token", "check", "--config", &configuration];
        arguments.extend(more);
        run(&arguments, token)
    };
    let make = |more: &[&str]| {
        let mut arguments = vec!["token", "gen", "--secret-file", &secret, "--sub", "anna"];
        arguments.extend(more);
        done(&arguments)
    };
    let good = make(&["--audience", "crore", "--publish", "chat/{sub}/#"]);
    let (code, output, _) = check(&good, &["--publish", "chat/anna/in"]);
    assert_eq!(code, 0);
    assert!(output.contains("permitted      publish chat/anna/in\n"), "{output}");
    let (code, output, _) = check(&good, &["--publish", "chat/ben", "--subscribe", "chat/anna/x"]);
    assert_eq!(code, 1);
    assert!(output.contains("forbidden      publish chat/ben\n"), "{output}");
    assert!(output.contains("forbidden      subscribe chat/anna/x\n"), "{output}");
    for (token, expected) in [
        (make(&[]), "`aud` contains none of entitlement.audiences"),
        (make(&["--audience", "crore", "--expires", "never"]), "has no `exp`"),
        (make(&["--audience", "crore", "--expires", "2d"]), "token_lifetime_max"),
        (
            make(&["--audience", "crore", "--kid", "other", "--algorithm", "HS512"]),
            "no key matches",
        ),
        ("a.b".into(), "not a token"),
        (good[..good.len() / 2].into(), "not a token"),
    ] {
        let (code, output, _) = check(&token, &[]);
        assert_eq!(code, 1);
        assert!(
            output.starts_with("refused (unauthorized): ") && output.contains(expected),
            "{output}"
        );
    }
    let many = make(&["--count", "3", "--audience", "crore", "--jti", "random"]);
    let tokens: Vec<&str> = many.lines().collect();
    assert_eq!(tokens.len(), 3);
    for (token, number) in tokens.iter().zip(1..) {
        let (code, output, _) = check(token, &[]);
        assert_eq!(code, 0, "{output}");
        let subject = format!("subject        anna-{number}\n");
        assert!(output.contains(&subject), "{output}");
    }
    let (code, _, errors) = run(&["token", "gen", "--secret-file", &secret, "--all", "a#"], "");
    assert_eq!(code, 2, "{errors}");
    let short = directory.write("short", "too short");
    let (code, _, errors) = run(&["token", "gen", "--secret-file", &short], "");
    assert_eq!(code, 1);
    assert!(errors.contains("at least 32"), "{errors}");
}

#[test]
fn api_keys() {
    let directory = Directory::new("token-api-key");
    let made = done(&["token", "key", "--name", "prices"]);
    let (key, table) = made.split_once('\n').unwrap();
    let table = table.replace("publish = []", "publish = [\"prices/#\"]");
    let text = format!("[entitlement]\nmode = \"tokens\"\n{table}");
    let configuration = directory.write("crore.toml", &text);
    let check = ["token", "check", "--config", &configuration, "--publish", "prices/eur"];
    let (code, output, errors) = run(&check, key);
    assert_eq!(code, 0, "{output}{errors}");
    assert!(output.contains("subject        prices\n"), "{output}");
    let (code, output, _) = run(&check, &key[..key.len() - 1]);
    assert_eq!(code, 1);
    assert!(output.contains("not an API key of this node"), "{output}");
    assert!(!text.contains(key), "the configuration knows the hash only");
}

#[test]
fn configurations_that_make_no_sense() {
    let directory = Directory::new("token-faults");
    let check = |text: &str, expected: &[&str]| {
        let file = directory.write("crore.toml", text);
        let (code, _, errors) = run(&["config", "check", "--config", &file], "");
        assert_eq!(code, 78, "{text}\n{errors}");
        for part in expected {
            assert!(errors.contains(part), "{part}\n{errors}");
        }
    };
    check(
        "[entitlement]\nmode = \"tokens\"\n",
        &["crore.toml:2: entitlement.mode", "no keys are configured"],
    );
    check(
        "[[token_key]]\nalgorithm = \"HS256\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n",
        &["authentication is off"],
    );
    check(
        "[entitlement]\nmode = \"tokens\"\nsecret = \"short-secret\"\n",
        &["crore.toml:3: entitlement.secret", "at least 32 bytes"],
    );
    check(
        "[entitlement]\nmode = \"tokens\"\njwks_url = \"ftp://a.example/\"\n",
        &["crore.toml:3: entitlement.jwks_url"],
    );
    // Keys of an issuer sign for its other applications, too.
    let url = "mode = \"tokens\"\njwks_url = \"https://id.example/jwks\"\n";
    check(
        &format!("[entitlement]\nissuers = [\"https://id.example\"]\n{url}"),
        &["crore.toml:4: entitlement.audiences", "or [\"*\"]"],
    );
    check(
        &format!("[entitlement]\naudiences = [\"*\", \"crore\"]\n{url}"),
        &["crore.toml:2: entitlement.audiences", "[\"*\"] alone"],
    );
    for audience in ["*", "crore"] {
        let text = format!("[entitlement]\naudiences = [\"{audience}\"]\n{url}");
        let file = directory.write("crore.toml", &text);
        done(&["config", "check", "--config", &file]);
    }
    check(
        "[entitlement]\nmode = \"tokens\"\n[[token_key]]\nalgorithm = \"RS256\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n",
        &["crore.toml:5: token_key.secret", "public_key_file and no other source"],
    );
    check(
        "[entitlement]\nmode = \"tokens\"\n[[api_key]]\nname = \"a\"\nsha256 = \"00\"\n[[api_key]]\nname = \"a\"\n",
        &["crore.toml:5: api_key.sha256", "64 hexadecimal digits"],
    );
    check(
        "[entitlement]\nmode = \"tokens\"\nanonymous_subscribe = [\"a#\"]\n",
        &["crore.toml:3: entitlement.anonymous_subscribe", "topic filters"],
    );
    // Never the secret itself.
    let file = directory.write(
        "secret.toml",
        "[entitlement]\nmode = \"tokens\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n[[token_key]]\nid = \"a\"\nalgorithm = \"HS256\"\nsecret = \"abcdef0123456789abcdef0123456789\"\n",
    );
    let printed = done(&["config", "print", "--config", &file]);
    assert!(printed.contains("secret = \"hidden\""), "{printed}");
    assert!(!printed.contains("0123456789"), "{printed}");
}

#[test]
fn a_key_file_that_is_wrong_stops_the_start() {
    let directory = Directory::new("token-key-file");
    let pem = directory.write("key.pem", "no key\n");
    let start = |key: &str| {
        let text = format!(
            "[entitlement]\nmode = \"tokens\"\n[[token_key]]\nalgorithm = \"ES256\"\npublic_key_file = {key:?}\n"
        );
        let file = directory.write("crore.toml", &text);
        let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let mut arguments = vec!["serve", "--config", &file];
        arguments.extend(listen);
        let (code, _, errors) = run(&arguments, "");
        assert_eq!(code, 78, "{errors}");
        assert!(errors.contains("crore.toml:5: token_key.public_key_file"), "{errors}");
    };
    start(&pem);
    start(&directory.file("nowhere.pem"));
}

fn configuration_with_data(directory: &Directory) -> String {
    let text = format!(
        "[node]\ndata_dir = {:?}\n[entitlement]\nmode = \"tokens\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n",
        directory.file("data")
    );
    directory.write("crore.toml", &text)
}

#[test]
fn revocations_hold_at_once_and_after_a_restart() {
    let directory = Directory::new("token-revoke");
    let configuration = configuration_with_data(&directory);
    let secret = directory.write("secret", "0123456789abcdef0123456789abcdef");
    let token = done(&[
        "token",
        "gen",
        "--secret-file",
        &secret,
        "--sub",
        "anna",
        "--jti",
        "t1",
        "--all",
        "#",
    ]);
    let check = ["token", "check", "--config", &configuration];
    assert_eq!(run(&check, &token).0, 0);
    {
        let node = Node::start(&configuration);
        let url = ["--url", node.operators.as_str()];
        let revoke = |more: &[&str]| {
            let arguments = [&["token", "revoke"], &url[..], more].concat();
            run(&arguments, "")
        };
        let (code, output, errors) = revoke(&["--jti", "t1"]);
        assert_eq!((code, output.as_str()), (0, "{\"id\":1,\"jti\":\"t1\"}\n"), "{errors}");
        let (code, output, _) =
            revoke(&["--sub", "ben", "--issued-before", "2026-01-31T12:00:00Z"]);
        assert_eq!(code, 0);
        assert_eq!(output, "{\"id\":2,\"issued_before\":1769860800,\"sub\":\"ben\"}\n");
        assert_eq!(revoke(&["--take-back", "2"]).0, 0);
        let (code, _, errors) = revoke(&["--take-back", "2"]);
        assert_eq!(code, 1);
        assert!(errors.contains("no revocation with this number"), "{errors}");
        assert_eq!(revoke(&["--list"]).1, "{\"id\":1,\"jti\":\"t1\"}\n");
        assert_eq!(revoke(&["--jti", ""]).0, 1);
        assert_eq!(revoke(&[]).0, 2);
        let metrics =
            node.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(metrics.contains("\ncrore_revocations 1\n"), "{metrics}");
        assert!(metrics.contains("\ncrore_token_keys 1\n"));
    }
    let (code, output, _) = run(&check, &token);
    assert_eq!((code, output.as_str()), (1, "refused (token_revoked): the token was revoked\n"));
    let node = Node::start(&configuration);
    let listed = done(&["token", "revoke", "--url", &node.operators, "--list"]);
    assert_eq!(listed, "{\"id\":1,\"jti\":\"t1\"}\n");
    drop(node);
    // An unreadable file does not pass for an empty list.
    let file = Path::new(&directory.file("data")).join("revocations.json");
    std::fs::write(&file, "{").unwrap();
    let mut serve = vec!["serve", "--config", &configuration];
    serve.extend(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let (code, _, errors) = run(&serve, "");
    assert_eq!(code, 1);
    assert!(errors.contains("would accept revoked tokens again"), "{errors}");
}

#[test]
fn the_port_takes_json_only_and_says_no_in_problems() {
    let directory = Directory::new("token-port");
    let configuration = configuration_with_data(&directory);
    // This node asks for no key, so that the answers show how the port parses requests.
    let text = std::fs::read_to_string(&configuration).unwrap();
    let text = format!("{text}[operators]\napi_key = \"beyond_loopback\"\n");
    let node = Node::start(&directory.write("open-port.toml", &text));
    let post = |media_type: &str, body: &str| {
        node.ask(&format!(
            "POST /api/v1/revocations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let check = |answer: String, status: u16, code: &str| {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{answer}");
    };
    // Media types that a form on any web page can send.
    check(post("text/plain", "{\"jti\":\"a\"}"), 415, "unsupported_media_type");
    check(post("application/x-www-form-urlencoded", "jti=a"), 415, "unsupported_media_type");
    check(post("application/json", "{}"), 400, "bad_request");
    check(post("application/json", "{\"jti\":1}"), 400, "bad_request");
    check(post("application/json", &" ".repeat(20_000)), 413, "body_too_large");
    let good = post("application/json; charset=utf-8", "{\"jti\":\"a\"}");
    assert!(good.starts_with("HTTP/1.1 201 "), "{good}");
    let one =
        "GET /api/v1/revocations?limit=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let listed = node.ask(one);
    assert!(listed.contains("\"next\":1"), "{listed}");
    check(node.ask(&one.replace("limit=1", "limit=0")), 400, "bad_request");
    // No page of another origin is answered that it may.
    let preflight = node.ask("OPTIONS /api/v1/revocations HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: DELETE\r\nConnection: close\r\n\r\n");
    assert!(preflight.starts_with("HTTP/1.1 405 "), "{preflight}");
    assert!(!preflight.to_ascii_lowercase().contains("access-control-allow"), "{preflight}");
}
