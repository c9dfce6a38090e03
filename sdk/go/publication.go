package crore

import (
	"context"
	"fmt"
)

// Publication is a message on its way: what PublishAsync returns.
type Publication struct {
	client *Client
	// done is closed when the publication is settled.
	done chan struct{}

	// The client's lock guards what follows until done is closed.
	call      *call // nil before it is stored, or if it was refused
	err       error
	isSettled bool // without a call
}

func newPublication(c *Client) *Publication {
	return &Publication{client: c, done: make(chan struct{})}
}

// Done is closed when the publication is settled.
func (p *Publication) Done() <-chan struct{} { return p.done }

// Wait waits for the acknowledgement. If the context ends before, the publication is given up: the
// error says whether it was sent.
func (p *Publication) Wait(ctx context.Context) (Published, error) {
	select {
	case <-p.done:
		return p.result()
	case <-ctx.Done():
	}
	p.client.with(func(now int64) {
		if p.call == nil {
			p.settle(ErrExpired)
		} else if !p.call.isSettled {
			p.client.core.abandon(now, p.call)
		}
	})
	<-p.done
	published, err := p.result()
	if err != nil {
		err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	return published, err
}

// result is what Wait returns, once the publication is settled.
func (p *Publication) result() (Published, error) {
	if p.call == nil {
		return Published{}, p.err
	}
	return p.call.published, p.call.err
}

// settle ends a publication without a call. The client is locked.
func (p *Publication) settle(err error) {
	if !p.isSettled {
		p.isSettled, p.err = true, err
		close(p.done)
	}
}

func (p *Publication) fail(err error) {
	p.client.with(func(int64) { p.settle(err) })
}

// send hands a publication to the core.
func (c *Client) send(one publication, result *Publication) {
	c.with(func(now int64) {
		if result.isSettled {
			return
		}
		it, err := c.core.publish(now, one)
		if err != nil {
			result.settle(err)
			return
		}
		result.call, it.done = it, result.done
	})
}

// wait waits until a call is settled, and gives it up at the context's end.
func (c *Client) wait(ctx context.Context, it *call) error {
	select {
	case <-it.done:
		return it.err
	case <-ctx.Done():
	}
	c.with(func(now int64) {
		if !it.isSettled {
			c.core.abandon(now, it)
		}
	})
	<-it.done
	if it.err != nil {
		return fmt.Errorf("%w (%w)", it.err, context.Cause(ctx))
	}
	return nil
}
