package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parleyrun/parley/internal/contain"
)

// maxLogDepth bounds nested groups, because a value may resolve to a group of itself.
const maxLogDepth = 16

// plainer converts attributes to plain values, within a bound.
type plainer struct {
	left int  // bytes
	cut  bool // something was omitted
}

// add puts an attribute into a map. It reports whether there is room for more.
func (p *plainer) add(to map[string]any, a slog.Attr, depth int) bool {
	v := resolved(a.Value)
	if v.Kind() == slog.KindGroup && a.Key == "" { // Inline the group, as handlers of slog do.
		return p.group(to, v.Group(), depth)
	}
	if len(a.Key) > p.left {
		p.cut = true
		return false
	}
	p.left -= len(a.Key)
	to[a.Key] = p.value(v, depth)
	return p.left > 0
}

func (p *plainer) group(to map[string]any, attrs []slog.Attr, depth int) bool {
	for i, a := range attrs {
		if depth >= maxLogDepth || p.left <= 0 {
			p.cut = true
			return p.left > 0
		}
		if !p.add(to, a, depth+1) {
			p.cut = p.cut || i < len(attrs)-1
			return false
		}
	}
	return true
}

func (p *plainer) value(v slog.Value, depth int) any {
	const number = 8
	switch v.Kind() {
	case slog.KindString:
		return p.text(v.String())
	case slog.KindBool:
		p.left--
		return v.Bool()
	case slog.KindInt64:
		p.left -= number
		return v.Int64()
	case slog.KindUint64:
		p.left -= number
		return v.Uint64()
	case slog.KindFloat64:
		f := v.Float64()
		if math.IsNaN(f) || math.IsInf(f, 0) { // JSON has neither.
			return p.text(strconv.FormatFloat(f, 'g', -1, 64))
		}
		p.left -= number
		return f
	case slog.KindDuration:
		return p.text(v.Duration().String())
	case slog.KindTime:
		return p.text(v.Time().Format(time.RFC3339Nano))
	case slog.KindGroup:
		inner := map[string]any{}
		p.group(inner, v.Group(), depth)
		return inner
	}
	return p.any(v.Any())
}

// any copies a value through its JSON form.
func (p *plainer) any(v any) any {
	b, text, err := encodeLogged(v)
	switch {
	case err != nil:
		return p.text(fmt.Sprintf("(%T has no JSON form)", v))
	case b == nil:
		return p.text(text)
	case len(b) > p.left: // The beginning is no valid JSON, so it becomes text.
		return p.text(string(b))
	}
	p.left -= len(b)
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return p.text(string(b))
	}
	return plainNumbers(out)
}

// resolved returns the result of a value's LogValue methods, or its type if a method does not return.
func resolved(v slog.Value) slog.Value {
	if v.Kind() != slog.KindLogValuer {
		return v
	}
	out, err := contain.Do("attribute of a log", func() (slog.Value, error) { return v.Resolve(), nil })
	if err != nil {
		return slog.StringValue(fmt.Sprintf("(%T has no value)", v.Any()))
	}
	return out
}

// encodeLogged returns the JSON form of a value, or the text of an error.
func encodeLogged(v any) (b []byte, text string, err error) {
	if e, ok := v.(error); ok {
		if _, own := v.(json.Marshaler); !own {
			text, err = contain.Do("attribute of a log", func() (string, error) { return e.Error(), nil })
			return nil, text, err
		}
	}
	b, err = contain.Encode("attribute of a log", v)
	return b, "", err
}

// plainNumbers replaces json.Number by Go numbers.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String() // Beyond the range of a float.
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// text cuts a string to the remaining bound.
func (p *plainer) text(s string) string {
	short := cutText(s, p.left)
	p.cut = p.cut || len(short) < len(s)
	p.left -= len(short)
	return short
}

// cutText shortens a text to a bound at a character boundary.
func cutText(s string, limit int) string {
	limit = max(limit, 0)
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
