//! The answer to `GET /`: plain text for people that find this port with a browser or with curl.
//!
//! Invariant: it needs no permission and tells nothing of the node but its kind.

use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::session::fault::Fault;
use crate::session::greeting::TEXT;
use crate::session::http::{Answer, begin_answer, reject_body};
use wire::http::Request;

impl Edge {
    /// Answers with the text.
    pub(crate) fn greet(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        answer: &Answer,
    ) -> Result<(), Fault> {
        reject_body(request)?;
        let mut out = Vec::with_capacity(256 + TEXT.len());
        begin_answer(&mut out, 200, answer, answer.keep_alive)
            .header("Content-Type", "text/plain; charset=utf-8")
            .header("X-Content-Type-Options", "nosniff")
            .finish_with_body(TEXT);
        self.tell_answer(index, 200, out.len());
        self.send_answer(index, answer, out);
        self.finish_answer(index, answer.keep_alive);
        Ok(())
    }
}
