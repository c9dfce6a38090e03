package wire

import (
	"bytes"
	"strconv"
)

// Decode decodes one frame of a server. An error is always an *Error. Payloads of messages are parts
// of the frame's bytes, everything else is a copy.
func Decode(frame []byte) (Frame, error) {
	r := &reader{rest: frame}
	kind := r.u8()
	if r.err != nil {
		return nil, r.err
	}
	decode := decoders[kind]
	if decode == nil {
		return nil, errUnknownFrame
	}
	decoded := decode(r)
	if r.err == nil && len(r.rest) > 0 {
		r.fail(errMalformed)
	}
	if r.err != nil {
		return nil, r.err
	}
	return decoded, nil
}

// DecodeMessage decodes a frame of TypeMessage into m, without an allocation of its own.
func DecodeMessage(frame []byte, m *Message) error {
	r := reader{rest: frame[1:]}
	m.read(&r)
	if r.err != nil {
		return r.err
	}
	return nil
}

var decoders = [256]func(*reader) Frame{
	0x07: func(r *reader) Frame { return &Ping{r.token()} },
	0x08: func(r *reader) Frame { return &Pong{r.token()} },
	0x81: welcome,
	0x82: subscribed,
	0x83: unsubscribed,
	0x84: func(r *reader) Frame {
		m := new(Message)
		m.read(r)
		return m
	},
	0x85: namedMessage,
	0x86: caughtUp,
	0x87: gap,
	0x88: skipped,
	0x89: published,
	0x8a: historyPage,
	0x8b: errorFrame,
	0x8c: goAway,
	0x8d: renewed,
	0x8e: ticketIssued,
	0x8f: tokenExpires,
}

// one returns the address of a value that an option brought.
func one[T any](value T) *T { return &value }

func (r *reader) token() uint64 {
	flags := r.flags(0)
	token := r.varint()
	r.skipOptions(flags)
	return token
}

func (m *Message) read(r *reader) {
	flags := r.flags(1)
	m.Alias = r.varint32()
	m.place(r)
	m.attributes(r, flags, nil)
	m.Payload = r.remaining()
}

func (m *Record) place(r *reader) {
	m.Offset = r.varint()
	delta := r.varint()
	if r.err == nil && (delta == 0 || delta > m.Offset) {
		r.fail(errMalformed)
	}
	m.Prev = m.Offset - delta
}

// attributes reads the flags and options of a message; subscription is where its option goes.
func (m *Record) attributes(r *reader, flags byte, subscription **uint32) {
	m.Retained = flags&1 != 0
	m.ContentType, m.Tags, m.Lineage = nil, nil, 0
	if flags&hasOptions == 0 {
		return
	}
	r.options(flags, func(key uint64, value *reader) bool {
		switch {
		case key == keyContentType:
			m.ContentType = one(value.textOf(value.remaining()))
		case key == keyTag:
			tag := Tag{Key: value.text()}
			tag.Value = value.textOf(value.remaining())
			m.Tags = append(m.Tags, tag)
		case key == keySubscription && subscription != nil:
			*subscription = one(value.varint32())
		case key == keyLineage:
			m.Lineage = value.lineage()
		default:
			return false
		}
		return true
	})
}

func (r *reader) lineage() Lineage { return 256 | Lineage(r.u8()) }

// onlyLineage reads the options of a frame that may have a lineage.
func (r *reader) onlyLineage(flags byte) (lineage Lineage) {
	r.options(flags, func(key uint64, value *reader) bool {
		if key == keyLineage {
			lineage = value.lineage()
		}
		return key == keyLineage
	})
	return lineage
}

func namedMessage(r *reader) Frame {
	m := new(NamedMessage)
	flags := r.flags(1)
	m.Topic = r.topic()
	m.Partition = r.varint32()
	m.Epoch = r.varint()
	m.place(r)
	m.attributes(r, flags, &m.Subscription)
	m.Payload = r.remaining()
	return m
}

func welcome(r *reader) Frame {
	flags := r.flags(0)
	if version := r.u8(); r.err == nil && version != 1 {
		r.fail(errUnknownProtocol)
	}
	w := &Welcome{
		Connection:       r.u64le(),
		PingIntervalS:    r.varint32(),
		TimeMs:           r.varint(),
		FrameBytesMax:    r.varint(),
		MessageBytesMax:  r.varint(),
		SubscriptionsMax: r.varint32(),
	}
	r.options(flags, func(key uint64, value *reader) bool {
		switch key {
		case keyName:
			w.Node = one(value.textOf(value.remaining()))
		case keyResumed:
			w.Resumed = one(value.varint32())
		case keyTicketLifetime:
			w.TicketLifetimeS = one(value.varint32())
		default:
			return false
		}
		return true
	})
	return w
}

const (
	isFilter    = 1
	isReplaying = 2
	isContinued = 4
)

func (r *reader) beginning(flags byte, partition int64) Beginning {
	return Beginning{
		Partition: partition,
		Epoch:     r.varint(),
		Through:   r.varint(),
		Replaying: flags&isReplaying != 0,
		Continued: flags&isContinued != 0,
	}
}

