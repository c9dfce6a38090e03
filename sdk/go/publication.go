package crore

import (
	"context"
	"fmt"
)

// Publication is a message on its way: what PublishAsync returns.
type Publication struct {
	client *Client
	call   *call
	err    error
}

// closedChannel is done from the beginning.
var closedChannel = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// Done is closed when the publication is settled.
func (p *Publication) Done() <-chan struct{} {
	if p.err != nil {
		return closedChannel
	}
	return p.call.done
}

// Wait waits for the acknowledgement. If the context ends before, the publication is given up: the
// error says whether it was sent.
func (p *Publication) Wait(ctx context.Context) (Published, error) {
	if p.err != nil {
		return Published{}, p.err
	}
	if err := p.client.wait(ctx, p.call); err != nil {
		return Published{}, err
	}
	return p.call.published, nil
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
