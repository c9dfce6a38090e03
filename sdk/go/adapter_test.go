package crore

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crore/crore/sdk/go/internal/wire"
)

// What both adapters of the scenarios share: see spec/scenarios/README.md.

type object = map[string]any

// command is one line of the player.
type command struct {
	Do      string       `json:"do"`
	As      string       `json:"as"`
	Topic   string       `json:"topic"`
	Start   *startOption `json:"start"`
	Options options      `json:"options"`

	Random    []float64 `json:"random"`
	FailOnGap bool      `json:"fail_on_gap"`
	Policy    string    `json:"policy"`
	Overflow  string    `json:"overflow"`

	Payload       string          `json:"payload"`
	Once          json.RawMessage `json:"once"`
	Retain        bool            `json:"retain"`
	ContentType   *string         `json:"content_type"`
	Tags          [][2]string     `json:"tags"`
	ExpectedEpoch json.RawMessage `json:"expected_epoch"`
	TimeoutMs     int64           `json:"timeout_ms"`

	Position *Position `json:"position"`
	Reverse  bool      `json:"reverse"`
	Limit    uint32    `json:"limit"`

	Token       string  `json:"token"`
	Items       int     `json:"items"`
	DrainMs     *int64  `json:"drain_ms"`
	Ms          int64   `json:"ms"`
	Status      *int    `json:"status"`
	RetryAfterS *int64  `json:"retry_after_s"`
	Hex         string  `json:"hex"`
	Text        *string `json:"text"`
	Code        int     `json:"code"`
	NowMs       int64   `json:"now_ms"`

	Scenario string `json:"scenario"`
	Result   string `json:"result"`
	Step     any    `json:"step"`
	Why      string `json:"why"`
	Passed   int    `json:"passed"`
	Failed   int    `json:"failed"`
	Skipped  int    `json:"skipped"`
}

type startOption struct {
	Kind      string   `json:"kind"`
	Position  Position `json:"position"`
	Count     uint32   `json:"count"`
	Positions []struct {
		Partition int64    `json:"partition"`
		Position  Position `json:"position"`
	} `json:"positions"`
}

type options struct {
	URLs       []string `json:"urls"`
	Token      *string  `json:"token"`
	Tokens     []string `json:"tokens"`
	Name       *string  `json:"name"`
	ProducerID string   `json:"producer_id"`
	Backoff    struct {
		BaseMs       *int64 `json:"base_ms"`
		MaxMs        *int64 `json:"max_ms"`
		ResetAfterMs *int64 `json:"reset_after_ms"`
	} `json:"backoff"`
	Buffer *struct {
		Items int `json:"items"`
	} `json:"buffer"`
}

// backoff has the defaults of C4 where the scenario says nothing.
func (o *options) backoff() backoffSettings {
	settings := defaultBackoff
	for from, to := range map[*int64]*int64{
		o.Backoff.BaseMs: &settings.baseMs, o.Backoff.MaxMs: &settings.maxMs,
		o.Backoff.ResetAfterMs: &settings.resetAfterMs,
	} {
		if from != nil {
			*to = *from
		}
	}
	return settings
}

func unhex(text string) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return bytes
}

// onceAndKey reads what `once` is: absent, true, or an object with a key.
func (c *command) onceAndKey() (once bool, key []byte) {
	var keyed struct {
		Key *string `json:"key"`
	}
	if json.Unmarshal(c.Once, &keyed) == nil && keyed.Key != nil {
		return true, append([]byte{}, unhex(*keyed.Key)...)
	}
	return string(c.Once) == "true", nil
}

func (c *command) epoch() *uint64 {
	text := strings.Trim(string(c.ExpectedEpoch), `"`)
	if text == "" || text == "null" {
		return nil
	}
	position, err := ParsePosition(text + ":0")
	if err != nil {
		panic(err)
	}
	return &position.Epoch
}

func (c *command) wireStart() (start wire.Start) {
	if c.Start == nil {
		return start
	}
	kinds := map[string]byte{"live": 0, "since": 1, "last": 2, "snapshot": 3, "since_each": 4}
	start = wire.Start{Kind: kinds[c.Start.Kind], Position: wire.Position(c.Start.Position), Count: c.Start.Count}
	for _, one := range c.Start.Positions {
		start.Positions = append(start.Positions, wire.Cursor{Partition: one.Partition, Position: wire.Position(one.Position)})
	}
	return start
}

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func partitionOrNil(partition int64) any {
	if partition == NoPartition {
		return nil
	}
	return partition
}

