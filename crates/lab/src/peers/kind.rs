//! The servers, and how each is started in its best configuration for many idle connections.
//!
//! Place: below `process`, which starts the commands made here. Comments at the settings give the
//! reasons; `docs/benchmarks.md` repeats them. No server logs connections or sends pings during a
//! measurement, because a ping of one server and none of another would distort the comparison.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::dialect::{Baseline, Dialect, Mqtt, Native, Nats, Nchan};
use crate::process;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// `crore serve`, the binary beside this one.
    Crore,
    /// nats-server.
    Nats,
    /// Mosquitto.
    Mosquitto,
    /// nginx with nchan.
    Nchan,
    /// A few lines on Node's `ws`.
    Ws,
    /// A few lines on Python's `websockets`.
    Websockets,
}

/// All of them, in the order of the table.
pub const ALL: [Kind; 6] =
    [Kind::Crore, Kind::Nats, Kind::Mosquitto, Kind::Nchan, Kind::Ws, Kind::Websockets];

/// The paths and parameters of a server.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The folder of the other servers.
    pub foreign: &'a Path,
    /// A folder for configuration and state, removed after this life.
    pub scratch: &'a Path,
    /// The address to listen on.
    pub address: SocketAddr,
    /// Cores of the server.
    pub cores: usize,
    /// Connections that it must hold.
    pub connections: u64,
}

impl Kind {
    /// The name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Crore => "Crore",
            Kind::Nats => "nats-server",
            Kind::Mosquitto => "Mosquitto",
            Kind::Nchan => "nginx + nchan",
            Kind::Ws => "Node ws (own lines)",
            Kind::Websockets => "Python websockets (own lines)",
        }
    }

    /// The protocol.
    pub fn dialect(self) -> Box<dyn Dialect> {
        match self {
            Kind::Crore => Box::new(Native),
            Kind::Nats => Box::new(Nats),
            Kind::Mosquitto => Box::new(Mqtt),
            Kind::Nchan => Box::new(Nchan),
            Kind::Ws | Kind::Websockets => Box::new(Baseline),
        }
    }

    /// The program that a measurement needs.
    pub fn program(self, foreign: &Path) -> anyhow::Result<PathBuf> {
        let program = match self {
            Kind::Crore => process::crore()?,
            Kind::Nats => foreign.join("nats-server/nats-server"),
            Kind::Mosquitto => foreign.join("mosquitto/usr/sbin/mosquitto"),
            Kind::Nchan => foreign.join("nchan/usr/sbin/nginx"),
            Kind::Ws => foreign.join("ws/node_modules/ws/package.json"),
            Kind::Websockets => foreign.join("websockets/bin/python"),
        };
        program
            .is_file()
            .then_some(())
            .with_context(|| format!("{} is not there", program.display()))?;
        Ok(program)
    }

    /// The version that the program reports.
    pub fn version(self, foreign: &Path) -> anyhow::Result<String> {
        let program = self.program(foreign)?;
        let mut command = Command::new(&program);
        match self {
            Kind::Crore => command.arg("version"),
            Kind::Nats => command.arg("--version"),
            Kind::Mosquitto => with_libraries(&mut command, foreign, "mosquitto").arg("-h"),
            // nchan cannot be asked; the installation noted its package's.
            Kind::Nchan => command.arg("-v"),
            Kind::Ws => {
                let text = format!(
                    "process.stdout.write(`ws ${{require({:?}).version}}, node ${{process.version}}`)",
                    program.display().to_string()
                );
                command = Command::new("node");
                command.args(["-e", &text])
            }
            Kind::Websockets => command.args([
                "-c",
                "import sys, websockets, uvloop; print('websockets', websockets.__version__ + ', uvloop', \
                 uvloop.__version__ + ', Python', sys.version.split()[0])",
            ]),
        };
        // Some tell it on standard error, and Mosquitto with a failure.
        let output = command.stdin(Stdio::null()).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let first = text.lines().find(|line| !line.trim().is_empty());
        let mut first = first.context("no version is told")?.trim().to_owned();
        if self == Kind::Nchan {
            let noted = std::fs::read_to_string(foreign.join("nchan/version")).unwrap_or_default();
            first = format!("{first}, nchan {noted}");
        }
        Ok(first)
    }

    /// The command that runs it in the foreground.
    pub fn command(self, place: &Place<'_>) -> anyhow::Result<Command> {
        let program = self.program(place.foreign)?;
        let (port, connections) = (place.address.port(), place.connections);
        let file = place.scratch.join("configuration");
        let mut command = Command::new(&program);
        match self {
            Kind::Crore => {
                // As it is by default, history included; only pings are put off, as the others'.
                command =
                    process::node(&program, place.cores as u64, place.address, process::ANY_PORT);
                command.args(["--set", "websocket.ping_interval=600s"]);
            }
            Kind::Nats => {
                // No JetStream, no monitoring port, no log; GOMAXPROCS follows the cores by itself.
                let text = format!(
                    "listen: \"127.0.0.1:{port}\"\nmax_connections: {connections}\nping_interval: \"10m\"\n\
                     logtime: false\nlog_file: \"/dev/null\"\nno_sys_acc: true\n"
                );
                std::fs::write(&file, text)?;
                command.arg("-c").arg(&file);
            }
            Kind::Mosquitto => {
                // Nothing on disk, no log, no $SYS topics, and no delay by Nagle's algorithm. It
                // has one thread.
                let text = format!(
                    "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_dest none\n\
                     connection_messages false\nsys_interval 0\nset_tcp_nodelay true\nmax_connections -1\nuser root\n"
                );
                std::fs::write(&file, text)?;
                with_libraries(&mut command, place.foreign, "mosquitto");
                command.arg("-c").arg(&file);
            }
            Kind::Nchan => {
                std::fs::write(&file, nginx(place)?)?;
                // The unpacked package lacks this directory, which nginx creates under every
                // configuration.
                std::fs::create_dir_all("/var/lib/nginx").context("/var/lib/nginx")?;
                command.arg("-c").arg(&file).arg("-p").arg(place.scratch);
                command.arg("-e").arg(place.scratch.join("error.log"));
            }
            Kind::Ws => {
                let script = place.scratch.join("ws.cjs");
                std::fs::write(&script, include_str!("baseline/ws.cjs"))?;
                command = Command::new("node");
                command.env("NODE_PATH", place.foreign.join("ws/node_modules"));
                command.arg(script).arg(port.to_string());
            }
            Kind::Websockets => {
                let script = place.scratch.join("server.py");
                std::fs::write(&script, include_str!("baseline/websockets_server.py"))?;
                command.arg(script).arg(port.to_string());
            }
        }
        Ok(command)
    }
}

