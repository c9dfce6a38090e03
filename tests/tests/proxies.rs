//! A node behind nginx and Caddy, configured by `docs/proxies.md`: the blocks come from that page.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use end_to_end::curl::{Answer, curl};
use end_to_end::process::{Process, assert_success};
use end_to_end::server::{Place, Server};
use end_to_end::tools::{caddy, crore, nginx};

/// The port of proxies, at this node's own address.
const PORT: u16 = 8443;
/// The port of a proxy that only knows the node's address.
const PLAIN_PORT: u16 = 8080;

/// The guide's blocks in one language, in order: the clients' port, then the operators'.
fn blocks(language: &str) -> [String; 2] {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/proxies.md");
    let text = fs::read_to_string(guide).expect("the guide is there");
    let mut found = Vec::new();
    for part in text.split(&format!("```{language}\n")).skip(1) {
        let (block, _) = part.split_once("\n```").expect("the end of a block");
        found.push(block.to_owned());
    }
    found.try_into().expect("a block for each port")
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Nginx,
    Caddy,
}

/// A node as in the guide, and a proxy before it.
struct Proxied {
    _server: Server,
    /// The operators' socket.
    socket: String,
    api_key: String,
    address: String,
    /// Folders with configurations and certificates.
    _place: Place,
    _proxy: Process,
}

impl Proxied {
    fn start(kind: Kind) -> Proxied {
        let made = Process::start(crore().args(["token", "key"])).end();
        made.assert_success();
        let (api_key, table) = made.lines.split_first().expect("a key");
        let mut place = Place::new("127.0.0.1:0");
        let [clients, operators] = blocks("toml");
        let operators = operators.replace(".com\"", &format!(".com:{PORT}\""));
        place.configure(&format!(
            "{clients}\n{operators}\napi_key = \"always\"\n\
             [entitlement]\nmode = \"tokens\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n\
             anonymous_subscribe = [\"#\"]\nanonymous_publish = [\"#\"]\nanonymous_history = [\"#\"]\n{}\noperate = true\n",
            table.join("\n")
        ));
        let server = place.start_by_default();
        let (address, _) = server.clients.rsplit_once(':').expect("a port");
        let address = address.to_owned();
        let folder = place.path("proxy");
        fs::create_dir_all(&folder).expect("the folder is ours");
        let mut command = crore();
        command.args(["tls", "self-signed", "--name", "live.example.com"]);
        command.args(["--name", "ops.example.com", "--out"]);
        assert_success(command.arg(&folder));
        let proxy = match kind {
            Kind::Nginx => start_nginx(&folder, &server, &address, "root"),
            Kind::Caddy => start_caddy(&folder, &server, &address),
        };
        let proxied = Proxied {
            socket: place.operators_socket(&server),
            _server: server,
            api_key: api_key.clone(),
            address,
            _place: place,
            _proxy: proxy,
        };
        proxied.wait();
        proxied
    }

    /// Waits until the proxy serves.
    fn wait(&self) {
        let mut command = Command::new("curl");
        command.args(["--silent", "--insecure", "--retry", "100", "--retry-all-errors"]);
        command.args(["--retry-delay", "0", "--output", "/dev/null"]);
        command.args(["--retry-max-time", "60"]);
        command.args(self.to("ops.example.com", "/livez"));
        assert_success(&mut command);
    }

    /// curl's arguments for a request to the proxy.
    fn to(&self, host: &str, path: &str) -> [String; 3] {
        let address = &self.address;
        [
            "--resolve".into(),
            format!("{host}:{PORT}:{address}"),
            format!("https://{host}:{PORT}{path}"),
        ]
    }

    fn ask(&self, host: &str, path: &str, arguments: &[&str]) -> Answer {
        let to = self.to(host, path);
        let to = to.iter().map(String::as_str);
        let arguments = arguments.iter().copied().chain(["--insecure"]);
        curl(&arguments.chain(to).collect::<Vec<_>>())
    }
}

/// A block of the guide, with the addresses and folders of this test.
fn fitted(block: &str, server: &Server, address: &str, folder: &Path) -> String {
    block
        .replace("127.0.0.1:8800", &server.clients)
        .replace("127.0.0.1:8801", &server.operators)
        .replace("listen 443", &format!("listen {address}:{PORT}"))
        .replace("/etc/ssl/example", &folder.to_string_lossy())
        .replace(".com {", &format!(".com:{PORT} {{"))
}

