//! The page and the host that a request names: cross-origin rules (Fetch, section 3.2), and
//! requests that were meant for another host.
//!
//! Step 3 of the path, before a request's route is examined.

use crate::settings::Settings;
use stdx::networks::names_this_machine;
use wire::http::request::Request;

/// The page behind a request.
pub(crate) enum Origin<'r> {
    /// A client that is not a browser, or a browser without a page.
    None,
    /// The page may make requests; the answer names it.
    Allowed(&'r str),
    /// A page without permission. `None`: the request has several origins.
    Refused(Option<&'r str>),
}

/// The origin of a request. `is_encrypted`: the connection came by TLS that this node ends.
pub(crate) fn origin_of<'r>(
    request: &Request<'r>,
    allowed_origins: &[String],
    is_encrypted: bool,
) -> Origin<'r> {
    let mut origins = request.fields.all("origin");
    let Some(origin) = origins.next() else {
        return Origin::None;
    };
    // No browser sends two, and neither could be believed.
    let (Ok(origin), None) = (std::str::from_utf8(origin), origins.next()) else {
        return Origin::Refused(None);
    };
    let host = request.header_text("host").unwrap_or_default();
    let is_own = origin.split_once("://").is_some_and(|(scheme, authority)| {
        // A proxy may have ended TLS before this node; the other direction does not happen.
        let is_scheme = match scheme {
            "https" => true,
            "http" => !is_encrypted,
            _ => false,
        };
        is_scheme && authority.eq_ignore_ascii_case(host)
    });
    let is_listed = allowed_origins
        .iter()
        .any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin));
    if is_listed || is_own { Origin::Allowed(origin) } else { Origin::Refused(Some(origin)) }
}

/// Whether a request names another host than this machine, on a node that only this machine
/// reaches: a web page whose name resolves to loopback made it.
pub(crate) fn is_misdirected(request: &Request<'_>, settings: &Settings) -> bool {
    // Proxies are asked for a name of their own.
    let is_alone = settings.addresses.are_loopback && settings.addresses.trusted_proxies.is_empty();
    let is_another = |host| !names_this_machine(host, &settings.allowed_origins);
    // Every browser names a host; HTTP/1.0 need not.
    is_alone && request.header_text("host").is_some_and(is_another)
}
