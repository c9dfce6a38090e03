package wire

// Frame is one frame of the server.
type Frame interface{ frame() }

// Keys of options.
const (
	keyToken          = 1
	keyContentType    = 2
	keyTicket         = 3
	keyTag            = 4
	keyReplayCredit   = 5
	keyName           = 6
	keyPolicy         = 7
	keyGoAwayTicket   = 8
	keySubscription   = 10
	keyProducer       = 11
	keyResumed        = 12
	keyIdempotencyKey = 13
	keyTicketLifetime = 14
	keyExpectedEpoch  = 15
	keyCursors        = 17
	keyLineage        = 18
)

// Types of frames that the core treats before all others.
const (
	TypePing    = 0x07
	TypeMessage = 0x84
)

// Welcome answers HELLO.
type Welcome struct {
	Connection       uint64
	PingIntervalS    uint32
	TimeMs           uint64
	FrameBytesMax    uint64
	MessageBytesMax  uint64
	SubscriptionsMax uint32
	Node             *string
	Resumed          *uint32
	TicketLifetimeS  *uint32
}

// Beginning is where a subscription begins; Partition is -1 for a plain topic.
type Beginning struct {
	Partition int64
	Epoch     uint64
	Through   uint64
	Replaying bool
	Continued bool
}

// Subscribed says that a subscription begins.
type Subscribed struct {
	Subscription uint32
	IsFilter     bool
	Alias        uint32
	// Beginnings has one element for a plain topic, and one for each partition of a filter.
	Beginnings []Beginning
}

// Unsubscribed says that a subscription has ended.
type Unsubscribed struct {
	Subscription uint32
	Code         uint32
}

// Tag is a key and a value of a message.
type Tag struct{ Key, Value string }

// Lineage is the low byte of an epoch that advances without loss, plus 256; 0 is none.
type Lineage uint16

// Advance is the first epoch from this one on with the lineage's byte. The upper half of an epoch
// identifies the log.
func (l Lineage) Advance(epoch uint64) uint64 {
	if l == 0 {
		return epoch
	}
	further := uint32(byte(l) - byte(epoch))
	return epoch>>32<<32 | uint64(uint32(epoch)+further)
}

// Record is what all messages have. Payload is a part of the frame's bytes.
type Record struct {
	Offset      uint64
	Prev        uint64
	Retained    bool
	ContentType *string
	Tags        []Tag
	Payload     []byte
	// Lineage is of live messages only.
	Lineage Lineage
}

// Message is a message of a plain topic.
type Message struct {
	Alias uint32
	Record
}

// NamedMessage is a message for filters.
type NamedMessage struct {
	Topic        string
	Partition    uint32
	Epoch        uint64
	Subscription *uint32
	Record
}

// CaughtUp ends a replay. Partition is -1 for a plain topic, here and in the following frames.
type CaughtUp struct {
	Subscription uint32
	Partition    int64
	Through      uint64
	Lineage      Lineage
}

// GapRange is a range of messages that are no longer available.
type GapRange struct {
	From, To uint64
	Reason   string
}

// Gap announces messages that are no longer available.
type Gap struct {
	Subscription uint32
	Partition    int64
	Epoch        uint64
	GapRange
}

// Skipped announces messages that were left out on purpose.
type Skipped struct {
	Subscription  uint32
	Partition     int64
	Epoch         uint64
	From, Through uint64
	Reason        string
	Lineage       Lineage
}

// Published acknowledges PUBLISH.
type Published struct {
	Request   uint32
	Position  Position
	Duplicate bool
}

// HistoryRecord is a message of a page of history.
type HistoryRecord struct {
	Record
	TimeMs uint64
}

// HistoryPage answers HISTORY.
type HistoryPage struct {
	Request uint32
	Reverse bool
	More    bool
	Epoch   uint64
	Head    uint64
	Gap     *GapRange
	Records []HistoryRecord
}

// What an error is about.
const (
	AboutConnection   = 0
	AboutRequest      = 1
	AboutSubscription = 2
)

// ErrorFrame refuses something.
type ErrorFrame struct {
	Reference byte
	ID        uint32
	Code      uint32
	Temporary bool
	Message   string
	Restart   *Position
	Limit     *uint64
}

// GoAway asks to leave, and says when and where to return.
type GoAway struct {
	Code          uint32
	ReturnAfterMs uint64
	URLs          []string
	Ticket        []byte
}

// Renewed answers RENEW.
type Renewed struct {
	Request   uint32
	ExpiresMs uint64
}

// TicketIssued answers TICKET.
type TicketIssued struct {
	Request   uint32
	ExpiresMs uint64
	Ticket    []byte
}

// TokenExpires says that the token expires soon.
type TokenExpires struct{ ExpiresMs uint64 }

// Ping asks for a sign of life.
type Ping struct{ Token uint64 }

// Pong is the answer to a ping.
type Pong struct{ Token uint64 }

func (*Welcome) frame()      {}
func (*Subscribed) frame()   {}
func (*Unsubscribed) frame() {}
func (*Message) frame()      {}
func (*NamedMessage) frame() {}
func (*CaughtUp) frame()     {}
func (*Gap) frame()          {}
func (*Skipped) frame()      {}
func (*Published) frame()    {}
func (*HistoryPage) frame()  {}
func (*ErrorFrame) frame()   {}
func (*GoAway) frame()       {}
func (*Renewed) frame()      {}
func (*TicketIssued) frame() {}
func (*TokenExpires) frame() {}
func (*Ping) frame()         {}
func (*Pong) frame()         {}
