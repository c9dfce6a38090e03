package crore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const callbacksMax = 1_024

// callbacks are calls of the application's functions, in order, in one goroutine that lives while
// there are any. Beyond the bound the oldest are dropped.
type callbacks struct {
	queue     []func()
	isRunning bool
}

// callback calls a function of the application later, without a lock. The client is locked.
func (c *Client) callback(function func()) {
	if len(c.callbacks.queue) == callbacksMax {
		c.callbacks.queue = c.callbacks.queue[1:]
	}
	c.callbacks.queue = append(c.callbacks.queue, function)
	if !c.callbacks.isRunning {
		c.callbacks.isRunning = true
		go c.runCallbacks()
	}
}

func (c *Client) runCallbacks() {
	for {
		c.mu.Lock()
		queue := c.callbacks.queue
		c.callbacks.queue = nil
		c.callbacks.isRunning = len(queue) > 0
		c.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, function := range queue {
			c.guard(function)
		}
	}
}

// guard calls a function; a panic of it harms nobody else (X5).
func (c *Client) guard(function func()) {
	defer func() {
		if reason := recover(); reason != nil {
			c.with(func(now int64) {
				c.core.note(now, LevelError, "callback_failed", "reason", fmt.Sprint(reason))
			})
		}
	}()
	function()
}

// log hands an event to the logger. A logger that panics gets no event about that.
func (c *Client) log(event Event) {
	if event.Name == "callback_failed" {
		return
	}
	levels := map[Level]slog.Level{
		LevelDebug: slog.LevelDebug, LevelInfo: slog.LevelInfo, LevelWarn: slog.LevelWarn, LevelError: slog.LevelError,
	}
	c.callback(func() { c.options.Logger.Log(context.Background(), levels[event.Level], event.Name, event.Fields...) })
}

// askForToken calls the token source in a goroutine of its own: T9.
func (c *Client) askForToken(out tokenOutput) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), tokenSourceMs*time.Millisecond)
		defer cancel()
		token, err := "", errors.New("the token source has panicked")
		c.guard(func() { token, err = c.options.TokenSource(ctx, out.reason) })
		c.with(func(now int64) {
			if err != nil {
				c.core.tokenFailed(now, out.id, errors.Is(err, ErrUnauthorized))
				c.core.after(now)
			} else if token == "" {
				c.core.tokenAnswered(now, out.id, nil)
			} else {
				c.core.tokenAnswered(now, out.id, &token)
			}
		})
	}()
}
