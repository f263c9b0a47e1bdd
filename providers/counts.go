package providers

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/providers/sse"
)

// Counts are the numbers that a vendor reports about a response. A member of another type is no error;
// it counts as absent and is reported as an oddity.
type Counts struct {
	a       *Assembler
	members map[string]any
}

// Counts reads an object of numbers. Members may be numbers or numeric strings.
func (a *Assembler) Counts(raw json.RawMessage) Counts {
	c := Counts{a: a}
	if !sse.Given(raw) {
		return c
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&c.members) != nil {
		c.members = nil
		a.Odd("usage", "")
	}
	return c
}

// Given reports whether there are any members.
func (c Counts) Given() bool { return len(c.members) > 0 }

// Has reports whether the member exists.
func (c Counts) Has(name string) bool { return c.members[name] != nil }

// Of returns the count at a path of members, 0 if there is none. It is never negative.
func (c Counts) Of(path ...string) int64 {
	n, ok := c.number(path)
	if !ok || n < 1 {
		return 0
	}
	return int64(min(n, maxCount))
}

// maxCount is the largest integer up to which a float64 represents all integers.
const maxCount = 1 << 53

func (c Counts) List(name string) (out []Counts) {
	list, _ := c.members[name].([]any)
	for _, v := range list {
		if members, ok := v.(map[string]any); ok {
			out = append(out, Counts{c.a, members})
		}
	}
	return out
}

// Text returns a string member, "" if there is none.
func (c Counts) Text(name string) string {
	s, _ := c.members[name].(string)
	return s
}

// Amount returns the number at a path of members, nil if there is none.
func (c Counts) Amount(path ...string) *float64 {
	if n, ok := c.number(path); ok && n >= 0 {
		return &n
	}
	return nil
}

func (c Counts) number(path []string) (float64, bool) {
	var v any = c.members
	for i, name := range path {
		o, ok := v.(map[string]any)
		if !ok && v != nil {
			c.a.Odd("usage."+strings.Join(path[:i], "."), "")
		}
		v = o[name]
	}
	text := ""
	switch v := v.(type) {
	case nil:
		return 0, false
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		c.a.Odd("usage."+strings.Join(path, "."), "")
		return 0, false
	}
	return n, true
}

// Number reads a number, such as an index. It returns nil if raw is absent or not a number.
func Number(raw json.RawMessage) *int {
	n, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) > 1<<30 {
		return nil
	}
	return new(int(n))
}
