package crore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/crore/crore/sdk/go/internal/wire"
)

func decimal(text string) uint64 {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

var noChance = func() float64 { return 0 }

// welcomed is a core whose connection is live at time 0.
func welcomed(options subscriptionOptions) (*core, *subscription) {
	c := newCore(coreSettings{
		urls: []string{"ws://x/"}, backoff: defaultBackoff, bufferItems: 1024, bufferBytes: 1 << 20, random: noChance,
	})
	c.start(0)
	it, err := c.subscribe(0, "t", options)
	if err != nil {
		panic(err)
	}
	c.opened(0)
	// A ping interval of 25 s.
	c.received(0, append([]byte{0x81, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 25}, 0, 0, 0, 0), false)
	c.outputs = nil
	return c, it
}

// spec/vectors/proof.json: what a client reports for one plain topic.
func TestProofVectors(t *testing.T) {
	type event struct{ Event, Offset, From, To, Reason string }
	var vectors struct {
		Cases []struct {
			Name  string
			Start struct {
				Kind, Epoch, Offset string
				Count               uint32
			}
			Steps []struct {
				Hex    string
				Events []event
			}
			End struct{ Epoch, Through string }
		}
	}
	text, err := os.ReadFile("../../spec/vectors/proof.json")
	if err == nil {
		err = json.Unmarshal(text, &vectors)
	}
	if err != nil || len(vectors.Cases) == 0 {
		t.Fatal(err)
	}
	for _, one := range vectors.Cases {
		kinds := map[string]byte{"live": wire.StartLive, "since": wire.StartSince, "last": wire.StartLast, "snapshot": wire.StartSnapshot}
		start := wire.Start{Kind: kinds[one.Start.Kind], Count: one.Start.Count}
		if start.Kind == wire.StartSince {
			start.Position = wire.Position{Epoch: decimal(one.Start.Epoch), Offset: decimal(one.Start.Offset)}
		}
		c, it := welcomed(subscriptionOptions{start: start})
		for number, step := range one.Steps {
			duplicates := c.counters.Duplicates
			c.received(0, unhex(step.Hex), false)
			var got []event
			for range c.counters.Duplicates - duplicates {
				got = append(got, event{Event: "repeated"})
			}
			for _, item := range c.take(0, it, 1000, nil) {
				switch item := item.(type) {
				case *Message:
					got = append(got, event{Event: "message", Offset: fmt.Sprint(item.Position.Offset)})
				case *Gap:
					shown := event{"gap", "", fmt.Sprint(item.From.Offset), fmt.Sprint(item.To.Offset), item.Cause}
					if item.Cause == "unannounced" {
						shown.Event, shown.Reason = "lost", ""
					}
					got = append(got, shown)
				case *Skipped:
					got = append(got, event{"skipped", "", fmt.Sprint(item.From), fmt.Sprint(item.Through), item.Reason})
				}
			}
			for at := range step.Events {
				switch want := &step.Events[at]; want.Event {
				case "repeated":
					want.Offset = ""
				case "gap", "skipped":
					want.Reason = knownReason(want.Reason)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(step.Events) {
				t.Errorf("%s, step %d: %v, want %v", one.Name, number, got, step.Events)
			}
		}
		// While a gap is due, the cursor to resume from is the old one: the vectors have the newer.
		if want := (Position{decimal(one.End.Epoch), decimal(one.End.Through)}); it.proof.at != want {
			t.Errorf("%s: the cursor is %v, want %v", one.Name, it.proof.at, want)
		}
	}
	t.Logf("%d cases", len(vectors.Cases))
}

// sentFrames are the frames among the outputs, those of the handshake too; it forgets the outputs.
func sentFrames(c *core) (frames [][]byte) {
	for _, output := range c.outputs {
		switch out := output.(type) {
		case connectOutput:
			frames = append(frames, out.early...)
		case sendOutput:
			frames = append(frames, out.frame)
		}
	}
	c.outputs = nil
	return frames
}

// C2: HELLO and SUBSCRIBE go with the handshake, and what changes meanwhile follows it. Large
// frames follow it, too.
func TestTheFirstFramesGoWithTheHandshake(t *testing.T) {
	c, _ := welcomed(subscriptionOptions{})
	if _, err := c.subscribe(0, "u", subscriptionOptions{}); err != nil {
		t.Fatal(err)
	}
	c.closed(1, 1006)
	c.outputs = nil
	c.tick(c.wakeAt())
	types := func(frames [][]byte) (types string) {
		for _, frame := range frames {
			types += fmt.Sprintf("%x ", frame[0])
		}
		return types
	}
	if early := types(sentFrames(c)); early != "1 2 " {
		t.Fatal(early)
	}
	c.unsubscribe(2, c.byFilter["u"])
	if _, err := c.subscribe(2, "v", subscriptionOptions{}); err != nil {
		t.Fatal(err)
	}
	c.renew("another")
	if waits := types(sentFrames(c)); waits != "" {
		t.Fatal(waits)
	}
	c.opened(3)
	frames := sentFrames(c)
	if types(frames) != "3 2 " || !bytes.HasSuffix(frames[1][:len(frames[1])-1], []byte("v")) {
		t.Fatalf("%x", frames)
	}
	c.received(3, append([]byte{0x81, 0, 1}, make([]byte, 13)...), false)
	if renews := types(sentFrames(c)); renews != "9 " {
		t.Fatal(renews)
	}
	for number := range 20 {
		if _, err := c.subscribe(4, strings.Repeat("x", 250)+fmt.Sprint(number), subscriptionOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.closed(5, 1006)
	c.outputs = nil
	c.tick(c.wakeAt())
	if early := types(sentFrames(c)); early != "" {
		t.Fatal(early)
	}
	c.opened(6)
	if later := types(sentFrames(c)); later != "1 2 " {
		t.Fatal(later)
	}
}

// pings counts PING frames among the outputs, and forgets them.
func pings(c *core) (count int) {
	for _, output := range c.outputs {
		if sent, ok := output.(sendOutput); ok && sent.frame[0] == wire.TypePing {
			count++
		}
	}
	c.outputs = nil
	return count
}

// L5: a timer that fires more than twice too late sends PING and grants a whole deadline.
func TestALateTimerGrantsAWholeDeadline(t *testing.T) {
	c, _ := welcomed(subscriptionOptions{})
	silence := int64(25_000 + silenceMarginMs)
	if at := c.wakeAt(); at != silence {
		t.Fatal(at)
	}
	c.tick(silence)
	if pings(c) != 1 {
		t.Fatal("no PING")
	}
	late := 10 * silence // the machine slept
	c.tick(late)
	if pings(c) != 1 || c.state.Phase != Live {
		t.Fatal("no second PING", c.state)
	}
	if at := c.wakeAt(); at != late+silence {
		t.Fatal(at)
	}
	c.tick(late + silence)
	if c.state.Phase != Waiting || c.state.Reason != ReasonIdle {
		t.Fatal(c.state)
	}
}

// R10: with more than 250 cursors, or a ticket above 16 KiB, the client subscribes without the ticket.
func TestALargeTicketIsNotUsed(t *testing.T) {
	for name, test := range map[string]struct{ cursors, ticket, frames int }{
		"few cursors":   {250, 100, 1},
		"many cursors":  {251, 100, 2},
		"a long ticket": {1, ticketBytesMax + 1, 2},
	} {
		c, it := welcomed(subscriptionOptions{})
		for partition := range test.cursors {
			it.cursors.set(int64(partition), Position{1, 1})
		}
		it.isGranted = true
		ticket := bytes.Repeat([]byte("T"), test.ticket)
		c.tickets.hold(0, ticket, never, c.grantedNumbers())
		c.closed(1, 1006)
		c.outputs = nil
		c.tick(c.wakeAt())
		c.opened(3)
		sent := 0
		for _, frame := range sentFrames(c) {
			sent++
			if has := bytes.Contains(frame, []byte("TTTT")); has != (test.frames == 1) {
				t.Errorf("%s: the ticket is sent: %v", name, has)
			}
		}
		if sent != test.frames {
			t.Errorf("%s: %d frames", name, sent)
		}
	}
}

// withSource is a core with a token source, whose first call is under way at time 0.
func withSource() (c *core, id int) {
	c = newCore(coreSettings{
		urls: []string{"ws://x/"}, backoff: defaultBackoff, bufferItems: 1024, bufferBytes: 1 << 20, random: func() float64 { return 0.5 },
		hasTokenSource: true,
	})
	c.start(0)
	return c, lastTokenCall(c)
}

// lastTokenCall is the last call of the token source among the outputs, which it forgets.
func lastTokenCall(c *core) (id int) {
	for _, output := range c.outputs {
		if asked, ok := output.(tokenOutput); ok {
			id = asked.id
		}
	}
	c.outputs = nil
	return id
}

// T9: a call of the token source has 10 s; then it is called again with C4's delays, and what the
// late one returns is dropped.
func TestACallOfTheTokenSourceHasTenSeconds(t *testing.T) {
	c, first := withSource()
	if at := c.wakeAt(); first == 0 || at != 10_000 {
		t.Fatal(first, at)
	}
	c.tick(9_999)
	if c.state.Phase != Connecting || len(c.outputs) != 0 {
		t.Fatal(c.state, c.outputs)
	}
	c.tick(10_000)
	if c.state.Phase != Waiting || c.state.Reason != ReasonToken || c.wakeAt() != 10_250 {
		t.Fatal(c.state, c.wakeAt())
	}
	late := "late"
	c.tokenAnswered(10_001, first, &late)
	c.tokenFailed(10_001, first, true)
	if c.tokens.token != nil || c.state.Phase != Waiting {
		t.Fatal("the late result was taken", c.state)
	}
	c.outputs = nil
	c.tick(10_250)
	second := lastTokenCall(c)
	if second == first || second == 0 || c.wakeAt() != 20_250 {
		t.Fatal(second, c.wakeAt())
	}
	good := "good"
	c.tokenAnswered(20_249, second, &good)
	if c.phase != phaseOpening || *c.tokens.token != "good" {
		t.Fatal(c.state)
	}
}

// X1: a token that comes after the close opens nothing, nor does an error in its place.
func TestALateTokenOpensNothing(t *testing.T) {
	late := "late"
	for _, answer := range []func(c *core, id int){
		func(c *core, id int) { c.tokenAnswered(2, id, &late) },
		func(c *core, id int) { c.tokenFailed(2, id, false) },
	} {
		c, id := withSource()
		c.close(0, 0)
		c.tick(1)
		if c.state.Phase != Closed {
			t.Fatal(c.state)
		}
		c.outputs = nil
		answer(c, id)
		if len(c.outputs) != 0 || c.state.Phase != Closed {
			t.Fatal(c.outputs, c.state)
		}
	}
}

// T9: a renewal that takes longer than 10 s is repeated while the connection lives, and its result is
// dropped when the connection is gone.
func TestARenewalOfAGoneConnectionIsDropped(t *testing.T) {
	c, id := withSource()
	token := "first"
	c.tokenAnswered(0, id, &token)
	c.opened(0)
	c.received(0, append([]byte{0x81, 0, 1}, make([]byte, 13)...), false)
	c.outputs = nil
	c.received(0, []byte{0x8f, 0, 0}, false)
	slow := lastTokenCall(c)
	c.tick(10_000)
	if slow == 0 || c.state.Phase != Live || lastTokenCall(c) != 0 {
		t.Fatal(slow, c.state)
	}
	c.tick(c.wakeAt())
	again := lastTokenCall(c)
	if again == 0 {
		t.Fatal("the source is not called again")
	}
	c.closed(20_000, 1006)
	late := "late"
	c.tokenAnswered(20_000, again, &late)
	if *c.tokens.token != "first" {
		t.Fatal("a result for a gone connection was taken")
	}
}

// C11: epochs and tokens of PING have 64 bits; so have offsets, as this language's numbers are exact.
func TestNumbersHave64Bits(t *testing.T) {
	c, it := welcomed(subscriptionOptions{})
	all := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	c.received(0, append([]byte{wire.TypePing, 0}, all...), false)
	pong, ok := c.outputs[0].(sendOutput)
	if !ok || !bytes.Equal(pong.frame, append([]byte{0x08, 0}, all...)) {
		t.Fatal(c.outputs)
	}
	c.received(0, append(append([]byte{0x82, 0, 1, 5}, all...), 0), false)
	c.received(0, append(append([]byte{wire.TypeMessage, 0, 5}, all...), all...), false)
	items := c.take(0, it, 10, nil)
	message, ok := items[len(items)-1].(*Message)
	if want := (Position{1<<64 - 1, 1<<64 - 1}); !ok || message.Position != want {
		t.Fatal(items)
	}
}

// FuzzCore: whatever a server sends, nothing is handed on twice, and nothing panics (P15).
func FuzzCore(f *testing.F) {
	f.Add([]byte{6, 0x82, 0, 1, 5, 7, 42, 6, 0x84, 0, 5, 43, 1, 'h'})
	f.Add([]byte{6, 0x82, 2, 1, 5, 7, 42, 7, 0x87, 0, 1, 8, 42, 100, 0})
	f.Add([]byte{6, 0x82, 1, 1, 1, 0, 0, 7, 0x8b, 0, 2, 1, 100, 0, 0})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		c, it := welcomed(subscriptionOptions{})
		handed := make(map[Position]bool)
		for now := int64(1); len(bytes) > 0; now++ {
			length := min(int(bytes[0]), len(bytes)-1)
			c.received(now, bytes[1:1+length], false)
			bytes = bytes[1+length:]
			for _, item := range c.take(now, it, 1000, nil) {
				if m, ok := item.(*Message); ok {
					if handed[m.Position] {
						t.Fatalf("%v came twice", m.Position)
					}
					handed[m.Position] = true
				}
			}
			c.tick(now)
		}
	})
}
