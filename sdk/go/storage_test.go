package crore

import (
	"context"
	"errors"
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
