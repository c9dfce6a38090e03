package crore

import (
	"fmt"
	"strconv"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// Error is the one type of the client's errors: the server's refusals, with the number and name of
// spec/codes.toml, and the client's own errors, which have no number. Compare the latter with
// errors.Is(err, crore.ErrUnknown), and the former by Code.
type Error struct {
	// Code is the server's number, or 0. Unknown numbers are kept.
	Code uint32
	// Name is the name of the code, or of the client's own error.
	Name string
	// Temporary says that the same request may succeed later.
	Temporary bool
	// Message is for people.
	Message string
	// Restart is the position to continue from, if the server names one.
	Restart *Position
	// Limit is the exceeded limit, if the server names it.
	Limit *uint64
}

// The client's own errors, for errors.Is.
var (
	// ErrUnknown: the request was sent and its answer never came. It may have been carried out.
	ErrUnknown = &Error{Name: "Unknown", Message: "the answer never came: the request may have been carried out"}
	// ErrExpired: the timeout came before the request was sent. It will not be.
	ErrExpired = &Error{Name: "Expired", Message: "the request was not sent in time"}
	// ErrQueueFull: too many publications wait for their answers.
	ErrQueueFull = &Error{Name: "QueueFull", Temporary: true, Message: "too many publications wait for their answers"}
	// ErrClosed: the client is closed, or was closed before the request was sent.
	ErrClosed = &Error{Name: "Closed", Message: "the client is closed"}
	// ErrInvalidArgument: nothing was sent.
	ErrInvalidArgument = &Error{Name: "InvalidArgument", Message: "an argument is invalid"}
	// ErrAlreadySubscribed: a subscription to this topic or filter lives.
	ErrAlreadySubscribed = &Error{Name: "AlreadySubscribed", Message: "a subscription to this topic or filter lives"}
	// ErrFenced: another client publishes under this client's producer id.
	ErrFenced = &Error{Name: "Fenced", Message: "another client publishes under this producer id"}
	// ErrUnauthorized is for token sources: returned by one, it ends the client for good.
	ErrUnauthorized = &Error{Name: "Unauthorized", Message: "there will be no token"}
)

// Error shows name and message, and the code if there is one.
func (e *Error) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("crore: %s (%d): %s", e.Name, e.Code, e.Message)
	}
	return "crore: " + e.Name + ": " + e.Message
}

// Is compares the client's own errors by name and the server's by code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code && other.Name == e.Name
}

// GapError is what Messages and Receive return in place of a gap. The next call goes on behind it.
type GapError struct{ Gap *Gap }

// Error shows the range of the gap.
func (e *GapError) Error() string {
	return fmt.Sprintf("crore: GapError: messages from %s to %s are missing: %s",
		showPosition(e.Gap.From), showPosition(e.Gap.To), e.Gap.Cause)
}

func invalidArgument(format string, arguments ...any) *Error {
	return &Error{Name: ErrInvalidArgument.Name, Message: fmt.Sprintf(format, arguments...)}
}

// closedError is ErrClosed with the reason.
func closedError(state State) *Error {
	text := "the client is closed: " + state.Reason
	if state.Code != 0 {
		text += " (" + strconv.Itoa(state.Code) + ")"
	} else if state.Status != 0 {
		text += " (HTTP " + strconv.Itoa(state.Status) + ")"
	}
	return &Error{Name: ErrClosed.Name, Message: text}
}

func codeName(code uint32) string {
	if name, ok := codeNames[code]; ok {
		return name
	}
	return "code_" + strconv.FormatUint(uint64(code), 10)
}

// refusal is the error of an ERROR frame: E1.
func refusal(frame *wire.ErrorFrame) *Error {
	err := &Error{
		Code: frame.Code, Name: codeName(frame.Code), Temporary: frame.Temporary, Message: frame.Message,
		Limit: frame.Limit,
	}
	if frame.Restart != nil {
		restart := Position(*frame.Restart)
		err.Restart = &restart
	}
	return err
}
