package crore

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
)

// Subscription is a subscription to a topic or filter. It outlives connections. Its items are read by
// one of Next, Receive, Items and Messages.
type Subscription struct {
	client     *Client
	core       *subscription
	reportGaps bool
	// places are stored, if the subscription has a name.
	places *places
	// ready has an element if there may be items.
	ready chan struct{}
	// granted is closed when the server has granted the subscription, or it has ended.
	granted chan struct{}
	// The client's lock guards isSet, which says that granted is closed, and release, which forgets
	// the context that ends the subscription.
	isSet   bool
	release func() bool
	batch   int

	// mu guards what follows.
	mu sync.Mutex
	// taken are the items that were taken from the core together; those before next are gone.
	taken []Item
	next  int
}

func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// settled closes granted. The client is locked.
func (s *Subscription) settled() {
	if !s.isSet {
		s.isSet = true
		close(s.granted)
	}
}

// Ready waits until the server has granted the subscription for the first time: from then on it
// misses nothing. It fails if the subscription ends before.
func (s *Subscription) Ready(ctx context.Context) error {
	select {
	case <-s.granted:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if s.core.wasGranted {
		return nil
	}
	if s.core.endErr == nil {
		return io.EOF
	}
	return s.core.endErr
}

// Topic returns the topic or filter.
func (s *Subscription) Topic() string { return s.core.filter }

// Report says what the subscription has received, and whether it is complete.
func (s *Subscription) Report() Report {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.core.report()
}

// Close ends the subscription; no item comes afterwards. It may be called more than once.
func (s *Subscription) Close() {
	s.client.with(func(now int64) {
		if !s.core.isEnded {
			s.client.core.unsubscribe(now, s.core)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken, s.next = nil, 0
}

// Next returns the next item. After the end it returns io.EOF if the application has ended the
// subscription or the client, else the reason, such as the server's *Error.
func (s *Subscription) Next(ctx context.Context) (Item, error) {
	if s.places != nil {
		s.places.asks()
	}
	for {
		item, err := s.take()
		if item != nil && s.places != nil {
			s.places.delivers(item)
		}
		if item != nil || err != nil {
			return item, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take returns an item or the end, or nothing.
func (s *Subscription) take() (Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == len(s.taken) {
		if err := s.refill(); err != nil || len(s.taken) == 0 {
			return nil, err
		}
	}
	item := s.taken[s.next]
	s.taken[s.next] = nil
	s.next++
	if s.next < len(s.taken) {
		s.wake() // for other readers
	}
	return item, nil
}

// refill takes the next items from the core; the error is the end.
func (s *Subscription) refill() error {
	c := s.client
	c.mu.Lock()
	s.taken, s.next = c.core.take(c.now(), s.core, s.batch, s.taken[:0]), 0
	ended, err := s.core.isEnded, s.core.endErr
	c.flush()
	c.mu.Unlock()
	if len(s.taken) > 0 || !ended {
		return nil
	}
	s.wake() // for other readers
	if err == nil {
		return io.EOF
	}
	return err
}

// Items returns the items until the end. The last element has an error, unless the application has
// ended the subscription.
func (s *Subscription) Items(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			item, err := s.Next(ctx)
			if errors.Is(err, io.EOF) || !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Receive returns the next message. In place of a gap it returns a *GapError, unless the
// subscription has ReportGaps; the next call goes on behind the gap.
func (s *Subscription) Receive(ctx context.Context) (*Message, error) {
	for {
		item, err := s.Next(ctx)
		if err != nil {
			return nil, err
		}
		switch item := item.(type) {
		case *Message:
			return item, nil
		case *Gap:
			if !s.reportGaps {
				return nil, &GapError{item}
			}
		}
	}
}

// Messages returns the messages. It ends with a *GapError in place of a gap, unless the subscription
// has ReportGaps; calling it again goes on behind the gap.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for {
			message, err := s.Receive(ctx)
			if errors.Is(err, io.EOF) || !yield(message, err) || err != nil {
				return
			}
		}
	}
}
