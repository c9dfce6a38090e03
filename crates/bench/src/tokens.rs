//! Tokens that clients show, where a node asks for them: those of a file, line by line.
//!
//! Place: between the command line and the requests of connections. Who has signed them and what
//! they permit is the node's business. Invariant: nothing here shows one, but in the request that
//! it is for.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};

/// All tokens of a run; empty if the node requires none.
#[derive(Clone, Default)]
pub struct Tokens(Arc<[Box<str>]>);

/// The tokens of one worker's clients.
#[derive(Clone, Debug)]
pub struct WorkerTokens {
    /// All of them.
    pub tokens: Tokens,
    /// The worker's number.
    pub worker: u64,
    /// Number of workers.
    pub workers: u64,
}

impl fmt::Debug for Tokens {
    /// The number of tokens, never a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// Reads a file with a token on each line.
    ///
    /// # Errors
    /// It cannot be read, holds none, or holds what no header field can.
    pub fn read(file: &Path) -> anyhow::Result<Tokens> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("--token-file {}", file.display()))?;
        Tokens::parse(&text).with_context(|| format!("--token-file {}", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Tokens> {
        let lines = text.lines().map(str::trim).zip(1..);
        let mut tokens: Vec<Box<str>> = Vec::new();
        for (line, number) in lines.filter(|(line, _)| !line.is_empty()) {
            if !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                bail!("line {number} contains no token");
            }
            tokens.push(line.into());
        }
        if tokens.is_empty() {
            bail!("the file contains no token");
        }
        Ok(Tokens(tokens.into()))
    }

    /// The token of a client, by its number over all workers. If tokens are fewer than clients,
    /// clients share them.
    fn of(&self, client: u64) -> Option<&str> {
        let place = client.checked_rem(self.0.len() as u64)?;
        Some(&self.0[place as usize])
    }
}

impl WorkerTokens {
    /// The client at this place of the worker, numbered over all workers.
    pub fn client(&self, place: u32) -> u64 {
        u64::from(place) * self.workers + self.worker
    }

    /// The token of the client at this place of the worker.
    pub fn token(&self, place: u32) -> Option<&str> {
        self.tokens.of(self.client(place))
    }

    /// The value of `Authorization` of the client at this place of the worker.
    pub fn authorization(&self, place: u32) -> Option<String> {
        Some(format!("Bearer {}", self.token(place)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_as_far_as_they_go() {
        let tokens = Tokens::parse("a\n\n b \nc\n").unwrap();
        let shown = |worker| WorkerTokens { tokens: tokens.clone(), worker, workers: 2 };
        let of = |worker: u64, place| shown(worker).authorization(place).unwrap();
        assert_eq!(
            [of(0, 0), of(1, 0), of(0, 1), of(1, 1)],
            ["a", "b", "c", "a"].map(|token| format!("Bearer {token}"))
        );
        assert_eq!(format!("{tokens:?}"), "Tokens(3)");
        let none = WorkerTokens { tokens: Tokens::default(), ..shown(0) };
        assert_eq!(none.authorization(0), None);
    }

    #[test]
    fn files_that_hold_none() {
        for text in ["", "\n \n", "a b", "a\nb\u{7f}", "ä"] {
            assert!(Tokens::parse(text).is_err(), "{text:?}");
        }
    }
}
