//! The operators' port: health, metrics, the live page and what operators may do ([`reload`], [`revocations`]), on one thread with
//! a tokio of its own, far from messages.
//!
//! Invariants: everything but `/api` only reads (`authority` says who may do more). Bound on loopback, it answers only requests that name
//! this machine, so that no web page can reach it by a name of its own that resolves to loopback. What may wait, for threads of the node,
//! files or locks, is done beside the port's own thread ([`beside`]): `/livez` always answers.

mod authority;
pub mod draining;
pub mod inspection;
pub mod logs;
mod page;
mod reload;
pub mod revocations;
mod sessions;
mod shown;
mod upgrade;

use crate::configuration::fault::Faults;
use crate::logging::Target;
use crate::reload::Reloaded;
use crate::upgrade::Upgraded;
use authority::Authority;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use inspection::{Inspected, Limits, SharedNode};
use revocations::Revoking;
use sessions::Sessions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify};

/// The greatest number that JSON carries whole everywhere (RFC 8259, section 6). Nothing here is ever counted as far.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// What the port tells about. It asks at every request and keeps nothing.
pub struct Operated {
    /// What does not change.
    pub about: About,
    /// Whether new clients should come here.
    pub readiness: Box<dyn Fn() -> Readiness + Send + Sync>,
    /// Prometheus text.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// What revocations act on; none where nobody is asked for a token.
    pub revoking: Option<Revoking>,
    /// The log, to look at and to set.
    pub logging: logs::Logging,
    /// Leads clients away and ends the node.
    pub drain: draining::Drain,
    /// The node, to look at and to act on.
    pub node: SharedNode,
    /// The limits in force.
    pub limits: Limits,
    /// Reads the configuration again.
    pub reload: Box<dyn Fn() -> Result<Reloaded, Faults> + Send + Sync>,
    /// Hands over to a new process; takes its time.
    pub upgrade: Arc<dyn Fn() -> Result<Upgraded, String> + Send + Sync>,
}

/// What does not change while the node runs.
#[derive(Clone, Debug)]
pub struct About {
    /// The node's name.
    pub node_name: String,
    /// Where clients are served.
    pub clients: Vec<SocketAddr>,
    /// Connections that the node can hold.
    pub connections_max: u64,
}

/// Whether new clients should come here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// They should.
    Ready,
    /// They should not, because of this.
    NotReady(&'static str),
}

struct Shared {
    operated: Operated,
    started: Instant,
    /// Held while the node is asked for those who need no key: however many ask, one at a time.
    asking: Mutex<()>,
}

/// Ends the port: nobody further is accepted, and who was is answered.
#[derive(Clone, Default)]
pub struct Ending {
    wish: Arc<Notify>,
    /// The thread holds it until it ends.
    thread: Weak<()>,
}

impl Ending {
    /// From now on.
    pub fn begin(&self) {
        self.wish.notify_waiters();
    }

