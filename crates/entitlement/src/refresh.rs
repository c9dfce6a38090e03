//! The thread that fetches an issuer's key set: at the start, every so often, and when a token names a key that is not known.
//!
//! Invariants: between two fetches lies at least `every_min`, however many tokens name unknown keys; what was fetched last
//! holds until something better has come; the thread ends when its judge is gone.

use crate::fetch::{self, Url};
use crate::judge::TokenJudge;
use crate::jwks::{JWKS_BYTES_MAX, Jwks};
use crate::notices::Notice;
use rustls::ClientConfig;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// For all of one fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// What is fetched, and how often.
#[derive(Clone, Debug)]
pub struct KeySource {
    /// Where the set lies.
    pub url: Url,
    /// Whom to believe, for `https`.
    pub tls: Arc<ClientConfig>,
    /// It is fetched this often.
    pub every: Duration,
    /// And no more often than this, also when keys are missing or a fetch has failed.
    pub every_min: Duration,
}

/// Where a judge asks for keys that it does not have.
#[derive(Debug, Default)]
pub struct Wish {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    is_ended: bool,
    is_fetching: bool,
    has_succeeded: bool,
    /// When the last fetch began.
    began: Option<Instant>,
    every_min: Duration,
}

impl Wish {
    /// Asks for another fetch. Gives whether keys may come by it; if not, one was just made.
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

    /// Ends the thread that fetches.
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

    /// Waits until the next fetch is due; gives whether there is one.
    fn wait(&self, source: &KeySource, has_succeeded: bool) -> bool {
        let mut state = self.lock();
        state.is_fetching = false;
        state.has_succeeded |= has_succeeded;
        loop {
            let elapsed = state.began.map_or(Duration::MAX, |began| began.elapsed());
            let due = match state.is_wanted || !has_succeeded {
                true => source.every_min,
                false => source.every,
            };
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

/// Fetches for a judge, on a thread of its own, as long as the guard lives.
///
/// # Errors
/// There is no thread to be had.
pub fn spawn(
    judge: &Arc<TokenJudge>,
    wish: Arc<Wish>,
    source: KeySource,
) -> io::Result<FetchGuard> {
    wish.lock().every_min = source.every_min;
    let guard = FetchGuard(Arc::clone(&wish));
    let judge = Arc::downgrade(judge);
    std::thread::Builder::new()
        .name("crore-keys".into())
        .spawn(move || run(&judge, &wish, &source))?;
    Ok(guard)
}

/// Ends the fetching thread when it is dropped; a fetch on its way is not waited for.
#[derive(Debug)]
pub struct FetchGuard(Arc<Wish>);

impl Drop for FetchGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn run(judge: &Weak<TokenJudge>, wish: &Wish, source: &KeySource) {
    let mut told = None;
    loop {
        wish.begin();
        let fetched = fetch(source);
        let Some(judge) = judge.upgrade() else { return };
        judge.counters.fetches.fetch_add(1, Relaxed);
        let has_succeeded = fetched.is_ok();
        match fetched {
            Ok(jwks) => {
                let (count, skipped_count) = (jwks.keys.len(), jwks.skipped_count);
                let is_new = judge.replace_fetched(jwks.keys);
                if is_new || told.take().is_some() {
                    judge.tell(Notice::KeysChanged { count, skipped_count });
                }
            }
            Err(problem) => {
                judge.counters.fetches_failed.fetch_add(1, Relaxed);
                // The same trouble is told once.
                if told.as_ref() != Some(&problem) {
                    judge.tell(Notice::FetchFailed(problem.clone()));
                    told = Some(problem);
                }
            }
        }
        drop(judge);
        if !wish.wait(source, has_succeeded) {
            return;
        }
    }
}

/// Fetches once.
///
/// # Errors
/// In words; also if no key of the set can be used.
pub fn fetch(source: &KeySource) -> Result<Jwks, String> {
    let bytes = fetch::get(&source.url, &source.tls, FETCH_TIMEOUT, JWKS_BYTES_MAX)?;
    let jwks = Jwks::parse(&bytes)?;
    if jwks.keys.is_empty() {
        return Err("the key set contains no usable key".into());
    }
    Ok(jwks)
}
