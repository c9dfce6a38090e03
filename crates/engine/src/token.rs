//! Tokens for clients that log in by OAUTHBEARER.

use crate::settings::Login;
use kafka::Client;
use std::thread;

/// Gets a token for a client, on a thread of its own, because the source may ask a server. A
/// failure comes back as an error of the client; it asks again by itself.
pub(crate) fn give(login: &Login, client: Client) {
    let Login::Token(source) = login else { return };
    let (source, other) = (source.clone(), client.clone());
    let give = move || {
        let result = source().and_then(|token| {
            let expires_ms = token.expires_ms.cast_signed();
            let set = client.set_token(&token.text, &token.principal, expires_ms);
            set.map_err(|error| error.text)
        });
        if let Err(reason) = result {
            client.set_token_failure(&reason);
        }
    };
    let thread = thread::Builder::new().name("engine-token".to_owned()).spawn(give);
    if let Err(error) = thread {
        other.set_token_failure(&format!("no thread that gets a token: {error}"));
    }
}
