package crore

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Benchmarks with a real node.

// used are the bytes of heap and stacks in use, once there are at most so many goroutines.
func used(ctx context.Context, goroutines int) float64 {
	for runtime.NumGoroutine() > goroutines && ctx.Err() == nil {
		runtime.Gosched()
	}
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.HeapAlloc + memory.StackInuse)
}

const idleClients = 1_000

// BenchmarkIdleClients measures the memory of a client that has subscribed and waits, and beside it
// that of a bare connection of coder/websocket with a goroutine that reads.
func BenchmarkIdleClients(b *testing.B) {
	n := startNode(b, "")
	ctx := bounded(b)
	b.ResetTimer()
	goroutines := runtime.NumGoroutine()
	for range b.N {
		before := used(ctx, goroutines)
		sockets := make([]*websocket.Conn, idleClients)
		for number := range sockets {
			socket, _, err := websocket.Dial(ctx, n.urls()[0]+"/crore", &websocket.DialOptions{Subprotocols: []string{subprotocol}})
			if err != nil {
				b.Fatal(err)
			}
			if err := socket.Write(ctx, websocket.MessageBinary, []byte{0x01, 0, 1, 0}); err != nil {
				b.Fatal(err)
			}
			if _, _, err := socket.Read(ctx); err != nil {
				b.Fatal(err)
			}
			sockets[number] = socket
			go func() { _, _, _ = socket.Read(context.Background()) }()
		}
		bare := used(ctx, goroutines+2*idleClients) - before
		for _, socket := range sockets {
			_ = socket.CloseNow()
		}
		before = used(ctx, goroutines)
		clients := make([]*Client, idleClients)
		for number := range clients {
			client, err := Dial(ctx, n.urls(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			s, err := client.Subscribe(context.Background(), "t")
			if err == nil {
				err = s.Ready(ctx)
			}
			if err != nil {
				b.Fatal(err)
			}
			clients[number] = client
		}
		whole := used(ctx, goroutines+2*idleClients) - before
		for _, client := range clients {
			closeNow(client)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(bare/idleClients, "bare-B/client")
		b.ReportMetric(whole/idleClients, "B/client")
		b.ReportMetric((whole-bare)/idleClients, "own-B/client")
	}
}

const publications = 20_000

// BenchmarkPublish measures publications a second, each of 100 bytes, with at most 500 on their way,
// until the last one is answered.
func BenchmarkPublish(b *testing.B) {
	for name, options := range map[string][]PublishOption{"AtMostOnce": nil, "Once": {Once()}} {
		b.Run(name, func(b *testing.B) {
			client := startNode(b, "").connect(Options{})
			ready(b, client)
			ctx, data := bounded(b), make([]byte, 100)
			var rates []float64
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				begin := time.Now()
				calls := make(chan *Publication, 500)
				go func() {
					defer close(calls)
					for range publications {
						calls <- client.PublishAsync("t", data, options...)
					}
				}()
				for call := range calls {
					if _, err := call.Wait(ctx); err != nil {
						b.Fatal(err)
					}
				}
				rates = append(rates, publications/time.Since(begin).Seconds())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(rates), "messages/s")
		})
	}
}
