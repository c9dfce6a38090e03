package crore

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/crore/crore/sdk/go/internal/wire"
)

// webSocketFrame appends an unmasked binary frame.
func webSocketFrame(to, payload []byte) []byte {
	if len(payload) < 126 {
		to = append(to, 0x82, byte(len(payload)))
	} else {
		to = binary.BigEndian.AppendUint16(append(to, 0x82, 126), uint16(len(payload)))
	}
	return append(to, payload...)
}

// messages are frames of a server: a greeting, a grant, and messages of 100 bytes.
func messages(count int) []byte {
	welcome := append([]byte{0x81, 0, 1}, make([]byte, 13)...)
	all := webSocketFrame(nil, welcome)
	all = webSocketFrame(all, []byte{0x82, 0, 1, 5, 7, 0})
	payload := bytes.Repeat([]byte{'x'}, 100)
	for offset := 1; offset <= count; offset++ {
		frame := binary.AppendUvarint([]byte{wire.TypeMessage, 0, 5}, uint64(offset))
		all = webSocketFrame(all, append(append(frame, 1), payload...))
	}
	return all
}

// blaster is a server that sends prepared bytes as fast as the client takes them.
func blaster(b *testing.B, prepared []byte) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
			"Sec-WebSocket-Protocol: crore.v1\r\nSec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"))
		input := make([]byte, 4096)
		if err == nil {
			// HELLO and SUBSCRIBE are there before the server answers.
			_, err = conn.Read(input)
		}
		if err == nil {
			_, err = conn.Write(prepared)
		}
		for err == nil {
			_, err = conn.Read(input)
		}
	}))
	b.Cleanup(server.Close)
	return strings.Replace(server.URL, "http", "ws", 1)
}

// receiveBare is the loop that an application without a client library writes: it reads messages,
// nothing else.
func receiveBare(b *testing.B, url string, messages int) {
	ctx := context.Background()
	socket, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{Subprotocols: []string{subprotocol}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = socket.CloseNow() }()
	if err := socket.Write(ctx, websocket.MessageBinary, []byte{0x01, 0, 1, 0}); err != nil {
		b.Fatal(err)
	}
	for count := 0; count < messages; {
		_, data, err := socket.Read(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if data[0] == wire.TypeMessage {
			count++
		}
	}
}

// receiveClient does the same with the client: decoding, proof, buffer and the reader's goroutine.
func receiveClient(b *testing.B, url string, messages int) {
	ctx := context.Background()
	// The buffer is wide: this server does not take UNSUBSCRIBE.
	client, err := New([]string{url}, Options{BufferItems: 1 << 30, BufferBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	defer closeNow(client)
	s, err := client.Subscribe(ctx, "t")
	if err != nil {
		b.Fatal(err)
	}
	for count := 0; count < messages; {
		item, err := s.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if _, ok := item.(*Message); ok {
			count++
		}
	}
	if !s.Report().Complete {
		b.Error(s.Report())
	}
}

const messagesOfRun = 200_000

// BenchmarkReceive runs the bare loop and the client in turn, and compares their medians.
func BenchmarkReceive(b *testing.B) {
	url := blaster(b, messages(messagesOfRun))
	var bare, client, ratios []float64
	var before, after runtime.MemStats
	allocations := uint64(0)
	rate := func(run func(*testing.B, string, int)) float64 {
		runtime.GC()
		begin := time.Now()
		run(b, url, messagesOfRun)
		return messagesOfRun / time.Since(begin).Seconds()
	}
	b.ResetTimer()
	for range b.N {
		bare = append(bare, rate(receiveBare))
		runtime.ReadMemStats(&before)
		client = append(client, rate(receiveClient))
		runtime.ReadMemStats(&after)
		allocations += after.Mallocs - before.Mallocs
		ratios = append(ratios, 100*client[len(client)-1]/bare[len(bare)-1])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(bare), "bare/s")
	b.ReportMetric(median(client), "client/s")
	b.ReportMetric(median(ratios), "%of-bare")
	b.ReportMetric(float64(allocations)/float64(b.N)/messagesOfRun, "allocs/message")
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// TestNothingLeaks: connecting, subscribing and closing leave no goroutine, timer or memory behind.
func TestNothingLeaks(t *testing.T) {
	cycles := 10_000
	if testing.Short() {
		cycles = 500
	}
	n := startNode(t, "")
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx, stop := context.WithTimeout(context.Background(), 5*limit)
	defer stop()
	cycle := func() {
		client, err := Dial(ctx, n.urls(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := client.Subscribe(parent, "t")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	settled := func() (goroutines int, heap uint64) {
		var memory runtime.MemStats
		ctx := bounded(t)
		for goroutines = runtime.NumGoroutine(); goroutines > 12 && ctx.Err() == nil; goroutines = runtime.NumGoroutine() {
			runtime.Gosched()
		}
		runtime.GC()
		runtime.ReadMemStats(&memory)
		return goroutines, memory.HeapAlloc
	}
	for range 100 {
		cycle()
	}
	goroutinesBefore, heapBefore := settled()
	for range cycles {
		cycle()
	}
	goroutines, heap := settled()
	t.Logf("%d cycles: %d goroutines (%d before), heap %d KiB (%d before)", cycles, goroutines, goroutinesBefore, heap>>10, heapBefore>>10)
	if goroutines > goroutinesBefore+2 || heap > heapBefore+16<<20 {
		t.Error("something leaks")
	}
}
