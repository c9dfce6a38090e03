package crore

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// R11, P14: a named subscription resumes from what was processed, in a new program.
func TestANamedSubscriptionResumesOverRestarts(t *testing.T) {
	folder := t.TempDir()
	n := startNode(t, onDisk)
	for _, topic := range []string{"a", "w/#"} {
		t.Run(topic, func(t *testing.T) {
			storage := FileStorage(folder)
			target := strings.Replace(topic, "#", "x", 1)
			first := n.connect(Options{Storage: storage})
			s := subscribe(t, first, topic, Named("reader of "+topic))
			if err := s.Ready(bounded(t)); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"0", "1", "2", "3"} {
				publish(t, first, target, text)
			}
			// The program ends while it processes 1: it was not processed.
			expect(t, s, "0", "1")
			if err := first.Close(bounded(t)); err != nil {
				t.Fatal(err)
			}
			publish(t, n.connect(Options{}), target, "4")
			publish(t, n.connect(Options{}), strings.Replace(topic, "#", "y", 1), "5")
			second := n.connect(Options{Storage: storage})
			again := subscribe(t, second, topic, Named("reader of "+topic))
			if topic == "a" {
				expect(t, again, "1", "2", "3", "4", "5")
			} else {
				// The order of two topics of a filter is open.
				texts := make(map[string]bool)
				for range 5 {
					m, err := again.Receive(bounded(t))
					if err != nil {
						t.Fatal(err)
					}
					texts[m.Text()] = true
				}
				if len(texts) != 5 || texts["0"] {
					t.Error(texts)
				}
			}
			complete(t, again)
		})
	}
}

// brokenStorage cannot be used.
type brokenStorage struct{}

func (brokenStorage) Get(context.Context, string) (string, error) { return "", nil }
func (brokenStorage) Set(context.Context, string, string) error   { return errors.New("full") }
func (brokenStorage) Delete(context.Context, string) error        { return errors.New("full") }

