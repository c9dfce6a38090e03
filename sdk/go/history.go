package crore

import (
	"context"
	"iter"
	"time"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// Page is one page of history.
type Page struct {
	// Messages are in the page's direction.
	Messages []*Message
	// More says that the direction has further messages behind the last one.
	More bool
	// Gap is the range between the asked position and the first message that is no longer available.
	Gap *Gap
}

// newPage makes the page of a settled call.
func newPage(it *call) *Page {
	page := &Page{More: it.page.More, Messages: make([]*Message, len(it.page.Records))}
	for at := range it.page.Records {
		record := &it.page.Records[at]
		message := recordMessage(&record.Record)
		message.Topic, message.Position = it.topic, Position{it.page.Epoch, record.Offset}
		message.timeMs = clampMs(record.TimeMs)
		page.Messages[at] = message
	}
	if gap := it.page.Gap; gap != nil {
		from, to := Position{it.page.Epoch, gap.From}, Position{it.page.Epoch, gap.To}
		page.Gap = &Gap{&from, &to, knownReason(gap.Reason), NoPartition}
	}
	return page
}

// HistoryOptions say which part of a topic's history is read. The zero value is all of it, oldest
// first.
type HistoryOptions struct {
	// From is the position behind which (with Reverse: before which) history begins.
	From *Position
	// Reverse reads the newest message first.
	Reverse bool
	// Limit is the number of messages, at most; 0 is all.
	Limit int
}

const historyPageMax = 1_000

// HistoryPage reads one page: at most Limit messages, and what the server gives at once.
func (c *Client) HistoryPage(ctx context.Context, topic string, options HistoryOptions) (*Page, error) {
	history := wire.History{Topic: topic, Reverse: options.Reverse, RecordsMax: uint32(max(0, options.Limit))}
	if options.From != nil {
		position := wire.Position(*options.From)
		history.Position = &position
	}
	var it *call
	var err error
	c.with(func(now int64) {
		if it, err = c.core.history(now, history); err == nil {
			it.done = make(chan struct{})
		}
	})
	if err != nil {
		return nil, err
	}
	if err := c.wait(ctx, it); err != nil {
		return nil, err
	}
	return newPage(it), nil
}

// History reads a topic's history page by page: H2. A gap is a *GapError; iteration may go on behind
// it. Any other error is the end.
func (c *Client) History(ctx context.Context, topic string, options HistoryOptions) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		left, from := options.Limit, options.From
		for {
			ask := HistoryOptions{From: from, Reverse: options.Reverse, Limit: historyPageMax}
			if options.Limit > 0 {
				ask.Limit = min(left, historyPageMax)
			}
			page, err := c.HistoryPage(ctx, topic, ask)
			if err != nil {
				yield(nil, err)
				return
			}
			if page.Gap != nil && !yield(nil, &GapError{page.Gap}) {
				return
			}
			for _, message := range page.Messages {
				if !yield(message, nil) {
					return
				}
			}
			left -= len(page.Messages)
			if !page.More || len(page.Messages) == 0 || options.Limit > 0 && left <= 0 {
				return
			}
			from = &page.Messages[len(page.Messages)-1].Position
		}
	}
}

// Time returns when the server has received a message of history; it is zero in all other messages.
func (m *Message) Time() time.Time {
	if m.timeMs == 0 {
		return time.Time{}
	}
	return time.UnixMilli(m.timeMs)
}
