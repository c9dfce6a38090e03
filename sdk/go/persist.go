package crore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

const reservedNumbers = 1_000 // U13

// lane is what is stored of a producer: numbers below First are answered, those up to Reserved may
// be in use.
type lane struct {
	ID       string `json:"id"`
	First    uint64 `json:"first"`
	Reserved uint64 `json:"reserved"`
}

// persistence keeps publications that are Once over restarts of the program: id and reserved numbers
// are stored first, then each publication before it is sent (U13). One goroutine, which lives while
// there is work, stores in the order of the calls.
type persistence struct {
	client *Client
	key    string

	mu        sync.Mutex
	queue     []func()
	isRunning bool
	waiting   int // publications that are not stored yet

	// Only the goroutine uses what follows.
	lane     lane
	next     uint64
	isLoaded bool
	open     map[uint64]bool
}

func newPersistence(c *Client) *persistence {
	p := &persistence{client: c, key: "crore:once:" + c.options.Name, open: make(map[uint64]bool)}
	p.do(func() { p.failed(p.load()) })
	return p
}

// do runs work later, in order.
func (p *persistence) do(work func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, work)
	if p.isRunning {
		return
	}
	p.isRunning = true
	p.client.running.add()
	go p.run()
}

func (p *persistence) run() {
	defer p.client.running.done()
	for {
		p.mu.Lock()
		queue := p.queue
		p.queue = nil
		p.isRunning = len(queue) > 0
		p.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, work := range queue {
			p.client.guard(work)
		}
	}
}

// idle waits until everything before has been stored.
func (p *persistence) idle(ctx context.Context) {
	stored := make(chan struct{})
	p.do(func() { close(stored) })
	select {
	case <-stored:
	case <-ctx.Done():
	}
}

func (p *persistence) failed(err error) {
	if err != nil {
		p.client.with(func(now int64) { p.client.storageFailed(now, err) })
	}
}

func (p *persistence) entry(sequence uint64) string {
	return p.key + ":" + strconv.FormatUint(sequence, 10)
}

func (p *persistence) set(key, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), storageTime)
	defer cancel()
	return p.client.options.Storage.Set(ctx, key, value)
}

func (p *persistence) remove(key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), storageTime)
	defer cancel()
	return p.client.options.Storage.Delete(ctx, key)
}

func (p *persistence) get(key string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storageTime)
	defer cancel()
	return p.client.options.Storage.Get(ctx, key)
}

// load reads what an earlier program has left, and publishes it again by the same numbers.
func (p *persistence) load() error {
	if p.isLoaded {
		return nil
	}
	text, err := p.get(p.key)
	if err != nil {
		return err
	}
	p.lane = lane{ID: hex.EncodeToString(p.client.core.settings.producerID), First: 1}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &p.lane); err != nil {
			return err
		}
	}
	if len(p.client.options.ProducerID) > 0 {
		p.lane.ID = hex.EncodeToString(p.client.options.ProducerID)
	}
	id, err := hex.DecodeString(p.lane.ID)
	if err != nil {
		return err
	}
	var left []publication
	for sequence := p.lane.First; sequence <= p.lane.Reserved; sequence++ {
		text, err := p.get(p.entry(sequence))
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		one := publication{once: true}
		if err := json.Unmarshal([]byte(text), &one.Publish); err != nil {
			return fmt.Errorf("publication %d: %w", sequence, err)
		}
		left = append(left, one)
	}
	p.next = p.lane.Reserved + 1
	p.client.with(func(int64) { p.client.core.calls.producerID = id })
	p.isLoaded = true
	for _, one := range left {
		p.send(one, newPublication(p.client))
	}
	return p.reserve()
}

func (p *persistence) reserve() error {
	first := p.next
	for sequence := range p.open {
		first = min(first, sequence)
	}
	p.lane.First, p.lane.Reserved = first, p.next+reservedNumbers-1
	text, err := json.Marshal(p.lane)
	if err != nil {
		return err
	}
	return p.set(p.key, string(text))
}

// publish stores a publication, then sends it.
func (p *persistence) publish(one publication, result *Publication) {
	p.mu.Lock()
	isFull := p.waiting == keptMax
	if !isFull {
		p.waiting++
	}
	p.mu.Unlock()
	if isFull {
		result.fail(ErrQueueFull)
		return
	}
	p.do(func() {
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
		if err := p.store(&one); err != nil {
			result.fail(fmt.Errorf("crore: the storage has failed, nothing was sent: %w", err))
			return
		}
		p.send(one, result)
	})
}

// store gives a publication its number, and stores it.
func (p *persistence) store(one *publication) error {
	if err := p.load(); err != nil {
		return err
	}
	if p.next > p.lane.Reserved {
		if err := p.reserve(); err != nil {
			return err
		}
	}
	one.Sequence = p.next
	text, err := json.Marshal(one.Publish)
	if err == nil {
		err = p.set(p.entry(one.Sequence), string(text))
	}
	if err == nil {
		p.next++
	}
	return err
}

// send publishes what is stored, and forgets it when it is answered.
func (p *persistence) send(one publication, result *Publication) {
	sequence := one.Sequence
	p.open[sequence] = true
	p.client.send(one, result)
	p.client.running.add()
	go func() {
		defer p.client.running.done()
		<-result.done
		_, err := result.result()
		// What the end of the program leaves unanswered is for the next one.
		if err != nil && p.client.State().Phase == Closed && (errors.Is(err, ErrUnknown) || errors.Is(err, ErrClosed)) {
			return
		}
		p.do(func() {
			delete(p.open, sequence)
			p.failed(p.remove(p.entry(sequence)))
		})
	}()
}
