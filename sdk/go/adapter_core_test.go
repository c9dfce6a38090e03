package crore

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// coreAdapter plays scenarios on the core, in virtual time.
type coreAdapter struct {
	core     *core
	now      int64
	tokens   []string
	labels   map[*subscription]string
	subs     map[string]*subscription
	calls    map[*call]string
	isManual bool
	effects  []object
}

func (a *coreAdapter) start(it *command) {
	*a = coreAdapter{
		labels: make(map[*subscription]string), subs: make(map[string]*subscription), calls: make(map[*call]string),
		tokens: it.Options.Tokens, isManual: it.Options.Buffer != nil, effects: a.effects,
	}
	random := it.Random
	settings := coreSettings{
		urls: it.Options.URLs, token: it.Options.Token, hasTokenSource: it.Options.Tokens != nil, name: it.Options.Name,
		producerID: bytes.Repeat([]byte{7}, 16), backoff: it.Options.backoff(),
		bufferItems: 1024, bufferBytes: 1 << 20,
		random: func() float64 {
			value := random[0]
			if len(random) > 1 {
				random = random[1:]
			}
			return value
		},
	}
	if it.Options.ProducerID != "" {
		settings.producerID = unhex(it.Options.ProducerID)
	}
	if a.isManual {
		settings.bufferItems = it.Options.Buffer.Items
	}
	a.core = newCore(settings)
	a.core.start(a.now)
}

func (a *coreAdapter) do(it *command) error {
	switch it.Do {
	case "start":
		a.start(it)
	case "stop":
		a.core = nil
	case "subscribe":
		options := subscriptionOptions{start: it.wireStart(), failOnGap: it.FailOnGap, overflowSkips: it.Overflow == "skip"}
		for number, policy := range []string{"replay", "conflate", "drop", "disconnect"} {
			if policy == it.Policy {
				number := byte(number)
				options.policy = &number
			}
		}
		sub, err := a.core.subscribe(a.now, it.Topic, options)
		if err != nil {
			return err
		}
		a.subs[it.As], a.labels[sub] = sub, it.As
	case "unsubscribe":
		a.core.unsubscribe(a.now, a.subs[it.As])
	case "publish":
		return a.publish(it)
	case "history":
		history := wire.History{Topic: it.Topic, Reverse: it.Reverse, RecordsMax: it.Limit}
		if it.Position != nil {
			position := wire.Position(*it.Position)
			history.Position = &position
		}
		call, err := a.core.history(a.now, history)
		if err != nil {
			return err
		}
		a.calls[call] = it.As
	case "renew":
		a.core.renew(it.Token)
	case "read":
		a.take(a.subs[it.As], it.Items)
	case "close":
		drain := int64(5_000)
		if it.DrainMs != nil {
			drain = *it.DrainMs
		}
		a.core.close(a.now, drain)
	default:
		a.happened(it)
	}
	return nil
}

// happened is what the player does to the connection and the time.
func (a *coreAdapter) happened(it *command) {
	switch it.Do {
	case "opened":
		a.core.opened(a.now)
	case "failed":
		status, retryAfter := 0, int64(0)
		if it.Status != nil {
			status = *it.Status
		}
		if it.RetryAfterS != nil {
			retryAfter = *it.RetryAfterS
		}
		a.core.failed(a.now, status, retryAfter)
	case "received":
		if it.Text != nil {
			a.core.received(a.now, []byte(*it.Text), true)
		} else {
			a.core.received(a.now, unhex(it.Hex), false)
		}
	case "closed":
		a.core.closed(a.now, it.Code)
	case "time":
		a.now = it.NowMs
		a.core.tick(a.now)
	default:
		panic(it.Do)
	}
}

