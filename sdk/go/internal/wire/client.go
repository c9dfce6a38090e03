package wire

import "encoding/binary"

// Kinds of starts of a subscription.
const (
	StartLive = iota
	StartSince
	StartLast
	StartSnapshot
	StartSinceEach
)

// Cursor is the cursor of one partition; Partition is -1 for a plain topic.
type Cursor struct {
	Partition int64
	Position
}

// TicketCursor is a cursor beside a ticket.
type TicketCursor struct {
	Subscription uint32
	Cursor
}

// Start is where a subscription begins.
type Start struct {
	Kind      byte
	Position  Position // of StartSince
	Count     uint32   // of StartLast
	Positions []Cursor // of StartSinceEach
}

// Hello is the first frame.
type Hello struct {
	PingIntervalS uint32
	Token         *string
	Name          *string
	Ticket        []byte // nil for none
	Cursors       []TicketCursor
}

// SubscribeItem asks for one subscription.
type SubscribeItem struct {
	Subscription uint32
	Filter       string
	Start        Start
	FailOnGap    bool
	ReplayCredit *uint32
	Policy       *byte
}

// Publish publishes a message.
type Publish struct {
	Request       uint32
	Topic         string
	Retain        bool
	ContentType   *string
	Tags          []Tag
	ProducerID    []byte // nil for none
	Sequence      uint64
	Key           []byte // nil for none
	ExpectedEpoch *uint64
	Payload       []byte
}

// History asks for a page of history.
type History struct {
	Request    uint32
	Topic      string
	Reverse    bool
	Position   *Position
	RecordsMax uint32
	BytesMax   uint32
}

// options collects the options of a frame: what they encode stands behind the fixed fields.
type options struct {
	count uint64
	bytes []byte
}

func (o *options) add(key uint64, value []byte) {
	o.count++
	o.bytes = binary.AppendUvarint(o.bytes, key)
	o.bytes = appendBytes(o.bytes, value)
}

func (o *options) addText(key uint64, value *string) {
	if value != nil {
		o.add(key, []byte(*value))
	}
}

// flags is flags with the bit that announces the options.
func (o *options) flags(flags byte) byte {
	if o.count > 0 {
		return flags | hasOptions
	}
	return flags
}

func (o *options) appendTo(frame []byte) []byte {
	if o.count == 0 {
		return frame
	}
	frame = binary.AppendUvarint(frame, o.count)
	return append(frame, o.bytes...)
}

func appendBytes[T string | []byte](frame []byte, value T) []byte {
	frame = binary.AppendUvarint(frame, uint64(len(value)))
	return append(frame, value...)
}

