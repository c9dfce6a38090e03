package crore

import (
	"context"
	"io"

	"github.com/coder/websocket"
)

const (
	// handOverMessages and handOverBytes bound what the core gets together.
	handOverMessages = 512
	handOverBytes    = 64 << 10
	// bufferBytesMax bounds the buffers that a connection keeps.
	bufferBytesMax = 4 * handOverBytes
)

// received are messages that the core has not seen: those that the last read of the socket brought.
// The core gets them together, because locking the client and waking readers costs as much as a
// message.
type received struct {
	bytes []byte
	ends  []receivedEnd
	// readers are woken when the core has got everything.
	readers []*Subscription
}

// receivedEnd is where a message ends in the bytes.
type receivedEnd struct {
	at     int
	isText bool
}

// read reads messages until the end of the connection.
func (n *connection) read() error {
	it := &n.received
	buffer := make([]byte, 0, 512)
	for {
		// A context that can end would cost more than the message.
		kind, reader, err := n.socket.Reader(context.Background())
		if err == nil {
			buffer, err = readInto(buffer[:0], reader)
		}
		if err != nil {
			n.handOver()
			return err
		}
		it.bytes = append(it.bytes, buffer...)
		it.ends = append(it.ends, receivedEnd{len(it.bytes), kind == websocket.MessageText})
		if n.cork == nil || len(it.ends) >= handOverMessages || len(it.bytes) >= handOverBytes {
			n.handOver()
		}
		if cap(buffer) > bufferBytesMax {
			buffer = make([]byte, 0, 512)
		}
	}
}

// handOver gives the received messages to the core. The socket calls it before it waits for more.
func (n *connection) handOver() {
	it := &n.received
	if n.isLeaving.Load() || len(it.ends) == 0 {
		return // closing may read in another goroutine
	}
	c := n.client
	c.mu.Lock()
	c.receiving = it
	now, from := c.now(), 0
	for _, end := range it.ends {
		if c.connection != n {
			break
		}
		c.core.received(now, it.bytes[from:end.at], end.isText)
		from = end.at
		if len(c.core.outputs) > 0 {
			c.flush()
		}
	}
	c.flush()
	c.receiving = nil
	c.mu.Unlock()
	it.bytes, it.ends = it.bytes[:0], it.ends[:0]
	if cap(it.bytes) > bufferBytesMax {
		it.bytes = nil
	}
	for _, s := range it.readers {
		s.wake()
	}
	clear(it.readers)
	it.readers = it.readers[:0]
}

// readInto appends everything of a reader.
func readInto(to []byte, reader io.Reader) ([]byte, error) {
	for {
		if len(to) == cap(to) {
			to = append(to, 0)[:len(to)]
		}
		count, err := reader.Read(to[len(to):cap(to)])
		to = to[:len(to)+count]
		if err == io.EOF {
			return to, nil
		}
		if err != nil {
			return to, err
		}
	}
}
