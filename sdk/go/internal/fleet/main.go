// Command fleet runs many clients for the harness of tests/src/fleet, whose README has the lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	crore "github.com/crore/crore/sdk/go"
)

type work struct {
	Subscribe string
	Since     *crore.Position
	Slow      bool
	Publish   []string
	Once      bool
	Calls     int
}

type plan struct {
	Name, URL, Folder string
	Clients           []work
}

type fields map[string]any

var lines struct {
	sync.Mutex
	*json.Encoder
}

func say(of int, line fields) {
	line["of"] = of
	lines.Lock()
	defer lines.Unlock()
	if err := lines.Encode(line); err != nil {
		os.Exit(1) // The harness is gone.
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// gate stops slow readers while the harness wants it.
type gate struct {
	sync.Mutex
	open chan struct{}
}

func (g *gate) pause() {
	g.Lock()
	defer g.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) resume() {
	g.Lock()
	defer g.Unlock()
	close(g.open)
}

func (g *gate) pass() {
	g.Lock()
	open := g.open
	g.Unlock()
	<-open
}

var slow = gate{open: make(chan struct{})}

type client struct {
	*crore.Client
	number int
	work   work
	name   string
	calls  int
	sub    *crore.Subscription
	read   chan struct{}
}

func begin(p plan, number int) *client {
	c := &client{number: number, work: p.Clients[number], name: p.Name, read: make(chan struct{})}
	c.calls = c.work.Calls
	options := crore.Options{Name: fmt.Sprintf("%s.%d", p.Name, number)}
	if c.work.Once {
		folder := filepath.Join(p.Folder, strconv.Itoa(number))
		must(os.MkdirAll(folder, 0o700))
		options.Storage, options.Persist = crore.FileStorage(folder), true
	}
	var err error
	c.Client, err = crore.New([]string{p.URL}, options)
	must(err)
	if c.work.Subscribe == "" {
		return c
	}
	var starts []crore.SubscribeOption
	if c.work.Since != nil {
		starts = append(starts, crore.Since(*c.work.Since))
	}
	c.sub, err = c.Subscribe(context.Background(), c.work.Subscribe, starts...)
	must(err)
	go c.readAll()
	return c
}

func (c *client) readAll() {
	defer close(c.read)
	for item, err := range c.sub.Items(context.Background()) {
		if err != nil {
			say(c.number, fields{"ended": err.Error()})
			return
		}
		say(c.number, shown(item))
		if c.work.Slow {
			slow.pass()
		}
	}
}

func shown(item crore.Item) fields {
	var line fields
	partition := int64(crore.NoPartition)
	switch it := item.(type) {
	case *crore.Message:
		return fields{"item": "message", "topic": it.Topic, "at": it.Position, "data": it.Text()}
	case *crore.Gap:
		line, partition = fields{"item": "gap", "from": it.From, "to": it.To, "cause": it.Cause}, it.Partition
	case *crore.Skipped:
		line, partition = fields{"item": "skipped", "from": it.From, "through": it.Through}, it.Partition
	case *crore.CaughtUp:
		line, partition = fields{"item": "caught_up", "at": it.Position}, it.Partition
	}
	if partition != crore.NoPartition {
		line["partition"] = partition
	}
	return line
}

func (c *client) publish(count int) {
	var options []crore.PublishOption
	if c.work.Once {
		options = append(options, crore.Once())
	}
	for range count {
		c.calls++
		call := c.calls
		topic := c.work.Publish[call%len(c.work.Publish)]
		pending := c.PublishAsync(topic, fmt.Appendf(nil, "%s.%d.%d", c.name, c.number, call), options...)
		go func() {
			published, err := pending.Wait(context.Background())
			var failure *crore.Error
			switch {
			case err == nil:
				say(c.number, fields{"call": call, "at": published.Position})
			case errors.As(err, &failure):
				say(c.number, fields{"call": call, "error": failure.Name})
			default:
				say(c.number, fields{"call": call, "error": err.Error()})
			}
		}()
	}
}

func (c *client) end() {
	if c.sub != nil {
		report := c.sub.Report()
		c.sub.Close()
		<-c.read
		say(c.number, fields{"report": fields{
			"complete": report.Complete, "gaps": report.Gaps, "skips": report.Skips, "messages": report.Messages,
			"position": report.Position, "positions": report.Positions,
		}})
	}
	must(c.Close(context.Background()))
}

func main() {
	lines.Encoder = json.NewEncoder(os.Stdout)
	close(slow.open)
	text, err := os.ReadFile(os.Args[1])
	must(err)
	var p plan
	must(json.Unmarshal(text, &p))
	clients := make([]*client, len(p.Clients))
	for number := range clients {
		clients[number] = begin(p, number)
	}
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		command, argument, _ := strings.Cut(commands.Text(), " ")
		switch command {
		case "publish":
			count, err := strconv.Atoi(argument)
			must(err)
			for _, c := range clients {
				if c.work.Publish != nil {
					c.publish(count)
				}
			}
		case "pause":
			slow.pause()
		case "resume":
			slow.resume()
		case "end":
			for _, c := range clients {
				c.end()
			}
			return
		}
	}
}
