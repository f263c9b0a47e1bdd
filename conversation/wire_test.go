package conversation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// covers: protocol/9, protocol/15
func TestParseOffset(t *testing.T) {
	accepted := map[string]conversation.Offset{
		"-1":                                conversation.Start,
		"0000000000000000_0000000000000000": 0,
		"0000000000000000_0000000000000042": 42,
		"0000000000000000_9999999999999999": 9999999999999999,
	}
	for s, want := range accepted {
		got, err := conversation.ParseOffset(s)
		if err != nil || got != want {
			t.Errorf("ParseOffset(%q) = %d, %v; want %d", s, int64(got), err, int64(want))
		}
		if got.String() != s {
			t.Errorf("%d encodes as %q, want %q", int64(want), got, s)
		}
	}
	for _, s := range []string{
		"", "-1 ", " -1", "-2", "-01", "+1", "0", "1", "-", "now", "null",
		"0000000000000001_0000000000000000", "0000000000000000_000000000000042", "0000000000000000_00000000000000042",
		"000000000000000_0000000000000042", "0000000000000000-0000000000000042", "0000000000000000_",
		"0000000000000000_-000000000000001", "0000000000000000_+000000000000001", "0000000000000000_00000000000_0001",
		"0000000000000000_0x00000000000001", "0000000000000000_0000000000000001\n", "0000000000000000_000000000000000a",
		"0000000000000000_000000000000000 ", "0000000000000000_00000000000000٣", strings.Repeat("9", 5000),
	} {
		got, err := conversation.ParseOffset(s)
		if err == nil {
			t.Errorf("ParseOffset(%q) = %d", s, int64(got))
		} else if len(err.Error()) > 500 {
			t.Errorf("the error repeats %d bytes of its input", len(err.Error()))
		}
	}
}

// covers: protocol/9
func TestOffsetOrderAndJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := []conversation.Offset{conversation.Start, 0, 1, 9, 10, 9999999999999999}
	for range 200 {
		numbers = append(numbers, conversation.Offset(r.Int64N(1<<uint(1+r.IntN(52)))))
	}
	slices.Sort(numbers)
	var last string
	for i, o := range numbers {
		if s := o.String(); s < last || s == last && numbers[i-1] != o {
			t.Errorf("%q is not after %q", s, last)
		}
		last = o.String()
		b, err := json.Marshal(o)
		if err != nil || string(b) != `"`+o.String()+`"` {
			t.Errorf("JSON of %d is %s, %v", int64(o), b, err)
		}
		var back conversation.Offset
		if err := json.Unmarshal(b, &back); err != nil || back != o {
			t.Errorf("decoded %s as %d, %v", b, int64(back), err)
		}
	}
	var o conversation.Offset
	if err := json.Unmarshal([]byte(`"7"`), &o); err == nil {
		t.Errorf("decoded as %d", int64(o))
	}
}

// covers: protocol/170
func TestTime(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for _, c := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2026, 1, 2, 5, 4, 5, 678_999_999, zone), "2026-01-02T03:04:05.678Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "2026-01-02T03:04:05.000Z"},
		{time.Unix(0, 0), "1970-01-01T00:00:00.000Z"},
		{time.Date(1969, 12, 31, 23, 59, 59, 999_000_000, time.UTC), "1969-12-31T23:59:59.999Z"},
	} {
		v := conversation.TimeOf(c.in)
		b, err := json.Marshal(v)
		if err != nil || string(b) != `"`+c.want+`"` {
			t.Errorf("%v encodes as %s, %v; want %s", c.in, b, err, c.want)
		}
		var back conversation.Time
		if err := json.Unmarshal(b, &back); err != nil || back != v {
			t.Errorf("decoded %s as %s, %v", b, back, err)
		}
	}
	var v conversation.Time
	if err := v.UnmarshalText([]byte("2026-01-02T05:04:05.678+02:00")); err != nil || v != at {
		t.Errorf("decoded as %s, %v", v, err)
	}
	for _, s := range []string{"", "2026-01-02", "2026-01-02T03:04:05", "1767323045678", "9999-12-31T23:59:59-23:59"} {
		if err := v.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("decoded %q as %s", s, v)
		}
	}
}

