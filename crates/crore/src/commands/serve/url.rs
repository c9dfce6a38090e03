//! Addresses as people open them.

use std::net::SocketAddr;

/// The URL of an address.
pub fn http_url(address: SocketAddr) -> String {
    format!("http://{address}")
}
