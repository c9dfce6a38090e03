package crore

// Counters count what has happened since the client began.
type Counters struct {
	Connections int // welcomes
	Messages    int // handed on
	Duplicates  int // dropped, because they were settled before
	Unexpected  int // frames about nothing
	Gaps        int
	Skips       int
	Repeated    int // publications that were sent again
}

// Level is the level of an event.
type Level string

// Levels of events.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// Event is one event of the log. The names are those of spec/sdk.md, section 12.
type Event struct {
	AtMs  int64 // milliseconds since 1970
	Level Level
	Name  string
	// Fields are keys and values in turn, as package log/slog takes them. No payload, token or ticket
	// is among them.
	Fields []any
}

// Queue counts the calls that have not settled.
type Queue struct {
	Waiting   int // for a connection
	Sent      int
	Once      int // kept until they are answered
	OnceBytes int
}

// SubscriptionInspection is the state of one subscription.
type SubscriptionInspection struct {
	Topic    string
	Granted  bool
	Paused   bool // until the reader has freed half of its buffer
	Buffered int
	Bytes    int
	Report   Report
}

// Inspection is the state of a client, for people.
type Inspection struct {
	State State
	// RoundTripMs is the last measured round trip, or -1.
	RoundTripMs   int64
	Subscriptions []SubscriptionInspection
	Queue         Queue
	Counters      Counters
	// Events are the newest 64.
	Events []Event
}

func (c *core) inspect() Inspection {
	counters := c.counters
	counters.Repeated = c.calls.repeatedCount
	inspection := Inspection{
		State: c.state, RoundTripMs: c.roundTripMs, Counters: counters, Events: append([]Event(nil), c.events...),
		Queue: Queue{c.calls.waiting.Len(), len(c.calls.sent), c.calls.onceCount, c.calls.onceBytes},
	}
	for _, it := range c.subscriptions {
		inspection.Subscriptions = append(inspection.Subscriptions, SubscriptionInspection{
			it.filter, it.isGranted, it.isPaused, it.count, it.bytes, it.report(),
		})
	}
	return inspection
}
