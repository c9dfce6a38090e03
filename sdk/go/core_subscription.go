package crore

import "github.com/crore/crore/sdk/go/internal/wire"

// subscriptionOptions are the options of a subscription, as the core has them.
type subscriptionOptions struct {
	start     wire.Start
	failOnGap bool
	policy    *byte
	// overflowSkips drops the oldest items of a full buffer, in place of pausing.
	overflowSkips bool
	// isKept: an earlier program has had the subscription, and start is where that one ended.
	isKept bool
}

// subscription is one subscription of the core: what it asks for, its proof and its buffer.
type subscription struct {
	buffer
	filter  string
	options subscriptionOptions
	// number is its number on the wire.
	number   uint32
	isFilter bool
	proof    proof
	cursors  cursors

	// isGranted: the present connection has granted it.
	isGranted bool
	// isAskedEarly: its SUBSCRIBE went with the handshake.
	isAskedEarly bool
	// wasGranted: it was granted once, so that a filter's new grant may mean a gap.
	wasGranted bool
	alias      uint32
	hasAlias   bool
	refusals   int
	// retryAt is when it is asked for again, or 0.
	retryAt int64
	// caughtUpDue: the caught-up item follows the gap that is due.
	caughtUpDue bool
	// isPaused: unsubscribed until the reader has taken half of the buffer.
	isPaused bool
	// usesCredit: the next SUBSCRIBE asks for a replay by credit.
	usesCredit bool
	// replaying are the partitions that replay; NoPartition for a topic.
	replaying map[int64]bool

	isEnded bool
	// endErr is the server's reason; nil if the application has ended it.
	endErr error
	// isAnnounced: the shell knows that there are items.
	isAnnounced bool
	// shell is the shell's part.
	shell *Subscription
}

func newSubscription(filter string, options subscriptionOptions, itemsMax, bytesMax int) *subscription {
	it := &subscription{
		filter: filter, options: options, isFilter: wire.IsWild(filter), replaying: make(map[int64]bool),
		buffer: buffer{itemsMax: itemsMax, bytesMax: bytesMax, overflowSkips: options.overflowSkips},
	}
	switch options.start.Kind {
	case wire.StartSince:
		it.proof = startProof(Position(options.start.Position))
	case wire.StartSinceEach:
		for _, cursor := range options.start.Positions {
			it.cursors.set(cursor.Partition, Position(cursor.Position))
		}
	}
	return it
}

func (it *subscription) connectionLost() {
	it.hasAlias, it.isGranted, it.isAskedEarly, it.caughtUpDue, it.retryAt = false, false, false, false, 0
	clear(it.replaying)
	it.proof.connectionLost()
}

// cursorList are the cursors as the wire has them.
func (it *subscription) cursorList() (list []wire.Cursor) {
	if at, known := it.proof.cursor(); known {
		list = append(list, wire.Cursor{Partition: NoPartition, Position: wire.Position(at)})
	}
	for _, one := range it.cursors.list {
		list = append(list, wire.Cursor{Partition: one.partition, Position: wire.Position(one.at)})
	}
	return list
}

// item is the item of SUBSCRIBE: from the cursor, if there is one (R1, R2, B2).
func (it *subscription) item() wire.SubscribeItem {
	item := wire.SubscribeItem{
		Subscription: it.number, Filter: it.filter, Start: it.options.start,
		FailOnGap: it.options.failOnGap, Policy: it.options.policy,
	}
	if at, known := it.proof.cursor(); known {
		item.Start = wire.Start{Kind: wire.StartSince, Position: wire.Position(at)}
	} else if len(it.cursors.list) > 0 {
		item.Start = wire.Start{Kind: wire.StartSinceEach, Positions: it.cursorList()}
	} else if it.wasGranted {
		item.Start = wire.Start{Kind: wire.StartLive}
	}
	if it.usesCredit {
		credit := uint32(max(1, it.itemsMax-it.count))
		item.ReplayCredit = &credit
	}
	return item
}

// asked: SUBSCRIBE goes out, and the free places are its credit.
func (it *subscription) asked() { it.freed, it.older = 0, it.count }

// overflows reports whether the buffer is full. A replay by credit fills it on purpose.
func (it *subscription) overflows() bool {
	if it.usesCredit && len(it.replaying) > 0 {
		return it.isFull(2)
	}
	return it.isFull(1)
}

func (it *subscription) report() Report {
	report := Report{
		Complete: it.gaps == 0 && it.skipsCount == 0, Basis: BasisProved, Gaps: it.gaps,
		Newest: append([]*Gap(nil), it.newestGaps...), Skips: it.skipsCount, Messages: it.messages,
	}
	if at, known := it.proof.cursor(); known {
		report.Position = &at
	}
	if it.isFilter {
		report.Basis = BasisAnnounced
		report.Positions = make(map[int64]Position, len(it.cursors.list))
		for _, one := range it.cursors.list {
			report.Positions[one.partition] = one.at
		}
	}
	return report
}
