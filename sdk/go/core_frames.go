package crore

import "github.com/crore/crore/sdk/go/internal/wire"

// The core's handling of the server's frames.

func (c *core) frame(now int64, frame wire.Frame) {
	if c.phase == phaseGreeting {
		switch frame.(type) {
		case *wire.Welcome, *wire.ErrorFrame, *wire.GoAway:
		default: // C8
			c.violated(now, "a frame before WELCOME", false)
			return
		}
	}
	switch f := frame.(type) {
	case *wire.Welcome:
		c.welcome(now, f)
	case *wire.Subscribed:
		c.subscribed(now, f)
	case *wire.Unsubscribed:
		c.unsubscribed(now, f)
	case *wire.NamedMessage:
		c.named(now, f)
	case *wire.CaughtUp:
		c.caughtUp(now, f)
	case *wire.Gap:
		c.gap(now, f)
	case *wire.Skipped:
		c.skipped(now, f)
	case *wire.Published:
		c.expected(now, c.calls.published(f), "published")
	case *wire.HistoryPage:
		c.expected(now, c.calls.historyPage(f), "history_page")
	case *wire.ErrorFrame:
		c.refused(now, f)
	case *wire.GoAway:
		c.goAway(now, f)
	case *wire.Ping:
		c.send(wire.EncodePong(f.Token)) // L1
	case *wire.TicketIssued:
		if c.expected(now, c.tickets.asked != 0 && c.tickets.asked == f.Request, "ticket_issued") {
			c.tickets.asked = 0
			c.tickets.hold(now, f.Ticket, c.tickets.local(f.ExpiresMs), c.grantedNumbers())
			c.note(now, LevelDebug, "ticket")
		}
	case *wire.Renewed: // T4
		if c.expected(now, c.tokens.settled(f.Request), "renewed") {
			c.note(now, LevelDebug, "token_renewed")
			c.renewIfDue()
		}
	case *wire.TokenExpires: // T2
		c.note(now, LevelDebug, "token_expires")
		if c.settings.hasTokenSource {
			c.askForToken(now, TokenExpires, false)
		}
	}
}

// expected counts a frame about nothing: C9.
func (c *core) expected(now int64, isExpected bool, kind string) bool {
	if !isExpected {
		c.counters.Unexpected++
		c.note(now, LevelDebug, "unexpected_frame", "type", kind)
	}
	return isExpected
}

func (c *core) welcome(now int64, f *wire.Welcome) {
	if c.phase == phaseReady {
		c.violated(now, "a second WELCOME", false)
		return
	}
	if !c.isEarly { // else the handshake's
		c.roundTripMs = now - c.phaseSince
	}
	c.setPhase(phaseReady, now)
	c.counters.Connections++
	c.silenceMs = 0
	if f.PingIntervalS > 0 { // L4
		c.silenceMs = int64(f.PingIntervalS)*1_000 + silenceMarginMs
	}
	c.calls.payloadMax = f.MessageBytesMax
	c.tokens.accepted()
	node := ""
	if f.Node != nil {
		node = *f.Node
	}
	resumed := uint32(0)
	if f.Resumed != nil {
		resumed = *f.Resumed
	}
	c.note(now, LevelInfo, "connected", "node", node, "connection", f.Connection, "resumed", resumed)
	c.setState(State{Phase: Live})
	if c.plan == nil {
		before := c.calls.repeatedCount
		c.calls.repeat()
		if count := c.calls.repeatedCount - before; count > 0 {
			c.note(now, LevelInfo, "repeated", "count", count)
		}
	}
	c.renewIfDue()
	missing := c.tickets.welcomed(now, f)
	if missing == nil {
		return
	}
	if f.Resumed == nil {
		c.note(now, LevelInfo, "ticket_refused")
	}
	c.ask(c.active(func(it *subscription) bool { return missing[it.number] }))
}

// grantedNumbers are the subscriptions that a ticket holds which comes now: R7.
func (c *core) grantedNumbers() (numbers []uint32) {
	for _, it := range c.subscriptions {
		if it.isGranted {
			numbers = append(numbers, it.number)
		}
	}
	return numbers
}

func (c *core) renewIfDue() {
	if c.phase != phaseReady || !c.tokens.isDue || c.tokens.request != 0 {
		return
	}
	c.tokens.isDue = false
	c.tokens.request = c.newRequest()
	c.send(wire.Renew(c.tokens.request, *c.tokens.token))
}

func (c *core) goAway(now int64, f *wire.GoAway) {
	c.plan = &returnPlan{int(f.Code), clampMs(f.ReturnAfterMs), f.URLs}
	c.note(now, LevelInfo, "go_away", "code", f.Code, "return_after_ms", f.ReturnAfterMs)
	if f.Ticket != nil { // G5
		c.tickets.hold(now, f.Ticket, never, c.grantedNumbers())
	}
}

func (c *core) refused(now int64, f *wire.ErrorFrame) {
	switch {
	case f.Reference == wire.AboutConnection:
		if f.Code == CodeTicketRefused { // R5
			return
		}
		if c.phase == phaseGreeting && f.Code == CodeUnauthorized {
			c.wasUnauthorized = true
		}
		c.output(refusedOutput{refusal(f)})
	case f.Reference == wire.AboutSubscription:
		it := c.byNumber[f.ID]
		if c.expected(now, it != nil, "error") {
			c.refusedSubscription(now, it, refusal(f))
		}
	case c.tickets.refused(now, f):
	case c.tokens.settled(f.ID): // T4
		c.note(now, LevelWarn, "token_refused", "code", f.Code)
		c.output(refusedOutput{refusal(f)})
		c.renewIfDue()
	default:
		wasFenced := c.calls.isFenced
		c.expected(now, c.calls.refuse(now, f.ID, refusal(f)), "error")
		if c.calls.isFenced && !wasFenced {
			c.note(now, LevelError, "fenced")
		}
	}
}

func (c *core) unsubscribed(now int64, f *wire.Unsubscribed) {
	it := c.byNumber[f.Subscription]
	if c.expected(now, it != nil, "unsubscribed") {
		c.refusedSubscription(now, it, &Error{
			Code: f.Code, Name: codeName(f.Code), Temporary: f.Code >= resubscribeCode,
			Message: "the server has ended the subscription",
		})
	}
}

// refusedSubscription is S6, S7, P11, R6.
func (c *core) refusedSubscription(now int64, it *subscription, err *Error) {
	if err.Code == CodeAlreadySubscribed && c.tickets.wasPresented {
		// Its grant is on its way, or the one in its place is being unsubscribed.
		if !it.isGranted {
			it.retryAt, c.hasRetries = now+retryMs, true
		}
		return
	}
	it.isGranted = false
	isOfStart := err.Code == CodeUnsupportedStart || err.Code == CodePositionUnavailable && !it.options.failOnGap
	switch {
	case isOfStart && len(it.cursors.list) > 0:
		it.cursors.list = nil
		it.wasGranted = true
		if c.canAsk() {
			c.ask([]*subscription{it})
		}
	case err.Temporary:
		c.forgetAlias(it) // S11
		it.connectionLost()
		it.retryAt, c.hasRetries = now+min(int64(retryMs)<<min(it.refusals, 10), retryMsMax), true
		it.refusals++
	default:
		c.note(now, LevelWarn, "ended", "topic", it.filter, "code", err.Code)
		c.remove(it, err)
		c.tickets.changed(now)
	}
}
