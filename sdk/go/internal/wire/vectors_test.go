package wire

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"testing"
)

type vectors struct {
	Valid []struct {
		Name      string          `json:"name"`
		Hex       string          `json:"hex"`
		Frame     map[string]any  `json:"frame"`
		EncodesTo json.RawMessage `json:"encodes_to"`
	} `json:"valid"`
	Invalid []struct {
		Name  string `json:"name"`
		Hex   string `json:"hex"`
		Error string `json:"error"`
	} `json:"invalid"`
}

func read[T any](t testing.TB, name string) (value T) {
	t.Helper()
	bytes, err := os.ReadFile("../../../../spec/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(bytes, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	bytes, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestClientFramesEncode(t *testing.T) {
	count := 0
	for _, vector := range read[vectors](t, "client_frames.json").Valid {
		want := vector.Hex
		if vector.EncodesTo != nil {
			if string(vector.EncodesTo) == "null" {
				continue
			}
			if err := json.Unmarshal(vector.EncodesTo, &want); err != nil {
				t.Fatal(err)
			}
		}
		if got := hex.EncodeToString(encode(t, vector.Frame)); got != want {
			t.Errorf("%s: encoded %s, want %s", vector.Name, got, want)
		}
		count++
	}
	t.Logf("%d frames", count)
}

// fields reads the values of a vector: 64-bit numbers are decimal texts, bytes are hex.
type fields map[string]any

func (f fields) number(key string) uint64 {
	switch value := f[key].(type) {
	case float64:
		return uint64(value)
	case string:
		number, _ := strconv.ParseUint(value, 10, 64)
		return number
	}
	return 0
}

func (f fields) u32(key string) uint32 { return uint32(f.number(key)) }

func (f fields) text(key string) *string {
	if value, ok := f[key].(string); ok {
		return &value
	}
	return nil
}

func (f fields) bytes(t testing.TB, key string) []byte {
	if value, ok := f[key].(string); ok {
		return append([]byte{}, unhex(t, value)...)
	}
	return nil
}

func (f fields) list(key string) (list []fields) {
	for _, one := range f[key].([]any) {
		if one, ok := one.(map[string]any); ok {
			list = append(list, one)
		}
	}
	return list
}

func (f fields) position() Position {
	return Position{Epoch: f.number("epoch"), Offset: f.number("offset")}
}

func (f fields) cursor() Cursor {
	partition := int64(-1)
	if f["partition"] != nil {
		partition = int64(f.number("partition"))
	}
	return Cursor{Partition: partition, Position: f.position()}
}

func encode(t testing.TB, f fields) []byte {
	switch f["type"] {
	case "hello":
		hello := Hello{
			PingIntervalS: f.u32("ping_interval_s"),
			Token:         f.text("token"),
			Name:          f.text("name"),
			Ticket:        f.bytes(t, "ticket"),
		}
		for _, one := range f.list("cursors") {
			hello.Cursors = append(hello.Cursors, TicketCursor{one.u32("subscription"), one.cursor()})
		}
		return hello.Encode()
	case "subscribe":
		return Subscribe(subscribeItems(f))
	case "unsubscribe":
		var numbers []uint32
		for _, one := range f["subscriptions"].([]any) {
			numbers = append(numbers, uint32(one.(float64)))
		}
		return Unsubscribe(numbers...)
	case "publish":
		return encodePublish(t, f)
	case "history":
		history := History{
			Request: f.u32("request"), Topic: f["topic"].(string), Reverse: f["reverse"].(bool),
			RecordsMax: f.u32("records_max"), BytesMax: f.u32("bytes_max"),
		}
		if position, ok := f["position"].(map[string]any); ok {
			history.Position = one(fields(position).position())
		}
		return history.Encode()
	case "credit":
		return Credit(f.u32("subscription"), f.u32("messages"))
	case "ping":
		return EncodePing(f.number("token"))
	case "pong":
		return EncodePong(f.number("token"))
	case "renew":
		return Renew(f.u32("request"), f["token"].(string))
	case "ticket":
		return Ticket(f.u32("request"))
	}
	t.Fatalf("unknown frame %v", f["type"])
	return nil
}

func subscribeItems(f fields) (items []SubscribeItem) {
	kinds := map[any]byte{"live": 0, "since": 1, "last": 2, "snapshot": 3, "since_each": 4}
	policies := map[any]byte{"replay": 0, "conflate": 1, "drop": 2, "disconnect": 3}
	for _, one := range f.list("items") {
		start := fields(one["start"].(map[string]any))
		item := SubscribeItem{
			Subscription: one.u32("subscription"),
			Filter:       one["filter"].(string),
			FailOnGap:    one["fail_on_gap"].(bool),
			Start:        Start{Kind: kinds[start["kind"]], Count: start.u32("count")},
		}
		if item.Start.Kind == StartSince {
			item.Start.Position = start.position()
		}
		if item.Start.Kind == StartSinceEach {
			for _, cursor := range start.list("positions") {
				item.Start.Positions = append(item.Start.Positions, cursor.cursor())
			}
		}
		if one["replay_credit"] != nil {
			credit := one.u32("replay_credit")
			item.ReplayCredit = &credit
		}
		if policy, ok := policies[one["policy"]]; ok {
			item.Policy = &policy
		}
		items = append(items, item)
	}
	return items
}

func encodePublish(t testing.TB, f fields) []byte {
	publish := Publish{
		Request: f.u32("request"), Topic: f["topic"].(string), Retain: f["retain"].(bool),
		ContentType: f.text("content_type"), Payload: f.bytes(t, "payload"),
		Key: f.bytes(t, "idempotency_key"),
	}
	for _, tag := range f["tags"].([]any) {
		pair := tag.([]any)
		publish.Tags = append(publish.Tags, Tag{pair[0].(string), pair[1].(string)})
	}
	if producer, ok := f["producer"].(map[string]any); ok {
		publish.ProducerID = fields(producer).bytes(t, "id")
		publish.Sequence = fields(producer).number("sequence")
	}
	if f["expected_epoch"] != nil {
		publish.ExpectedEpoch = one(f.number("expected_epoch"))
	}
	return publish.Encode()
}

func TestServerFramesDecode(t *testing.T) {
	all := read[vectors](t, "server_frames.json")
	for _, vector := range all.Valid {
		frame, err := Decode(unhex(t, vector.Hex))
		if err != nil {
			t.Errorf("%s: %v", vector.Name, err)
			continue
		}
		got := normal(t, shown(frame))
		delete(vector.Frame, "type")
		if !reflect.DeepEqual(got, normal(t, vector.Frame)) {
			t.Errorf("%s:\n got %v\nwant %v", vector.Name, got, vector.Frame)
		}
	}
	for _, vector := range all.Invalid {
		frame, err := Decode(unhex(t, vector.Hex))
		if err == nil || err.Error() != vector.Error {
			t.Errorf("%s: got %v, %v; want %s", vector.Name, frame, err, vector.Error)
		}
	}
	t.Logf("%d valid, %d invalid frames", len(all.Valid), len(all.Invalid))
}

// normal makes values comparable: what JSON makes of them.
func normal(t testing.TB, value any) (normal any) {
	t.Helper()
	bytes, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(bytes, &normal); err != nil {
		t.Fatal(err)
	}
	return normal
}

type object = map[string]any

func decimal(value uint64) string { return strconv.FormatUint(value, 10) }

func decimalOrNil(value *uint64) any {
	if value == nil {
		return nil
	}
	return decimal(*value)
}

func positionOrNil(position *Position) any {
	if position == nil {
		return nil
	}
	return object{"epoch": decimal(position.Epoch), "offset": decimal(position.Offset)}
}

func partitionOrNil(partition int64) any {
	if partition < 0 {
		return nil
	}
	return partition
}

func shownRecord(record Record, more object) object {
	tags := [][]string{}
	for _, tag := range record.Tags {
		tags = append(tags, []string{tag.Key, tag.Value})
	}
	more["offset"], more["prev"] = decimal(record.Offset), decimal(record.Prev)
	more["retained"], more["content_type"], more["tags"] = record.Retained, record.ContentType, tags
	more["payload"] = hex.EncodeToString(record.Payload)
	return more
}

// withLineage adds the member that is absent where the frame has none.
func withLineage(lineage Lineage, frame object) object {
	if lineage != 0 {
		frame["lineage"] = int(byte(lineage))
	}
	return frame
}

// shown is a frame as the vectors write it.
func shown(frame Frame) object {
	switch f := frame.(type) {
	case *Welcome:
		return object{
			"connection": decimal(f.Connection), "ping_interval_s": f.PingIntervalS, "time_ms": decimal(f.TimeMs),
			"frame_bytes_max": decimal(f.FrameBytesMax), "message_bytes_max": decimal(f.MessageBytesMax),
			"subscriptions_per_session_max": f.SubscriptionsMax, "node": f.Node, "resumed": f.Resumed,
			"ticket_lifetime_s": f.TicketLifetimeS,
		}
	case *Subscribed:
		return shownSubscribed(f)
	case *Unsubscribed:
		return object{"subscription": f.Subscription, "code": f.Code}
	case *Message:
		return withLineage(f.Lineage, shownRecord(f.Record, object{"alias": f.Alias}))
	case *NamedMessage:
		return withLineage(f.Lineage, shownRecord(f.Record, object{
			"topic": f.Topic, "partition": f.Partition, "epoch": decimal(f.Epoch), "subscription": f.Subscription,
		}))
	case *CaughtUp:
		return withLineage(f.Lineage, object{
			"subscription": f.Subscription, "partition": partitionOrNil(f.Partition), "through": decimal(f.Through),
		})
	case *Gap:
		return object{
			"subscription": f.Subscription, "partition": partitionOrNil(f.Partition), "epoch": decimal(f.Epoch),
			"from": decimal(f.From), "to": decimal(f.To), "reason": f.Reason,
		}
	case *Skipped:
		skipped := object{
			"subscription": f.Subscription, "from": decimal(f.From), "through": decimal(f.Through), "reason": f.Reason,
			"partition": nil,
		}
		if f.Partition >= 0 {
			skipped["partition"] = object{"partition": f.Partition, "epoch": decimal(f.Epoch)}
		}
		return withLineage(f.Lineage, skipped)
	case *Published:
		return object{
			"request": f.Request, "epoch": decimal(f.Position.Epoch), "offset": decimal(f.Position.Offset),
			"duplicate": f.Duplicate,
		}
	}
	return shownAnswer(frame)
}

func shownSubscribed(f *Subscribed) object {
	list := []object{}
	for _, b := range f.Beginnings {
		list = append(list, object{
			"epoch": decimal(b.Epoch), "through": decimal(b.Through), "replaying": b.Replaying, "continued": b.Continued,
		})
		if f.IsFilter {
			list[len(list)-1]["partition"] = b.Partition
		}
	}
	shown := object{"subscription": f.Subscription, "topic": nil, "filter": list}
	if !f.IsFilter {
		list[0]["alias"] = f.Alias
		shown["topic"], shown["filter"] = list[0], nil
	}
	return shown
}

func shownAnswer(frame Frame) object {
	switch f := frame.(type) {
	case *HistoryPage:
		records := []object{}
		for _, record := range f.Records {
			records = append(records, shownRecord(record.Record, object{"time_ms": decimal(record.TimeMs)}))
		}
		page := object{
			"request": f.Request, "epoch": decimal(f.Epoch), "head": decimal(f.Head), "more": f.More,
			"reverse": f.Reverse, "gap": nil, "records": records,
		}
		if f.Gap != nil {
			page["gap"] = object{"from": decimal(f.Gap.From), "to": decimal(f.Gap.To), "reason": f.Gap.Reason}
		}
		return page
	case *ErrorFrame:
		kinds := []string{"connection", "request", "subscription"}
		return object{
			"reference": object{"kind": kinds[f.Reference], "id": f.ID}, "code": f.Code, "temporary": f.Temporary,
			"message": f.Message, "restart": positionOrNil(f.Restart), "limit": decimalOrNil(f.Limit),
		}
	case *GoAway:
		urls := append([]string{}, f.URLs...)
		shown := object{"code": f.Code, "return_after_ms": decimal(f.ReturnAfterMs), "urls": urls, "ticket": nil}
		if f.Ticket != nil {
			shown["ticket"] = hex.EncodeToString(f.Ticket)
		}
		return shown
	case *Renewed:
		return object{"request": f.Request, "expires_ms": decimal(f.ExpiresMs)}
	case *TicketIssued:
		return object{
			"request": f.Request, "expires_ms": decimal(f.ExpiresMs), "ticket": hex.EncodeToString(f.Ticket),
		}
	case *TokenExpires:
		return object{"expires_ms": decimal(f.ExpiresMs)}
	case *Ping:
		return object{"token": decimal(f.Token)}
	case *Pong:
		return object{"token": decimal(f.Token)}
	}
	return nil
}
