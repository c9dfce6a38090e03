package crore

import (
	"encoding/json"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// Position is a place in a topic's log. Only positions of one topic (of a filter: of one partition)
// can be compared.
type Position struct {
	Epoch  uint64
	Offset uint64
}

// String shows the position as <epoch>:<offset>.
func (p Position) String() string { return wire.Position(p).String() }

// ParsePosition reads what String has written.
func ParsePosition(text string) (Position, error) {
	position, err := wire.ParsePosition(text)
	if err != nil {
		return Position{}, invalidArgument("%q: %v", text, err)
	}
	return Position(position), nil
}

// MarshalText writes a position as String does, so that JSON and flags may have positions.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (p *Position) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePosition(string(text))
	return err
}

func showPosition(position *Position) string {
	if position == nil {
		return "?"
	}
	return position.String()
}

// NoPartition is the partition of items of a plain topic.
const NoPartition = -1

// Item is what a subscription's reader gets, in the log's order: a *Message, *Gap, *Skipped or
// *CaughtUp.
type Item interface{ item() }

// Tag is a key and a value that the publisher has set.
type Tag struct{ Key, Value string }

// Message is a published message.
type Message struct {
	Topic    string
	Position Position
	// Partition is the topic's partition in messages of a filter, else NoPartition.
	Partition   int64
	Payload     []byte
	ContentType string
	Tags        []Tag
	// Retained says that the message was published with Retain.
	Retained bool

	prev   uint64
	timeMs int64
}

// Text returns the payload as text.
func (m *Message) Text() string { return string(m.Payload) }

// JSON decodes the payload. A bad payload fails here, in the caller, and nowhere else.
func (m *Message) JSON(value any) error { return json.Unmarshal(m.Payload, value) }

// Tag returns the first value of a key.
func (m *Message) Tag(key string) (value string, found bool) {
	for _, tag := range m.Tags {
		if tag.Key == key {
			return tag.Value, true
		}
	}
	return "", false
}

// Gap says that messages may be missing: everything behind From up to and including To.
type Gap struct {
	// From and To are nil if they are unknown.
	From, To *Position
	// Cause is evicted, unknown_epoch, beyond_head, history_limit or damaged if the server has
	// announced the gap, unannounced if it has not, reconnected for a filter that began anew, or
	// other for a reason of a newer server.
	Cause     string
	Partition int64
}

// Skipped says that messages were left out on purpose, as a policy says.
type Skipped struct {
	From, Through uint64
	// Reason is conflated, dropped, overflow (see OverflowSkip) or other.
	Reason    string
	Partition int64
}

// CaughtUp says that everything up to the position has been delivered; live messages follow.
type CaughtUp struct {
	Position  Position
	Partition int64
}

func (*Message) item()  {}
func (*Gap) item()      {}
func (*Skipped) item()  {}
func (*CaughtUp) item() {}

// Bases of a report.
const (
	// BasisProved: each message has proved that none is missing before it.
	BasisProved = "proved"
	// BasisAnnounced: the server has announced everything that is missing (filters).
	BasisAnnounced = "announced"
)

// Report says what a subscription has delivered since its begin, over all connections.
type Report struct {
	// Complete: there was no gap and no skip.
	Complete bool
	Basis    string
	Gaps     int
	// Newest are the newest 16 gaps.
	Newest   []*Gap
	Skips    int
	Messages int
	// Position is the cursor of a topic, nil before the first grant.
	Position *Position
	// Positions are the cursors of a filter, by partition.
	Positions map[int64]Position
}

func recordMessage(record *wire.Record) *Message {
	message := newMessage(record.Payload)
	message.Partition, message.Retained, message.prev = NoPartition, record.Retained, record.Prev
	if record.ContentType != nil {
		message.ContentType = *record.ContentType
	}
	if len(record.Tags) > 0 {
		message.Tags = make([]Tag, len(record.Tags))
		for at, tag := range record.Tags {
			message.Tags[at] = Tag(tag)
		}
	}
	return message
}
