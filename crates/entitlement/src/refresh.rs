//! The thread that fetches an issuer's key set: at the start, regularly, and when a token has an
//! unknown key ID.
//!
//! Invariants: two fetches are at least `every_min` apart, however many tokens have unknown key
//! IDs; the last fetched set stays in use until a better one arrives; the thread ends with its
//! authenticator.

use crate::authenticator::TokenAuthenticator;
use crate::https;
use crate::jwks::{JWKS_BYTES_MAX, Jwks};
use crate::notices::Notice;
use fetch::{Request, Url};
use rustls::ClientConfig;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time limit for a whole fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The source of keys, and the interval.
#[derive(Clone, Debug)]
pub struct KeySource {
    /// The URL of the set.
    pub url: Url,
    /// Trusted certificates, for `https`.
    pub tls: Arc<ClientConfig>,
    /// Time between two fetches.
    pub every: Duration,
    /// Minimum time between two fetches, also if keys are missing or a fetch has failed.
    pub every_min: Duration,
}

/// Requests of an authenticator for missing keys.
#[derive(Debug, Default)]
pub struct KeyRequests {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    is_ended: bool,
    is_fetching: bool,
    has_succeeded: bool,
    /// Start time of the last fetch.
    began: Option<Instant>,
    every_min: Duration,
}

impl KeyRequests {
    /// Requests another fetch. Returns whether it may provide keys; false right after a fetch.
    pub fn ask(&self) -> bool {
        let mut state = self.lock();
        if state.is_fetching || !state.has_succeeded {
            return true;
        }
        let is_due = state.began.is_none_or(|began| began.elapsed() >= state.every_min);
        if is_due && !state.is_wanted {
            state.is_wanted = true;
            self.changed.notify_all();
        }
        is_due
    }

    /// Ends the fetching thread.
    fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let mut state = self.lock();
        state.is_wanted = false;
        state.is_fetching = true;
        state.began = Some(Instant::now());
    }

    /// Waits until the next fetch is due; returns whether there is one.
    fn wait(&self, source: &KeySource, has_succeeded: bool) -> bool {
        let mut state = self.lock();
        state.is_fetching = false;
        state.has_succeeded |= has_succeeded;
        loop {
            let elapsed = state.began.map_or(Duration::MAX, |began| began.elapsed());
            let due =
                if state.is_wanted || !has_succeeded { source.every_min } else { source.every };
            if state.is_ended {
                return false;
            }
            let Some(left) = due.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
                return true;
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Fetches for an authenticator, on a thread of its own, until the guard is dropped.
///
/// # Errors
/// The system refuses a thread.
pub fn spawn(
    authenticator: &Arc<TokenAuthenticator>,
    requests: Arc<KeyRequests>,
    source: KeySource,
) -> io::Result<FetchGuard> {
    requests.lock().every_min = source.every_min;
    let guard = FetchGuard(Arc::clone(&requests));
    let authenticator = Arc::downgrade(authenticator);
    std::thread::Builder::new()
        .name("crore-keys".into())
        .spawn(move || run(&authenticator, &requests, &source))?;
    Ok(guard)
}

/// Ends the fetching thread when it is dropped, without waiting for a running fetch.
#[derive(Debug)]
pub struct FetchGuard(Arc<KeyRequests>);

impl Drop for FetchGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn run(authenticator: &Weak<TokenAuthenticator>, requests: &KeyRequests, source: &KeySource) {
    let mut reported = None;
    loop {
        requests.begin();
        let fetched = fetch(source);
        let Some(authenticator) = authenticator.upgrade() else { return };
        authenticator.counters.fetches.fetch_add(1, Relaxed);
        let has_succeeded = fetched.is_ok();
        match fetched {
            Ok(jwks) => {
                let (count, skipped_count) = (jwks.keys.len(), jwks.skipped_count);
                let is_new = authenticator.replace_fetched(jwks.keys);
                if is_new || reported.take().is_some() {
                    authenticator.tell(Notice::KeysChanged { count, skipped_count });
                }
            }
            Err(problem) => {
                authenticator.counters.fetches_failed.fetch_add(1, Relaxed);
                // A repeated error is reported once.
                if reported.as_ref() != Some(&problem) {
                    authenticator.tell(Notice::FetchFailed(problem.clone()));
                    reported = Some(problem);
                }
            }
        }
        drop(authenticator);
        if !requests.wait(source, has_succeeded) {
            return;
        }
    }
}

/// Fetches once.
///
/// # Errors
/// The reason, as a sentence; also if the set contains no usable key.
pub fn fetch(source: &KeySource) -> Result<Jwks, String> {
    let bytes = get(&source.url, &source.tls)?;
    let jwks = Jwks::parse(&bytes)?;
    if jwks.keys.is_empty() {
        return Err("the key set contains no usable key".into());
    }
    Ok(jwks)
}

fn get(url: &Url, tls: &Arc<ClientConfig>) -> Result<Vec<u8>, String> {
    let request = Request {
        fields: &[("Accept", "application/json"), ("User-Agent", "crore")],
        ..Request::get(&url.authority, &url.target)
    };
    let answer = https::ask(url, tls, &request, (FETCH_TIMEOUT, JWKS_BYTES_MAX as u64))?;
    answer.ok().map_err(|error| error.to_string())
}
