package seam_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent/internal/seam"
)

// list refers to itself.
type list struct {
	text string
	next *list
}

// silent fails the test if a method of it is called.
type silent struct{ text string }

func (silent) MarshalJSON() ([]byte, error) { panic("called") }
func (silent) String() string               { panic("called") }

func TestSize(t *testing.T) {
	const n = 100_000
	text := strings.Repeat("x", n)
	ring := &list{text: text}
	ring.next = ring
	many := make([]map[string]string, 10_000)
	for i := range many {
		many[i] = map[string]string{"a": text[:10]}
	}
	for name, tt := range map[string]struct {
		value       any
		least, most int64
	}{
		"nothing":         {nil, 0, 0},
		"text":            {text, n, n},
		"bytes":           {[]byte(text), n, n},
		"numbers":         {make([]float64, n), 8 * n, 8 * n},
		"pointer":         {&text, n, n},
		"nil pointer":     {(*list)(nil), 0, 0},
		"unexported":      {list{text: text}, n, n},
		"array":           {[2]string{text, text}, 2 * n, 2*n + 100},
		"map":             {map[string]any{text: text, "b": []any{text}}, 3 * n, 3*n + 100},
		"long list":       {many, 10_000 * 11, 10_000 * 40},
		"ring":            {ring, n, 1 << 40},
		"with methods":    {silent{text}, n, n},
		"function":        {struct{ f func() }{func() {}}, 0, 8},
		"list of strings": {[]string{text, text}, 2 * n, 2*n + 100},
	} {
		if got := seam.Size(tt.value); got < tt.least || got > tt.most {
			t.Errorf("size of %s: got %d, want %d to %d", name, got, tt.least, tt.most)
		}
	}
}
