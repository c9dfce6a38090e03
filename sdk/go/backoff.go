package crore

import "math"

// backoffSettings are the waits of C4.
type backoffSettings struct {
	baseMs, maxMs int64
	// resetAfterMs: a connection that lasted so long resets the waits.
	resetAfterMs int64
}

type backoff struct {
	settings backoffSettings
	random   func() float64
	attempts int
}

// next is the wait after a connection that lasted so long; 0 if it was none.
func (b *backoff) next(lastedMs int64) int64 {
	if lastedMs >= b.settings.resetAfterMs {
		b.attempts = 0
	}
	wait := b.delay(b.attempts)
	b.attempts++
	return wait
}

// delay is a random wait before attempt n.
func (b *backoff) delay(n int) int64 {
	bound := min(b.settings.baseMs<<min(n, 30), b.settings.maxMs)
	return int64(math.Floor(b.random() * float64(bound)))
}

var defaultBackoff = backoffSettings{baseMs: 500, maxMs: 30_000, resetAfterMs: 10_000}
