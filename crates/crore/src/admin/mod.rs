//! The operators' port: health, metrics, the live page and actions of operators ([`reload`],
//! [`revocations`]), on one thread with its own tokio runtime, separate from messages.
//!
//! Invariants: everything except `/api` only reads, and reveals nothing about clients; `/api` is
//! for operators only (`authority`). Over loopback, the port answers only requests that name this
//! machine or an origin of `operators.origins`, so that no web page can reach it through its own
//! name that resolves to loopback. Actions that may wait for threads of the node, files or locks
//! run outside the port's thread ([`beside`]): `/livez` always answers. The number of connections
//! is bounded ([`arrivals`]).

mod arrivals;
mod authority;
mod cluster;
pub mod draining;
pub mod inspection;
pub mod logs;
mod page;
mod parameters;
mod reload;
pub mod revocations;
pub mod sessions;
mod shown;
mod upgrade;

use crate::cluster::Cluster;
use crate::configuration::fault::Faults;
use crate::logging::Target;
use crate::reloaded::Reloaded;
use crate::statistics_history::StatisticsHistory;
use crate::upgrade::Upgraded;
use arrivals::{Arrival, SocketDoor};
use authority::{Authority, Way};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use inspection::{Inspected, Limits, SharedNode};
use revocations::Revoking;
use sessions::{Entrance, Sessions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use stdx::networks::names_this_machine;
use tokio::sync::{Mutex, watch};

/// The largest integer that JSON represents exactly everywhere (RFC 8259, section 6). No counter
/// reaches it.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// Sources of the port's answers. The port reads them at every request and caches nothing.
pub struct Operated {
    /// Constant facts.
    pub about: About,
    /// The authorization of operators.
    pub access: Access,
    /// Whether new clients should connect.
    pub readiness: Box<dyn Fn() -> Readiness + Send + Sync>,
    /// The metrics as Prometheus text.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// The revocations; none if clients need no token.
    pub revoking: Option<Revoking>,
    /// The cluster; none without an engine.
    pub cluster: Option<Cluster>,
    /// The log, to read and configure.
    pub logging: logs::Logging,
    /// Drains and stops the node.
    pub drain: draining::Drain,
    /// The node, to inspect and control.
    pub node: SharedNode,
    /// The figures of the last five minutes.
    pub history: Arc<StatisticsHistory>,
    /// The limits in force.
    pub limits: Limits,
    /// Reloads the configuration.
    pub reload: Box<dyn Fn() -> Result<Reloaded, Faults> + Send + Sync>,
    /// Hands over to a new process, which takes time.
    pub upgrade: Arc<dyn Fn() -> Result<Upgraded, String> + Send + Sync>,
}

/// Facts that do not change while the node runs.
#[derive(Clone, Debug)]
pub struct About {
    /// The node's name.
    pub node_name: String,
    /// Addresses of the clients' ports.
    pub clients: Vec<SocketAddr>,
    /// Addresses of the clients' ports with TLS.
    pub tls_clients: Vec<SocketAddr>,
    /// Maximum number of connections of the node.
    pub connections_max: u64,
}

/// Access to the port.
#[derive(Clone, Default)]
pub struct Access {
    /// Whether requests over loopback need no key.
    pub trusts_loopback: bool,
    /// Further origins of browsers, which reach the port through a proxy.
    pub origins: Vec<String>,
    /// The port's own origin, for links.
    pub own_url: String,
    /// Sessions of browsers.
    pub sessions: Arc<Sessions>,
    /// Maximum number of connections to one address, or to the operators' socket.
    pub connections_max: usize,
}

/// A listener of operators.
#[derive(Default)]
pub struct Listeners {
    /// TCP.
    pub ports: Vec<TcpListener>,
    /// The operators' socket, and whether its group may connect in addition to its owner.
    pub socket: Option<(UnixListener, bool)>,
}

/// Whether new clients should connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// Clients may connect.
    Ready,
    /// Clients should not connect, for this reason.
    NotReady(&'static str),
}

struct Shared {
    operated: Operated,
    started: Instant,
    /// Held while the node is asked on behalf of clients without a key: one request at a time.
    asking: Mutex<()>,
}

/// Stops the port: it accepts no more connections, and answers the open ones.
#[derive(Clone, Default)]
pub struct Ending {
    request: Arc<watch::Sender<bool>>,
    /// The thread holds it until the thread ends.
    thread: Weak<()>,
}

impl Ending {
    /// Begins to stop.
    pub fn begin(&self) {
        self.request.send_replace(true);
    }

    /// Waits until the port has stopped, for at most this time.
    pub fn wait(&self, within: Duration) {
        let began = Instant::now();
        while self.thread.strong_count() > 0 && began.elapsed() < within {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Serves the bound listeners on its own thread, until it is stopped or the process ends.
///
/// # Errors
/// The thread or its runtime cannot be created.
pub fn spawn(listeners: Listeners, operated: Operated) -> io::Result<Ending> {
    let mut ending = Ending::default();
    if listeners.ports.is_empty() && listeners.socket.is_none() {
        return Ok(ending);
    }
    let lives = Arc::new(());
    ending.thread = Arc::downgrade(&lives);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Arc::new(Shared { operated, started: Instant::now(), asking: Mutex::default() });
    let connections_max = shared.operated.access.connections_max;
    let routes = routes(shared);
    let mut tasks = Vec::new();
    let _entered = runtime.enter();
    for listener in listeners.ports {
        listener.set_nonblocking(true)?;
        let door = tokio::net::TcpListener::from_std(listener)?;
        let request = ending.request.subscribe();
        let serving = arrivals::serve(door, routes.clone(), connections_max, request);
        tasks.push(runtime.spawn(serving));
    }
    if let Some((listener, is_for_group)) = listeners.socket {
        listener.set_nonblocking(true)?;
        let door =
            SocketDoor { listener: tokio::net::UnixListener::from_std(listener)?, is_for_group };
        let request = ending.request.subscribe();
        let serving = arrivals::serve(door, routes, connections_max, request);
        tasks.push(runtime.spawn(serving));
    }
    drop(_entered);
    // The port stops on request, not when the last sender is dropped.
    let request = Arc::clone(&ending.request);
    std::thread::Builder::new().name("operators".into()).spawn(move || {
        let _held = (lives, request);
        runtime.block_on(async {
            for task in tasks {
                let _ = task.await;
            }
        });
    })?;
    Ok(ending)
}

fn routes(shared: Arc<Shared>) -> Router {
    let access = &shared.operated.access;
    let authority = Authority {
        trusts_loopback: access.trusts_loopback,
        authenticator: shared
            .operated
            .revoking
            .as_ref()
            .map(|revoking| Arc::clone(&revoking.authenticator)),
    };
    let log = shared.operated.logging.log.to(Target::Operators);
    let inspected = Inspected {
        node: Arc::clone(&shared.operated.node),
        history: Arc::clone(&shared.operated.history),
        limits: Arc::clone(&shared.operated.limits),
        started: shared.started,
        log,
    };
    let origins: Arc<[String]> = access.origins.clone().into();
    let entrance = Entrance {
        authority: authority.clone(),
        sessions: Arc::clone(&access.sessions),
        origins: Arc::clone(&origins),
        own_url: access.own_url.as_str().into(),
        log,
    };
    let operators = Router::new()
        .merge(cluster::routes(shared.operated.cluster.clone()))
        .merge(draining::routes(shared.operated.drain.clone()))
        .merge(inspection::routes(inspected))
        .merge(logs::routes(shared.operated.logging.clone()))
        .merge(reload::routes(Arc::clone(&shared)))
        .merge(sessions::routes_of_links(entrance.clone()))
        .merge(upgrade::routes(shared.operated.upgrade.clone()))
        .merge(revocations::routes(shared.operated.revoking.clone(), log))
        // Before the fallback, so that an unsupported method is refused as such, whatever its
        // parameters.
        .layer(middleware::from_fn(parameters::check))
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(authority, authority::require))
        .merge(
            sessions::routes(entrance.clone())
                .layer(middleware::from_fn(parameters::check))
                .method_not_allowed_fallback(other_method),
        );
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics_text))
        .route("/openapi.json", get(openapi))
        .route("/", get(page::document))
        .route("/look.css", get(page::look))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .route("/page.json", get(page::facts))
        .route("/crore.js", get(page::client))
        .route("/admin", get(page::admin))
        .route("/admin/", get(page::to_admin))
        .route("/admin/{part}", get(page::admin_part))
        .with_state(shared)
        .merge(operators)
        .layer(middleware::from_fn_with_state(entrance, sessions::speak_for))
        .layer(middleware::from_fn_with_state(origins, refuse_foreign_host))
}

impl Shared {
    /// Asks the node on behalf of a client without a key.
    async fn ask<T: Send + 'static>(
        self: &Arc<Shared>,
        question: impl FnOnce(&Operated) -> T + Send + 'static,
    ) -> Result<T, Box<Response>> {
        let _turn = self.asking.lock().await;
        let shared = Arc::clone(self);
        beside(move || question(&shared.operated)).await
    }
}

