// Package crore is the client of Crore, a publish and subscribe server whose logs prove that no
// message is missing.
//
// A client keeps its subscriptions over connections, and reports what it cannot get as an exact gap:
//
//	client, err := crore.Dial(ctx, []string{"ws://localhost:8800"}, crore.Options{})
//	subscription, err := client.Subscribe(ctx, "prices/eur", crore.Last(10))
//	for message, err := range subscription.Messages(ctx) { ... }
//
// All methods may be called from any goroutine. No lock is held while functions of the application
// run, so these may call the client.
package crore

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/crore/crore/sdk/go/internal/wire"
)

//go:generate go run ./internal/gencodes

const drainTime = 5 * time.Second // X1

// Client is a connection to a server that outlives its connections.
type Client struct {
	options Options
	began   time.Time
	beganMs int64
	ended   chan struct{} // closed in the phase Closed
	running tasks
	// batch is how many items readers take together.
	batch int
	// persistence is nil without Options.Persist, and tickets without Options.StoreTickets.
	persistence *persistence
	tickets     *ticketStore

	// mu guards what follows. User code never runs under it.
	mu         sync.Mutex
	core       *core
	connection *connection
	// receiving are the messages that the core gets now.
	receiving *received
	timer     *time.Timer
	timerAt   int64
	// changed is closed and replaced at each change of the state.
	changed   chan struct{}
	callbacks callbacks
}

// New makes a client and returns at once; connecting is retried for ever. It fails only if an
// argument is invalid.
func New(urls []string, options Options) (*Client, error) {
	if len(urls) == 0 {
		return nil, invalidArgument("a client needs a URL")
	}
	if (options.Persist || options.StoreTickets) && options.Storage == nil {
		return nil, invalidArgument("Options.Persist and Options.StoreTickets need Options.Storage")
	}
	settings := coreSettings{
		hasTokenSource: options.TokenSource != nil, producerID: options.ProducerID, backoff: defaultBackoff,
		bufferItems: options.BufferItems, bufferBytes: options.BufferBytes, random: mathrand.Float64,
		logs: options.Logger != nil,
	}
	for _, one := range urls {
		parsed, err := url.Parse(one)
		if err != nil || parsed.Host == "" {
			return nil, invalidArgument("%q is no URL", one)
		}
		if parsed.Path == "" { // C1
			parsed.Path = "/crore"
		}
		settings.urls = append(settings.urls, parsed.String())
	}
	if options.Token != "" {
		settings.token = &options.Token
	}
	if options.Name != "" {
		settings.name = &options.Name
	}
	if len(settings.producerID) > 64 {
		return nil, invalidArgument("a producer id has 1 to 64 bytes")
	}
	if len(settings.producerID) == 0 {
		settings.producerID = make([]byte, 16)
		if _, err := rand.Read(settings.producerID); err != nil {
			return nil, err
		}
	}
	if settings.bufferItems <= 0 {
		settings.bufferItems = 1_024
	}
	if settings.bufferBytes <= 0 {
		settings.bufferBytes = 1 << 20
	}
	if options.backoff != nil {
		settings.backoff = *options.backoff
	}
	c := &Client{
		options: options, began: time.Now(), ended: make(chan struct{}), changed: make(chan struct{}),
		core: newCore(settings), timerAt: never, batch: min(64, max(1, settings.bufferItems/16)),
	}
	c.beganMs = c.began.UnixMilli()
	c.timer = time.AfterFunc(time.Hour, c.tick)
	// The work of persistence runs beside, and reads the client under its lock.
	c.mu.Lock()
	if options.StoreTickets {
		c.tickets = &ticketStore{client: c}
	}
	if options.Persist {
		c.persistence = newPersistence(c)
	}
	c.mu.Unlock()
	if options.StoreTickets {
		c.running.add()
		go c.tickets.begin()
	} else {
		c.with(c.core.start)
	}
	return c, nil
}

// Dial makes a client and waits until it is live. It fails if the client is closed for good, and
// closes it if the context ends.
func Dial(ctx context.Context, urls []string, options Options) (*Client, error) {
	c, err := New(urls, options)
	if err != nil {
		return nil, err
	}
	if err := c.Ready(ctx); err != nil {
		c.with(func(now int64) { c.core.close(now, 0) })
		return nil, err
	}
	return c, nil
}

// now is the time of the core: milliseconds since 1970 that never go back.
func (c *Client) now() int64 { return c.beganMs + time.Since(c.began).Milliseconds() }

// with calls the core, and carries out what it asks for.
func (c *Client) with(call func(now int64)) {
	c.mu.Lock()
	call(c.now())
	c.flush()
	c.mu.Unlock()
}

func (c *Client) tick() {
	c.with(func(now int64) {
		c.timerAt = never
		c.core.tick(now)
	})
}