/// One worker for each core, room for all connections, no access log; channels keep no messages,
/// and subscribers begin with the next one.
fn nginx(place: &Place<'_>) -> anyhow::Result<String> {
    let module = "nchan/usr/lib/nginx/modules/ngx_nchan_module.so";
    let module = place.foreign.join(module).canonicalize()?;
    let (port, cores) = (place.address.port(), place.cores);
    let (module, scratch) = (module.display(), place.scratch.display());
    // When less than a sixteenth is free it closes who is quiet.
    let connections = place.connections * 5 / 4;
    Ok(format!(
        "load_module {module};\nuser root;\ndaemon off;\npid {scratch}/pid;\nworker_processes {cores};\n\
         events {{ worker_connections {connections}; multi_accept on; }}\n\
         http {{\n  access_log off;\n  tcp_nodelay on;\n  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n\
         \x20 client_body_temp_path {scratch}/body;\n  proxy_temp_path {scratch}/proxy;\n  fastcgi_temp_path {scratch}/fastcgi;\n\
         \x20 uwsgi_temp_path {scratch}/uwsgi;\n  scgi_temp_path {scratch}/scgi;\n  nchan_shared_memory_size 1g;\n\
         \x20 server {{\n    listen 127.0.0.1:{port} backlog=4096;\n\
         \x20   location ~ ^/subscribe/(\\w+)$ {{ nchan_subscriber websocket; nchan_channel_id $1; nchan_store_messages off; \
         nchan_subscriber_first_message newest; nchan_websocket_ping_interval 0; }}\n\
         \x20   location ~ ^/publish/(\\w+)$ {{ nchan_publisher http; nchan_channel_id $1; nchan_store_messages off; }}\n\
         \x20 }}\n}}\n"
    ))
}

/// Libraries that were unpacked beside a program.
fn with_libraries<'c>(command: &'c mut Command, foreign: &Path, name: &str) -> &'c mut Command {
    let target = format!("{}-linux-gnu", std::env::consts::ARCH);
    command.env("LD_LIBRARY_PATH", foreign.join(name).join("usr/lib").join(target))
}
