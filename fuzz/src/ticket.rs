//! Resume tickets: the content behind the signature, and complete tickets.

use broker::settings::{TicketKey, TicketSettings};
use broker::ticket::{Ticket, TicketRefusal};

/// Decoded content encodes to the same bytes; the same content with a signature opens again;
/// without our signature it is refused.
pub fn ticket(data: &[u8]) {
    let settings = |byte| TicketSettings {
        keys: vec![TicketKey::new([byte; 32])],
        lifetime_ms: 1,
        not_before_ms: 0,
    };
    // An invalid ticket is refused before its content is decoded.
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
        return; // the ticket is too large
    };
    let opened = Ticket::open(&signed, &settings(1), 0);
    match ticket.expires_ms {
        0 => assert_eq!(opened, Err(TicketRefusal::Expired)),
        _ => assert_eq!(opened, Ok(ticket)),
    }
    let opened = Ticket::open(&signed, &settings(2), 0);
    assert_eq!(opened, Err(TicketRefusal::Forged));
}
