package crore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	subprotocol = "crore.v1"
	// unsentMax: above this, publications wait in the core (U15).
	unsentMax = 1 << 20
	// receivedMax bounds one message of the server.
	receivedMax = 64 << 20
	// closeTime bounds the end of a connection.
	closeTime = 10 * time.Second
)

// connection is one WebSocket: a goroutine that opens it and reads, and one that writes.
type connection struct {
	client *Client
	// ctx is that of opening.
	ctx    context.Context
	cancel context.CancelFunc
	url    string
	socket *websocket.Conn
	cork   *corkedConn

	// readersMu guards the readers that are woken when all received bytes are used up, so that they
	// wake once for many messages.
	readersMu sync.Mutex
	readers   []*Subscription

	// The client's lock guards what follows.
	isOpen      bool
	unsent      [][]byte
	unsentBytes int
	closeCode   int
	overdue     *time.Timer
	wake        chan struct{}
}

// connect begins an attempt. The client is locked.
func (c *Client) connect(url string) {
	n := &connection{client: c, url: url, wake: make(chan struct{}, 1)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	c.connection = n
	c.running.add()
	go n.run()
}

func (n *connection) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// send queues a frame. The client is locked.
func (n *connection) send(frame []byte) {
	n.unsent = append(n.unsent, frame)
	n.unsentBytes += len(frame)
	if n.unsentBytes > unsentMax {
		n.client.core.isBlocked = true
	}
	n.signal()
}

// close ends the connection behind the queued frames; 1006 at once. The client is locked.
func (n *connection) close(code int) {
	n.closeCode = code
	switch {
	case !n.isOpen:
		n.cancel()
	case code == 1006: // writing may hang
		n.client.running.add()
		go func() {
			defer n.client.running.done()
			_ = n.socket.CloseNow()
		}()
	default: // writing or the peer's answer may hang
		n.overdue = time.AfterFunc(closeTime, func() { _ = n.socket.CloseNow() })
	}
	n.signal()
}

func (n *connection) run() {
	c := n.client
	defer c.running.done()
	defer n.cancel()
	status, retryAfter, err := n.dial()
	if err != nil {
		c.with(func(now int64) {
			if c.connection == n {
				c.connection = nil
				c.core.failed(now, status, retryAfter)
			}
		})
		return
	}
	isCurrent := false
	c.with(func(now int64) {
		if isCurrent = c.connection == n; isCurrent {
			n.isOpen = true
			c.core.opened(now)
			c.running.add()
			go n.write()
		}
	})
	if !isCurrent {
		_ = n.socket.CloseNow()
		return
	}
	err = n.read()
	n.wakeReaders()
	code := int(websocket.CloseStatus(err))
	if code < 0 {
		code = 1006
	}
	c.with(func(now int64) {
		if c.connection == n {
			c.connection = nil
			n.closeCode = 1006
			c.core.closed(now, code)
		}
		n.signal()
	})
}

// dial opens the WebSocket. An answer that refuses it has a status.
func (n *connection) dial() (status int, retryAfterS int64, err error) {
	options := websocket.DialOptions{
		Subprotocols: []string{subprotocol}, HTTPClient: n.client.options.HTTPClient, HTTPHeader: n.client.options.Header,
	}
	if options.HTTPClient == nil {
		transport := n.transport()
		defer transport.CloseIdleConnections()
		options.HTTPClient = &http.Client{Transport: transport}
	}
	socket, response, err := websocket.Dial(n.ctx, n.url, &options)
	if err != nil {
		if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
			retryAfterS, _ = strconv.ParseInt(response.Header.Get("Retry-After"), 10, 64)
			return response.StatusCode, retryAfterS, err
		}
		return 0, 0, err
	}
	if socket.Subprotocol() != subprotocol {
		_ = socket.CloseNow()
		return 0, 0, errors.New("the server does not speak " + subprotocol)
	}
	socket.SetReadLimit(receivedMax)
	n.socket = socket
	return 0, 0, nil
}

// transport makes TCP connections whose writes can be held back, so that the frames of one turn
// leave in one write (U15).
func (n *connection) transport() *http.Transport {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	dialer := new(net.Dialer)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		n.cork = &corkedConn{Conn: conn, beforeRead: n.wakeReaders}
		return n.cork, nil
	}
	return transport
}

// read reads messages until the end of the connection.
func (n *connection) read() error {
	c := n.client
	buffer := make([]byte, 0, 4096)
	for {
		// A context that can end would cost more than the message.
		kind, reader, err := n.socket.Reader(context.Background())
		if err != nil {
			return err
		}
		if buffer, err = readInto(buffer[:0], reader); err != nil {
			return err
		}
		message := bytes.Clone(buffer) // the core keeps it
		if cap(buffer) > 1<<20 {
			buffer = make([]byte, 0, 4096)
		}
		c.mu.Lock()
		if c.connection == n {
			c.receiving = n
			c.core.received(c.now(), message, kind == websocket.MessageText)
			c.flush()
			c.receiving = nil
		}
		c.mu.Unlock()
	}
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

// wakeLater wakes a subscription's reader before the next read of the socket.
func (n *connection) wakeLater(s *Subscription) {
	if n.cork == nil {
		s.wake()
		return
	}
	n.readersMu.Lock()
	defer n.readersMu.Unlock()
	n.readers = append(n.readers, s)
}

func (n *connection) wakeReaders() {
	n.readersMu.Lock()
	defer n.readersMu.Unlock()
	for _, s := range n.readers {
		s.wake()
	}
	n.readers = n.readers[:0]
}

// write writes queued frames until the end of the connection, then closes it.
func (n *connection) write() {
	c := n.client
	defer c.running.done()
	for {
		c.mu.Lock()
		frames, code := n.unsent, n.closeCode
		n.unsent = nil
		c.mu.Unlock()
		if code == 1006 {
			_ = n.socket.CloseNow()
			return
		}
		if len(frames) == 0 {
			if code != 0 {
				_ = n.socket.Close(websocket.StatusCode(code), "")
				n.overdue.Stop()
				return
			}
			<-n.wake
			continue
		}
		written := n.writeAll(frames)
		c.mu.Lock()
		if n.unsentBytes -= written; n.unsentBytes <= unsentMax && c.connection == n && c.core.isBlocked {
			c.core.isBlocked = false
			c.core.after(c.now())
			c.flush()
		}
		c.mu.Unlock()
	}
}

// writeAll writes frames with as few writes of the TCP connection as possible. An error of writing
// needs no answer here: the reader gets it, too.
func (n *connection) writeAll(frames [][]byte) (bytes int) {
	if n.cork != nil {
		n.cork.hold()
		defer n.cork.release()
	}
	for _, frame := range frames {
		bytes += len(frame)
		if err := n.socket.Write(context.Background(), websocket.MessageBinary, frame); err != nil {
			_ = n.socket.CloseNow()
		}
	}
	return bytes
}
