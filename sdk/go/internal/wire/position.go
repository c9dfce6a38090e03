// Package wire is the codec of the native protocol, crore.v1: it encodes the frames of a client and
// decodes those of a server. The frames are described in spec/protocol.md.
package wire

import (
	"errors"
	"strconv"
	"strings"
)

// Position is a place in a topic's log.
type Position struct {
	Epoch  uint64
	Offset uint64
}

// String shows the position as <epoch>:<offset>.
func (p Position) String() string {
	text := strconv.AppendUint(make([]byte, 0, 41), p.Epoch, 10)
	return string(strconv.AppendUint(append(text, ':'), p.Offset, 10))
}

var errPosition = errors.New("a position is <epoch>:<offset>")

// ParsePosition reads the text of a position. Only the text that String writes is accepted.
func ParsePosition(text string) (Position, error) {
	left, right, found := strings.Cut(text, ":")
	epoch, epochErr := strconv.ParseUint(left, 10, 64)
	offset, offsetErr := strconv.ParseUint(right, 10, 64)
	position := Position{epoch, offset}
	if !found || epochErr != nil || offsetErr != nil || position.String() != text {
		return Position{}, errPosition
	}
	return position, nil
}