func (a *coreAdapter) publish(it *command) error {
	p := publication{timeoutMs: it.TimeoutMs, Publish: wire.Publish{
		Topic: it.Topic, Payload: unhex(it.Payload), Retain: it.Retain, ContentType: it.ContentType,
		ExpectedEpoch: it.epoch(),
	}}
	for _, tag := range it.Tags {
		p.Tags = append(p.Tags, wire.Tag{Key: tag[0], Value: tag[1]})
	}
	p.once, p.Key = it.onceAndKey()
	call, err := a.core.publish(a.now, p)
	if err != nil {
		return err
	}
	a.calls[call] = it.As
	return nil
}

func (a *coreAdapter) take(it *subscription, count int) {
	for _, item := range a.core.take(a.now, it, count, nil) {
		a.effects = append(a.effects, itemEffect(a.labels[it], item))
	}
}

// drain turns the core's outputs into effects.
func (a *coreAdapter) drain() {
	for a.core != nil && len(a.core.outputs) > 0 {
		outputs := a.core.outputs
		a.core.outputs = nil
		for _, output := range outputs {
			a.show(output)
		}
	}
}

func (a *coreAdapter) show(output any) {
	effect := func(one object) { a.effects = append(a.effects, one) }
	switch out := output.(type) {
	case connectOutput:
		early := []string{}
		for _, frame := range out.early {
			early = append(early, hex.EncodeToString(frame))
		}
		effect(object{"connect": out.url, "early": early})
	case sendOutput:
		effect(object{"send": hex.EncodeToString(out.frame)})
	case closeOutput:
		effect(object{"close": out.code})
	case stateOutput:
		effect(stateEffect(out.state))
	case tokenOutput:
		effect(object{"token": out.reason})
		var token *string
		if len(a.tokens) > 0 {
			token, a.tokens = &a.tokens[0], a.tokens[1:]
		}
		a.core.tokenAnswered(a.now, out.id, token)
	case settleOutput:
		a.settle(out.call)
	case itemsOutput:
		if !a.isManual {
			a.take(out.of, math.MaxInt)
		}
		if err, ok := out.of.endErr.(*Error); ok && out.of.isEnded && err.Code != 0 {
			effect(endedEffect(a.labels[out.of], err))
		}
	}
}

func (a *coreAdapter) settle(it *call) {
	as := a.calls[it]
	switch {
	case it.err != nil:
		a.effects = append(a.effects, errorEffect(as, it.err))
	case it.isPage:
		a.effects = append(a.effects, pageEffect(as, newPage(it)))
	default:
		a.effects = append(a.effects, object{
			"answer": as, "published": it.published.Position, "duplicate": it.published.Duplicate,
		})
	}
}

func pageEffect(as string, page *Page) object {
	messages := []object{}
	for _, message := range page.Messages {
		messages = append(messages, messageFields(message))
	}
	effect := object{"answer": as, "messages": messages, "more": page.More, "gap": nil}
	if page.Gap != nil {
		effect["gap"] = object{"from": page.Gap.From.Offset, "to": page.Gap.To.Offset, "cause": page.Gap.Cause}
	}
	return effect
}

func (a *coreAdapter) command(it *command) object {
	if it.Do == "hello" {
		return object{"needs": needs}
	}
	a.effects = []object{}
	reply := object{}
	if it.Do == "report" {
		reply["report"] = reportEffect(a.subs[it.As].report())
	} else if err := a.do(it); err != nil {
		a.effects = append(a.effects, errorEffect(it.As, err))
	}
	a.drain()
	reply["effects"], reply["timer"] = a.effects, nil
	if a.core != nil {
		if at := a.core.wakeAt(); at != never {
			reply["timer"] = at
		}
	}
	return reply
}

func TestScenariosCore(t *testing.T) {
	play(t, new(coreAdapter).command, append([]string{"--mode", "core"}, scenarioFiles(t)...)...)
}

// A small correct node and a network that cuts, refuses and is silent.
func TestScenariosRandom(t *testing.T) {
	play(t, new(coreAdapter).command, strings.Fields("--mode core --random 300")...)
}