// X5: a storage that fails harms nobody.
func TestAStorageMayFail(t *testing.T) {
	n := startNode(t, "")
	client := n.connect(Options{Storage: brokenStorage{}})
	s := subscribe(t, client, "a", Named("reader"))
	granted(t, s)
	publish(t, client, "a", "x")
	expect(t, s, "x")
	if _, err := n.connect(Options{}).Subscribe(bounded(t), "a", Named("reader")); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

// R11: with StoreTickets, the next program resumes in one frame; without it, no ticket is stored.
func TestAStoredTicketResumesTheNextProgram(t *testing.T) {
	folder, n := t.TempDir(), startNode(t, onDisk)
	tickets := func() (names []string) {
		names, err := filepath.Glob(filepath.Join(folder, "crore%3Aticket%3A*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	begin := func(storesTickets bool) (*Client, *events, []*Subscription) {
		events := newEvents()
		client := n.connect(Options{Storage: FileStorage(folder), StoreTickets: storesTickets, Logger: slog.New(events)})
		return client, events, []*Subscription{
			subscribe(t, client, "a", Named("a"), FailOnGap()), subscribe(t, client, "w/#", Named("w")),
		}
	}
	end := func(client *Client, events *events) {
		events.wait(t, "ticket")
		if err := client.Close(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	client, events, _ := begin(false)
	end(client, events)
	if stored := tickets(); len(stored) != 0 {
		t.Fatal(stored)
	}
	client, events, _ = begin(true)
	end(client, events)
	if len(tickets()) != 1 {
		t.Fatal("no ticket is stored")
	}
	other := n.connect(Options{})
	publish(t, other, "a", "1")
	publish(t, other, "w/x", "2")
	n.kill()
	client, events, subscriptions := begin(true) // all subscriptions begin before the node is there
	n.start()
	expect(t, subscriptions[0], "1")
	expect(t, subscriptions[1], "2")
	complete(t, subscriptions[0])
	complete(t, subscriptions[1])
	events.wait(t, "connected") // the logger runs beside the reader
	if events.has("ticket_refused") || !events.contains("resumed=2") {
		t.Error(events.all())
	}
	end(client, events)
	shown, err := json.Marshal(client.Inspect())
	kept, readErr := os.ReadFile(tickets()[0])
	var ticket keptTicket
	if err != nil || readErr != nil || json.Unmarshal(kept, &ticket) != nil || len(ticket.Ticket) < 16 {
		t.Fatal(err, readErr, ticket)
	}
	for _, form := range []string{string(ticket.Ticket), base64.StdEncoding.EncodeToString(ticket.Ticket), hex.EncodeToString(ticket.Ticket)} {
		if strings.Contains(string(shown)+strings.Join(events.all(), " "), form) {
			t.Error("a ticket is shown") // T11
		}
	}
	// Another set of subscriptions cannot use the ticket.
	events = newEvents()
	client = n.connect(Options{Storage: FileStorage(folder), StoreTickets: true, Logger: slog.New(events)})
	err = subscribe(t, client, "a", Named("a")).Ready(bounded(t))
	events.wait(t, "connected")
	if err != nil || events.contains("resumed=2") {
		t.Error(err, events.all())
	}
	if _, err := New(n.urls(), Options{StoreTickets: true}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

// R11: a stored ticket hides nothing that was not processed.
func TestAStoredTicketHidesNothing(t *testing.T) {
	folder, n := t.TempDir(), startNode(t, onDisk)
	for program := range 2 {
		events := newEvents()
		client := n.connect(Options{Storage: FileStorage(folder), StoreTickets: true, Logger: slog.New(events)})
		s := subscribe(t, client, "a", Named("a"))
		// All three come before the ticket; the first program ends while it processes 0.
		texts := []string{"0", "1", "2"}
		if program == 0 {
			granted(t, s)
			for _, text := range texts {
				publish(t, client, "a", text)
			}
			texts = texts[:1]
		}
		expect(t, s, texts...)
		complete(t, s)
		events.wait(t, "ticket")
		if err := client.Close(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// U13: stored publications survive the program, and are in the log once.
func TestStoredPublicationsSurviveTheProgram(t *testing.T) {
	folder := t.TempDir()
	n := startNode(t, onDisk)
	files := func() int {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	options := Options{Storage: FileStorage(folder), Persist: true}
	first := n.connect(options)
	publish(t, first, "p", "0", Once())
	n.kill()
	// Without a node: stored, and never answered in this program.
	var lost []*Publication
	for _, text := range []string{"1", "2", "3"} {
		lost = append(lost, first.PublishAsync("p", []byte(text), Once(), WithTag("n", text)))
	}
	ctx, cancel := context.WithCancel(bounded(t))
	first.persistence.idle(ctx)
	cancel()
	_ = first.Close(ctx)
	for _, one := range lost {
		if _, err := one.Wait(bounded(t)); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
	}
	if err := first.running.wait(bounded(t)); err != nil || files() != 4 {
		t.Error(err, files())
	}
	if late := first.PublishAsync("p", nil, Once()); !errors.Is(late.err, ErrClosed) {
		t.Error(late.err)
	}
	n.start()
	second := n.connect(options)
	publish(t, second, "p", "4", Once())
	if got := historyTexts(t, second, "p", HistoryOptions{}); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		t.Error(got)
	}
	if err := second.Close(bounded(t)); err != nil || files() != 1 {
		t.Error("only the producer is left:", err, files())
	}
}

// U13: what cannot be stored is not sent.
func TestWhatCannotBeStoredIsNotSent(t *testing.T) {
	client := startNode(t, "").connect(Options{Storage: brokenStorage{}, Persist: true})
	if _, err := client.Publish(bounded(t), "p", []byte("x"), Once()); err == nil || !strings.Contains(err.Error(), "full") {
		t.Error(err)
	}
	publish(t, client, "p", "y")
	if got := historyTexts(t, client, "p", HistoryOptions{}); !slices.Equal(got, []string{"y"}) {
		t.Error(got)
	}
	if _, err := New([]string{"ws://localhost"}, Options{Persist: true}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}