func TestAddressKey(t *testing.T) {
	// printf 'agent\0id' | sha256sum | head -c 32
	for a, want := range map[conversation.Address]conversation.Key{
		{Agent: "triage", ID: "42"}:     "bfdb7d234a69353fb02adaab923dbeed",
		{Agent: "", ID: ""}:             "6e340b9cffb37a989ca544e6bb780a2c",
		{Agent: "a", ID: "b/c d"}:       "f7c0bb88929510e21a98dc68ac8b0427",
		{Agent: "ab", ID: "/c d"}:       "04a1fabee51d740a9041daafb59de7b9",
		{Agent: "agent", ID: "größe ☃"}: "e145c21bbd94e8c3780f50955cca027b",
	} {
		if got := a.Key(); got != want {
			t.Errorf("key of %+v is %s, want %s", a, got, want)
		}
	}
}

// covers: protocol/127, protocol/156
func TestPosition(t *testing.T) {
	list := []conversation.Position{{Batch: 0}, {Batch: 0, Index: 1}, {Batch: 1}, {Batch: 2, Index: 7}, {Batch: 10}}
	for i, p := range list {
		for j, q := range list {
			want := min(1, max(-1, i-j))
			if got := p.Compare(q); got != want {
				t.Errorf("%v against %v: %d, want %d", p, q, got, want)
			}
		}
		b, err := json.Marshal(p)
		if want := fmt.Sprintf(`{"batch":%d,"index":%d}`, p.Batch, p.Index); err != nil || string(b) != want {
			t.Errorf("got JSON %s, %v; want %s", b, err, want)
		}
		var back conversation.Position
		if err := json.Unmarshal(b, &back); err != nil || back != p {
			t.Errorf("decoded %s as %v, %v", b, back, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"batch":"1"}`), &conversation.Position{}); err == nil {
		t.Error("decoded a string as a position")
	}
}

func hashOf(t *testing.T, change func(a *conversation.Admission)) string {
	t.Helper()
	a := conversation.Admission{
		Address: conversation.Address{Agent: "triage", ID: "42"},
		Delivery: conversation.Delivery{
			Kind: conversation.KindUser, Body: "hello", Type: "t", TagName: "n",
			Attributes:  map[string]string{"a": "1", "b": "2"},
			Attachments: []conversation.Attachment{{ID: "att_1", SHA256: "ab", MimeType: "image/png", Size: 3, Filename: "f"}},
		},
		InitialData: json.RawMessage(`{"a":1,"b":{"c":2,"d":[1,2]}}`),
		Key:         "key",
	}
	change(&a)
	h, err := a.PayloadHash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPayloadHash(t *testing.T) {
	base := hashOf(t, func(*conversation.Admission) {})
	same := map[string]func(a *conversation.Admission){
		"address":       func(a *conversation.Admission) { a.Address.ID = "43" },
		"condition":     func(a *conversation.Admission) { a.Condition.Absent = true },
		"key":           func(a *conversation.Admission) { a.Key = "other" },
		"trace":         func(a *conversation.Admission) { a.Trace.Parent = "00" },
		"attachment id": func(a *conversation.Admission) { a.Delivery.Attachments[0].ID = "att_2" },
		"key order": func(a *conversation.Admission) {
			a.InitialData = json.RawMessage(`{ "b": {"d": [1, 2], "c": 2}, "a": 1 }`)
		},
	}
	for name, change := range same {
		if got := hashOf(t, change); got != base {
			t.Errorf("%s changes the hash", name)
		}
	}
	seen := map[string]string{base: "nothing"}
	other := map[string]func(a *conversation.Admission){
		"kind":           func(a *conversation.Admission) { a.Delivery.Kind = conversation.KindSignal },
		"body":           func(a *conversation.Admission) { a.Delivery.Body = "hello " },
		"type":           func(a *conversation.Admission) { a.Delivery.Type = "u" },
		"tag":            func(a *conversation.Admission) { a.Delivery.TagName = "m" },
		"attribute":      func(a *conversation.Admission) { a.Delivery.Attributes["a"] = "3" },
		"attribute name": func(a *conversation.Admission) { a.Delivery.Attributes["c"] = "" },
		"no attachment":  func(a *conversation.Admission) { a.Delivery.Attachments = nil },
		"digest":         func(a *conversation.Admission) { a.Delivery.Attachments[0].SHA256 = "cd" },
		"media type":     func(a *conversation.Admission) { a.Delivery.Attachments[0].MimeType = "image/gif" },
		"size":           func(a *conversation.Admission) { a.Delivery.Attachments[0].Size = 4 },
		"file name":      func(a *conversation.Admission) { a.Delivery.Attachments[0].Filename = "g" },
		"data":           func(a *conversation.Admission) { a.InitialData = json.RawMessage(`{"a":1}`) },
		"array order":    func(a *conversation.Admission) { a.InitialData = json.RawMessage(`{"a":1,"b":{"c":2,"d":[2,1]}}`) },
		"null data":      func(a *conversation.Admission) { a.InitialData = json.RawMessage(`null`) },
		"no data":        func(a *conversation.Admission) { a.InitialData = nil },
		"big number":     func(a *conversation.Admission) { a.InitialData = json.RawMessage(`12345678901234567890`) },
		"bigger number":  func(a *conversation.Admission) { a.InitialData = json.RawMessage(`12345678901234567891`) },
		"attachment more": func(a *conversation.Admission) {
			a.Delivery.Attachments = append(a.Delivery.Attachments, a.Delivery.Attachments[0])
		},
	}
	for name, change := range other {
		got := hashOf(t, change)
		if before, ok := seen[got]; ok {
			t.Errorf("%s and %s have the same hash", name, before)
		}
		seen[got] = name
	}
	if stored := "a8f3d3ae72f3cae14444128f98ac6118"; base != stored { // a stored value
		t.Errorf("got hash %q, want the stored %q", base, stored)
	}
}

func TestPayloadHashKeepsTheAdmission(t *testing.T) {
	a := conversation.Admission{Delivery: conversation.Delivery{Attachments: []conversation.Attachment{{ID: "att_1"}}}}
	if _, err := a.PayloadHash(); err != nil || a.Delivery.Attachments[0].ID != "att_1" {
		t.Errorf("got attachments %v, %v", a.Delivery.Attachments, err)
	}
	a.InitialData = json.RawMessage(`{`)
	if h, err := a.PayloadHash(); err == nil {
		t.Errorf("broken initial data has the hash %s", h)
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("bucket is away")
	e := conversation.Unavailable(3*time.Second, cause)
	if e.RetryAfter != 3*time.Second || !errors.Is(e, cause) || !strings.HasSuffix(e.Error(), ": bucket is away") {
		t.Errorf("unavailable is %v after %v", e, e.RetryAfter)
	}
	for want, err := range map[conversation.Code]error{
		conversation.CodeUnavailable:    fmt.Errorf("admit: %w", e),
		conversation.CodeInvalidRequest: conversation.Errorf(conversation.CodeInvalidRequest, "%d files", 17),
		conversation.CodeInternal:       cause,
	} {
		if got := conversation.CodeOf(err); got != want {
			t.Errorf("code of %v is %s, want %s", err, got, want)
		}
	}
	if got := conversation.Errorf(conversation.CodeInvalidRequest, "%d files", 17).Error(); got != "invalid_request: 17 files" {
		t.Errorf("got error %q", got)
	}
}

// covers: protocol/24
func TestValidTagName(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "_": true, "Z9": true, "build.done-2_x": true,
		"": false, "9a": false, ".a": false, "-a": false, "a b": false, "a>": false, "a\n": false, "é": false, "a:b": false,
	} {
		if got := conversation.ValidTagName(s); got != want {
			t.Errorf("ValidTagName(%q) = %t", s, got)
		}
	}
}