/// Runs a function that may wait on another thread, while the port continues.
///
/// # Errors
/// The answer, if the function failed.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Box<Response>> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let detail = "the node did not answer";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Box::new(authority::problem(status, "internal", detail))
    })
}

/// Every refusal of an operators' route is a problem.
async fn other_method() -> Response {
    let detail = "the resource does not support this method (see Allow)";
    authority::problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// The process runs and this thread answers.
async fn livez() -> Response {
    plain(StatusCode::OK, "alive\n".into())
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    match shared.ask(|operated| (operated.readiness)()).await {
        Ok(Readiness::Ready) => plain(StatusCode::OK, "ready\n".into()),
        Ok(Readiness::NotReady(reason)) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n"))
        }
        Err(failed) => *failed,
    }
}

/// The result of `/readyz`, with details for people.
async fn healthz(State(shared): State<Arc<Shared>>) -> Response {
    let (code, status) = match shared.ask(|operated| (operated.readiness)()).await {
        Ok(Readiness::Ready) => (StatusCode::OK, "ready"),
        Ok(Readiness::NotReady(reason)) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        Err(failed) => return *failed,
    };
    let about = &shared.operated.about;
    let body = serde_json::json!({
        "status": status,
        "node": about.node_name,
        "version": env!("CARGO_PKG_VERSION"),
        "connections_max": about.connections_max,
        "uptime_s": shared.started.elapsed().as_secs(),
        "clients": about.clients.iter().map(SocketAddr::to_string).collect::<Vec<_>>(),
    });
    answer(code, &body)
}

