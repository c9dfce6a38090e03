package crore

import (
	"context"
	"encoding/json"
)

// A ticket that survives the program: R11. It is a secret, so Options.StoreTickets asks for it.

// keptTicket is what is stored of a ticket.
type keptTicket struct {
	Ticket        []byte
	ExpiresMs     int64
	Subscriptions map[string]keptSubscription
}

// keptSubscription is one subscription of a stored ticket. The ticket restores its options, too.
type keptSubscription struct {
	Number    uint32
	FailOnGap bool
	Policy    *byte
	// Places are the cursors behind everything that had come, by partition. The server goes on at the
	// newer of the ticket's cursor and the client's own, so all of that must be processed.
	Places map[int64]Position
}

// restore takes the ticket of an earlier program, before start.
func (c *core) restore(kept *keptTicket) {
	if c.phase != phaseNew || len(kept.Subscriptions) == 0 {
		return
	}
	numbers := make([]uint32, 0, len(kept.Subscriptions))
	for _, one := range kept.Subscriptions {
		numbers = append(numbers, one.Number)
		c.lastNumber = max(c.lastNumber, one.Number)
	}
	c.tickets.hold(0, kept.Ticket, kept.ExpiresMs, numbers)
	c.tickets.kept = kept.Subscriptions
}

// beginKept gives subscriptions the numbers that they have in a stored ticket, before the first
// HELLO. If one has not begun yet, or has other options, the ticket is not used: R7.
func (c *core) beginKept() {
	kept := c.tickets.kept
	c.tickets.kept = nil
	if kept == nil {
		return
	}
	for _, it := range c.subscriptions {
		c.renumber(it)
	}
	for _, it := range c.subscriptions {
		if one, is := kept[it.filter]; is && it.options.isKept && one.hasOptions(&it.options) && one.isProcessed(it) {
			delete(c.byNumber, it.number)
			it.number = one.Number
			c.byNumber[it.number] = it
		}
	}
}

func (k *keptSubscription) hasOptions(options *subscriptionOptions) bool {
	if k.Policy == nil || options.policy == nil {
		return k.FailOnGap == options.failOnGap && k.Policy == options.policy
	}
	return k.FailOnGap == options.failOnGap && *k.Policy == *options.policy
}

// isProcessed reports whether the cursors of a subscription are not before those of the ticket.
func (k *keptSubscription) isProcessed(it *subscription) bool {
	own := it.places()
	for partition, place := range k.Places {
		if at, known := own[partition]; !known || at.Epoch != place.Epoch || at.Offset < place.Offset {
			return false
		}
	}
	return len(k.Places) > 0
}

// places are the cursors by partition.
func (it *subscription) places() map[int64]Position {
	places := make(map[int64]Position)
	for _, one := range it.cursorList() {
		places[one.Partition] = Position(one.Position)
	}
	return places
}

// keptTicket returns what is to be stored; nil if there is no ticket.
func (c *core) keptTicket() *keptTicket {
	held := c.tickets.held
	if held == nil {
		return nil
	}
	kept := &keptTicket{held.bytes, held.expiresAt, make(map[string]keptSubscription)}
	for number := range held.covers {
		if it := c.byNumber[number]; it != nil {
			kept.Subscriptions[it.filter] = keptSubscription{number, it.options.failOnGap, it.options.policy, it.places()}
		}
	}
	return kept
}

// ticketStore stores the newest ticket, one after the other. The client's lock guards its fields.
type ticketStore struct {
	client *Client
	// seen is the ticket that is stored, or is to be.
	seen *heldTicket
	// next is to be stored, if isDirty; nil deletes what is stored.
	next     *keptTicket
	isDirty  bool
	isSaving bool
}

func (s *ticketStore) key() string { return "crore:ticket:" + s.client.options.Name }

// begin reads the ticket of an earlier program, then starts the client.
func (s *ticketStore) begin() {
	c := s.client
	defer c.running.done()
	var kept keptTicket
	text, err := "", error(nil)
	c.guard(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storageTime)
		defer cancel()
		text, err = c.options.Storage.Get(ctx, s.key())
	})
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &kept)
	}
	c.with(func(now int64) {
		if err != nil {
			c.storageFailed(now, err)
		} else {
			c.core.restore(&kept)
			s.seen = c.core.tickets.held
		}
		c.core.start(now)
	})
}

// save writes in a goroutine that lives while there is something to write. The client is locked.
func (s *ticketStore) save() {
	core := s.client.core
	if s.seen == core.tickets.held || core.phase == phaseNew {
		return
	}
	s.seen, s.next, s.isDirty = core.tickets.held, core.keptTicket(), true
	if !s.isSaving {
		s.isSaving = true
		s.client.running.add()
		go s.run()
	}
}

func (s *ticketStore) run() {
	c := s.client
	defer c.running.done()
	for {
		c.mu.Lock()
		next := s.next
		s.isSaving, s.isDirty = s.isDirty, false
		isDone := !s.isSaving
		c.mu.Unlock()
		if isDone {
			return
		}
		var err error
		c.guard(func() { err = s.write(next) })
		if err != nil {
			c.with(func(now int64) { c.storageFailed(now, err) })
		}
	}
}

func (s *ticketStore) write(kept *keptTicket) error {
	ctx, cancel := context.WithTimeout(context.Background(), storageTime)
	defer cancel()
	if kept == nil {
		return s.client.options.Storage.Delete(ctx, s.key())
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return s.client.options.Storage.Set(ctx, s.key(), string(text))
}

// storageFailed notes that the storage has failed. The client is locked.
func (c *Client) storageFailed(now int64, err error) {
	c.core.note(now, LevelError, "callback_failed", "reason", "storage: "+err.Error())
}