// flush carries out the outputs of the core, and sets the timer.
func (c *Client) flush() {
	for len(c.core.outputs) > 0 {
		outputs := c.core.outputs
		c.core.outputs = nil
		for _, output := range outputs {
			c.carryOut(output)
		}
		if c.core.outputs == nil {
			clear(outputs)
			c.core.outputs = outputs[:0]
		}
	}
	if c.tickets != nil {
		c.tickets.save()
	}
	if at := c.core.wakeAt(); at < c.timerAt {
		c.timerAt = at
		c.timer.Reset(time.Duration(max(0, at-c.now())) * time.Millisecond)
	}
}

func (c *Client) carryOut(output any) {
	switch out := output.(type) {
	case itemsOutput:
		switch s := out.of.shell; {
		case s == nil:
		case out.of.isEnded:
			s.release()
			s.settled()
			s.wake()
		case c.receiving != nil:
			c.receiving.readers = append(c.receiving.readers, s)
		default:
			s.wake()
		}
	case grantedOutput:
		out.of.shell.settled()
		if places := out.of.shell.places; places != nil {
			places.begin(out.of)
		}
	case sendOutput:
		if c.connection != nil {
			c.connection.send(out.frame)
		}
	case settleOutput:
		if out.call.done != nil {
			close(out.call.done)
		}
	case connectOutput:
		c.connect(out.url, out.early)
	case closeOutput:
		if c.connection != nil {
			c.connection.close(out.code)
			c.connection = nil
		}
	case stateOutput:
		close(c.changed)
		c.changed = make(chan struct{})
		if out.state.Phase == Closed {
			c.timer.Stop()
			close(c.ended)
		}
		if c.options.OnState != nil {
			c.callback(func() { c.options.OnState(out.state) })
		}
	case tokenOutput:
		c.askForToken(out)
	case refusedOutput:
		if c.options.OnRefused != nil {
			c.callback(func() { c.options.OnRefused(out.err) })
		}
	case logOutput:
		c.log(out.event)
	}
}

// Ready waits until the client is live. It fails if the client is closed, or the context ends.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.mu.Lock()
		state, changed := c.core.state, c.changed
		c.mu.Unlock()
		switch state.Phase {
		case Live:
			return nil
		case Closed:
			return closedError(state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// State returns what the client is doing.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.state
}

// Inspect returns the state of everything, for people: no payload, token or ticket is in it.
func (c *Client) Inspect() Inspection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.inspect()
}

// Renew hands over a new token. The connection goes on with it.
func (c *Client) Renew(token string) {
	c.with(func(int64) { c.core.renew(token) })
}

// Close waits for the answers of what was called before, at most 5 s or until the context's end, and
// ends the client. Further calls fail with ErrClosed; readers get what is buffered, then io.EOF. It
// may be called more than once.
func (c *Client) Close(ctx context.Context) error {
	if c.persistence != nil {
		c.persistence.idle(ctx)
	}
	c.with(func(now int64) { c.core.close(now, drainTime.Milliseconds()) })
	select {
	case <-c.ended:
	case <-ctx.Done():
		c.with(func(now int64) { c.core.endNow(now) })
	}
	return c.running.wait(ctx)
}

// Subscribe subscribes to a topic or filter, and returns at once, connected or not. The subscription
// ends with the context, or by its Close.
func (c *Client) Subscribe(ctx context.Context, topic string, options ...SubscribeOption) (*Subscription, error) {
	var settings subscribeSettings
	for _, option := range options {
		option(&settings)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	var places *places
	if settings.name != "" {
		if c.options.Storage == nil {
			return nil, invalidArgument("a named subscription needs Options.Storage")
		}
		var err error
		if places, err = c.load(ctx, settings.name); err != nil {
			return nil, err
		}
		if start := places.start(); start != nil {
			start(&settings)
			settings.core.isKept = true
		}
	}
	s := &Subscription{client: c, places: places, reportGaps: settings.reportGaps, batch: c.batch, ready: make(chan struct{}, 1), granted: make(chan struct{})}
	var err error
	c.with(func(now int64) {
		if s.core, err = c.core.subscribe(now, topic, settings.core); err == nil {
			s.core.shell = s
			s.release = context.AfterFunc(ctx, s.Close)
		}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Publish publishes a message and waits for its acknowledgement. If the context ends before, the
// error says whether the message was sent: ErrExpired (never) or ErrUnknown.
func (c *Client) Publish(ctx context.Context, topic string, payload []byte, options ...PublishOption) (Published, error) {
	if err := ctx.Err(); err != nil {
		return Published{}, context.Cause(ctx)
	}
	return c.PublishAsync(topic, payload, options...).Wait(ctx)
}

// PublishAsync publishes a message without waiting. Messages are sent in the order of the calls.
func (c *Client) PublishAsync(topic string, payload []byte, options ...PublishOption) *Publication {
	p := publication{Publish: wire.Publish{Topic: topic, Payload: append([]byte(nil), payload...)}}
	for _, option := range options {
		option(&p)
	}
	result := newPublication(c)
	if c.persistence == nil || !p.once || p.Key != nil {
		c.send(p, result)
		return result
	}
	c.mu.Lock()
	err := c.core.refuseIfClosed()
	c.mu.Unlock()
	if err != nil {
		result.fail(err)
	} else {
		c.persistence.publish(p, result)
	}
	return result
}
