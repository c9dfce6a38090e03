package crore

import (
	"math"
	"slices"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// The core of the client: no socket, goroutine, timer, clock or random number of its own. The shell
// passes what happens with the time in milliseconds, then takes the outputs and asks for wakeAt.
// The rules are those of spec/sdk.md; their numbers stand beside the code.

const (
	openMsMax       = 10_000 // C7
	silenceMarginMs = 10_000 // L2
	retryMs         = 1_000  // S6
	retryMsMax      = 60_000
	resubscribeCode = 2500
	subscribeBytes  = 12 * 1024 // C2
	// earlyBytesMax keeps the handshake's header below the 8 KiB that proxies allow.
	earlyBytesMax  = 4 * 1024
	eventsMax      = 64
	retryAfterSMax = 3_600 // C6
)

// coreSettings are the core's settings.
type coreSettings struct {
	urls           []string
	token          *string
	hasTokenSource bool
	name           *string
	producerID     []byte
	backoff        backoffSettings
	bufferItems    int
	bufferBytes    int
	random         func() float64
	// logs: events are outputs; they are kept for Inspect in any case.
	logs bool
}

type phase int

const (
	phaseNew      phase = iota // before start
	phaseWaiting               // for the next attempt
	phaseToken                 // an attempt waits for its token
	phaseOpening               // the WebSocket is being opened
	phaseGreeting              // HELLO is sent
	phaseReady
	phaseClosed
)

// Outputs of the core.
type (
	// connectOutput: the early frames go with the handshake.
	connectOutput struct {
		url   string
		early [][]byte
	}
	sendOutput struct{ frame []byte }
	// closeOutput: 1006 is without a close frame.
	closeOutput struct{ code int }
	tokenOutput struct {
		id     int
		reason TokenReason
	}
	settleOutput  struct{ call *call }
	stateOutput   struct{ state State }
	itemsOutput   struct{ of *subscription }
	grantedOutput struct{ of *subscription }
	refusedOutput struct{ err *Error }
	logOutput     struct{ event Event }
)

type returnPlan struct {
	code    int
	afterMs int64
	urls    []string
}

type core struct {
	settings coreSettings
	outputs  []any
	state    State
	counters Counters
	events   []Event
	// roundTripMs is the last measured round trip, or -1.
	roundTripMs int64
	// isBlocked is the shell's: the socket has too many unsent bytes (U15).
	isBlocked bool

	phase      phase
	phaseSince int64
	waitUntil  int64
	openedAt   int64
	isOpened   bool // openedAt holds
	backoff    backoff
	attempt    int
	preferred  []string
	plan       *returnPlan
	isClosing  bool
	closeAt    int64
	// isEarly: HELLO and SUBSCRIBE went with the handshake; endedEarly are subscriptions that have
	// ended since.
	isEarly    bool
	endedEarly []uint32

	silenceMs    int64
	lastReceived int64
	pingedAt     int64
	isPinged     bool
	scratch      wire.Message

	// hasRetries: some subscription may have a retryAt.
	hasRetries    bool
	lastNumber    uint32
	subscriptions []*subscription // in the order of their begin
	byNumber      map[uint32]*subscription
	byFilter      map[string]*subscription
	byAlias       map[uint32]*subscription

	calls       *calls
	tickets     tickets
	tokens      tokens
	lastRequest uint32
	// wasUnauthorized: the error came in place of WELCOME.
	wasUnauthorized bool
	lastEnd         State
}

func newCore(settings coreSettings) *core {
	c := &core{
		settings: settings, state: State{Phase: Connecting}, roundTripMs: -1,
		backoff:  backoff{settings: settings.backoff, random: settings.random},
		byNumber: make(map[uint32]*subscription), byFilter: make(map[string]*subscription),
		byAlias: make(map[uint32]*subscription),
		tokens:  tokens{token: settings.token, hasSource: settings.hasTokenSource},
	}
	if count := len(settings.urls); count > 1 { // C3
		c.attempt = min(int(math.Floor(settings.random()*float64(count))), count-1)
	}
	if settings.hasTokenSource && settings.token == nil {
		c.tokens.needed = TokenFirst
	}
	c.calls = newCalls(c, settings.producerID)
	return c
}

func (c *core) output(one any) { c.outputs = append(c.outputs, one) }

func (c *core) send(frame []byte) { c.output(sendOutput{frame}) }

func (c *core) settled(it *call) { c.output(settleOutput{it}) }

func (c *core) newRequest() uint32 {
	c.lastRequest++
	if c.lastRequest == 0 {
		c.lastRequest = 1
	}
	return c.lastRequest
}

// The application's calls.

func (c *core) start(now int64) {
	if c.phase == phaseNew {
		c.connect(now)
	}
}

// check refuses what subscribe would refuse.
func (c *core) check(filter string) error {
	if err := c.refuseIfClosed(); err != nil {
		return err
	}
	if err := checkTopic(filter); err != nil {
		return err
	}
	if c.byFilter[filter] != nil {
		return ErrAlreadySubscribed
	}
	return nil
}

func (c *core) subscribe(now int64, filter string, options subscriptionOptions) (*subscription, error) {
	if err := c.check(filter); err != nil {
		return nil, err
	}
	it := newSubscription(filter, options, c.settings.bufferItems, c.settings.bufferBytes)
	c.byFilter[filter] = it
	c.subscriptions = append(c.subscriptions, it)
	c.renumber(it)
	if c.canAsk() {
		c.ask([]*subscription{it})
	}
	c.tickets.changed(now)
	return it, nil
}

func (c *core) unsubscribe(now int64, it *subscription) {
	if it.isEnded {
		return
	}
	wasHeld, number := !it.isPaused, it.number
	c.remove(it, nil)
	it.clear()
	if c.isGreeted() && wasHeld {
		c.send(wire.Unsubscribe(number))
	} else if it.isAskedEarly {
		c.endedEarly = append(c.endedEarly, number)
	}
	c.tickets.changed(now)
}

func (c *core) publish(now int64, p publication) (*call, error) {
	if err := c.refuseIfClosed(); err != nil {
		return nil, err
	}
	it, err := c.calls.publish(now, p)
	if err == nil {
		c.pump()
	}
	return it, err
}

// history asks for one page: H1.
func (c *core) history(now int64, h wire.History) (*call, error) {
	if err := c.refuseIfClosed(); err != nil {
		return nil, err
	}
	it, err := c.calls.history(now, h)
	if err == nil {
		c.pump()
	}
	return it, err
}

// abandon gives a call up: not sent yet, it never will be.
func (c *core) abandon(now int64, it *call) {
	c.calls.expire(it)
	c.after(now)
}

// renew goes on with another token, here and on all further connections: T3, T6.
func (c *core) renew(token string) {
	if c.tokens.take(token) && (c.isGreeted() || c.isEarly) {
		c.tokens.isDue = true
		c.renewIfDue()
	}
}

func (c *core) close(now, drainMs int64) {
	if c.phase == phaseClosed || c.isClosing {
		return
	}
	c.isClosing, c.closeAt = true, now+drainMs
	c.after(now)
}

// endNow ends the client without waiting any more.
func (c *core) endNow(now int64) {
	if c.phase != phaseClosed {
		c.finish(now)
	}
}

// take takes the oldest items of a subscription's buffer, at most max, not counting those that only
// settle, and appends them.
func (c *core) take(now int64, it *subscription, max int, items []Item) []Item {
	for max > 0 {
		item := it.buffer.take()
		if item == nil {
			break
		}
		items = append(items, item)
		if _, settles := item.(*CaughtUp); !settles {
			max--
		}
	}
	if it.isEmpty() {
		it.isAnnounced = false
	}
	if !it.isEnded {
		c.refill(now, it)
	}
	return items
}

// What happens to the connection.

func (c *core) opened(now int64) {
	if c.phase != phaseOpening {
		return
	}
	c.setPhase(phaseGreeting, now)
	c.openedAt, c.isOpened, c.lastReceived, c.isPinged = now, true, now, false
	if !c.isEarly {
		c.greet(now)
		return
	}
	// A new subscription may have the filter of one that has ended.
	for _, number := range c.endedEarly {
		c.send(wire.Unsubscribe(number))
	}
	c.endedEarly = nil
	c.ask(c.active(func(it *subscription) bool { return !it.isAskedEarly && !c.tickets.brings(it.number) }))
}

// greet sends HELLO, and SUBSCRIBE of everything that the ticket does not hold: C2, R4.
func (c *core) greet(now int64) {
	c.beginKept()
	held, cursors := c.tickets.present(now, c.subscriptions)
	hello := wire.Hello{Token: c.tokens.token, Name: c.settings.name, Cursors: cursors}
	if held != nil {
		hello.Ticket = held.bytes
	}
	c.send(hello.Encode())
	c.ask(c.active(func(it *subscription) bool { return held == nil || !held.covers[it.number] }))
}

// greetEarly returns the same frames, for the handshake, if they are small enough: C2. A stored ticket
// waits until the connection is open, because its subscriptions are about to begin.
func (c *core) greetEarly(now int64) (early [][]byte) {
	if c.tickets.kept != nil {
		return nil
	}
	before := len(c.outputs)
	c.greet(now)
	bytes := 0
	for _, output := range c.outputs[before:] {
		frame := output.(sendOutput).frame
		early = append(early, frame)
		bytes += len(frame)
	}
	clear(c.outputs[before:])
	c.outputs = c.outputs[:before]
	if c.isEarly = bytes <= earlyBytesMax; !c.isEarly {
		return nil
	}
	for _, it := range c.subscriptions {
		it.isAskedEarly = !it.isPaused && !c.tickets.brings(it.number)
	}
	return early
}

// failed: the connection could not be opened; status is 0 without an answer (C6).
func (c *core) failed(now int64, status int, retryAfterS int64) {
	if status == 0 {
		c.lost(now, State{Phase: Waiting, Reason: ReasonNetwork}, true, 0)
		return
	}
	again := status == 408 || status == 425 || status == 429 || status >= 500 && status <= 599
	more := max(0, min(retryAfterS, retryAfterSMax)) * 1_000
	c.lost(now, State{Phase: Waiting, Reason: ReasonRefused, Status: status}, again, more)
}

// closed is the end of the connection; 1006 is without a close frame.
func (c *core) closed(now int64, code int) {
	if code == 1006 {
		c.lost(now, State{Phase: Waiting, Reason: ReasonNetwork}, true, 0)
		return
	}
	c.lost(now, State{Phase: Waiting, Reason: ReasonClosed, Code: code}, reconnects(code), 0)
}

// received takes one WebSocket message. Its bytes remain the caller's.
func (c *core) received(now int64, data []byte, isText bool) {
	if !c.isGreeted() {
		return
	}
	c.lastReceived = now // L3
	if c.isPinged {
		c.roundTripMs, c.isPinged = now-c.pingedAt, false
	}
	if isText {
		c.violated(now, "a text message", false)
		return
	}
	if len(data) > 0 && data[0] == wire.TypeMessage && c.phase == phaseReady {
		if err := wire.DecodeMessage(data, &c.scratch); err != nil {
			c.undecodable(now, err)
			return
		}
		c.message(now, &c.scratch)
		return
	}
	frame, err := wire.Decode(data)
	if err != nil {
		c.undecodable(now, err)
		return
	}
	c.frame(now, frame)
	c.after(now)
}

func (c *core) undecodable(now int64, err error) {
	c.violated(now, err.Error(), err.(*wire.Error).Unsupported)
}

// tokenAnswered: the token source has answered; nil is no new token (T2, T5, T7).
func (c *core) tokenAnswered(now int64, id int, token *string) {
	asked := c.tokens.answered(id)
	if asked == nil {
		return
	}
	isNew := token != nil && (c.tokens.token == nil || *token != *c.tokens.token)
	switch {
	case asked.forAttempt && asked.reason == TokenRefused && !isNew:
		c.terminate(now, c.lastEnd)
		return
	case asked.forAttempt:
		if isNew {
			c.tokens.take(*token)
		}
		c.open(now)
	case isNew:
		c.renew(*token)
	}
	c.after(now)
}

// tokenFailed: the token source has failed (T9).
func (c *core) tokenFailed(now int64, id int, isUnauthorized bool) {
	asked := c.tokens.answered(id)
	if asked == nil {
		return
	}
	if isUnauthorized {
		if c.isOpen() {
			c.output(closeOutput{1000})
		}
		c.terminate(now, State{Phase: Closed, Reason: ReasonToken})
		return
	}
	if asked.forAttempt {
		c.tokens.needed = asked.reason
		c.wait(now, State{Phase: Waiting, Reason: ReasonToken}, c.backoff.next(0))
		return
	}
	c.tokens.retryAt = now + max(1, c.backoff.delay(c.tokens.failures))
	c.tokens.failures++
}

// tick: the time is now so late.
func (c *core) tick(now int64) {
	if c.phase == phaseClosed {
		return
	}
	if c.isClosing && now >= c.closeAt {
		c.finish(now)
		return
	}
	if asked := c.tokens.asked; asked != nil && now >= asked.until {
		c.tokenFailed(now, asked.id, false)
	}
	if c.calls.deadline <= now {
		c.calls.expireDue(now)
	}
	switch c.phase {
	case phaseWaiting:
		if now >= c.waitUntil {
			c.connect(now)
		}
	case phaseOpening, phaseGreeting:
		if now >= c.phaseSince+openMsMax {
			c.output(closeOutput{1006})
			c.lost(now, State{Phase: Waiting, Reason: ReasonTimeout}, true, 0)
		}
	case phaseReady:
		c.tickReady(now)
	}
	c.after(now)
}

// wakeAt is when tick is needed next, or never.
func (c *core) wakeAt() int64 {
	if c.phase == phaseClosed {
		return never
	}
	at := c.calls.deadline
	if c.isClosing {
		at = min(at, c.closeAt)
	}
	if c.tokens.asked != nil {
		at = min(at, c.tokens.asked.until)
	}
	switch c.phase {
	case phaseWaiting:
		return min(at, c.waitUntil)
	case phaseOpening, phaseGreeting:
		return min(at, c.phaseSince+openMsMax)
	case phaseReady:
		return min(at, c.wakeReady())
	}
	return at
}

func (c *core) wakeReady() int64 {
	at := never
	soonest := func(time int64) {
		if time != 0 {
			at = min(at, time)
		}
	}
	if c.silenceMs > 0 {
		soonest(c.quietSince() + c.silenceMs)
	}
	soonest(c.tokens.retryAt)
	if c.plan == nil {
		soonest(c.tickets.askAt)
		soonest(c.calls.retryAt)
		if c.hasRetries {
			c.hasRetries = false
			for _, it := range c.subscriptions {
				soonest(it.retryAt)
				c.hasRetries = c.hasRetries || it.retryAt != 0
			}
		}
	}
	return at
}

func (c *core) quietSince() int64 {
	if c.isPinged {
		return c.pingedAt
	}
	return c.lastReceived
}

// active are the subscriptions that shall be held, in the order of their begin.
func (c *core) active(also func(*subscription) bool) (list []*subscription) {
	for _, it := range c.subscriptions {
		if !it.isPaused && (also == nil || also(it)) {
			list = append(list, it)
		}
	}
	return list
}

// remove ends a subscription.
func (c *core) remove(it *subscription, err error) {
	delete(c.byFilter, it.filter)
	delete(c.byNumber, it.number)
	if at := slices.Index(c.subscriptions, it); at >= 0 {
		c.subscriptions = slices.Delete(c.subscriptions, at, at+1)
	}
	c.forgetAlias(it)
	it.isEnded, it.endErr, it.isGranted = true, err, false
	c.output(itemsOutput{it})
}

func (c *core) forgetAlias(it *subscription) {
	if it.hasAlias && c.byAlias[it.alias] == it {
		delete(c.byAlias, it.alias)
	}
	it.hasAlias = false
}

func (c *core) renumber(it *subscription) {
	delete(c.byNumber, it.number)
	c.lastNumber++
	it.number = c.lastNumber
	c.byNumber[it.number] = it
}
