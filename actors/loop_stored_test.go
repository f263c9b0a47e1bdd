package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// hugeOutput is too long for a record, and has lines with their own position.
func hugeOutput() string {
	var out strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&out, "line %d of the whole report\n", i)
	}
	return out.String()
}

// blobs returns the keys of stored attachments and outputs.
func (l *loop) blobs() (keys []string) {
	for key := range l.listing() {
		if storage.KindOf(key) == storage.KindAttachment {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestOutputBeyondARecord: the prompt has the beginning and the end, and the model reads other parts,
// in the same response and after a restart. Clients see a part.
func TestOutputBeyondARecord(t *testing.T) {
	huge := hugeOutput()
	for _, name := range []string{"model", "child"} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				report := returning("report", huge)
				work := inTurn(toolCalls("report"), reads(t, ""), reads(t, `,"from":2500000`), reads(t, `,"from":100,"find":"line 123456 of"`),
					reads(t, `,"find":"line 200000"`), reads(t, `,"from":100000000`), replies("done"))
				a := withSubagents(chatAgent(report), researcher(report))
				c := &vendor{models: map[string]script{"model": work}}
				if name == "child" {
					c.models = map[string]script{"model": inTurn(toolCalls(task("researcher", "Report.")), replies("done")), "child": work}
				}
				windows := map[string]int{"model": 32_768, "child": 32_768}
				n := l.run(part{opts: agents(a), vendor: c, page: 1, windows: windows})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				got := c.requests(name)
				if len(got) != 7 || offered(got[0].req) != 0 || offered(got[1].req) != 1 {
					t.Fatalf("got %d requests, want all of them with the tool", len(got))
				}
				first := lastResult(got[1].req)
				if len(first) > 8<<10 || !strings.HasPrefix(first, "line 0 of") || !strings.HasSuffix(first, "line 199999 of the whole report\n") {
					t.Errorf("got %d bytes of the output in the prompt: %.80q", len(first), first)
				}
				for i, want := range []string{
					fmt.Sprintf("[bytes 0 to 7936 of %d; read on from 7936]\nline 0 of", len(huge)), "[bytes 2500000 to 2507936 of", "line 123456 of the whole report\n",
					"error: The output does not have this text at or after byte 0.", fmt.Sprintf("error: The output has %d bytes, and nothing after them.", len(huge)),
				} {
					result := lastResult(got[2+i].req)
					wants(t, fmt.Sprint("result ", i), result, want)
					if _, text, _ := strings.Cut(result, "]\n"); len(result) > 8<<10 || i < 3 && !strings.Contains(huge, text) {
						t.Errorf("result %d: got %d bytes: %.80q", i, len(result), result)
					}
				}
				stored := only[*conversation.OutputStored](batchWith(l, chat("c"), func(r *conversation.ToolSettled) bool { return strings.HasPrefix(string(r.Output), `"line 0`) }))
				if len(stored) != 1 || stored[0].Size != int64(len(huge)) || len(stored[0].Pieces) != len(l.blobs()) || len(l.blobs()) < 4 {
					t.Errorf("got %d stored outputs, in %d pieces", len(stored), len(l.blobs()))
				}
				if name == "child" {
					return // a child's outputs are not public
				}
				var shown string
				if p := toolParts(n.snapshot(chat("c")))[0]; p.State != conversation.StateOutputAvailable || json.Unmarshal(p.Output, &shown) != nil {
					t.Errorf("got public state %s", p.State)
				}
				if len(shown) > 66<<10 || !strings.HasPrefix(shown, "line 0 of") || !strings.HasSuffix(shown, "line 199999 of the whole report\n") || strings.Contains(shown, "read_output") {
					t.Errorf("got %d public bytes: %.80q", len(shown), shown)
				}
				wants(t, "the public output", shown, fmt.Sprintf("of %d bytes omitted here.]", len(huge)))
				n.crash()
				c = onlyModel(inTurn(reads(t, `,"from":4000000`), replies("seen")))
				n = l.run(part{opts: agents(a), vendor: c, page: 1, windows: windows})
				n.admit(chat("c"), "2", "and?")
				l.completes(chat("c"), 2)
				wants(t, "the result after a restart", lastResult(c.requests("model")[1].req), "[bytes 4000000 to 4007936 of")
			})
		})
	}
}

