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
	// ready has an element if there may be items.
	ready chan struct{}
	batch int

	// mu guards what follows.
	mu sync.Mutex
	// taken are the items that were taken from the core together.
	taken []Item
	// release forgets the context that ends the subscription.
	release func() bool
}

// follow ends the subscription with a context.
func (s *Subscription) follow(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release = context.AfterFunc(ctx, s.Close)
}

func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
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
	s.taken = nil
	s.release()
}

// Next returns the next item. After the end it returns io.EOF if the application has ended the
// subscription or the client, else the reason, such as the server's *Error.
func (s *Subscription) Next(ctx context.Context) (Item, error) {
	for {
		item, err := s.take()
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
	if len(s.taken) == 0 {
		var ended bool
		var endErr error
		s.client.with(func(now int64) {
			s.taken = s.client.core.take(now, s.core, s.batch)
			ended, endErr = s.core.isEnded, s.core.endErr
		})
		if len(s.taken) == 0 {
			if !ended {
				return nil, nil
			}
			s.wake() // for other readers
			s.release()
			if endErr == nil {
				endErr = io.EOF
			}
			return nil, endErr
		}
	}
	item := s.taken[0]
	s.taken[0] = nil
	s.taken = s.taken[1:]
	if len(s.taken) == 0 {
		s.taken = nil
	}
	s.wake()
	return item, nil
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
