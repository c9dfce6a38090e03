package crore

import "time"

// Phase is what the client is doing.
type Phase string

// Phases of a client.
const (
	// Connecting: an attempt is in progress.
	Connecting Phase = "connecting"
	// Live: the server has welcomed the client.
	Live Phase = "live"
	// Waiting: the next attempt comes later.
	Waiting Phase = "waiting"
	// Closed: the client will not connect again.
	Closed Phase = "closed"
)

// Reasons of the phases Waiting and Closed.
const (
	ReasonNetwork     = "network"     // the connection failed or was cut
	ReasonClosed      = "closed"      // the server has closed it, see Code
	ReasonRefused     = "refused"     // the server has refused the handshake, see Status
	ReasonTimeout     = "timeout"     // the server did not welcome the client in time
	ReasonIdle        = "idle"        // nothing came from the server for too long
	ReasonGoAway      = "go_away"     // the server has sent the client away
	ReasonProtocol    = "protocol"    // the server has broken the protocol
	ReasonUnsupported = "unsupported" // the server speaks a newer protocol
	ReasonToken       = "token"       // the token source has failed
	ReasonRequested   = "requested"   // the application has closed the client
)

// State is the client's phase and why it is there.
type State struct {
	Phase  Phase
	Reason string
	// Code is the server's close code, if it gave one.
	Code int
	// Status is the HTTP status of a refused handshake.
	Status int

	untilMs int64
}

// Until is when the next attempt begins, in the phase Waiting.
func (s State) Until() time.Time {
	if s.Phase != Waiting {
		return time.Time{}
	}
	return time.UnixMilli(s.untilMs)
}
