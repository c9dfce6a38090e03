package crore

// newMessage makes a message with a copy of the payload. Small payloads stand behind the message, in
// one allocation with it: few allocations are what makes receiving fast.
func newMessage(payload []byte) *Message {
	switch size := len(payload); {
	case size <= 32:
		return with32(payload)
	case size <= 112:
		return with112(payload)
	case size <= 256:
		return with256(payload)
	case size <= 512:
		return with512(payload)
	default:
		return &Message{Payload: append([]byte(nil), payload...)}
	}
}

func with32(payload []byte) *Message {
	both := new(struct {
		Message
		bytes [32]byte
	})
	both.Payload = both.bytes[:copy(both.bytes[:], payload):len(payload)]
	return &both.Message
}

func with112(payload []byte) *Message {
	both := new(struct {
		Message
		bytes [112]byte
	})
	both.Payload = both.bytes[:copy(both.bytes[:], payload):len(payload)]
	return &both.Message
}

func with256(payload []byte) *Message {
	both := new(struct {
		Message
		bytes [256]byte
	})
	both.Payload = both.bytes[:copy(both.bytes[:], payload):len(payload)]
	return &both.Message
}

func with512(payload []byte) *Message {
	both := new(struct {
		Message
		bytes [512]byte
	})
	both.Payload = both.bytes[:copy(both.bytes[:], payload):len(payload)]
	return &both.Message
}
