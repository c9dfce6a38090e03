package crore

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

// wireAdapter plays scenarios on the client as it is delivered, over real sockets.
type wireAdapter struct {
	client        *Client
	ctx           context.Context
	cancel        context.CancelFunc
	subscriptions map[string]*Subscription
	isManual      bool

	mu      sync.Mutex
	effects []object
	shown   chan struct{}
}

// show adds effects of this client only: those of an older one are late.
func (a *wireAdapter) show(of context.Context, effect object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of.Err() != nil {
		return
	}
	a.effects = append(a.effects, effect)
	select {
	case a.shown <- struct{}{}:
	default:
	}
}

func (a *wireAdapter) start(it *command) error {
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.subscriptions = make(map[string]*Subscription)
	a.isManual = it.Options.Buffer != nil
	ctx, backoff, tokens := a.ctx, it.Options.backoff(), it.Options.Tokens
	options := Options{backoff: &backoff, OnState: func(state State) { a.show(ctx, stateEffect(state)) }}
	if it.Options.Token != nil {
		options.Token = *it.Options.Token
	}
	if it.Options.Name != nil {
		options.Name = *it.Options.Name
	}
	if it.Options.ProducerID != "" {
		options.ProducerID = unhex(it.Options.ProducerID)
	}
	if a.isManual {
		options.BufferItems = it.Options.Buffer.Items
	}
	if tokens != nil {
		options.TokenSource = func(_ context.Context, reason TokenReason) (token string, err error) {
			a.show(ctx, object{"token": reason})
			if len(tokens) > 0 {
				token, tokens = tokens[0], tokens[1:]
			}
			return token, nil
		}
	}
	a.show(ctx, object{"state": Connecting})
	var err error
	a.client, err = New(it.Options.URLs, options)
	return err
}

func (a *wireAdapter) stop() {
	if a.client == nil {
		return
	}
	a.cancel()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = a.client.Close(now)
	a.client = nil
	a.mu.Lock()
	a.effects = nil
	a.mu.Unlock()
}

func subscribeOptions(it *command) (options []SubscribeOption) {
	options = append(options, func(s *subscribeSettings) { s.core.start = it.wireStart() })
	if it.FailOnGap {
		options = append(options, FailOnGap())
	}
	if it.Overflow == "skip" {
		options = append(options, OverflowSkip())
	}
	policies := map[string]Policy{
		"replay": PolicyReplay, "conflate": PolicyConflate, "drop": PolicyDrop, "disconnect": PolicyDisconnect,
	}
	if policy, ok := policies[it.Policy]; ok {
		options = append(options, WithPolicy(policy))
	}
	return options
}

func (a *wireAdapter) subscribe(it *command) error {
	s, err := a.client.Subscribe(a.ctx, it.Topic, subscribeOptions(it)...)
	if err != nil {
		return err
	}
	a.subscriptions[it.As] = s
	if !a.isManual {
		go a.read(a.ctx, it.As, s, math.MaxInt)
	}
	return nil
}

func (a *wireAdapter) read(ctx context.Context, as string, s *Subscription, count int) {
	for count > 0 {
		item, err := s.Next(ctx)
		if err != nil {
			var it *Error
			if errors.As(err, &it) && it.Code != 0 {
				a.show(ctx, endedEffect(as, it))
			}
			return
		}
		if _, settles := item.(*CaughtUp); !settles {
			count--
		}
		a.show(ctx, itemEffect(as, item))
	}
}

func publishOptions(it *command) (options []PublishOption) {
	once, key := it.onceAndKey()
	if key != nil {
		options = append(options, OnceKey(key))
	} else if once {
		options = append(options, Once())
	}
	if it.Retain {
		options = append(options, Retain())
	}
	if it.ContentType != nil {
		options = append(options, ContentType(*it.ContentType))
	}
	if epoch := it.epoch(); epoch != nil {
		options = append(options, ExpectedEpoch(*epoch))
	}
	if it.TimeoutMs > 0 {
		options = append(options, Timeout(time.Duration(it.TimeoutMs)*time.Millisecond))
	}
	for _, tag := range it.Tags {
		options = append(options, WithTag(tag[0], tag[1]))
	}
	return options
}

func (a *wireAdapter) do(it *command) error {
	ctx, as := a.ctx, it.As
	switch it.Do {
	case "start":
		return a.start(it)
	case "stop":
		a.stop()
	case "subscribe":
		return a.subscribe(it)
	case "unsubscribe":
		a.subscriptions[as].Close()
	case "publish":
		publication := a.client.PublishAsync(it.Topic, unhex(it.Payload), publishOptions(it)...)
		go func() {
			published, err := publication.Wait(context.Background())
			if err != nil {
				a.show(ctx, errorEffect(as, err))
				return
			}
			a.show(ctx, object{"answer": as, "published": published.Position, "duplicate": published.Duplicate})
		}()
	case "history":
		options := HistoryOptions{From: it.Position, Reverse: it.Reverse, Limit: int(it.Limit)}
		client, topic := a.client, it.Topic
		go func() {
			page, err := client.HistoryPage(context.Background(), topic, options)
			if err != nil {
				a.show(ctx, errorEffect(as, err))
				return
			}
			a.show(ctx, pageEffect(as, page))
		}()
	case "renew":
		a.client.Renew(it.Token)
	case "read":
		go a.read(ctx, as, a.subscriptions[as], it.Items)
	case "close":
		drain := drainTime
		if it.DrainMs != nil {
			drain = time.Duration(*it.DrainMs) * time.Millisecond
		}
		client := a.client
		go func() {
			limit, cancel := context.WithTimeout(context.Background(), drain)
			defer cancel()
			_ = client.Close(limit)
		}()
	case "poll":
		a.poll(time.Duration(it.Ms) * time.Millisecond)
	}
	return nil
}

// poll waits for the first effect.
func (a *wireAdapter) poll(limit time.Duration) {
	deadline := time.After(limit)
	for {
		a.mu.Lock()
		count := len(a.effects)
		a.mu.Unlock()
		if count > 0 {
			return
		}
		select {
		case <-a.shown:
		case <-deadline:
			return
		}
	}
}

func (a *wireAdapter) command(it *command) object {
	if it.Do == "hello" {
		return object{"needs": needs}
	}
	reply := object{}
	if it.Do == "report" {
		reply["report"] = reportEffect(a.subscriptions[it.As].Report())
	} else if err := a.do(it); err != nil {
		a.show(a.ctx, errorEffect(it.As, err))
	}
	a.mu.Lock()
	reply["effects"] = append([]object{}, a.effects...)
	a.effects = nil
	a.mu.Unlock()
	return reply
}

func TestScenariosWire(t *testing.T) {
	adapter := &wireAdapter{shown: make(chan struct{}, 1)}
	play(t, adapter.command, append([]string{"--mode", "wire"}, scenarioFiles(t)...)...)
}
