package crore

import "github.com/crore/crore/sdk/go/internal/wire"

// The core's connection: attempts, waits, ends, liveness.

// reconnects reports whether a client comes back after a close code: C5.
func reconnects(code int) bool {
	return code == 1001 || code == 1005 || code == 1006 || code >= 1011 && code <= 1014 ||
		code >= 3000 && code <= 3499 || code >= 4000 && code <= 4499
}

func (c *core) isGreeted() bool { return c.phase == phaseGreeting || c.phase == phaseReady }

func (c *core) isOpen() bool { return c.phase == phaseOpening || c.isGreeted() }

// canAsk reports whether SUBSCRIBE may go out: G1.
func (c *core) canAsk() bool { return c.isGreeted() && c.plan == nil }

func (c *core) setPhase(phase phase, now int64) { c.phase, c.phaseSince = phase, now }

func (c *core) setState(state State) {
	c.state = state
	c.output(stateOutput{state})
}

func (c *core) note(now int64, level Level, name string, fields ...any) {
	event := Event{now, level, name, fields}
	if len(c.events) == eventsMax {
		c.events = append(c.events[:0:0], c.events[1:]...)
	}
	c.events = append(c.events, event)
	if c.settings.logs {
		c.output(logOutput{event})
	}
}

// connect begins the next attempt: first the token, if one is needed.
func (c *core) connect(now int64) {
	reason := c.tokens.needed
	if reason == "" {
		c.open(now)
		return
	}
	c.setPhase(phaseToken, now)
	c.askForToken(now, reason, true)
}

func (c *core) askForToken(now int64, reason TokenReason, forAttempt bool) {
	if id := c.tokens.ask(now, reason, forAttempt); id != 0 {
		c.output(tokenOutput{id, reason})
	}
}

func (c *core) open(now int64) {
	var url string
	if len(c.preferred) > 0 {
		url, c.preferred = c.preferred[0], c.preferred[1:]
	} else {
		url = c.settings.urls[c.attempt%len(c.settings.urls)]
		c.attempt++
	}
	c.setPhase(phaseOpening, now)
	c.isOpened, c.wasUnauthorized, c.endedEarly = false, false, nil
	c.note(now, LevelDebug, "connecting", "url", url)
	if c.state.Phase != Connecting {
		c.setState(State{Phase: Connecting})
	}
	c.output(connectOutput{url, c.greetEarly(now)})
}

// lost is the end of a connection or attempt; it plans the next one.
func (c *core) lost(now int64, state State, again bool, moreMs int64) {
	if !c.isOpen() {
		return
	}
	lasted := int64(0)
	if c.isOpened {
		lasted = now - c.openedAt
	}
	c.disconnected(now, state)
	c.lastEnd = state
	c.lastEnd.Phase = Closed
	isRefused := state.Code == CloseUnauthorized || c.wasUnauthorized
	switch {
	case isRefused && c.tokens.refusedOnce(): // T7
		again = true
		c.tokens.needed = TokenRefused
	case isRefused && c.wasUnauthorized:
		again = false
	case state.Code == CloseTokenExpired && c.settings.hasTokenSource: // T5
		c.tokens.needed = TokenExpires
	}
	if !again {
		c.terminate(now, c.lastEnd)
		return
	}
	if plan := c.plan; plan != nil { // G2
		c.plan = nil
		c.preferred = plan.urls
		c.wait(now, state, plan.afterMs)
		return
	}
	c.wait(now, state, c.backoff.next(lasted)+moreMs)
}

func (c *core) disconnected(now int64, state State) {
	if c.isOpened {
		c.note(now, LevelInfo, "lost", "reason", state.Reason, "code", state.Code)
	}
	c.setPhase(phaseWaiting, now)
	clear(c.byAlias)
	for _, it := range c.subscriptions {
		it.connectionLost()
	}
	c.tickets.connectionLost()
	c.tokens.connectionLost()
	c.calls.connectionLost()
	c.isBlocked, c.silenceMs, c.isEarly = false, 0, false
}

func (c *core) wait(now int64, state State, delayMs int64) {
	c.setPhase(phaseWaiting, now)
	c.waitUntil = now + delayMs
	c.note(now, LevelDebug, "waiting", "reason", state.Reason, "delay_ms", delayMs)
	state.untilMs = c.waitUntil
	c.setState(state)
	c.after(now)
}

