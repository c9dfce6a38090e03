package crore

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Storage keeps texts over restarts of the program. Its methods may be called from any goroutine, and
// their contexts end after 10 s.
type Storage interface {
	// Get returns the value of a key, or "" if there is none.
	Get(ctx context.Context, key string) (string, error)
	Set(ctx context.Context, key, value string) error
	// Delete deletes a key, if it is there.
	Delete(ctx context.Context, key string) error
}

const storageTime = 10 * time.Second

// FileStorage is a Storage with a file for each key in a directory, which must exist.
type FileStorage string

func (f FileStorage) path(key string) string { return filepath.Join(string(f), url.QueryEscape(key)) }

// Get reads a file.
func (f FileStorage) Get(_ context.Context, key string) (string, error) {
	value, err := os.ReadFile(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(value), err
}

// Set replaces a file.
func (f FileStorage) Set(_ context.Context, key, value string) error {
	file, err := os.CreateTemp(string(f), "new-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), f.path(key))
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// Delete deletes a file.
func (f FileStorage) Delete(_ context.Context, key string) error {
	err := os.Remove(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// places are the positions that the reader of a named subscription has processed: P14, R11. They are
// stored one after the other; of several that wait only the newest.
type places struct {
	client *Client
	key    string

	mu        sync.Mutex
	processed map[int64]Position
	// delivered is the item that the reader processes now.
	delivered Item
	isDirty   bool
	isSaving  bool
}

// load reads what an earlier program has processed.
func (c *Client) load(ctx context.Context, name string) (*places, error) {
	p := &places{client: c, key: "crore:position:" + name, processed: make(map[int64]Position)}
	ctx, cancel := context.WithTimeout(ctx, storageTime)
	defer cancel()
	text, err := c.options.Storage.Get(ctx, p.key)
	if err != nil || text == "" {
		return p, err
	}
	return p, json.Unmarshal([]byte(text), &p.processed)
}

// start is the start behind the processed positions; nil if there are none.
func (p *places) start() SubscribeOption {
	if at, known := p.processed[NoPartition]; known {
		return Since(at)
	}
	if len(p.processed) > 0 {
		return SinceEach(p.processed)
	}
	return nil
}

// begin takes where a grant begins, for partitions of which nothing has been processed.
func (p *places) begin(it *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cursor := range it.cursorList() {
		if _, known := p.processed[cursor.Partition]; !known {
			p.processed[cursor.Partition] = Position(cursor.Position)
			p.isDirty = true
		}
	}
	p.save()
}

// asks: the reader asks for the next item, so it has processed the last one.
func (p *places) asks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delivered == nil {
		return
	}
	if partition, place, known := settledBy(p.delivered, p.processed); known {
		p.processed[partition] = place
		p.isDirty = true
		p.save()
	}
	p.delivered = nil
}

func (p *places) delivers(item Item) {
	p.mu.Lock()
	p.delivered = item
	p.mu.Unlock()
}

// save writes in a goroutine that lives while there is something to write. The places are locked.
func (p *places) save() {
	if !p.isDirty || p.isSaving {
		return
	}
	p.isSaving = true
	p.client.running.add()
	go func() {
		defer p.client.running.done()
		for {
			p.mu.Lock()
			if p.isSaving = p.isDirty; !p.isSaving {
				p.mu.Unlock()
				return
			}
			p.isDirty = false
			text, err := json.Marshal(p.processed)
			p.mu.Unlock()
			if err == nil {
				p.client.guard(func() { err = p.set(string(text)) })
			}
			if err != nil {
				p.client.with(func(now int64) { p.client.storageFailed(now, err) })
			}
		}
	}()
}

func (p *places) set(text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), storageTime)
	defer cancel()
	return p.client.options.Storage.Set(ctx, p.key, text)
}
