package crore

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// Options are the options of a client. The zero value is good.
type Options struct {
	// Token is a fixed token. With TokenSource it is the first one.
	Token string
	// TokenSource gives tokens: at the start, when one expires, and when one is refused. Each call has
	// 10 s. An empty token means that there is no new one. An error is retried, but ErrUnauthorized
	// ends the client.
	TokenSource func(ctx context.Context, reason TokenReason) (string, error)
	// Name is the client's name in the node's logs.
	Name string
	// ProducerID identifies this client's publications that are Once; by default 16 random bytes. Two
	// clients with one id fence each other.
	ProducerID []byte
	// BufferItems and BufferBytes bound the buffer of each subscription: 1,024 items and 1 MiB. A full
	// buffer pauses its subscription only; the server's log keeps what the reader has not taken.
	BufferItems, BufferBytes int
	// Storage keeps the processed positions of subscriptions that are Named over restarts of the
	// program.
	Storage Storage
	// Persist keeps publications that are Once in Storage as well, until they are answered: the next
	// start of the program sends what is left. Two running clients must not share storage and Name.
	Persist bool
	// StoreTickets keeps the resume ticket in Storage as well: the next start of the program resumes in
	// one frame, if all its subscriptions are Named and begin before the first connection is open. A
	// ticket is a secret: it opens a session without a token. By default it stays in memory.
	StoreTickets bool
	// Logger gets the events of the client. Payloads, tokens and tickets are never among them.
	Logger *slog.Logger
	// OnState is called after each change of the state, in order.
	OnState func(State)
	// OnRefused is called with errors that belong to no call: about the connection, or a new token.
	OnRefused func(error)
	// TLS has the trusted certificates, and the client's own, for URLs with wss.
	TLS *tls.Config
	// HTTPClient makes the handshakes, for proxies and transports of one's own; then TLS is not used.
	// A client of its own receives faster and sends in fewer writes.
	HTTPClient *http.Client
	// Header goes with each handshake.
	Header http.Header

	backoff *backoffSettings
}

// Policy says what the server does with a subscription that lags.
type Policy byte

// Policies of a subscription.
const (
	PolicyReplay     Policy = iota // the server reads it from the log until it has caught up
	PolicyConflate                 // the newest message of each topic
	PolicyDrop                     // live messages, after a skip
	PolicyDisconnect               // the client asks again from its cursor
)

// SubscribeOption is an option of Subscribe. Without one, a subscription begins live.
type SubscribeOption func(*subscribeSettings)

type subscribeSettings struct {
	core       subscriptionOptions
	reportGaps bool
	name       string
}

// Since begins behind a position of a topic.
func Since(position Position) SubscribeOption {
	return func(s *subscribeSettings) {
		s.core.start = wire.Start{Kind: wire.StartSince, Position: wire.Position(position)}
	}
}

// SinceEach begins behind a position of each partition of a filter: see Report.Positions.
func SinceEach(positions map[int64]Position) SubscribeOption {
	return func(s *subscribeSettings) {
		s.core.start = wire.Start{Kind: wire.StartSinceEach}
		for partition, position := range positions {
			cursor := wire.Cursor{Partition: partition, Position: wire.Position(position)}
			s.core.start.Positions = append(s.core.start.Positions, cursor)
		}
	}
}

// Last begins with the last messages of a topic.
func Last(count uint32) SubscribeOption {
	return func(s *subscribeSettings) { s.core.start = wire.Start{Kind: wire.StartLast, Count: count} }
}

// Snapshot begins with a topic's retained message, else its newest one.
func Snapshot() SubscribeOption {
	return func(s *subscribeSettings) { s.core.start = wire.Start{Kind: wire.StartSnapshot} }
}

// Named stores the processed position by this name in Options.Storage, and begins behind it when the
// program starts again; the first time, the subscription has its other start. An item is processed
// when the reader asks for the next one.
func Named(name string) SubscribeOption {
	return func(s *subscribeSettings) { s.name = name }
}

// FailOnGap ends the subscription, with the position to restart from, where it would have a gap.
func FailOnGap() SubscribeOption {
	return func(s *subscribeSettings) { s.core.failOnGap = true }
}

// WithPolicy says what the server does when the subscription lags.
func WithPolicy(policy Policy) SubscribeOption {
	return func(s *subscribeSettings) {
		number := byte(policy)
		s.core.policy = &number
	}
}

// OverflowSkip drops the oldest items of a full buffer, for topics without history. A Skipped item
// stands in their place.
func OverflowSkip() SubscribeOption {
	return func(s *subscribeSettings) { s.core.overflowSkips = true }
}

// ReportGaps makes Receive and Messages leave out gaps: they only count in Report.
func ReportGaps() SubscribeOption {
	return func(s *subscribeSettings) { s.reportGaps = true }
}

// PublishOption is an option of Publish.
type PublishOption func(*publication)

// Once keeps the publication until it is answered, and repeats it on the next connection: it is in
// the log exactly once. Publications that are Once are in order.
func Once() PublishOption { return func(p *publication) { p.once = true } }

// OnceKey is Once by a key of 1 to 128 bytes, which is unique among the topic's messages.
func OnceKey(key []byte) PublishOption {
	return func(p *publication) { p.once, p.Key = true, append([]byte{}, key...) }
}

// Retain makes the message the topic's retained one as well; an empty payload clears that.
func Retain() PublishOption { return func(p *publication) { p.Retain = true } }

// ContentType is the payload's media type.
func ContentType(contentType string) PublishOption {
	return func(p *publication) { p.ContentType = &contentType }
}

// WithTag adds a tag. Tags keep their order, and a key may repeat.
func WithTag(key, value string) PublishOption {
	return func(p *publication) { p.Tags = append(p.Tags, wire.Tag{Key: key, Value: value}) }
}

// ExpectedEpoch publishes in this epoch of the log only.
func ExpectedEpoch(epoch uint64) PublishOption {
	return func(p *publication) { p.ExpectedEpoch = &epoch }
}

// Timeout settles the call at the latest after this time, in place of 10 s (Once: 60 s).
func Timeout(timeout time.Duration) PublishOption {
	return func(p *publication) { p.timeoutMs = max(1, timeout.Milliseconds()) }
}