func (c *core) terminate(now int64, state State) {
	c.setPhase(phaseClosed, now)
	c.tokens.asked = nil
	level, err := LevelInfo, error(nil)
	if state.Reason != ReasonRequested {
		level, err = LevelError, closedError(state)
	}
	c.note(now, level, "closed", "reason", state.Reason, "code", state.Code)
	c.setState(state)
	c.calls.end()
	for _, it := range append([]*subscription(nil), c.subscriptions...) {
		c.remove(it, err)
	}
}

// finish is the end that the application asked for: X1.
func (c *core) finish(now int64) {
	if c.isOpen() {
		c.output(closeOutput{1000})
	}
	c.terminate(now, State{Phase: Closed, Reason: ReasonRequested})
}

func (c *core) refuseIfClosed() error {
	if c.phase == phaseClosed || c.isClosing {
		return ErrClosed
	}
	return nil
}

// after follows every input: it leaves or ends once nothing is open any more.
func (c *core) after(now int64) {
	if c.phase == phaseClosed {
		return
	}
	if c.plan != nil && c.isOpen() && c.calls.inFlight() == 0 {
		c.leave(now)
		return
	}
	if c.isClosing && c.calls.isIdle() {
		c.finish(now)
		return
	}
	c.pump()
	if c.phase == phaseReady && c.plan == nil && c.tickets.lifetimeMs > 0 {
		c.tickets.plan(now, c.active(nil))
	}
}

func (c *core) pump() {
	if c.phase == phaseReady && c.plan == nil && !c.isBlocked {
		c.calls.pump()
	}
}

// leave leaves as GO_AWAY says: G1, G8.
func (c *core) leave(now int64) {
	code := c.plan.code
	c.output(closeOutput{1000})
	c.lost(now, State{Phase: Waiting, Reason: ReasonGoAway, Code: code}, reconnects(code), 0)
}

// violated: the server breaks the protocol (C8).
func (c *core) violated(now int64, what string, isUnsupported bool) {
	c.note(now, LevelError, "unexpected_frame", "what", what)
	c.output(closeOutput{1002})
	reason := ReasonProtocol
	if isUnsupported {
		reason = ReasonUnsupported
	}
	c.lost(now, State{Phase: Waiting, Reason: reason}, !isUnsupported, 0)
}

func (c *core) ping(now int64) {
	c.pingedAt, c.isPinged = now, true
	c.send(wire.EncodePing(uint64(now)))
}

func (c *core) tickReady(now int64) {
	if c.silenceMs > 0 {
		since := now - c.quietSince()
		switch {
		case !c.isPinged && since >= c.silenceMs: // L2
			c.ping(now)
		case c.isPinged && since > 2*c.silenceMs: // L5: the timer slept
			c.ping(now)
		case c.isPinged && since >= c.silenceMs:
			c.output(closeOutput{1006})
			c.lost(now, State{Phase: Waiting, Reason: ReasonIdle}, true, 0)
			return
		}
	}
	if c.tokens.retryAt != 0 && now >= c.tokens.retryAt {
		c.tokens.retryAt = 0
		c.askForToken(now, TokenExpires, false)
	}
	if c.plan != nil {
		return
	}
	due := c.active(func(it *subscription) bool { return it.retryAt != 0 && it.retryAt <= now })
	for _, it := range due {
		it.retryAt = 0
	}
	c.ask(due)
	if c.tickets.isDue(now) && len(c.subscriptions) > 0 {
		if len(c.active(func(it *subscription) bool { return !it.isGranted })) == 0 {
			c.tickets.asked = c.newRequest()
			c.send(wire.Ticket(c.tickets.asked))
		}
	}
	c.calls.repeatRefused(now)
}

// ask sends SUBSCRIBE, in as few frames as possible: C2.
func (c *core) ask(list []*subscription) {
	var items []wire.SubscribeItem
	bytes := 0
	for _, it := range list {
		size := len(it.filter) + 32 + 24*(len(it.cursors.list)+1)
		if len(items) > 0 && bytes+size > subscribeBytes {
			c.send(wire.Subscribe(items))
			items, bytes = nil, 0
		}
		it.asked()
		items = append(items, it.item())
		bytes += size
	}
	if len(items) > 0 {
		c.send(wire.Subscribe(items))
	}
}
