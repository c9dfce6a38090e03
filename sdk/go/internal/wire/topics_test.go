package wire

import (
	"testing"
)

func TestTopicsAndFilters(t *testing.T) {
	type matching struct {
		Filter  string `json:"filter"`
		Topic   string `json:"topic"`
		Matches bool   `json:"matches"`
	}
	all := read[struct {
		Matches []matching `json:"matching"`
	}](t, "topics.json")
	if len(all.Matches) == 0 {
		t.Fatal("no vectors")
	}
	for _, vector := range all.Matches {
		if Matches(vector.Filter, vector.Topic) != vector.Matches {
			t.Errorf("%q, %q: want %v", vector.Filter, vector.Topic, vector.Matches)
		}
	}
	for name, want := range map[string]bool{"a": false, "a+/b": false, "+": true, "a/+/b": true, "a/#": true, "a#": false} {
		if IsWild(name) != want {
			t.Errorf("IsWild(%q): want %v", name, want)
		}
	}
}

func TestPositions(t *testing.T) {
	largest := "18446744073709551615:18446744073709551615"
	for _, text := range []string{"0:0", "7:42", largest} {
		if position, err := ParsePosition(text); err != nil || position.String() != text {
			t.Errorf("%s: %v, %v", text, position, err)
		}
	}
	for _, text := range []string{"", ":", "7", "7:", ":7", "07:1", "7:+1", "7:-1", "7: 1", "7:1 ", "7:1:1", largest + "0"} {
		if position, err := ParsePosition(text); err == nil {
			t.Errorf("%q is taken as %v", text, position)
		}
	}
}

func FuzzDecode(f *testing.F) {
	all := read[vectors](f, "server_frames.json")
	for _, vector := range all.Valid {
		f.Add(unhex(f, vector.Hex))
	}
	for _, vector := range all.Invalid {
		f.Add(unhex(f, vector.Hex))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		frame, err := Decode(bytes)
		if (frame == nil) == (err == nil) {
			t.Fatalf("frame %v, error %v", frame, err)
		}
		if err != nil && err.(*Error).Name == "" {
			t.Fatal("an error without a name")
		}
		if len(bytes) > 0 && bytes[0] == TypeMessage {
			var m Message
			if other := DecodeMessage(bytes, &m); (other == nil) != (err == nil) {
				t.Fatalf("Decode: %v, DecodeMessage: %v", err, other)
			}
		}
	})
}