fn start_nginx(folder: &Path, server: &Server, address: &str, user: &str) -> Process {
    let mut servers = String::new();
    for block in blocks("nginx") {
        servers += &fitted(&block, server, address, folder);
    }
    let operators = &server.operators;
    write!(
        servers,
        "\nserver {{ listen {address}:{PLAIN_PORT}; location / {{ proxy_pass http://{operators}; }} }}\n"
    )
    .expect("a text");
    let mut temporary = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let path = folder.join(kind);
        writeln!(temporary, "{kind}_temp_path {};", path.display()).expect("a text");
    }
    // Without root nginx keeps its user, and logs that.
    let text = format!(
        "daemon off; user {user}; pid {}; events {{ worker_connections 256; }}\n\
         http {{ access_log off; {temporary} {servers} }}\n",
        folder.join("pid").display()
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, text).expect("the folder is ours");
    let mut command = nginx();
    command.args(["-e", "stderr", "-p"]).arg(folder).arg("-c").arg(file);
    Process::start(&mut command)
}

fn start_caddy(folder: &Path, server: &Server, address: &str) -> Process {
    let path = folder.display();
    let mut text =
        format!("{{\nadmin off\nauto_https disable_redirects\nstorage file_system {path}\n}}\n");
    for block in blocks("caddyfile") {
        let own = format!("{{\n    bind {address}\n    tls {path}/cert.pem {path}/key.pem\n");
        text += &fitted(&block, server, address, folder).replacen("{\n", &own, 1);
        text += "\n";
    }
    let file: PathBuf = folder.join("Caddyfile");
    fs::write(&file, text).expect("the folder is ours");
    let mut command = caddy();
    command.env("HOME", folder);
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    Process::start(&mut command)
}

/// Publications, histories, event streams and WebSockets pass, and the node knows the client's
/// address.
fn check_clients(proxied: &Proxied) {
    const HOST: &str = "live.example.com";
    let elsewhere = ["--interface", "127.0.0.9"];
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--no-buffer", "--insecure"]);
    command.args(elsewhere).args(proxied.to(HOST, "/events?topic=news"));
    let mut stream = Process::start(&mut command);
    stream.wait_for("the stream", |line| line.contains("crore.start").then_some(()));
    proxied.ask(HOST, "/topics/news", &["-d", "hello"]).expect(200);
    // The proxy does not buffer the stream.
    stream.wait_for("the message", |line| line.contains("hello").then_some(()));
    let history = proxied.ask(HOST, "/topics/news", &[]).expect(200);
    assert!(history.body.contains("hello"), "{history:?}");

    let mut list = crore();
    list.args(["conn", "list", "--json", "--address", "127.0.0.9"]);
    list.args(["--operators", &proxied.socket]);
    let found = Process::start(&mut list).end();
    found.assert_success();
    assert_eq!(found.lines.len(), 1, "{found:?}");

    let own = format!("Origin: https://{HOST}:{PORT}");
    proxied.ask(HOST, "/topics/news", &["-H", &own]).expect(200);
    let page = ["-H", "Origin: https://evil.example"];
    proxied.ask(HOST, "/topics/news", &page).expect(403);

    // The answer to the handshake; curl of Debian 12 cannot read the rest.
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--include", "--no-buffer", "--http1.1"]);
    for field in [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol: crore.v1",
    ] {
        command.args(["-H", field]);
    }
    let mut upgraded = Process::start(command.args(proxied.to(HOST, "/crore")));
    upgraded.wait_for("the upgrade", |line| line.starts_with("HTTP/1.1 101").then_some(()));
}

