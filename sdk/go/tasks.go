package crore

import (
	"context"
	"sync"
)

// tasks counts the goroutines of a client. Unlike sync.WaitGroup, one may begin while Close waits.
type tasks struct {
	mu    sync.Mutex
	count int
	// none is closed when the count becomes zero.
	none chan struct{}
}

func (t *tasks) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count++; t.count == 1 {
		t.none = make(chan struct{})
	}
}

func (t *tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count == 0 {
		close(t.none)
	}
}

func (t *tasks) wait(ctx context.Context) error {
	t.mu.Lock()
	count, none := t.count, t.none
	t.mu.Unlock()
	if count == 0 {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
