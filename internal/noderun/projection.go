package noderun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/parleyrun/parley/conversation"
)

// Projection is what readers of a log are shown: the JSON of each chunk, by batches.
type Projection map[conversation.Offset][]json.RawMessage

// Add adds a batch. State is the fold of the log up to it; the conversation exists.
func (p Projection) Add(state *conversation.State, b conversation.Batch) error {
	at := func() (*conversation.Snapshot, error) { return state.Snapshot(), nil }
	chunks, err := conversation.Project(state.Created().ConversationID, b, at)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		raw, err := conversation.AppendChunks(nil, []conversation.Chunk{c})
		if err != nil {
			return err
		}
		p[b.Offset] = append(p[b.Offset], raw)
	}
	return nil
}

// Lacks says in what a sight differs from what the log shows, "" if it does not.
func (p Projection) Lacks(s Sight) string {
	seen := s.Chunks
	for o := s.From + 1; o <= s.To; o++ {
		for index, want := range p[o] {
			if len(seen) == 0 {
				return fmt.Sprintf("%s never saw %s", s.Who, want)
			}
			at := conversation.Position{Batch: o, Index: index}
			if got := seen[0]; got.Position != at || !SameJSON(got.Raw, want) {
				return fmt.Sprintf("%s saw %s at %v where the log shows %s at %v", s.Who, got.Raw, got.Position, want, at)
			}
			seen = seen[1:]
		}
	}
	if len(seen) > 0 {
		return fmt.Sprintf("%s saw %s, which the log does not show", s.Who, seen[0].Raw)
	}
	return ""
}

// SameJSON reports whether two texts have the same value.
func SameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