/// Through the proxy every request needs a key, and a key permits everything.
fn check_operators(proxied: &Proxied) {
    const HOST: &str = "ops.example.com";
    let ask = |path: &str, arguments: &[&str]| proxied.ask(HOST, path, arguments);
    ask("/readyz", &[]).expect(200);
    ask("/metrics", &[]).expect(200);
    ask("/api/v1/connections", &[]).expect_problem(401, "unauthorized");
    let json = ["-H", "Content-Type: application/json"];
    let message = ["-d", "{\"topic\":\"a\",\"data\":\"x\"}"];
    let publication = [&json[..], &message].concat();
    ask("/api/v1/publish", &publication).expect_problem(401, "unauthorized");
    let bearer = format!("Authorization: Bearer {}", proxied.api_key);
    ask("/api/v1/connections", &["-H", &bearer]).expect(200);
    ask("/api/v1/publish", &[&publication[..], &["-H", &bearer]].concat()).expect(200);

    // A link leads to the proxy, and a browser that has logged in there can make changes from this
    // origin only.
    let mut login = crore();
    login.args(["login", "--operators", &proxied.socket]);
    let link = Process::start(&mut login).end();
    link.assert_success();
    let base = format!("https://{HOST}:{PORT}/admin#link=");
    let secret = link.lines[0].strip_prefix(&base).expect("a link to the proxy");
    let own = format!("Origin: https://{HOST}:{PORT}");
    let body = format!("{{\"link\":\"{secret}\"}}");
    let begin = [&json[..], &["-H", &own, "-d", &body]].concat();
    let begun = ask("/api/v1/session", &begin).expect(204);
    ask("/api/v1/session", &begin).expect(401);
    let field = begun.header("set-cookie").expect("a cookie").to_owned();
    assert!(field.contains("; Secure"), "{field}");
    let cookie = format!("Cookie: {}", field.split(';').next().expect("a pair"));
    ask("/api/v1/connections", &["-H", &cookie]).expect(200);
    let with_cookie = [&publication[..], &["-H", &cookie]].concat();
    ask("/api/v1/publish", &[&with_cookie[..], &["-H", &own]].concat()).expect(200);
    let plain = format!("Origin: http://{HOST}:{PORT}");
    for origin in [&plain, "Origin: https://evil.example"] {
        let refused = [&with_cookie[..], &["-H", origin]].concat();
        ask("/api/v1/publish", &refused).expect(401);
    }
}

#[test]
fn nginx_works_as_in_the_guide() {
    let proxied = Proxied::start(Kind::Nginx);
    check_clients(&proxied);
    check_operators(&proxied);
    proxied.ask("live.example.com", "/topics/prices", &["-d", "1.5"]).expect(200);
    let mut subscriber = crore();
    let url = format!("wss://{}:{PORT}/crore", proxied.address);
    subscriber.args(["sub", "prices", "--last", "1", "--json", "--insecure", "--url", &url]);
    Process::start(&mut subscriber)
        .wait_for("the message over WebSocket", |line| line.contains("\"prices\"").then_some(()));
}

#[test]
fn caddy_works_as_in_the_guide() {
    let proxied = Proxied::start(Kind::Caddy);
    check_clients(&proxied);
    check_operators(&proxied);
}

/// `proxy_pass` and nothing else, from another user and from the node's own: the proxy gives no
/// rights, whatever fields it adds.
#[test]
fn a_proxy_without_its_fields_gives_no_rights() {
    for (user, api_key) in [("root", "always"), ("www-data", "always"), ("root", "beyond_loopback")]
    {
        let mut place = Place::new("127.0.0.1:0");
        place.configure(&format!("[operators]\napi_key = \"{api_key}\"\n"));
        let server = place.start_by_default();
        let (address, _) = server.clients.rsplit_once(':').expect("a port");
        let folder = place.path("proxy");
        fs::create_dir_all(&folder).expect("the folder is ours");
        let mut command = crore();
        command.args(["tls", "self-signed", "--name", "localhost", "--out"]);
        assert_success(command.arg(&folder));
        let _proxy = start_nginx(&folder, &server, address, user);
        let url = |path: &str| format!("http://{address}:{PLAIN_PORT}{path}");
        let mut command = Command::new("curl");
        command.args(["--silent", "--retry", "100", "--retry-all-errors"]);
        command.args(["--retry-delay", "0", "--retry-max-time", "60"]);
        assert_success(command.args(["--output", "/dev/null", &url("/livez")]));
        let ops = ["-H", "Host: ops.example.com"];
        let json = ["-H", "Content-Type: application/json"];
        for more in
            [&[][..], &["-H", "X-Forwarded-For: 127.0.0.1"], &["-H", "Sec-Fetch-Site: same-origin"]]
        {
            let ask = |path: &str, arguments: &[&str]| {
                let url = url(path);
                curl(&[&ops[..], more, arguments, &[&url]].concat())
            };
            ask("/readyz", &[]).expect(200);
            ask("/api/v1/connections", &[]).expect_problem(401, "unauthorized");
            ask("/api/v1/logs", &[]).expect_problem(401, "unauthorized");
            let message = [&json[..], &["-d", "{\"topic\":\"a\",\"data\":\"x\"}"]].concat();
            ask("/api/v1/publish", &message).expect_problem(401, "unauthorized");
            let empty = [&json[..], &["-d", "{}"]].concat();
            for path in ["drain", "reload", "upgrade", "session/link"] {
                ask(&format!("/api/v1/{path}"), &empty).expect_problem(401, "unauthorized");
            }
        }
    }
}
