package wire

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Error says why bytes are no frame; its name is one of spec/codes.toml.
type Error struct {
	Name string
	// Unsupported: the frame belongs to a newer version of the protocol.
	Unsupported bool
}

func (e *Error) Error() string { return e.Name }

var (
	errMalformed       = &Error{Name: "malformed_frame"}
	errVarint          = &Error{Name: "malformed_varint"}
	errUTF8            = &Error{Name: "malformed_utf8"}
	errTopic           = &Error{Name: "malformed_topic"}
	errTopicTooLong    = &Error{Name: "topic_too_long"}
	errUnknownOption   = &Error{Name: "unsupported_option", Unsupported: true}
	errUnknownFrame    = &Error{Name: "unsupported_frame", Unsupported: true}
	errUnknownProtocol = &Error{Name: "unsupported_version", Unsupported: true}
)

// reader reads fields one after the other. The first error stays; what is read after it is zero.
type reader struct {
	rest []byte
	err  *Error
}

func (r *reader) fail(err *Error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *reader) u8() byte {
	if len(r.rest) == 0 {
		r.fail(errMalformed)
		return 0
	}
	value := r.rest[0]
	r.rest = r.rest[1:]
	return value
}

func (r *reader) u64le() uint64 {
	if bytes := r.take(8); bytes != nil {
		return binary.LittleEndian.Uint64(bytes)
	}
	return 0
}

func (r *reader) varint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		return uint64(r.u8())
	}
	var value uint64
	for at := 0; at < 10; at++ {
		if at == len(r.rest) {
			r.fail(errMalformed)
			return 0
		}
		next := r.rest[at]
		if at == 9 && next > 1 {
			break
		}
		value |= uint64(next&0x7f) << (7 * at)
		if next < 0x80 {
			if next == 0 {
				break
			}
			r.rest = r.rest[at+1:]
			return value
		}
	}
	r.fail(errVarint)
	return 0
}

func (r *reader) varint32() uint32 {
	value := r.varint()
	if value > math.MaxUint32 {
		r.fail(errMalformed)
		return 0
	}
	return uint32(value)
}

func (r *reader) take(count uint64) []byte {
	if count > uint64(len(r.rest)) || r.err != nil {
		r.fail(errMalformed)
		return nil
	}
	bytes := r.rest[:count:count]
	r.rest = r.rest[count:]
	return bytes
}

func (r *reader) bytes() []byte { return r.take(r.varint()) }

func (r *reader) text() string { return r.textOf(r.bytes()) }

func (r *reader) textOf(bytes []byte) string {
	if !utf8.Valid(bytes) {
		r.fail(errUTF8)
		return ""
	}
	return string(bytes)
}

func (r *reader) topic() string {
	bytes := r.bytes()
	if r.err == nil && len(bytes) == 0 {
		r.fail(errTopic)
	}
	if len(bytes) > TopicBytesMax {
		r.fail(errTopicTooLong)
	}
	return r.textOf(bytes)
}

// remaining takes all bytes to the frame's end.
func (r *reader) remaining() []byte {
	rest := r.rest
	r.rest = nil
	return rest
}

func (r *reader) position() Position { return Position{Epoch: r.varint(), Offset: r.varint()} }

const hasOptions = 0x80

// flags reads the flags; known are the defined bits beside that of the options.
func (r *reader) flags(known byte) byte {
	flags := r.u8()
	if flags&^hasOptions&^known != 0 {
		r.fail(errUnknownOption)
	}
	return flags
}

// options reads the options, if the flags announce them. option takes one and returns false if it
// does not know the key. A key comes at most once, unless it is that of a tag.
func (r *reader) options(flags byte, option func(key uint64, value *reader) bool) {
	if flags&hasOptions == 0 {
		return
	}
	var seen uint64
	for left := r.varint(); left > 0 && r.err == nil; left-- {
		key := r.varint()
		value := reader{rest: r.bytes()}
		if r.err != nil {
			return
		}
		if option == nil || !option(key, &value) {
			if key&1 == 1 {
				r.fail(errUnknownOption)
			}
			continue
		}
		if value.err == nil && len(value.rest) > 0 {
			value.fail(errMalformed)
		}
		if value.err != nil {
			r.fail(value.err)
		} else if bit := uint64(1) << (key & 63); key != keyTag && seen&bit != 0 {
			r.fail(errMalformed)
		} else {
			seen |= bit
		}
	}
}

// skipOptions reads options of a place that defines none.
func (r *reader) skipOptions(flags byte) { r.options(flags, nil) }
