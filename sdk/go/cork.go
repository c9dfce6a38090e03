package crore

import (
	"net"
	"sync"
)

const corkBytesMax = 64 << 10

// corkedConn collects small writes while it is held, and tells when its reader has nothing left.
type corkedConn struct {
	net.Conn
	beforeRead func()
	mu         sync.Mutex
	isHeld     bool
	bytes      []byte
}

// Read reads from the connection.
func (c *corkedConn) Read(bytes []byte) (int, error) {
	c.beforeRead()
	return c.Conn.Read(bytes)
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
