package crore

import "github.com/crore/crore/sdk/go/internal/wire"

// The core's subscriptions: grants, items, and the bounded buffer.

func (c *core) subscribed(now int64, f *wire.Subscribed) {
	it := c.byNumber[f.Subscription]
	if it == nil || it.isPaused || it.isFilter != f.IsFilter {
		if c.tickets.wasPresented { // R8
			c.send(wire.Unsubscribe(f.Subscription))
		} else {
			c.expected(now, false, "subscribed")
		}
		return
	}
	it.refusals, it.retryAt, it.isGranted = 0, 0, true // S8
	isBlind := it.isFilter && it.wasGranted && len(it.cursors.list) == 0
	c.output(grantedOutput{it})
	it.wasGranted = true
	clear(it.replaying)
	for _, beginning := range f.Beginnings {
		if beginning.Replaying {
			it.replaying[beginning.Partition] = true
		}
	}
	if len(it.replaying) == 0 {
		it.usesCredit = false
	}
	c.note(now, LevelDebug, "subscribed", "topic", it.filter)
	if f.IsFilter {
		for _, b := range f.Beginnings {
			it.cursors.subscribed(b.Partition, Position{b.Epoch, b.Through}, b.Continued)
		}
		if isBlind { // P11
			c.pushGap(now, it, &Gap{Cause: "reconnected", Partition: NoPartition})
		}
		c.refill(now, it)
		return
	}
	c.setAlias(it, f.Alias)
	c.begin(now, it, f.Beginnings[0])
}

// setAlias is S11.
func (c *core) setAlias(it *subscription, alias uint32) {
	if old := c.byAlias[alias]; old != nil {
		old.hasAlias = false
	}
	c.forgetAlias(it)
	c.byAlias[alias] = it
	it.alias, it.hasAlias = alias, true
}

// begin takes the beginning of a plain topic: P6 to P8.
func (c *core) begin(now int64, it *subscription, b wire.Beginning) {
	offset := b.Through
	if at, known := it.proof.cursor(); known && b.Continued && c.tickets.brings(it.number) {
		// A ticket's cursor may be ahead of this one if the topic has no messages in between: R9.
		offset = min(offset, at.Offset)
	}
	it.proof.subscribed(Position{b.Epoch, offset}, b.Continued)
	if b.Replaying {
		c.refill(now, it)
		return
	}
	it.caughtUpDue = it.proof.gapDue
	if !it.caughtUpDue {
		c.caughtUpTopic(now, it, b.Through, 0)
	}
}

func (c *core) message(now int64, f *wire.Message) {
	it := c.byAlias[f.Alias]
	if it == nil {
		c.expected(now, false, "message")
		return
	}
	verdict, hole := it.proof.message(f.Prev, f.Offset, f.Lineage)
	switch verdict {
	case repeated:
		c.counters.Duplicates++
		return
	case behindHole:
		c.pushHole(now, it, hole, NoPartition)
	}
	if it.caughtUpDue {
		c.caughtUpIfDue(now, it)
	}
	message := recordMessage(&f.Record)
	message.Topic, message.Position = it.filter, it.proof.at
	c.counters.Messages++
	c.push(now, it, message)
}

// named is S9, P10.
func (c *core) named(now int64, f *wire.NamedMessage) {
	isExpected := false
	hand := func(it *subscription) {
		isExpected = true
		partition, place := int64(f.Partition), Position{f.Epoch, f.Offset}
		verdict, hole := it.cursors.message(partition, place, f.Prev, f.Lineage)
		switch verdict {
		case repeated:
			c.counters.Duplicates++
			return
		case behindHole:
			c.pushHole(now, it, hole, partition)
		}
		message := recordMessage(&f.Record)
		message.Topic, message.Position, message.Partition = f.Topic, place, partition
		c.counters.Messages++
		c.push(now, it, message)
	}
	if f.Subscription != nil {
		if it := c.byNumber[*f.Subscription]; it != nil && it.isFilter && it.isGranted {
			hand(it)
		}
	} else {
		for _, it := range c.subscriptions {
			if it.isFilter && it.isGranted && wire.Matches(it.filter, f.Topic) {
				hand(it)
			}
		}
	}
	c.expected(now, isExpected, "named_message")
}

// granted returns the subscription that holds on this connection, or nil.
func (c *core) granted(now int64, number uint32, partition int64, kind string) *subscription {
	it := c.byNumber[number]
	if it != nil && (!it.isGranted || it.isFilter != (partition != NoPartition)) {
		it = nil
	}
	c.expected(now, it != nil, kind)
	return it
}

