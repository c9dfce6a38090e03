package crore

// The buffer of a subscription: B1 to B4.

const (
	// itemBytes is what an item counts beside its payload.
	itemBytes  = 64
	gapsMax    = 16
	settlesMax = 16
)

// buffer holds the items that the reader has not taken, and counts all of them for the report.
type buffer struct {
	itemsMax, bytesMax int
	// overflowSkips drops the oldest items of a full buffer, in place of pausing.
	overflowSkips bool

	items []Item
	head  int
	// skips stand for dropped items, before all others.
	skips []*Skipped
	// count are the buffered items that count, bytes their size.
	count, bytes int
	// freed are the places of a replay that the reader has freed since the last credit.
	freed int
	// older are buffered items that are older than the last SUBSCRIBE.
	older int
	// left is the newest position, by partition, of the items that have left the buffer, for
	// overflowSkips.
	left map[int64]Position

	gaps       int
	newestGaps []*Gap
	skipsCount int
	messages   int
}

func (b *buffer) isFull(factor int) bool {
	return b.count >= b.itemsMax*factor || b.bytes >= b.bytesMax*factor
}

func (b *buffer) isHalfEmpty() bool { return b.count*2 <= b.itemsMax && b.bytes*2 <= b.bytesMax }

func (b *buffer) isEmpty() bool { return len(b.skips) == 0 && b.head == len(b.items) }

func (b *buffer) push(item Item) {
	switch item := item.(type) {
	case *Message:
		b.messages++
	case *Gap:
		b.gaps++
		if len(b.newestGaps) == gapsMax {
			b.newestGaps = append(b.newestGaps[:0:0], b.newestGaps[1:]...)
		}
		b.newestGaps = append(b.newestGaps, item)
	case *Skipped:
		b.skipsCount++
	case *CaughtUp:
		// A reader that sleeps gets the newest place only.
		if len(b.items) > b.head+settlesMax {
			last := len(b.items) - 1
			if old, ok := b.items[last].(*CaughtUp); ok && old.Partition == item.Partition {
				b.items[last] = item
				return
			}
		}
	}
	b.items = append(b.items, item)
	b.weigh(item, 1)
	if b.overflowSkips {
		for (b.count > b.itemsMax || b.bytes > b.bytesMax) && b.dropOldest() {
			continue
		}
	}
}

func (b *buffer) weigh(item Item, sign int) {
	bytes := itemBytes
	switch item := item.(type) {
	case *CaughtUp:
		b.bytes += sign * bytes
		return
	case *Message:
		bytes += len(item.Payload)
	}
	b.count += sign
	b.bytes += sign * bytes
}

// dropOldest drops the oldest item but the newest, and has a message in a skipped item: B4.
func (b *buffer) dropOldest() bool {
	if len(b.items)-b.head < 2 {
		return false
	}
	item := b.shift()
	message, isMessage := item.(*Message)
	if !isMessage {
		b.leave(item)
		return true
	}
	begin := message.prev
	if from, known := b.left[message.Partition]; known && from.Epoch == message.Position.Epoch {
		begin = from.Offset
	}
	b.leave(item)
	b.messages--
	for _, skip := range b.skips {
		if skip.Partition == message.Partition {
			skip.Through = message.Position.Offset
			return true
		}
	}
	b.skipsCount++
	b.skips = append(b.skips, &Skipped{begin, message.Position.Offset, "overflow", message.Partition})
	return true
}

func (b *buffer) shift() Item {
	if b.head == len(b.items) {
		return nil
	}
	item := b.items[b.head]
	b.items[b.head] = nil
	b.head++
	if b.head == len(b.items) {
		b.items, b.head = b.items[:0], 0
	} else if b.head > 1024 && b.head*2 > len(b.items) {
		rest := copy(b.items, b.items[b.head:])
		clear(b.items[rest:])
		b.items, b.head = b.items[:rest], 0
	}
	b.weigh(item, -1)
	return item
}

// take takes the oldest item out, or nil.
func (b *buffer) take() Item {
	if len(b.skips) > 0 {
		skip := b.skips[0]
		b.skips = b.skips[1:]
		return skip
	}
	item := b.shift()
	if item != nil {
		b.leave(item)
	}
	return item
}

func (b *buffer) leave(item Item) {
	if _, settles := item.(*CaughtUp); !settles {
		if b.older > 0 {
			b.older--
		} else {
			b.freed++
		}
	}
	if !b.overflowSkips {
		return
	}
	if b.left == nil {
		b.left = make(map[int64]Position)
	}
	partition, place, known := settledBy(item, b.left)
	if known {
		b.left[partition] = place
	}
}

// settledBy is the position that is settled once an item has been processed (P14); before are the
// positions that were settled before.
func settledBy(item Item, before map[int64]Position) (partition int64, place Position, known bool) {
	switch item := item.(type) {
	case *Message:
		return item.Partition, item.Position, true
	case *CaughtUp:
		return item.Partition, item.Position, true
	case *Gap:
		if item.To != nil {
			return item.Partition, *item.To, true
		}
	case *Skipped:
		at, has := before[item.Partition]
		if has && item.Through > at.Offset {
			return item.Partition, Position{at.Epoch, item.Through}, true
		}
	}
	return 0, Position{}, false
}

func (b *buffer) clear() {
	b.items, b.head, b.count, b.bytes, b.skips = nil, 0, 0, 0, nil
}
