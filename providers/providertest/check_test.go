package providertest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

func TestCheckFindsEachFault(t *testing.T) {
	type events = []providers.Event
	done := providers.Done{StopReason: providers.StopStop}
	used := providers.Done{StopReason: providers.StopToolUse}
	start := providers.ToolCallStart{ID: "a", Name: "f"}
	end := providers.ToolCallEnd{ID: "a", Name: "f", Arguments: json.RawMessage(`{}`)}
	renamed := providers.ToolCallEnd{ID: "b", Name: "f", Arguments: json.RawMessage(`{}`)}
	broken := providers.ToolCallEnd{ID: "a", Name: "f", Arguments: json.RawMessage(`{`)}
	quoted := providers.ToolCallEnd{ID: "a", Name: "f", Arguments: json.RawMessage(`"}"`), Malformed: true}
	failure := &providers.Error{Kind: providers.KindNetwork}
	tests := []struct {
		name    string
		events  events
		failure error
		want    string // empty if the stream is valid
	}{
		{"sound", events{providers.ReasoningDelta{Text: "r"}, providers.ReasoningEnd{}, providers.TextDelta{Text: "t"}, start, providers.ToolCallDelta{Arguments: "{}"}, end, used}, nil, ""},
		{"sound failure", events{providers.ReasoningDelta{Text: "r"}}, failure, ""},
		{"no end", events{providers.TextDelta{Text: "t"}}, nil, "neither"},
		{"two ends", events{done}, failure, "after Done"},
		{"Done twice", events{done, done}, nil, "after Done"},
		{"plain error", nil, errors.New("plain"), "not a *providers.Error"},
		{"no kind", nil, &providers.Error{}, "no kind"},
		{"empty text", events{providers.TextDelta{}, done}, nil, "empty"},
		{"end of text in reasoning", events{providers.ReasoningDelta{Text: "r"}, providers.TextEnd{Signature: "s"}, done}, nil, "before the ReasoningEnd"},
		{"unsigned end of text", events{providers.TextDelta{Text: "t"}, providers.TextEnd{}, done}, nil, "no signature"},
		{"text in reasoning", events{providers.ReasoningDelta{Text: "r"}, providers.TextDelta{Text: "t"}, done}, nil, "before the ReasoningEnd"},
		{"open reasoning", events{providers.ReasoningDelta{Text: "r"}, done}, nil, "still open"},
		{"end of nothing", events{providers.ReasoningEnd{}, done}, nil, "ends no reasoning"},
		{"delta before start", events{providers.ToolCallDelta{Arguments: "x"}, done}, nil, "not open"},
		{"end before start", events{end, used}, nil, "not open"},
		{"end twice", events{start, end, end, used}, nil, "not open"},
		{"index", events{providers.ToolCallStart{Index: 1}, done}, nil, "index 1"},
		{"open call", events{start, used}, nil, "still open"},
		{"other id", events{start, renamed, used}, nil, "ends as"},
		{"not JSON", events{start, broken, used}, nil, "not JSON"},
		{"other arguments", events{start, providers.ToolCallDelta{Arguments: "{ }"}, end, used}, nil, "not the deltas"},
		{"other text", events{start, providers.ToolCallDelta{Arguments: "{"}, quoted, used}, nil, "do not quote"},
		{"stop with calls", events{start, end, done}, nil, "does not stop"},
		{"tool_use without", events{used}, nil, "not there"},
		{"unknown stop", events{providers.Done{StopReason: "x"}}, nil, "unknown"},
		{"negative usage", events{providers.Done{StopReason: providers.StopStop, Usage: providers.Usage{Input: -1}}}, nil, "negative"},
		{"wrong total", events{providers.Done{StopReason: providers.StopStop, Usage: providers.Usage{Input: 1}}}, nil, "add up"},
		{"nil event", events{nil, done}, nil, "no known event"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := providertest.Check(tt.events, tt.failure)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCollectFindsEventsAfterError(t *testing.T) {
	failure := &providers.Error{Kind: providers.KindNetwork}
	_, _, broken := providertest.Collect(func(yield func(providers.Event, error) bool) {
		if yield(nil, failure) {
			yield(providers.TextDelta{Text: "t"}, nil)
		}
	})
	if broken == nil {
		t.Error("event after an error: got no violation")
	}
}
