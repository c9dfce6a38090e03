package crore

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	subprotocol = "crore.v1"
	// earlyPrefix is that of frames in the handshake: section 1 of the protocol.
	earlyPrefix = "crore.frame."
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
	early  [][]byte
	// written is when the handshake's request was written, and roundTrip how long its answer took.
	written   atomic.Int64
	roundTrip atomic.Int64
	socket    *websocket.Conn
	cork      *corkedConn

	received received
	// isLeaving: the socket is being closed, and what it still reads is of no use.
	isLeaving atomic.Bool

	// The client's lock guards what follows.
	isOpen      bool
	unsent      [][]byte
	unsentBytes int
	closeCode   int
	overdue     *time.Timer
	wake        chan struct{}
}

// connect begins an attempt. The client is locked.
func (c *Client) connect(url string, early [][]byte) {
	n := &connection{client: c, url: url, early: early, wake: make(chan struct{}, 1)}
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
	n.isLeaving.Store(true)
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
			c.core.roundTripMs = n.roundTrip.Load()
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
	for _, frame := range n.early {
		options.Subprotocols = append(options.Subprotocols, earlyPrefix+base64.RawURLEncoding.EncodeToString(frame))
	}
	socket, response, err := websocket.Dial(n.traced(), n.url, &options)
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

// traced is the context of opening, which measures the round trip of the handshake.
func (n *connection) traced() context.Context {
	return httptrace.WithClientTrace(n.ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { n.written.Store(n.client.now()) },
		GotFirstResponseByte: func() { n.roundTrip.Store(n.client.now() - n.written.Load()) },
	})
}

// transport makes TCP connections whose writes can be held back, so that the frames of one turn
// leave in one write (U15).
func (n *connection) transport() *http.Transport {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: n.client.options.TLS.Clone()}
	dialer := new(net.Dialer)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		n.cork = &corkedConn{Conn: conn, beforeRead: n.handOver}
		return n.cork, nil
	}
	return transport
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
