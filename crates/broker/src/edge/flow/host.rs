//! The host that a request takes this node for.
//!
//! Place on the path: step 3, before a request's route is looked at.

use crate::edge::Edge;
use crate::session::fault::Fault;
use stdx::networks::names_this_machine;
use wire::http::request::Request;
use wire::native::ErrorCode;

impl Edge {
    /// On a node that is this machine's alone, a request that names another host is one of a web
    /// page with a name of its own.
    pub(crate) fn check_host(&self, request: &Request<'_>) -> Result<(), Fault> {
        let settings = &self.settings;
        // Its proxies are asked for a name of their own.
        let is_alone =
            settings.addresses.are_loopback && settings.addresses.trusted_proxies.is_empty();
        let is_another = |host| !names_this_machine(host, &settings.allowed_origins);
        // Every browser names a host; HTTP/1.0 need not.
        match request.header_text("host") {
            Some(host) if is_alone && is_another(host) => Err(ErrorCode::Misdirected.into()),
            _ => Ok(()),
        }
    }
}