func subscribed(r *reader) Frame {
	flags := r.flags(isFilter | isReplaying | isContinued)
	s := &Subscribed{IsFilter: flags&isFilter != 0}
	if s.IsFilter && flags&(isReplaying|isContinued) != 0 {
		r.fail(errUnknownOption)
	}
	s.Subscription = r.varint32()
	if !s.IsFilter {
		s.Alias = r.varint32()
		s.Beginnings = []Beginning{r.beginning(flags, -1)}
		r.skipOptions(flags)
		return s
	}
	r.skipOptions(flags)
	for left := r.varint(); left > 0 && r.err == nil; left-- {
		flags := r.flags(isReplaying | isContinued)
		s.Beginnings = append(s.Beginnings, r.beginning(flags, int64(r.varint32())))
		r.skipOptions(flags)
	}
	return s
}

func unsubscribed(r *reader) Frame {
	flags := r.flags(0)
	u := &Unsubscribed{Subscription: r.varint32(), Code: r.varint32()}
	r.skipOptions(flags)
	return u
}

// partition reads the partition, if the flags announce one.
func (r *reader) partition(flags byte) int64 {
	if flags&1 == 0 {
		return -1
	}
	return int64(r.varint32())
}

func caughtUp(r *reader) Frame {
	flags := r.flags(1)
	c := &CaughtUp{Subscription: r.varint32(), Partition: r.partition(flags), Through: r.varint()}
	c.Lineage = r.onlyLineage(flags)
	return c
}

var gapReasons = []string{"evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"}

func (r *reader) gapRange() GapRange {
	g := GapRange{From: r.varint(), To: r.varint()}
	reason := int(r.u8())
	if reason < len(gapReasons) {
		g.Reason = gapReasons[reason]
	} else {
		g.Reason = strconv.Itoa(reason)
	}
	return g
}

func gap(r *reader) Frame {
	flags := r.flags(1)
	g := &Gap{Subscription: r.varint32(), Partition: r.partition(flags), Epoch: r.varint()}
	g.GapRange = r.gapRange()
	r.skipOptions(flags)
	return g
}

func skipped(r *reader) Frame {
	flags := r.flags(1)
	s := &Skipped{Subscription: r.varint32(), Partition: r.partition(flags)}
	if s.Partition >= 0 {
		s.Epoch = r.varint()
	}
	s.From = r.varint()
	s.Through = r.varint()
	switch reason := r.u8(); reason {
	case 1:
		s.Reason = "conflated"
	case 3:
		s.Reason = "dropped"
	default:
		s.Reason = strconv.Itoa(int(reason))
	}
	s.Lineage = r.onlyLineage(flags)
	return s
}

func published(r *reader) Frame {
	flags := r.flags(1)
	p := &Published{Request: r.varint32(), Position: r.position(), Duplicate: flags&1 != 0}
	r.skipOptions(flags)
	return p
}

func historyPage(r *reader) Frame {
	flags := r.flags(7)
	h := &HistoryPage{Reverse: flags&1 != 0, More: flags&2 != 0}
	r.rest = bytes.Clone(r.rest) // its records keep parts of it
	h.Request = r.varint32()
	h.Epoch = r.varint()
	h.Head = r.varint()
	if flags&4 != 0 {
		h.Gap = one(r.gapRange())
	}
	r.skipOptions(flags)
	for left := r.varint(); left > 0 && r.err == nil; left-- {
		var record HistoryRecord
		flags := r.flags(1)
		record.place(r)
		record.TimeMs = r.varint()
		record.attributes(r, flags, nil)
		record.Payload = r.bytes()
		h.Records = append(h.Records, record)
	}
	return h
}

func errorFrame(r *reader) Frame {
	flags := r.flags(7)
	e := &ErrorFrame{Temporary: flags&1 != 0, Reference: r.u8(), ID: r.varint32()}
	if e.Reference > AboutSubscription || e.Reference == AboutConnection && e.ID != 0 {
		r.fail(errMalformed)
	}
	e.Code = r.varint32()
	e.Message = r.text()
	if flags&2 != 0 {
		e.Restart = one(r.position())
	}
	if flags&4 != 0 {
		e.Limit = one(r.varint())
	}
	r.skipOptions(flags)
	return e
}

func goAway(r *reader) Frame {
	flags := r.flags(0)
	g := &GoAway{Code: r.varint32(), ReturnAfterMs: r.varint()}
	r.options(flags, func(key uint64, value *reader) bool {
		if key != keyGoAwayTicket {
			return false
		}
		g.Ticket = append([]byte{}, value.remaining()...)
		return true
	})
	for left := r.varint(); left > 0 && r.err == nil; left-- {
		g.URLs = append(g.URLs, r.text())
	}
	return g
}

func renewed(r *reader) Frame {
	flags := r.flags(0)
	f := &Renewed{Request: r.varint32(), ExpiresMs: r.varint()}
	r.skipOptions(flags)
	return f
}

func ticketIssued(r *reader) Frame {
	flags := r.flags(0)
	t := &TicketIssued{Request: r.varint32(), ExpiresMs: r.varint(), Ticket: bytes.Clone(r.bytes())}
	r.skipOptions(flags)
	return t
}

func tokenExpires(r *reader) Frame {
	flags := r.flags(0)
	t := &TokenExpires{ExpiresMs: r.varint()}
	r.skipOptions(flags)
	return t
}
