package crore

import (
	"net"
	"sync"
)

const (
	corkBytesMax = 64 << 10
	// readAhead is how much is read together while the peer sends faster than the client reads.
	readAhead = 32 << 10
)

// corkedConn collects small writes while it is held, and tells when its reader has nothing left.
type corkedConn struct {
	net.Conn
	beforeRead func()

	// ahead are bytes that were read but not taken, in a buffer that an idle connection does not have.
	ahead   []byte
	buffer  *[readAhead]byte
	wasFull bool

	mu     sync.Mutex
	isHeld bool
	bytes  []byte
}

var readAheads = sync.Pool{New: func() any { return new([readAhead]byte) }}

// Read reads from the connection. If the last read has filled its buffer, more is waiting: then the
// next one takes it with few calls of the system.
func (c *corkedConn) Read(bytes []byte) (int, error) {
	if len(c.ahead) == 0 {
		c.beforeRead()
		if !c.wasFull || len(bytes) >= readAhead {
			count, err := c.Conn.Read(bytes)
			c.wasFull = count == len(bytes) && count >= 4096
			return count, err
		}
		if c.buffer == nil {
			c.buffer = readAheads.Get().(*[readAhead]byte)
		}
		count, err := c.Conn.Read(c.buffer[:])
		c.wasFull = count == readAhead
		c.ahead = c.buffer[:count]
		if err != nil {
			return 0, err
		}
	}
	count := copy(bytes, c.ahead)
	c.ahead = c.ahead[count:]
	if len(c.ahead) == 0 && !c.wasFull && c.buffer != nil {
		readAheads.Put(c.buffer)
		c.buffer, c.ahead = nil, nil
	}
	return count, nil
}

// Write writes at once, or when the connection is released.
func (c *corkedConn) Write(bytes []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isHeld {
		return c.Conn.Write(bytes)
	}
	c.bytes = append(c.bytes, bytes...)
	if len(c.bytes) >= corkBytesMax {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	return len(bytes), nil
}

func (c *corkedConn) flush() error {
	if len(c.bytes) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.bytes)
	c.bytes = c.bytes[:0]
	return err
}

func (c *corkedConn) hold() {
	c.mu.Lock()
	c.isHeld = true
	c.mu.Unlock()
}

// release writes what was collected. The connection's reader gets an error, too.
func (c *corkedConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isHeld = false
	_ = c.flush()
}
