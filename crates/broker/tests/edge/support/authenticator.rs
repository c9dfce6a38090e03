//! An authenticator for scripts: a token consists of its permissions, in words.
//!
//! `anna.s:u/{sub}/#.p:news.x:60` is Anna's: she may subscribe to her own topics, publish to
//! `news`, for a minute from the script's start. `h:` is for history, `i:` the time of issue in
//! seconds after the start, `j:` a number by which it is revoked, `n:` subscriptions at most, `c:`
//! connections at most, `r:` publications a second, `o:` the issuer. `all` may do everything. A
//! token that begins with `bad` is invalid. Of a user with a password the name is the first word,
//! and the password has the others; of one with a certificate its name has all.

use broker::edge::Edge;
use broker::entitlement::{
    Authenticator, BY_CERTIFICATE, BY_PASSWORD, CredentialKind, Decision, Digest, Entitlement,
    EntitlementLimits, NEVER, Permissions, Signer, Terms, user_and_expiry,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use stdx::key::Key;
use wire::native::ErrorCode;

/// Seconds since 1970 when a script begins.
pub const START_S: u32 = 1_000;

/// An authenticator with a list of revocations.
#[derive(Default)]
pub struct FakeJudge {
    pub subjects: BTreeSet<String>,
    pub token_ids: BTreeSet<u64>,
}

impl Authenticator for FakeJudge {
    fn authenticate(
        &self,
        kind: CredentialKind,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
    ) -> Decision {
        let of_certificate = kind == CredentialKind::Certificate;
        let proved = of_certificate.then(|| user_and_expiry(credential).unwrap().0.as_bytes());
        let words = proved.unwrap_or(credential).to_vec();
        let words = String::from_utf8(words).unwrap().replace('\0', ".");
        let entitlement = entitlement_of(&words, kind, digest);
        let verdict = match entitlement {
            None => Err(ErrorCode::Unauthorized),
            Some(it) if u64::from(it.expires_s) <= now_s => Err(ErrorCode::TokenExpired),
            Some(it) if self.is_revoked(&it) => Err(ErrorCode::TokenRevoked),
            Some(it) => Ok(it),
        };
        Decision { result: verdict, signatures_count: 1 }
    }

    fn is_revoked(&self, entitlement: &Entitlement) -> bool {
        self.subjects.contains(&*entitlement.subject)
            || self.token_ids.contains(&entitlement.token_id)
    }
}

/// Tells an edge of a certificate, if the words of `connect` end with one; returns the others.
pub fn certify<'a>(edge: &mut Edge, key: Key, what: &'a [&'a str]) -> &'a [&'a str] {
    match what {
        [rest @ .., "certified", words] => {
            edge.certified(key, words, NEVER.into());
            rest
        }
        rest => rest,
    }
}

fn entitlement_of(token: &str, kind: CredentialKind, digest: Digest) -> Option<Entitlement> {
    let mut words = token.split('.');
    let subject = words.next().filter(|subject| !subject.starts_with("bad"))?;
    let mut permissions = Permissions::default();
    let mut limits = EntitlementLimits::default();
    let mut signer = Signer::default();
    let (mut token_id, mut expires_s) = (0, NEVER);
    let mut issued_s = match kind {
        CredentialKind::Token => START_S,
        CredentialKind::ApiKey => NEVER,
        CredentialKind::Password => BY_PASSWORD,
        CredentialKind::Certificate => BY_CERTIFICATE,
    };
    let after = |text: &str| START_S + text.parse::<u32>().unwrap();
    for word in words {
        match word.split_once(':') {
            None if word == "all" => {
                permissions.subscribe.push("#".into());
                permissions.publish.push("#".into());
                permissions.history.push("#".into());
            }
            Some(("s", filter)) => permissions.subscribe.push(filter.into()),
            Some(("p", filter)) => permissions.publish.push(filter.into()),
            Some(("h", filter)) => permissions.history.push(filter.into()),
            Some(("x", after_s)) => expires_s = after(after_s),
            Some(("i", after_s)) => issued_s = after(after_s),
            Some(("o", issuer)) => signer.issuer = issuer.into(),
            Some(("j", number)) => token_id = number.parse().unwrap(),
            Some(("n", count)) => limits.subscriptions_max = Some(count.parse().unwrap()),
            Some(("c", count)) => limits.connections_max = Some(count.parse().unwrap()),
            Some(("r", rate)) => limits.publish_rate_max = Some(rate.parse().unwrap()),
            _ => panic!("{token}"),
        }
    }
    Some(Entitlement {
        digest,
        subject: subject.into(),
        token_id,
        issued_s,
        expires_s,
        terms: Arc::new(Terms { permissions, limits, signer }),
    })
}
