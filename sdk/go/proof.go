package crore

import (
	"slices"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// The proof of no loss: section 6 of spec/protocol.md.

// hole is a range that was never announced.
type hole struct{ from, to Position }

// verdict is what the proof says of a message.
type verdict int

const (
	repeated verdict = iota // settled before
	next
	behindHole
)

// proof is the cursor of a plain topic: the place up to which everything is settled. A message
// continues it if and only if its prev is at or below the cursor.
type proof struct {
	at    Position
	known bool
	// due is the position before a gap that the server has not announced yet.
	due    Position
	gapDue bool
	// handed is the newest message handed on: whatever the server sends, none comes twice (P15).
	handed   Position
	handedOn bool
}

func startProof(at Position) proof { return proof{at: at, known: true} }

// cursor is the position to resume from: while a gap is due, the one before it (P9).
func (p *proof) cursor() (Position, bool) {
	if p.gapDue {
		return p.due, true
	}
	return p.at, p.known
}

func (p *proof) connectionLost() {
	p.at, p.known = p.cursor()
	p.gapDue = false
}

// subscribed takes SUBSCRIBED: P7, P8.
func (p *proof) subscribed(through Position, continued bool) {
	p.gapDue = false
	switch {
	case !p.known:
		p.at, p.known = through, true
	case continued && through.Offset <= p.at.Offset:
		p.at.Epoch = through.Epoch
	default:
		p.due, p.gapDue = p.at, true
		if p.at.Epoch != through.Epoch {
			p.at = through
		}
	}
}

// message takes MESSAGE: P1 to P3, P7, P16.
func (p *proof) message(prev, offset uint64, lineage wire.Lineage) (verdict, hole) {
	if offset <= p.at.Offset || p.handedOn && p.handed.Epoch == p.at.Epoch && offset <= p.handed.Offset {
		return repeated, hole{}
	}
	at, due, gapDue := p.at, p.due, p.gapDue
	p.gapDue = false
	p.at = Position{lineage.Advance(at.Epoch), offset}
	p.handed, p.handedOn = p.at, true
	if gapDue && due.Epoch != at.Epoch {
		return behindHole, hole{due, Position{p.at.Epoch, max(prev, at.Offset)}}
	}
	if prev > at.Offset {
		return behindHole, hole{at, Position{p.at.Epoch, prev}}
	}
	return next, hole{}
}

// gap takes GAP and returns where it begins: P4.
func (p *proof) gap(to Position) (from Position, known bool) {
	from, known = p.cursor()
	p.at, p.known, p.gapDue = to, true, false
	return from, known
}

// skipped takes SKIPPED: P5.
func (p *proof) skipped(from, through uint64, lineage wire.Lineage) (hole, bool) {
	at := p.at
	p.at = settled(at, through, lineage)
	return hole{at, Position{at.Epoch, from}}, from > at.Offset
}

// caughtUp takes CAUGHT_UP; the hole stands in place of a gap that never came: P6, P7.
func (p *proof) caughtUp(through uint64, lineage wire.Lineage) (hole, bool) {
	p.at = settled(p.at, through, lineage)
	wasDue := p.gapDue
	p.gapDue = false
	return hole{p.due, p.at}, wasDue
}

// settled is a cursor when everything up to an offset is settled.
func settled(at Position, through uint64, lineage wire.Lineage) Position {
	return Position{lineage.Advance(at.Epoch), max(at.Offset, through)}
}

// partitionCursor is a filter's cursor in one partition.
type partitionCursor struct {
	partition int64
	at        Position
	handed    Position
	handedOn  bool
}

// cursors are a filter's cursors, in the order of partitions: P10.
type cursors struct{ list []partitionCursor }

func (c *cursors) find(partition int64) (int, bool) {
	return slices.BinarySearchFunc(c.list, partition, func(one partitionCursor, wanted int64) int {
		return int(min(max(one.partition-wanted, -1), 1))
	})
}

func (c *cursors) get(partition int64) *partitionCursor {
	if at, found := c.find(partition); found {
		return &c.list[at]
	}
	return nil
}

func (c *cursors) set(partition int64, to Position) *partitionCursor {
	at, found := c.find(partition)
	if !found {
		c.list = slices.Insert(c.list, at, partitionCursor{partition: partition})
	}
	c.list[at].at = to
	return &c.list[at]
}

func (c *cursors) subscribed(partition int64, through Position, continued bool) {
	if one := c.get(partition); one == nil {
		c.set(partition, through)
	} else if continued {
		one.at.Epoch = through.Epoch
	}
}

func (c *cursors) message(partition int64, to Position, prev uint64, lineage wire.Lineage) (verdict, hole) {
	one := c.get(partition)
	if one == nil {
		one = c.set(partition, to)
		one.handed, one.handedOn = to, true
		return next, hole{}
	}
	from := one.at
	isSame := lineage.Advance(from.Epoch) == to.Epoch
	if isSame && to.Offset <= from.Offset || one.handedOn && one.handed.Epoch == to.Epoch && to.Offset <= one.handed.Offset {
		return repeated, hole{}
	}
	one.at, one.handed, one.handedOn = to, to, true
	if isSame {
		return next, hole{}
	}
	return behindHole, hole{from, Position{to.Epoch, prev}}
}

func (c *cursors) gap(partition int64, to Position) (from Position, known bool) {
	if one := c.get(partition); one != nil {
		from, known = one.at, true
	}
	c.set(partition, to)
	return from, known
}

func (c *cursors) skipped(partition int64, through Position) {
	one := c.get(partition)
	if one == nil || one.at.Epoch != through.Epoch || one.at.Offset < through.Offset {
		c.set(partition, through)
	}
}

// caughtUp returns the cursor, or nothing for an unknown partition.
func (c *cursors) caughtUp(partition int64, through uint64, lineage wire.Lineage) (Position, bool) {
	one := c.get(partition)
	if one == nil {
		return Position{}, false
	}
	one.at = settled(one.at, through, lineage)
	return one.at, true
}
