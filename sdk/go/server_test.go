package crore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The client against a real node of the server. Numbers are those of the rules of spec/sdk.md.

func TestMessagesGoFromPublisherToSubscriber(t *testing.T) {
	client := startNode(t, "").connect(Options{Name: "test"})
	plain, wild := subscribe(t, client, "a/b"), subscribe(t, client, "a/#")
	ready(t, client)
	if err := wild.Ready(bounded(t)); err != nil {
		t.Fatal(err)
	}
	granted(t, plain)
	published := publish(t, client, "a/b", `{"x":1}`, ContentType("application/json"), WithTag("unit", "mm"), WithTag("room", "7"))
	for _, s := range []*Subscription{plain, wild} {
		m, err := s.Receive(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		room, _ := m.Tag("room")
		if m.Topic != "a/b" || m.Position != published.Position || m.ContentType != "application/json" || room != "7" {
			t.Errorf("%+v", m)
		}
		var value struct{ X int }
		if err := m.JSON(&value); err != nil || value.X != 1 {
			t.Error(value, err)
		}
	}
	// S10: a bad payload fails where it is read, and nowhere else.
	publish(t, client, "a/b", "\x00\xff")
	bad, err := plain.Receive(bounded(t))
	if err != nil || bad.JSON(new(any)) == nil {
		t.Error(bad, err)
	}
	publish(t, client, "a/b", "next")
	expect(t, plain, "next")
	if report := plain.Report(); !report.Complete || report.Messages != 3 || report.Basis != BasisProved {
		t.Errorf("%+v", report)
	}
	if wild.Report().Basis != BasisAnnounced {
		t.Error("a filter proves nothing")
	}
}

// S12: a subscription is ready when the server has granted it, and fails if it ends before.
func TestASubscriptionIsReadyWhenItIsGranted(t *testing.T) {
	n := startNode(t, "")
	client := n.connect(Options{})
	wild := subscribe(t, client, "a/#")
	begun := func() {
		t.Helper()
		if err := wild.Ready(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	begun()
	// Another client's message comes after the begin, so it comes.
	publish(t, n.connect(Options{}), "a/b", "1")
	expect(t, wild, "1")
	var refused *Error
	if err := subscribe(t, client, "b/+", Last(3)).Ready(bounded(t)); !errors.As(err, &refused) || refused.Code != CodeUnsupportedStart {
		t.Error(err)
	}
	n.kill()
	never := subscribe(t, client, "c")
	never.Close()
	if err := never.Ready(bounded(t)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	begun()
}

func TestRefusalsAreErrorsWithCodeAndName(t *testing.T) {
	client := startNode(t, "").connect(Options{})
	_, err := client.Publish(bounded(t), "$sys/x", nil)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != CodeForbidden || refused.Name != "forbidden" || refused.Temporary {
		t.Error(err)
	}
	if _, err := subscribe(t, client, "a/+", Last(3)).Next(bounded(t)); !errors.As(err, &refused) || refused.Code != CodeUnsupportedStart {
		t.Error(err)
	}
	if _, err := client.Subscribe(bounded(t), ""); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := client.Publish(bounded(t), strings.Repeat("x", 256), nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	one := subscribe(t, client, "t")
	if _, err := client.Subscribe(bounded(t), "t"); !errors.Is(err, ErrAlreadySubscribed) {
		t.Error(err)
	}
	one.Close()
	one.Close()
	if _, err := one.Next(bounded(t)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	subscribe(t, client, "t")
}

func TestASubscriptionEndsWithItsContext(t *testing.T) {
	client := startNode(t, "").connect(Options{})
	ctx, cancel := context.WithCancel(context.Background())
	s, err := client.Subscribe(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	granted(t, s)
	cancel()
	if _, err := s.Next(bounded(t)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := client.Subscribe(ctx, "u"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func historyTexts(t *testing.T, client *Client, topic string, options HistoryOptions) (texts []string) {
	t.Helper()
	for m, err := range client.History(bounded(t), topic, options) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, m.Text())
	}
	return texts
}

func TestHistoryComesPageByPage(t *testing.T) {
	client := startNode(t, "").connect(Options{})
	var positions []Position
	var all []string
	for number := range 25 {
		all = append(all, fmt.Sprint(number))
		positions = append(positions, publish(t, client, "h", all[number]).Position)
	}
	if got := historyTexts(t, client, "h", HistoryOptions{}); !slices.Equal(got, all) {
		t.Error(got)
	}
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	if got := historyTexts(t, client, "h", HistoryOptions{Reverse: true}); !slices.Equal(got, reversed) {
		t.Error(got)
	}
	if got := historyTexts(t, client, "h", HistoryOptions{From: &positions[9], Limit: 3}); !slices.Equal(got, all[10:13]) {
		t.Error(got)
	}
	page, err := client.HistoryPage(bounded(t), "h", HistoryOptions{Limit: 10})
	if err != nil || len(page.Messages) != 10 || !page.More || page.Gap != nil || page.Messages[0].Time().IsZero() {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestASubscriptionSurvivesKillsWithoutAGapOrARepeat(t *testing.T) {
	n := startNode(t, onDisk)
	client, other := n.connect(Options{}), n.connect(Options{})
	s := subscribe(t, client, "a")
	granted(t, s)
	for round := range 3 {
		var texts []string
		send := func(from, to int) {
			for number := from; number < to; number++ {
				texts = append(texts, fmt.Sprint(round, ".", number))
				publish(t, other, "a", texts[number], Once())
			}
		}
		send(0, 20)
		n.kill() // what was confirmed is on disk
		n.start()
		send(20, 30)
		expect(t, s, texts...)
	}
	complete(t, s)
	if count := s.Report().Messages; count != 90 {
		t.Error(count)
	}
}

func TestOnceIsExactlyOnceOverKills(t *testing.T) {
	n := startNode(t, onDisk)
	client := n.connect(Options{})
	var calls []*Publication
	var texts []string
	for round := range 4 {
		for number := range 100 {
			texts = append(texts, fmt.Sprint(round, ".", number))
			calls = append(calls, client.PublishAsync("once", []byte(texts[len(texts)-1]), Once()))
		}
		// Some are answered, some are on their way, some wait.
		if _, err := calls[len(calls)-90].Wait(bounded(t)); err != nil {
			t.Fatal(err)
		}
		n.kill()
		n.start()
	}
	positions := make(map[Position]bool)
	for _, one := range calls {
		published, err := one.Wait(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		positions[published.Position] = true
	}
	if got := historyTexts(t, client, "once", HistoryOptions{}); len(positions) != 400 || !slices.Equal(got, texts) {
		t.Error(len(positions), got)
	}
}

// events is a slog.Handler that keeps the events of a client.
type events struct {
	mu    sync.Mutex
	lines []string
	added chan struct{}
}

func newEvents() *events { return &events{added: make(chan struct{}, 1)} }

func (e *events) Enabled(context.Context, slog.Level) bool { return true }

func (e *events) Handle(_ context.Context, record slog.Record) error {
	line := record.Message
	record.Attrs(func(attribute slog.Attr) bool {
		line += " " + attribute.String()
		return true
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, line)
	select {
	case e.added <- struct{}{}:
	default:
	}
	return nil
}

func (e *events) WithAttrs([]slog.Attr) slog.Handler { return e }
func (e *events) WithGroup(string) slog.Handler      { return e }

func (e *events) has(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.lines, func(line string) bool { return strings.Split(line, " ")[0] == name })
}

// contains reports whether some event has this text.
func (e *events) contains(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.lines, func(line string) bool { return strings.Contains(line, text) })
}

// all are the lines so far. The client may add more at any time.
func (e *events) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.lines)
}

// wait waits for an event.
func (e *events) wait(t testing.TB, name string) {
	t.Helper()
	ctx := bounded(t)
	for !e.has(name) {
		select {
		case <-e.added:
		case <-ctx.Done():
			t.Fatalf("no event %s among %q", name, e.all())
		}
	}
}

func TestADrainedNodeSendsItsClientsAway(t *testing.T) {
	n := startNode(t, onDisk)
	events := newEvents()
	client := n.connect(Options{Logger: slog.New(events)})
	s := subscribe(t, client, "a")
	granted(t, s)
	publish(t, client, "a", "before")
	n.signal(syscall.SIGTERM)
	events.wait(t, "go_away")
	n.start()
	publish(t, client, "a", "after")
	expect(t, s, "before", "after")
	complete(t, s)
}

func TestTicketsResumeASessionInOneFrame(t *testing.T) {
	n := startNode(t, onDisk)
	events := newEvents()
	client := n.connect(Options{Logger: slog.New(events)})
	s, wild := subscribe(t, client, "a"), subscribe(t, client, "b/#")
	events.wait(t, "ticket")
	publish(t, client, "a", "1")
	n.kill()
	n.start()
	publish(t, client, "a", "2", Once())
	publish(t, client, "b/c", "3", Once())
	expect(t, s, "1", "2")
	expect(t, wild, "3")
	complete(t, s)
	complete(t, wild)
	if events.has("ticket_refused") {
		t.Error("the ticket was refused")
	}
}

// guarded starts a node that requires tokens, and gives notice of their expiry two hours before; token
// makes one.
func guarded(t *testing.T) (n *node, token func(expires string, flags ...string) string) {
	n = newNode(t, "")
	secret := filepath.Join(n.folder, "secret")
	n.say("token", "key", "--algorithm", "HS256", "--out", secret)
	n.configuration = "[entitlement]\nmode = \"tokens\"\nnotice_before = \"2h\"\n[[token_key]]\nalgorithm = \"HS256\"\nsecret_file = \"" + secret + "\"\n"
	n.start()
	return n, func(expires string, flags ...string) string {
		words := []string{"token", "gen", "--secret-file", secret, "--algorithm", "HS256", "--expires", expires}
		return n.say(append(words, flags...)...)
	}
}

// source gives tokens in turn, the last one again and again, and counts reasons.
type source struct {
	mu      sync.Mutex
	tokens  []string
	reasons []TokenReason
}

func (s *source) token(_ context.Context, reason TokenReason) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reasons = append(s.reasons, reason)
	token := s.tokens[0]
	if len(s.tokens) > 1 {
		s.tokens = s.tokens[1:]
	}
	return token, nil
}

// asked are the reasons so far. The client may ask again at any time.
func (s *source) asked() []TokenReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reasons)
}

func TestTokens(t *testing.T) {
	n, token := guarded(t)
	good := token("3h", "--sub", "a", "--all", "mine/#")
	mine := &source{tokens: []string{good}}
	client := n.connect(Options{TokenSource: mine.token})
	publish(t, client, "mine/x", "yes")
	if asked := mine.asked(); !slices.Equal(asked, []TokenReason{TokenFirst}) {
		t.Error(asked)
	}
	var refused *Error
	if _, err := client.Publish(bounded(t), "other", nil); !errors.As(err, &refused) || refused.Code != CodeForbidden {
		t.Error(err)
	}
	other := subscribe(t, client, "other")
	if err := other.Ready(bounded(t)); !errors.As(err, &refused) || refused.Code != CodeForbidden {
		t.Error(err)
	}
	if _, err := other.Next(bounded(t)); !errors.As(err, &refused) || refused.Code != CodeForbidden {
		t.Error(err)
	}
	// T7: a fixed token that is refused is final, and so is one that a source repeats.
	if err := n.connect(Options{Token: "not.a.token"}).Ready(bounded(t)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	bad := &source{tokens: []string{"not.a.token"}}
	if err := n.connect(Options{TokenSource: bad.token}).Ready(bounded(t)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if asked := bad.asked(); !slices.Equal(asked, []TokenReason{TokenFirst, TokenRefused}) {
		t.Error(asked)
	}
	second := &source{tokens: []string{"not.a.token", good}}
	ready(t, n.connect(Options{TokenSource: second.token}))
}

// T9: a source that fails is called again, and ErrUnauthorized is final.
func TestATokenSourceMayFail(t *testing.T) {
	n, token := guarded(t)
	good, calls := token("3h", "--sub", "a", "--all", "#"), 0
	failing := n.connect(Options{TokenSource: func(context.Context, TokenReason) (string, error) {
		switch calls++; calls {
		case 1:
			return "", errors.New("the network is down")
		case 2:
			panic("a mistake")
		}
		return good, nil
	}})
	ready(t, failing)
	if calls != 3 {
		t.Error(calls)
	}
	refusing := n.connect(Options{TokenSource: func(context.Context, TokenReason) (string, error) {
		return "", fmt.Errorf("log in again: %w", ErrUnauthorized)
	}})
	if err := refusing.Ready(bounded(t)); !errors.Is(err, ErrClosed) || refusing.State().Reason != ReasonToken {
		t.Error(err, refusing.State())
	}
}

// T2, T4: a token is renewed in place. T11: no token is in the log or in Inspect.
func TestATokenIsRenewedInPlace(t *testing.T) {
	n, token := guarded(t)
	events := newEvents()
	short := &source{tokens: []string{token("1h", "--sub", "b", "--all", "#"), token("3h", "--sub", "b", "--all", "#")}}
	client := n.connect(Options{TokenSource: short.token, Logger: slog.New(events)})
	s := subscribe(t, client, "s")
	granted(t, s)
	events.wait(t, "token_renewed")
	publish(t, client, "s", "x")
	expect(t, s, "x")
	complete(t, s)
	if asked := short.asked(); !slices.Equal(asked, []TokenReason{TokenFirst, TokenExpires}) {
		t.Error(asked)
	}
	shown, err := json.Marshal(client.Inspect())
	if err != nil || strings.Contains(string(shown)+strings.Join(events.all(), " "), "eyJ") {
		t.Error("a token is shown", err)
	}
}

// P13: a gap is an error in its place, and reading goes on behind it.
func TestAGapIsAnErrorInItsPlace(t *testing.T) {
	client := startNode(t, onDisk).connect(Options{})
	first := publish(t, client, "g", "first")
	publish(t, client, "g", "second")
	strange := Position{Epoch: 1, Offset: first.Position.Offset} // of an epoch that never was
	s := subscribe(t, client, "g", Since(strange))
	var gap *GapError
	for m, err := range s.Messages(bounded(t)) {
		if !errors.As(err, &gap) || *gap.Gap.From != strange {
			t.Fatal(m, err)
		}
	}
	publish(t, client, "g", "third")
	last := ""
	for m, err := range s.Messages(bounded(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if last = m.Text(); last == "third" {
			break
		}
	}
	if report := s.Report(); report.Complete || report.Gaps != 1 || last != "third" {
		t.Errorf("%+v", report)
	}
	s.Close()
	strict := subscribe(t, client, "g", Since(strange), FailOnGap())
	var refused *Error
	if _, err := strict.Next(bounded(t)); !errors.As(err, &refused) || refused.Code != CodePositionUnavailable || refused.Restart == nil {
		t.Error(err)
	}
	counting := subscribe(t, client, "g", Since(strange), ReportGaps())
	publish(t, client, "g", "fourth")
	for m, err := range counting.Messages(bounded(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Text() == "fourth" {
			break
		}
	}
	if counting.Report().Gaps != 1 {
		t.Error(counting.Report())
	}
}

// B5: a slow reader stops no other subscription, and misses nothing.
func TestASlowReaderStopsNobody(t *testing.T) {
	n := startNode(t, onDisk)
	client, publisher := n.connect(Options{BufferItems: 16}), n.connect(Options{})
	slow, quick := subscribe(t, client, "slow"), subscribe(t, client, "quick")
	granted(t, slow)
	granted(t, quick)
	var texts []string
	for number := range 200 {
		texts = append(texts, fmt.Sprint(number))
		publish(t, publisher, "slow", texts[number])
		publish(t, publisher, "quick", texts[number])
		expect(t, quick, texts[number])
	}
	if buffered := client.Inspect().Subscriptions[0].Buffered; buffered > 16 {
		t.Error(buffered)
	}
	expect(t, slow, texts...)
	complete(t, slow)
}

// X3: close in every state and twice is safe, and a call after it fails.
func TestCloseIsSafeInEveryState(t *testing.T) {
	n := startNode(t, "")
	nowhere := *n
	nowhere.listen = ownAddress() + ":9"
	for name, make := range map[string]func() *Client{
		"connecting": func() *Client { return n.connect(Options{}) },
		"live": func() *Client {
			client := n.connect(Options{})
			ready(t, client)
			return client
		},
		"waiting": func() *Client {
			waiting := newEvents()
			client := nowhere.connect(Options{Logger: slog.New(waiting)})
			waiting.wait(t, "waiting")
			return client
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := make()
			s := subscribe(t, client, "x")
			var group sync.WaitGroup
			group.Add(3)
			go func() {
				defer group.Done()
				for item, err := range s.Items(context.Background()) {
					if _, ok := item.(*CaughtUp); !ok {
						t.Error(item, err)
					}
				}
			}()
			for range 2 {
				go func() {
					defer group.Done()
					if err := client.Close(bounded(t)); err != nil {
						t.Error(err)
					}
				}()
			}
			group.Wait()
			_, publishErr := client.Publish(bounded(t), "x", nil)
			_, pageErr := client.HistoryPage(bounded(t), "x", HistoryOptions{})
			_, subscribeErr := client.Subscribe(bounded(t), "z")
			for _, err := range []error{publishErr, pageErr, subscribeErr, client.Ready(bounded(t))} {
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
			if client.State().Phase != Closed {
				t.Error(client.State())
			}
		})
	}
}

// X5: a callback that panics harms nobody, and a callback may call the client.
func TestACallbackMayPanicAndCallTheClient(t *testing.T) {
	n := startNode(t, "")
	called := make(chan error, 1)
	var client *Client
	made := make(chan struct{})
	client = n.connect(Options{OnState: func(state State) {
		<-made
		if state.Phase == Live {
			_, err := client.Publish(context.Background(), "x", []byte("of a callback"))
			called <- err
		}
		panic("mine")
	}})
	close(made)
	if err := <-called; err != nil {
		t.Fatal(err)
	}
	publish(t, client, "x", "still alive")
	if err := client.Close(bounded(t)); err != nil {
		t.Fatal(err)
	}
	failed := func(event Event) bool { return event.Name == "callback_failed" }
	for ctx := bounded(t); !slices.ContainsFunc(client.Inspect().Events, failed); {
		if ctx.Err() != nil {
			t.Fatal("no event callback_failed")
		}
	}
}

// X6: Inspect shows what a person asks for.
func TestInspect(t *testing.T) {
	client := startNode(t, "").connect(Options{})
	s := subscribe(t, client, "x")
	granted(t, s)
	publish(t, client, "x", "1")
	expect(t, s, "1")
	shown := client.Inspect()
	connected := func(event Event) bool { return event.Name == "connected" }
	if shown.State.Phase != Live || shown.Subscriptions[0].Topic != "x" || shown.Subscriptions[0].Report.Messages != 1 ||
		shown.Queue.Sent != 0 || shown.RoundTripMs < 0 || shown.Counters.Messages != 1 ||
		!slices.ContainsFunc(shown.Events, connected) {
		t.Errorf("%+v", shown)
	}
}

// U11: a call that is given up before it was sent is never sent.
func TestAnAbandonedCallIsNeverSent(t *testing.T) {
	n := startNode(t, onDisk)
	n.kill()
	client := n.connect(Options{})
	ctx, cancel := context.WithCancel(context.Background())
	never := client.PublishAsync("x", []byte("never"))
	cancel()
	if _, err := never.Wait(ctx); !errors.Is(err, ErrExpired) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	then := client.PublishAsync("x", []byte("then"), Once())
	n.start()
	if _, err := then.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if got := historyTexts(t, client, "x", HistoryOptions{}); !slices.Equal(got, []string{"then"}) {
		t.Error(got)
	}
}

// U15: many publications wait for room in the socket, and all arrive in order.
func TestManyPublicationsWaitForTheSocket(t *testing.T) {
	client := startNode(t, "").connect(Options{})
	ready(t, client)
	data := make([]byte, 60_000)
	var calls []*Publication
	for range 100 {
		calls = append(calls, client.PublishAsync("big", data))
	}
	last := uint64(0)
	for _, one := range calls {
		published, err := one.Wait(bounded(t))
		if err != nil || published.Position.Offset <= last {
			t.Fatal(published, err)
		}
		last = published.Position.Offset
	}
}