func (c *core) caughtUp(now int64, f *wire.CaughtUp) {
	it := c.granted(now, f.Subscription, f.Partition, "caught_up")
	if it == nil {
		return
	}
	delete(it.replaying, f.Partition)
	if len(it.replaying) == 0 {
		it.usesCredit = false
	}
	if f.Partition == NoPartition {
		c.caughtUpTopic(now, it, f.Through, f.Lineage)
	} else if place, known := it.cursors.caughtUp(f.Partition, f.Through, f.Lineage); known {
		c.push(now, it, &CaughtUp{place, f.Partition})
	}
}

func (c *core) caughtUpTopic(now int64, it *subscription, through uint64, lineage wire.Lineage) {
	it.caughtUpDue = false
	if hole, lost := it.proof.caughtUp(through, lineage); lost {
		c.pushHole(now, it, hole, NoPartition)
	}
	c.pushCaughtUp(now, it)
}

func (c *core) pushCaughtUp(now int64, it *subscription) {
	at, _ := it.proof.cursor()
	c.push(now, it, &CaughtUp{at, NoPartition})
}

func (c *core) caughtUpIfDue(now int64, it *subscription) {
	if it.caughtUpDue {
		it.caughtUpDue = false
		c.pushCaughtUp(now, it)
	}
}

// knownReason is a reason's name: those of a newer server, which are numbers, are "other".
func knownReason(reason string) string {
	if reason[0] >= '0' && reason[0] <= '9' {
		return "other"
	}
	return reason
}

func (c *core) gap(now int64, f *wire.Gap) {
	it := c.granted(now, f.Subscription, f.Partition, "gap")
	if it == nil {
		return
	}
	to := Position{f.Epoch, f.To}
	gap := &Gap{To: &to, Cause: knownReason(f.Reason), Partition: f.Partition}
	var from Position
	var known bool
	if f.Partition == NoPartition {
		from, known = it.proof.gap(to)
	} else {
		from, known = it.cursors.gap(f.Partition, to)
	}
	if known {
		gap.From = &from
	}
	c.pushGap(now, it, gap)
	c.caughtUpIfDue(now, it)
}

func (c *core) skipped(now int64, f *wire.Skipped) {
	it := c.granted(now, f.Subscription, f.Partition, "skipped")
	if it == nil {
		return
	}
	if f.Partition != NoPartition {
		it.cursors.skipped(f.Partition, Position{f.Epoch, f.Through})
	} else if hole, lost := it.proof.skipped(f.From, f.Through, f.Lineage); lost {
		c.pushHole(now, it, hole, NoPartition)
	}
	c.counters.Skips++
	c.note(now, LevelWarn, "skipped", "topic", it.filter, "from", f.From, "through", f.Through, "reason", f.Reason)
	c.push(now, it, &Skipped{f.From, f.Through, knownReason(f.Reason), f.Partition})
}

func (c *core) pushHole(now int64, it *subscription, hole hole, partition int64) {
	c.pushGap(now, it, &Gap{&hole.from, &hole.to, "unannounced", partition})
}

func (c *core) pushGap(now int64, it *subscription, gap *Gap) {
	c.counters.Gaps++
	c.note(now, LevelWarn, "gap", "topic", it.filter, "from", showPosition(gap.From), "to", showPosition(gap.To),
		"cause", gap.Cause)
	c.push(now, it, gap)
}

func (c *core) push(now int64, it *subscription, item Item) {
	it.buffer.push(item)
	if !it.isAnnounced {
		it.isAnnounced = true
		c.output(itemsOutput{it})
	}
	if !it.options.overflowSkips && it.isGranted && it.overflows() {
		c.pause(now, it)
	}
}

// pause is B1.
func (c *core) pause(now int64, it *subscription) {
	c.note(now, LevelWarn, "buffer_full", "topic", it.filter)
	number := it.number
	c.forgetAlias(it)
	it.connectionLost()
	it.isPaused, it.usesCredit = true, true
	c.renumber(it) // what is on its way has the old number, or none
	c.send(wire.Unsubscribe(number))
}

// refill is B2, B3.
func (c *core) refill(now int64, it *subscription) {
	switch {
	case it.isPaused:
		if !it.isHalfEmpty() {
			return
		}
		it.isPaused = false
		if c.canAsk() {
			c.ask([]*subscription{it})
		}
		c.tickets.changed(now)
	case it.usesCredit && len(it.replaying) > 0 && it.freed*2 >= it.itemsMax && c.canAsk():
		c.send(wire.Credit(it.number, uint32(it.freed)))
		it.freed = 0
	}
}