func messageFields(m *Message) object {
	tags := [][2]string{}
	for _, tag := range m.Tags {
		tags = append(tags, [2]string{tag.Key, tag.Value})
	}
	return object{
		"position": m.Position, "topic": m.Topic, "payload": hex.EncodeToString(m.Payload), "tags": tags,
		"content_type": textOrNil(m.ContentType), "retained": m.Retained, "partition": partitionOrNil(m.Partition),
	}
}

// itemEffect is an item as the scenarios write it.
func itemEffect(as string, item Item) object {
	var effect object
	switch item := item.(type) {
	case *Message:
		effect = messageFields(item)
		effect["kind"] = "message"
	case *Gap:
		effect = object{
			"kind": "gap", "from": item.From, "to": item.To, "cause": item.Cause, "partition": partitionOrNil(item.Partition),
		}
	case *Skipped:
		effect = object{
			"kind": "skipped", "from": item.From, "through": item.Through, "reason": item.Reason,
			"partition": partitionOrNil(item.Partition),
		}
	case *CaughtUp:
		effect = object{"kind": "caught_up", "position": item.Position, "partition": partitionOrNil(item.Partition)}
	}
	effect["item"] = as
	return effect
}

func endedEffect(as string, err *Error) object {
	return object{"item": as, "kind": "ended", "code": err.Code, "restart": err.Restart}
}

func errorEffect(as string, err error) object {
	var it *Error
	if !errors.As(err, &it) {
		panic(err)
	}
	if it.Code == 0 {
		return object{"answer": as, "error": it.Name}
	}
	return object{
		"answer": as, "error": "Refused", "code": it.Code, "temporary": it.Temporary, "restart": it.Restart,
		"limit": it.Limit,
	}
}

func stateEffect(state State) object {
	effect := object{"state": state.Phase}
	if state.Reason != "" {
		effect["reason"] = state.Reason
	}
	if state.Code != 0 {
		effect["code"] = state.Code
	}
	if state.Status != 0 {
		effect["status"] = state.Status
	}
	return effect
}

func reportEffect(report Report) object {
	newest := []object{}
	for _, gap := range report.Newest {
		newest = append(newest, itemEffect("", gap))
	}
	return object{
		"complete": report.Complete, "basis": report.Basis, "gaps": report.Gaps, "newest": newest, "skips": report.Skips,
		"messages": report.Messages, "position": report.Position, "positions": report.Positions,
	}
}

// needs are the features that the scenarios may ask for; this SDK has them all.
var needs = []string{"unauthorized_retry", "timeouts", "queue_bounds", "buffer", "statuses"}

// program returns the path that a variable of the environment names. The gate sets it.
func program(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s must name the program: see README.md, section Development", variable)
	}
	return path
}

// play lets crore-script play scenarios; adapter answers one command with effects and more.
func play(t *testing.T, adapter func(*command) object, arguments ...string) {
	t.Helper()
	player := exec.Command(program(t, "CRORE_SCRIPT"), arguments...)
	player.Stderr = os.Stderr
	input, inputErr := player.StdinPipe()
	output, outputErr := player.StdoutPipe()
	if err := errors.Join(inputErr, outputErr, player.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = player.Wait() }()
	defer input.Close()
	watchdog := time.AfterFunc(5*time.Minute, func() { _ = player.Process.Kill() })
	defer watchdog.Stop()
	lines := bufio.NewReader(output)
	replies := json.NewEncoder(input)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("crore-script has ended early: %v", err)
		}
		var it command
		if err := json.Unmarshal(line, &it); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		reply := object{"effects": []object{}}
		switch it.Do {
		case "end":
			t.Logf("%d scenarios passed, %d failed, %d skipped", it.Passed, it.Failed, it.Skipped)
			if it.Failed > 0 || it.Skipped > 0 || it.Passed == 0 {
				t.Error("not all scenarios have passed")
			}
			return
		case "result":
			if it.Result != "passed" {
				t.Errorf("%s: %s at step %v: %s", it.Scenario, it.Result, it.Step, it.Why)
			}
		default:
			reply = adapter(&it)
		}
		if err := replies.Encode(reply); err != nil {
			t.Fatal(err)
		}
	}
}

func scenarioFiles(t testing.TB) (files []string) {
	t.Helper()
	all, err := filepath.Glob("../../spec/scenarios/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if filepath.Base(file) != "schema.json" {
			files = append(files, file)
		}
	}
	return files
}
