package crore

// TokenReason says why a token source is called.
type TokenReason string

// Reasons of calls of a token source.
const (
	// TokenFirst: the client has no token yet.
	TokenFirst TokenReason = "first"
	// TokenExpires: the token expires soon, or has expired.
	TokenExpires TokenReason = "expires"
	// TokenRefused: the server has refused the token.
	TokenRefused TokenReason = "refused"
)

const tokenSourceMs = 10_000 // T9

// asked is one call of the token source.
type asked struct {
	id     int
	reason TokenReason
	// forAttempt: the next attempt waits for it.
	forAttempt bool
	until      int64
}

// tokens has the token, the calls of its source, and the renewal on the wire.
type tokens struct {
	token     *string
	hasSource bool
	// needed says why the next attempt needs a token.
	needed TokenReason
	asked  *asked
	// request is that of the renewal on the wire, or 0.
	request uint32
	// isDue: a newer token waits for the wire.
	isDue bool
	// retryAt is when the source is called again for a renewal, or 0.
	retryAt    int64
	failures   int
	lastID     int
	wasRefused bool
}

// take takes a token; false if it is the one that the client has (T3).
func (t *tokens) take(token string) bool {
	if t.token != nil && *t.token == token {
		return false
	}
	t.token = &token
	return true
}

// ask begins a call of the source; 0 if one is in progress.
func (t *tokens) ask(now int64, reason TokenReason, forAttempt bool) int {
	if t.asked != nil && !forAttempt {
		return 0
	}
	t.lastID++
	t.asked = &asked{t.lastID, reason, forAttempt, now + tokenSourceMs}
	t.needed = ""
	return t.lastID
}

// answered ends the call with this id; nil if its result is of no use any more.
func (t *tokens) answered(id int) *asked {
	it := t.asked
	if it == nil || it.id != id {
		return nil
	}
	t.asked = nil
	return it
}

func (t *tokens) accepted() {
	t.wasRefused = false
	t.failures = 0
}

// refusedOnce reports whether the source gets one more chance: T7.
func (t *tokens) refusedOnce() bool {
	if !t.hasSource || t.wasRefused {
		return false
	}
	t.wasRefused = true
	return true
}

// settled takes the answer to a renewal; false if there is none.
func (t *tokens) settled(request uint32) bool {
	if t.request == 0 || t.request != request {
		return false
	}
	t.request = 0
	return true
}

func (t *tokens) connectionLost() {
	t.request, t.retryAt, t.isDue = 0, 0, false
	if t.asked != nil && !t.asked.forAttempt {
		t.asked = nil
	}
}
