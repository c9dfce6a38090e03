package crore

import (
	"container/list"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// Publications and pages of history, from the call to the one answer: U, H.

const (
	keptMax         = 1_000 // U12
	keptBytesMax    = 4 << 20
	waitingBytesMax = 64 << 20 // everything has a bound, calls without a connection too
	refusalsMax     = 10       // U8
	refusedMs       = 200
	refusedMsMax    = 5_000
	timeoutMs       = 10_000 // U11
	timeoutOnceMs   = 60_000
	callBytes       = 128
)

// publication is what the application publishes.
type publication struct {
	wire.Publish
	// once: kept until it is answered; with a key, by that, else by the client's sequence.
	once      bool
	timeoutMs int64
}

// call is one request of the application, with one result.
type call struct {
	topic        string
	payloadBytes int
	isPage       bool
	isOnce       bool
	isNumbered   bool
	until        int64

	// encode makes the frame, once the call has its number.
	encode  func(request uint32) []byte
	request uint32
	frame   []byte
	// isRefused: refused for the moment, and not on its way.
	isRefused bool
	refusals  int

	isWaiting, isKept, isSent *list.Element

	isSettled bool
	err       error
	published Published
	page      *wire.HistoryPage
	// done is the shell's: closed when the call is settled.
	done chan struct{}
}

// Published acknowledges a publication.
type Published struct {
	// Position is the position of the message.
	Position Position
	// Duplicate says that the log already had it: the position is that of the first copy.
	Duplicate bool
}

type callsHost interface {
	newRequest() uint32
	send(frame []byte)
	settled(*call)
}

type calls struct {
	host       callsHost
	producerID []byte
	// payloadMax is WELCOME's limit, or 0.
	payloadMax uint64
	isFenced   bool
	// deadline: no call settles by its timeout before.
	deadline int64
	// retryAt is when those refused for the moment are repeated, or 0.
	retryAt       int64
	repeatedCount int

	waiting      list.List
	waitingBytes int
	sent         map[uint32]*call
	sentOrder    list.List
	kept         list.List
	onceCount    int
	onceBytes    int
	lastSequence uint64
	refusedUntil int64 // 0: none is refused
	hasGivenUp   bool
}

func newCalls(host callsHost, producerID []byte) *calls {
	return &calls{host: host, producerID: producerID, deadline: never, sent: make(map[uint32]*call)}
}

func (c *calls) inFlight() int { return len(c.sent) }

func (c *calls) isIdle() bool {
	return len(c.sent) == 0 && c.waiting.Len() == 0 && c.kept.Len() == 0
}

func checkTopic(topic string) error {
	if len(topic) == 0 || len(topic) > wire.TopicBytesMax {
		return invalidArgument("a topic has 1 to %d bytes", wire.TopicBytesMax)
	}
	return nil
}

func (c *calls) tooLong(bytes int) error {
	if c.payloadMax > 0 && uint64(bytes) > c.payloadMax {
		return invalidArgument("the payload is longer than %d bytes", c.payloadMax)
	}
	return nil
}

func (c *calls) publish(now int64, p publication) (*call, error) {
	if err := checkTopic(p.Topic); err != nil {
		return nil, err
	}
	if err := c.tooLong(len(p.Payload)); err != nil {
		return nil, err
	}
	if p.Key != nil && (len(p.Key) < 1 || len(p.Key) > 128) {
		return nil, invalidArgument("a key has 1 to 128 bytes")
	}
	it := &call{
		topic: p.Topic, payloadBytes: len(p.Payload), isOnce: p.once, isNumbered: p.once && p.Key == nil,
		until: now + timeoutMs,
	}
	if it.isNumbered && c.isFenced {
		return nil, ErrFenced
	}
	if p.once {
		it.until = now + timeoutOnceMs
		bytes := it.payloadBytes + callBytes
		if c.onceCount >= keptMax || c.onceBytes+bytes > keptBytesMax {
			return nil, ErrQueueFull
		}
	}
	if p.timeoutMs > 0 {
		it.until = now + p.timeoutMs
	}
	it.encode = func(request uint32) []byte {
		p.Request = request
		if it.isNumbered {
			if p.Sequence == 0 {
				c.lastSequence++
				p.Sequence = c.lastSequence
			}
			p.ProducerID = c.producerID
		}
		return p.Encode()
	}
	return it, c.add(it)
}

func (c *calls) history(now int64, h wire.History) (*call, error) {
	if err := checkTopic(h.Topic); err != nil {
		return nil, err
	}
	it := &call{topic: h.Topic, isPage: true, until: now + timeoutMs}
	it.encode = func(request uint32) []byte {
		h.Request = request
		return h.Encode()
	}
	return it, c.add(it)
}

func (c *calls) add(it *call) error {
	if c.waitingBytes+it.payloadBytes+callBytes > waitingBytesMax {
		return ErrQueueFull
	}
	if it.isOnce {
		c.onceCount++
		c.onceBytes += it.payloadBytes + callBytes
	}
	it.isWaiting = c.waiting.PushBack(it)
	c.waitingBytes += it.payloadBytes + callBytes
	c.deadline = min(c.deadline, it.until)
	return nil
}

// all returns the calls of a list: those that a loop may take out of it.
func all(from *list.List) []*call {
	calls := make([]*call, 0, from.Len())
	for at := from.Front(); at != nil; at = at.Next() {
		calls = append(calls, at.Value.(*call))
	}
	return calls
}

// pump sends what waits, in the order of the calls: U1.
func (c *calls) pump() {
	for at := c.waiting.Front(); at != nil; {
		it := at.Value.(*call)
		at = at.Next()
		if it.isOnce && c.refusedUntil != 0 {
			continue // U8: nothing new before what was refused
		}
		c.unqueue(it)
		if err := c.tooLong(it.payloadBytes); err != nil {
			c.settle(it, err)
			continue
		}
		it.request = c.host.newRequest()
		it.frame = it.encode(it.request)
		if it.isOnce {
			it.isKept = c.kept.PushBack(it)
		}
		c.transmit(it)
		it.encode = nil
		if !it.isOnce {
			it.frame = nil
		}
	}
}

func (c *calls) transmit(it *call) {
	it.isRefused = false
	c.sent[it.request] = it
	if it.isSent == nil {
		it.isSent = c.sentOrder.PushBack(it)
	}
	c.host.send(it.frame)
}

func (c *calls) unsend(it *call) {
	if it.isSent != nil {
		delete(c.sent, it.request)
		c.sentOrder.Remove(it.isSent)
		it.isSent = nil
	}
}

// repeat sends everything kept again: U7.
func (c *calls) repeat() {
	c.refusedUntil, c.retryAt, c.hasGivenUp = 0, 0, false
	c.repeatedCount += c.kept.Len()
	for _, it := range all(&c.kept) {
		c.transmit(it)
	}
}

func (c *calls) repeatRefused(now int64) {
	if c.retryAt != 0 && now >= c.retryAt {
		c.repeat()
	}
}

// published takes an answer; false if it is about nothing.
func (c *calls) published(frame *wire.Published) bool {
	it := c.sent[frame.Request]
	if it == nil || it.isPage {
		return false
	}
	it.published = Published{Position(frame.Position), frame.Duplicate}
	c.settle(it, nil)
	return true
}

func (c *calls) historyPage(frame *wire.HistoryPage) bool {
	it := c.sent[frame.Request]
	if it == nil || !it.isPage {
		return false
	}
	it.page = frame
	c.settle(it, nil)
	return true
}

// settle is the only end of a call: U14.
func (c *calls) settle(it *call, err error) {
	if it.isSettled {
		return
	}
	it.isSettled, it.err = true, err
	c.unqueue(it)
	c.unsend(it)
	if it.isKept != nil {
		c.kept.Remove(it.isKept)
		it.isKept = nil
	}
	if it.isOnce {
		c.onceCount--
		c.onceBytes -= it.payloadBytes + callBytes
		if c.refusedUntil != 0 {
			c.planRepeat()
		}
	}
	it.frame, it.encode = nil, nil
	c.host.settled(it)
}

func (c *calls) unqueue(it *call) {
	if it.isWaiting != nil {
		c.waiting.Remove(it.isWaiting)
		it.isWaiting = nil
		c.waitingBytes -= it.payloadBytes + callBytes
	}
}

// planRepeat: those refused are repeated once all others have their answers (U8).
func (c *calls) planRepeat() {
	areAll, isAny := true, false
	for at := c.kept.Front(); at != nil; at = at.Next() {
		if at.Value.(*call).isRefused {
			isAny = true
		} else {
			areAll = false
		}
	}
	if !isAny {
		c.refusedUntil = 0
	}
	c.retryAt = 0
	if areAll {
		c.retryAt = c.refusedUntil
	}
}

// refuse takes an ERROR about a request; false if it is about nothing.
func (c *calls) refuse(now int64, request uint32, err *Error) bool {
	it := c.sent[request]
	if it == nil {
		return false
	}
	if err.Temporary && it.isOnce && c.putOff(now, it) {
		return true
	}
	if err.Code == CodeProducerFenced && it.isNumbered {
		c.fence(err)
	}
	c.settle(it, err)
	return true
}

// putOff takes a temporary refusal; false if it is the answer: U8.
func (c *calls) putOff(now int64, it *call) bool {
	if c.refusedUntil == 0 && !c.hasGivenUp && it.refusals >= refusalsMax {
		c.hasGivenUp = true
		return false
	}
	delay := min(int64(refusedMs)<<it.refusals, refusedMsMax)
	it.refusals = min(it.refusals+1, refusalsMax)
	it.isRefused = true
	c.unsend(it)
	c.refusedUntil = max(c.refusedUntil, now+delay)
	c.planRepeat()
	return true
}

// fence is U9.
func (c *calls) fence(err *Error) {
	c.isFenced = true
	for _, it := range append(all(&c.kept), all(&c.waiting)...) {
		if it.isNumbered {
			c.settle(it, err)
		}
	}
}

// connectionLost settles what cannot be repeated: U2.
func (c *calls) connectionLost() {
	for _, it := range all(&c.sentOrder) {
		if it.isOnce {
			c.unsend(it)
		} else {
			c.settle(it, ErrUnknown)
		}
	}
	c.retryAt = 0
}

// expire gives a call up: U11.
func (c *calls) expire(it *call) {
	if it.request == 0 {
		c.settle(it, ErrExpired)
	} else {
		c.settle(it, ErrUnknown)
	}
}

func (c *calls) expireDue(now int64) {
	c.deadline = never
	for _, from := range []*list.List{&c.waiting, &c.kept, &c.sentOrder} {
		for _, it := range all(from) {
			if it.until <= now {
				c.expire(it)
			} else {
				c.deadline = min(c.deadline, it.until)
			}
		}
	}
}

// end is the end of the client: X2.
func (c *calls) end() {
	for _, it := range append(all(&c.sentOrder), all(&c.kept)...) {
		c.settle(it, ErrUnknown)
	}
	for _, it := range all(&c.waiting) {
		c.settle(it, ErrClosed)
	}
	c.deadline = never
}
