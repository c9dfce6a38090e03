//! Resume tickets: what is behind the signature, and whole tickets.

use broker::settings::{TicketKey, TicketSettings};
use broker::ticket::{Ticket, TicketRefusal};

/// What decodes encodes to the same bytes; the same bytes with a signature come back; without one
/// of ours they are refused.
pub fn ticket(data: &[u8]) {
    let settings = |byte| TicketSettings {
        keys: vec![TicketKey::new([byte; 32])],
        lifetime_ms: 1,
        not_before_ms: 0,
    };
    // Whatever is no ticket is refused before anything in it is looked at.
    let refusal = Ticket::open(data, &settings(1), 0).unwrap_err();
    assert!(matches!(refusal, TicketRefusal::Malformed | TicketRefusal::Forged));
    let Some(ticket) = Ticket::decode(data) else {
        return;
    };
    let mut again = Vec::new();
    ticket.encode(&mut again);
    assert_eq!(again, data);
    if let Some(entitlement) = ticket.entitlement() {
        let mut same = ticket.clone();
        same.set_entitlement(&entitlement);
        assert_eq!(same.identity, ticket.identity);
    }
    let Some(Ok(signed)) = ticket.issue(&settings(1)) else {
        return; // it does not fit
    };
    let opened = Ticket::open(&signed, &settings(1), 0);
    match ticket.expires_ms {
        0 => assert_eq!(opened, Err(TicketRefusal::Expired)),
        _ => assert_eq!(opened, Ok(ticket)),
    }
    let opened = Ticket::open(&signed, &settings(2), 0);
    assert_eq!(opened, Err(TicketRefusal::Forged));
}