    /// Waits until it is over, but no longer than this.
    pub fn wait(&self, within: Duration) {
        let began = Instant::now();
        while self.thread.strong_count() > 0 && began.elapsed() < within {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Serves on its own thread until the process ends, or it is told to. Listeners are bound already.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub fn spawn(listeners: Vec<TcpListener>, operated: Operated) -> io::Result<Ending> {
    let mut ending = Ending::default();
    if listeners.is_empty() {
        return Ok(ending);
    }
    let lives = Arc::new(());
    ending.thread = Arc::downgrade(&lives);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shared = Arc::new(Shared {
        operated,
        started: Instant::now(),
        asking: Mutex::default(),
    });
    let mut servers = Vec::with_capacity(listeners.len());
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let _entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let wish = Arc::clone(&ending.wish);
        let server = axum::serve(listener, routes(Arc::clone(&shared), address));
        let server = server.with_graceful_shutdown(async move { wish.notified().await });
        servers.push(server.into_future());
    }
    std::thread::Builder::new()
        .name("operators".into())
        .spawn(move || {
            let _lives = lives;
            runtime.block_on(async {
                let tasks: Vec<_> = servers.into_iter().map(tokio::spawn).collect();
                for task in tasks {
                    let _ = task.await;
                }
            });
        })?;
    Ok(ending)
}

fn routes(shared: Arc<Shared>, address: SocketAddr) -> Router {
    let authority = Authority {
        is_loopback: address.ip().is_loopback(),
        judge: shared
            .operated
            .revoking
            .as_ref()
            .map(|revoking| Arc::clone(&revoking.judge)),
    };
    let log = shared.operated.logging.log.to(Target::Operators);
    let inspected = Inspected {
        authority: authority.clone(),
        node: Arc::clone(&shared.operated.node),
        limits: Arc::clone(&shared.operated.limits),
        started: shared.started,
        log,
    };
    let sessions = Arc::new(Sessions::default());
    let operators = Router::new()
        .merge(draining::routes(
            authority.clone(),
            shared.operated.drain.clone(),
        ))
        .merge(inspection::routes(inspected))
        .merge(logs::routes(
            authority.clone(),
            shared.operated.logging.clone(),
        ))
        .merge(reload::routes(authority.clone(), Arc::clone(&shared)))
        .merge(sessions::routes(
            authority.clone(),
            Arc::clone(&sessions),
            log,
        ))
        .merge(upgrade::routes(
            authority.clone(),
            shared.operated.upgrade.clone(),
        ))
        .merge(revocations::routes(
            authority,
            shared.operated.revoking.clone(),
            log,
        ))
        .method_not_allowed_fallback(other_method);
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics_text))
        .route("/openapi.json", get(openapi))
        .route("/", get(page::document))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .route("/page.json", get(page::facts))
        .route("/admin", get(page::admin))
        .route("/admin/{part}", get(page::admin_part))
        .with_state(shared)
        .merge(operators)
        .layer(middleware::from_fn_with_state(
            sessions,
            sessions::speak_for,
        ));
    if address.ip().is_loopback() {
        router.layer(middleware::from_fn(refuse_foreign_host))
    } else {
        router
    }
}

impl Shared {
    /// Asks on behalf of somebody who has shown no key.
    async fn ask<T: Send + 'static>(
        self: &Arc<Shared>,
        question: impl FnOnce(&Operated) -> T + Send + 'static,
    ) -> Result<T, Box<Response>> {
        let _turn = self.asking.lock().await;
        let shared = Arc::clone(self);
        beside(move || question(&shared.operated)).await
    }
}

/// Does what may wait on another thread; the port goes on meanwhile.
///
/// # Errors
/// The answer, if it came to nothing.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Box<Response>> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let detail = "the node could not be asked";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Box::new(authority::problem(status, "internal", detail))
    })
}

/// Of what operators may do, every refusal is a problem.
async fn other_method() -> Response {
    let detail = "the resource has other methods (Allow)";
    authority::problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// The process runs and this thread answers.
async fn livez() -> Response {
    plain(StatusCode::OK, "alive\n".into())
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    match shared.ask(|operated| (operated.readiness)()).await {
        Ok(Readiness::Ready) => plain(StatusCode::OK, "ready\n".into()),
        Ok(Readiness::NotReady(reason)) => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {reason}\n"),
        ),
        Err(failed) => *failed,
    }
}

/// The same verdict as `/readyz`, with what a person wants to know.
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

/// What this port and the clients' answer, as OpenAPI 3.1.
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

/// A page of `evil.example` whose name suddenly resolves to 127.0.0.1 is same-origin for the browser; its `Host` is not
/// ours (RFC 9110, section 7.4, and 15.5.20 for the status).
async fn refuse_foreign_host(request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    if host.is_some_and(names_loopback) {
        next.run(request).await
    } else {
        plain(
            StatusCode::MISDIRECTED_REQUEST,
            "this port answers to localhost only\n".into(),
        )
    }
}

fn names_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split(':').next().unwrap_or(""),
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