// TestStoredOutputWithImages: clients get the images, and the model gets them next to a part of the
// output. A missing piece is reported.
func TestStoredOutputWithImages(t *testing.T) {
	picture := drawn(t, 9, 9)
	draw := agent.NewTool("draw", "Draws.", func(context.Context, struct{}) (agent.Result, error) {
		return agent.Result{Output: map[string]string{"text": hugeOutput()}, Images: []agent.Image{{MimeType: "image/png", Data: picture}}}, nil
	}, nil)
	inLoop(t, func(t *testing.T, l *loop) {
		c := onlyModel(inTurn(toolCalls("draw"), func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			for _, key := range l.blobs() {
				if err := l.bucket.Delete(ctx, key); err != nil {
					t.Error(err)
				}
			}
			return reads(t, "")(ctx, req, a)
		}, replies("done")))
		n := l.run(part{opts: agents(chatAgent(draw)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		seen := shown(c.requests("model")[1].req)
		wants(t, "the result", seen[len(seen)-1], `{"text":"line 0 of`, `report\n"}`, "|[image/png]")
		var out struct {
			Output string
			Images []struct{ MimeType string }
		}
		if err := json.Unmarshal(toolParts(n.snapshot(chat("c")))[0].Output, &out); err != nil || len(out.Images) != 1 || out.Images[0].MimeType != "image/png" {
			t.Errorf("got public output %+v, %v", out, err)
		}
		wants(t, "the public output", out.Output, `{"text":"line 0 of`, "bytes omitted here.]")
		wants(t, "the result of reading", lastResult(c.requests("model")[2].req), "error: The output is no longer stored as it was.")
	})
}

// TestCrashBeforeStoredOutputIsRecorded: a crash between storing and recording an output leaves an
// orphan object, which does not disturb the next attempt to store it.
func TestCrashBeforeStoredOutputIsRecorded(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var pieces atomic.Int32
		reached := make(chan struct{})
		decide := func(op storagetest.Op) storagetest.Kind {
			switch kind := storage.KindOf(op.Key); {
			case op.Method != http.MethodPut:
			case kind == storage.KindAttachment:
				pieces.Add(1)
			case kind == storage.KindBatch && pieces.Load() > 0:
				if pieces.Swap(-1000) > 0 {
					close(reached)
				}
				return storagetest.ErrorBefore
			case kind == storage.KindBatch && pieces.Load() < 0:
				return storagetest.ErrorBefore
			}
			return 0
		}
		a := chatAgent(returning("report", hugeOutput()))
		n := l.run(part{opts: agents(a), vendor: onlyModel(toolCalls("report")), decide: decide})
		n.admit(chat("c"), "1", "go")
		await(t, reached, "the batch after the pieces")
		n.crash()
		before := len(l.blobs())
		if got := only[*conversation.OutputStored](l.records(chat("c"))); before < 4 || len(got) != 0 {
			t.Fatalf("got %d pieces stored and %d outputs recorded", before, len(got))
		}
		c := onlyModel(inTurn(toolCalls("report"), replies("done")))
		l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		wants(t, "the request after a restart", strings.Join(shown(c.requests("")[0].req), "\n"), "The outcome of this call is unknown")
		if got := only[*conversation.OutputStored](l.records(chat("c"))); len(got) != 1 || len(l.blobs()) != before {
			t.Errorf("got %d pieces stored, %d before, and %d outputs recorded", len(l.blobs()), before, len(got))
		}
	})
}

// TestOutputsAtOnce: if outputs fit alone but not together, the first are recorded in full, and the
// others in part while there is room for parts.
func TestOutputsAtOnce(t *testing.T) {
	big := strings.Repeat("0123456789", 10_000)
	inLoop(t, func(t *testing.T, l *loop) {
		all := make(chan struct{})
		var begun atomic.Int32
		report := agent.NewTool("report", "Reports when all do.", func(context.Context, struct{}) (string, error) {
			if begun.Add(1) == 4 {
				close(all)
			}
			<-all
			return big, nil
		}, nil)
		a := chatAgent(report)
		a.Limits.OutputBytes = 250_000
		c := onlyModel(inTurn(toolCalls("report", "report", "report", "report"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		whole, parts := 0, 0
		for _, p := range toolParts(n.snapshot(chat("c"))) {
			var text string
			switch err := json.Unmarshal(p.Output, &text); {
			case err != nil || p.State != conversation.StateOutputAvailable:
				t.Errorf("got call state %s: %v", p.State, p.ErrorText)
			case text == big:
				whole++
			case strings.Contains(text, "of 100000 bytes omitted here.]"):
				parts++
			}
		}
		if whole != 2 || parts != 2 || len(l.blobs()) != 1 {
			t.Errorf("got %d complete outputs and %d in part, in %d pieces", whole, parts, len(l.blobs()))
		}
	})
}

// TestLongOutputsOfOneReply: the bound counts the prompt's part of each output, and the recorded
// outputs are complete.
func TestLongOutputsOfOneReply(t *testing.T) {
	const most = 400 << 10
	long := strings.Repeat("0123456789", 20_000)
	for _, tc := range []struct {
		calls   int
		outcome conversation.Outcome
	}{{5, conversation.OutcomeCompleted}, {7, conversation.OutcomeFailed}} {
		inLoop(t, func(t *testing.T, l *loop) {
			c := onlyModel(inTurn(toolCalls(slices.Repeat([]string{"report"}, tc.calls)...), replies("done")))
			n := l.run(part{opts: agents(chatAgent(returning("report", long))), vendor: c})
			n.rt.ShowAtMost(most)
			n.admit(chat("c"), "1", "go")
			settled := l.settles(chat("c"), 1)[0]
			if settled.Outcome != tc.outcome || settled.Error != nil && !strings.Contains(settled.Error.Message, "too long for the model") {
				t.Errorf("%d outputs of %d bytes: got %s, %+v", tc.calls, len(long), settled.Outcome, settled.Error)
			}
			for _, p := range toolParts(n.snapshot(chat("c"))) {
				if len(p.Output) != len(long)+len(`""`) {
					t.Errorf("got %d recorded bytes of an output, state %s", len(p.Output), p.State)
				}
			}
		})
	}
}

// TestOutputThatCannotBeStored: the model gets the failure, and the response continues.
func TestOutputThatCannotBeStored(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		c := onlyModel(inTurn(toolCalls("report"), replies("done")))
		n := l.run(part{opts: agents(chatAgent(returning("report", hugeOutput()))), vendor: c, decide: func(op storagetest.Op) storagetest.Kind {
			if storage.KindOf(op.Key) == storage.KindAttachment {
				return storagetest.ErrorBefore
			}
			return 0
		}})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		wants(t, "the result", lastResult(c.requests("model")[1].req), "error: The tool ran, but its output could not be stored.")
		if got := only[*conversation.OutputStored](l.records(chat("c"))); len(got) != 0 {
			t.Errorf("got %d recorded outputs", len(got))
		}
	})
}