async fn metrics_text(State(shared): State<Arc<Shared>>) -> Response {
    let media_type = "text/plain; version=0.0.4; charset=utf-8";
    match shared.ask(|operated| (operated.metrics)()).await {
        Ok(text) => (no_store(media_type), text).into_response(),
        Err(failed) => *failed,
    }
}

/// The interfaces of this port and the clients' port, as OpenAPI 3.1.
async fn openapi() -> Response {
    let document = include_str!("../../../../spec/openapi.json");
    (no_store("application/json"), document).into_response()
}

fn plain(code: StatusCode, text: String) -> Response {
    (code, no_store("text/plain; charset=utf-8"), text).into_response()
}

fn answer(code: StatusCode, body: &serde_json::Value) -> Response {
    (code, no_store("application/json"), format!("{body}\n")).into_response()
}

fn no_store(media_type: &'static str) -> [(header::HeaderName, &'static str); 3] {
    [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ]
}

/// A page of `evil.example` whose name suddenly resolves to 127.0.0.1 has the same origin for the
/// browser; but its `Host` is not this port's (RFC 9110, section 7.4, and 15.5.20 for the status).
async fn refuse_foreign_host(
    State(origins): State<Arc<[String]>>,
    request: Request,
    next: Next,
) -> Response {
    let arrival = request.extensions().get::<Arrival>();
    let is_by_loopback = arrival.is_none_or(|arrival| arrival.way == Way::Loopback);
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !is_by_loopback || host.is_some_and(|host| names_this_machine(host, &origins)) {
        next.run(request).await
    } else {
        let text =
            "this port answers only requests to localhost and to the hosts of operators.origins\n";
        plain(StatusCode::MISDIRECTED_REQUEST, text.into())
    }
}

#[cfg(test)]
mod tests;
