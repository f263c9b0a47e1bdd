package work

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/providers"
)

// TestInputJSON checks that long instructions never displace the newest message, and that omissions
// are reported.
func TestInputJSON(t *testing.T) {
	user := func(text string) providers.Message {
		return providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}
	}
	long := strings.Repeat("ü", observability.DefaultContentBytes)
	for name, test := range map[string]struct {
		system   string
		messages []providers.Message
		want     []int // lengths of the shown messages
		cut      bool
	}{
		"nothing":           {"", nil, nil, false},
		"all":               {"Be kind.", []providers.Message{user("hello"), user("again")}, []int{5, 5}, false},
		"tool result":       {"", []providers.Message{{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{Content: []providers.Part{providers.Text{Text: "done"}}}}}}, []int{4}, false},
		"long instructions": {long, []providers.Message{user("hello"), user("again")}, []int{5, 5}, true},
		"long message":      {"Be kind.", []providers.Message{user("hello"), user(long)}, []int{observability.DefaultContentBytes}, true},
		"long history":      {"Be kind.", []providers.Message{user("hello"), user(long), user("again")}, []int{5}, true},
	} {
		req := providers.Request{System: test.system, Messages: test.messages}
		_, raw, cut := inputOf(req, observability.ProjectOptions{Content: true})
		var in inputJSON
		if err := json.Unmarshal(raw, &in); err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, m := range in.Messages {
			got = append(got, len(m.Text))
		}
		if !slices.Equal(got, test.want) || cut != test.cut {
			t.Errorf("%s: got messages of %d bytes, cut %t; want %d, %t", name, got, cut, test.want, test.cut)
		}
		if len(raw) > 2*observability.DefaultContentBytes+256 {
			t.Errorf("%s: got %d bytes of JSON", name, len(raw))
		}
		if _, raw, cut := inputOf(req, observability.ProjectOptions{}); raw != nil || cut {
			t.Errorf("%s: got %s without content, want nil", name, raw)
		}
	}
}
