package analyst

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// A trace shows the usage and the budget of the dispatch tree, as counted by the records.
func TestTraceShowsTheTree(t *testing.T) {
	at := conversation.Address{Agent: "worker", ID: "w"}
	counted := func(n int, dollars float64, maxSubmissions int, maxDollars float64) *conversation.TreeCounted {
		return &conversation.TreeCounted{
			Must: true, Submission: "sub_1", Member: at, Key: "k", Joined: true, Submissions: n, Dollars: dollars, MaxSubmissions: maxSubmissions, MaxDollars: maxDollars, At: 1,
		}
	}
	for want, records := range map[string][]conversation.Record{
		"tree of 2 of 1000 dispatched, $0.2500 of $5.00": {counted(1, 0, 1000, 5), counted(2, 0.25, 1000, 5)},
		"tree of 3 of 10 dispatched, $0.2500":            {counted(3, 0.25, 10, 0)},
		"tree of 3 dispatched":                           {counted(3, 0, 0, 0)},
	} {
		batch := conversation.Batch{Records: append([]conversation.Record{
			&conversation.SubmissionAdmitted{Submission: "sub_1", Message: "msg_1", Key: "k", Delivery: conversation.Delivery{Kind: conversation.KindUser}, At: 1},
		}, records...)}
		events := observability.Project(observability.Source{Key: "key", Agent: "desk", ID: "c1"}, batch, &observability.ProjectOptions{})
		path := eventsFile(t, t.TempDir(), "events.jsonl", events)
		if code, out, errOut := program.Output(t, "trace", "sub_1", "--file", path); code != 0 || strings.Count(out, "tree of") != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("exit %d, %q, %q, want %q", code, out, errOut, want)
		}
	}
}
