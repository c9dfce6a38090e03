package crore

import "github.com/crore/crore/sdk/go/internal/wire"

const (
	ticketDelayMs  = 1_000
	ticketRetryMs  = 60_000
	ticketBytesMax = 16 * 1024
	// ticketCursorsMax keeps HELLO below 32 KiB with ticket and token: R10.
	ticketCursorsMax = 250
	never            = int64(1) << 62
)

// heldTicket is a ticket, and what it restores.
type heldTicket struct {
	bytes     []byte
	expiresAt int64
	renewAt   int64
	covers    map[uint32]bool
}

// tickets are R3 to R10. A ticket only saves time: the cursors decide what is a repeat.
type tickets struct {
	held *heldTicket
	// asked is the request on the wire, or 0.
	asked uint32
	// kept are the subscriptions of a stored ticket that have not begun again in this program.
	kept map[string]keptSubscription
	// askAt is when a ticket is asked for, or 0.
	askAt        int64
	wasPresented bool
	lifetimeMs   int64
	notBefore    int64
	// clockMs is the server's clock minus the own one.
	clockMs int64
}

func (t *tickets) connectionLost() {
	t.asked, t.askAt, t.lifetimeMs, t.notBefore, t.wasPresented = 0, 0, 0, 0, false
}

// clampMs makes a signed time of one from the wire.
func clampMs(ms uint64) int64 { return int64(min(ms, uint64(never))) }

// local is a time of the server by the own clock.
func (t *tickets) local(serverMs uint64) int64 { return clampMs(serverMs) - t.clockMs }

// brings reports whether this connection's ticket has restored the subscription.
func (t *tickets) brings(number uint32) bool {
	return t.wasPresented && t.held != nil && t.held.covers[number]
}

// present returns the ticket and the cursors for HELLO, if a ticket may hold: R4, R7, R10.
func (t *tickets) present(now int64, subscriptions []*subscription) (*heldTicket, []wire.TicketCursor) {
	t.wasPresented = false
	if t.held == nil {
		return nil, nil
	}
	var list []wire.TicketCursor
	count := 0
	for _, it := range subscriptions {
		if t.held.covers[it.number] && !it.isPaused {
			count++
			for _, cursor := range it.cursorList() {
				list = append(list, wire.TicketCursor{Subscription: it.number, Cursor: cursor})
			}
		}
	}
	if count < len(t.held.covers) || now >= t.held.expiresAt {
		t.held = nil
		return nil, nil
	}
	if len(list) > ticketCursorsMax {
		return nil, nil
	}
	t.wasPresented = true
	return t.held, list
}

// welcomed returns the numbers that must be asked for although the ticket should hold them.
func (t *tickets) welcomed(now int64, frame *wire.Welcome) map[uint32]bool {
	t.lifetimeMs = 0
	if frame.TicketLifetimeS != nil {
		t.lifetimeMs = int64(*frame.TicketLifetimeS) * 1_000
	}
	t.clockMs = clampMs(frame.TimeMs) - now
	if !t.wasPresented || t.held == nil {
		return nil
	}
	covers := t.held.covers
	if frame.Resumed == nil {
		t.held = nil // R5
	} else if int(*frame.Resumed) == len(covers) {
		return nil
	}
	return covers // R6
}

// changed: the application has changed its subscriptions.
func (t *tickets) changed(now int64) {
	if t.askAt != 0 {
		t.askAt = now + ticketDelayMs
	}
}

// plan plans the next request: R3.
func (t *tickets) plan(now int64, active []*subscription) {
	if t.lifetimeMs == 0 || t.asked != 0 || len(active) == 0 {
		return
	}
	at := max(now+ticketDelayMs, t.notBefore)
	if t.held != nil && len(t.held.covers) == len(active) && t.coversAll(active) {
		at = max(at, t.held.renewAt)
	}
	if t.askAt == 0 || at < t.askAt {
		t.askAt = at
	}
}

func (t *tickets) coversAll(active []*subscription) bool {
	for _, it := range active {
		if !t.held.covers[it.number] {
			return false
		}
	}
	return true
}

// isDue reports whether the planned time has come; then nothing is planned.
func (t *tickets) isDue(now int64) bool {
	if t.askAt == 0 || now < t.askAt {
		return false
	}
	t.askAt = 0
	return true
}

// hold takes a ticket and the numbers of its subscriptions: R7.
func (t *tickets) hold(now int64, ticket []byte, expiresAt int64, numbers []uint32) {
	if len(ticket) > ticketBytesMax {
		return
	}
	held := &heldTicket{bytes: ticket, expiresAt: expiresAt, covers: make(map[uint32]bool)}
	if expiresAt != never {
		held.renewAt = now + max(0, expiresAt-now)/2
	}
	for _, number := range numbers {
		held.covers[number] = true
	}
	t.held = held
}

// refused reports whether an error refuses the request for a ticket.
func (t *tickets) refused(now int64, frame *wire.ErrorFrame) bool {
	if t.asked == 0 || t.asked != frame.ID {
		return false
	}
	t.asked = 0
	if frame.Temporary {
		t.notBefore = now + ticketRetryMs
	} else {
		t.lifetimeMs = 0
	}
	return true
}
