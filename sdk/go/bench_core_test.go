//go:build unix

package crore

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// BenchmarkCore is the core alone: a frame in, an item out.
func BenchmarkCore(b *testing.B) {
	core := newCore(coreSettings{
		urls: []string{"ws://x/"}, bufferItems: 1 << 30, bufferBytes: 1 << 40, random: func() float64 { return 0 },
	})
	core.start(0)
	it, err := core.subscribe(0, "t", subscriptionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	core.opened(0)
	core.received(0, append([]byte{0x81, 0, 1}, make([]byte, 13)...), false)
	core.received(0, []byte{0x82, 0, 1, 5, 7, 0}, false)
	items := core.take(0, it, 10, nil)
	frame := append(make([]byte, 0, 128), wire.TypeMessage, 0, 5)
	payload := make([]byte, 100)
	cpu := func() int64 { // unlike time, it does not count what other programs use
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return usage.Utime.Nano() + usage.Stime.Nano()
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for offset := 1; offset <= b.N; offset++ {
		data := append(binary.AppendUvarint(frame, uint64(offset)), 1)
		core.received(0, append(data, payload...), false)
		if items = core.take(0, it, 1, items[:0]); len(items) != 1 {
			b.Fatal(items)
		}
		core.outputs = core.outputs[:0]
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/message")
}