func appendPosition(frame []byte, position Position) []byte {
	frame = binary.AppendUvarint(frame, position.Epoch)
	return binary.AppendUvarint(frame, position.Offset)
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// Encode returns the frame.
func (h *Hello) Encode() []byte {
	var o options
	o.addText(keyToken, h.Token)
	o.addText(keyName, h.Name)
	if h.Ticket != nil {
		o.add(keyTicket, h.Ticket)
	}
	if len(h.Cursors) > 0 {
		var list []byte
		for _, cursor := range h.Cursors {
			list = binary.AppendUvarint(list, uint64(cursor.Subscription))
			list = binary.AppendUvarint(list, uint64(cursor.Partition+1))
			list = appendPosition(list, cursor.Position)
		}
		o.add(keyCursors, list)
	}
	frame := binary.AppendUvarint([]byte{0x01, o.flags(0), 1}, uint64(h.PingIntervalS))
	return o.appendTo(frame)
}

// Subscribe returns a SUBSCRIBE frame.
func Subscribe(items []SubscribeItem) []byte {
	frame := binary.AppendUvarint([]byte{0x02, 0}, uint64(len(items)))
	for _, item := range items {
		var o options
		if item.ReplayCredit != nil {
			o.add(keyReplayCredit, binary.AppendUvarint(nil, uint64(*item.ReplayCredit)))
		}
		if item.Policy != nil {
			o.add(keyPolicy, []byte{*item.Policy})
		}
		frame = binary.AppendUvarint(frame, uint64(item.Subscription))
		frame = append(frame, o.flags(flag(item.FailOnGap, 1)))
		frame = appendBytes(frame, item.Filter)
		frame = append(frame, item.Start.Kind)
		switch item.Start.Kind {
		case StartSince:
			frame = appendPosition(frame, item.Start.Position)
		case StartLast:
			frame = binary.AppendUvarint(frame, uint64(item.Start.Count))
		case StartSinceEach:
			frame = binary.AppendUvarint(frame, uint64(len(item.Start.Positions)))
			for _, cursor := range item.Start.Positions {
				frame = binary.AppendUvarint(frame, uint64(cursor.Partition))
				frame = appendPosition(frame, cursor.Position)
			}
		}
		frame = o.appendTo(frame)
	}
	return frame
}

// Unsubscribe returns an UNSUBSCRIBE frame.
func Unsubscribe(subscriptions ...uint32) []byte {
	frame := binary.AppendUvarint([]byte{0x03, 0}, uint64(len(subscriptions)))
	for _, subscription := range subscriptions {
		frame = binary.AppendUvarint(frame, uint64(subscription))
	}
	return frame
}

// Encode returns the frame.
func (p *Publish) Encode() []byte {
	var o options
	o.addText(keyContentType, p.ContentType)
	for _, tag := range p.Tags {
		o.add(keyTag, append(appendBytes(nil, tag.Key), tag.Value...))
	}
	if p.ProducerID != nil {
		o.add(keyProducer, append(binary.AppendUvarint(nil, p.Sequence), p.ProducerID...))
	}
	if p.Key != nil {
		o.add(keyIdempotencyKey, p.Key)
	}
	if p.ExpectedEpoch != nil {
		o.add(keyExpectedEpoch, binary.AppendUvarint(nil, *p.ExpectedEpoch))
	}
	frame := make([]byte, 0, 16+len(p.Topic)+len(o.bytes)+len(p.Payload))
	frame = append(frame, 0x04, o.flags(flag(p.Retain, 1)))
	frame = binary.AppendUvarint(frame, uint64(p.Request))
	frame = appendBytes(frame, p.Topic)
	frame = o.appendTo(frame)
	return append(frame, p.Payload...)
}

// Encode returns the frame.
func (h *History) Encode() []byte {
	frame := []byte{0x05, flag(h.Reverse, 1) | flag(h.Position != nil, 2)}
	frame = binary.AppendUvarint(frame, uint64(h.Request))
	frame = appendBytes(frame, h.Topic)
	if h.Position != nil {
		frame = appendPosition(frame, *h.Position)
	}
	frame = binary.AppendUvarint(frame, uint64(h.RecordsMax))
	return binary.AppendUvarint(frame, uint64(h.BytesMax))
}

// Credit returns a CREDIT frame.
func Credit(subscription, messages uint32) []byte {
	frame := binary.AppendUvarint([]byte{0x06, 0}, uint64(subscription))
	return binary.AppendUvarint(frame, uint64(messages))
}

// EncodePing returns a PING frame.
func EncodePing(token uint64) []byte { return binary.AppendUvarint([]byte{0x07, 0}, token) }

// EncodePong returns a PONG frame.
func EncodePong(token uint64) []byte { return binary.AppendUvarint([]byte{0x08, 0}, token) }

// Renew returns a RENEW frame.
func Renew(request uint32, token string) []byte {
	return appendBytes(binary.AppendUvarint([]byte{0x09, 0}, uint64(request)), token)
}

// Ticket returns a TICKET frame.
func Ticket(request uint32) []byte { return binary.AppendUvarint([]byte{0x0a, 0}, uint64(request)) }
