package actors_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

var (
	// longTurnsOfMemory is the number of turns of 1 MiB in a long log. Under the race detector the
	// tests only check the behavior.
	longTurnsOfMemory = sample.Of(96, 6)

	// detectorBytes is the additional memory for the race detector.
	detectorBytes = sample.Of(0, 128<<20)
)

// TestMemoryOfEndlessModels runs endless models in a process of its own and checks its peak memory,
// which is lower than their output. The race detector multiplies it.
func TestMemoryOfEndlessModels(t *testing.T) {
	peak(t, 512<<20, endlessModels)
}

// peak runs a part of the test in a process of its own and bounds its peak memory in bytes.
// Uncollected garbage varies by a tenth, so one of three processes has to pass.
func peak(t *testing.T, most int, run func(*testing.T)) {
	t.Helper()
	most += detectorBytes
	if proc.IsChild(t) {
		run(t)
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s\n", status)
		return
	}
	for range 3 {
		took := peakOfChild(t)
		t.Logf("%d MiB", took>>20)
		if took <= most {
			return
		}
	}
	t.Errorf("want at most %d MiB", most>>20)
}

// peakOfChild runs the test in another process and returns its peak memory in bytes.
func peakOfChild(t *testing.T) int {
	t.Helper()
	child := proc.Child(t)
	child.Env = append(child.Env, "GOGC=")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-4000):])
	}
	found := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no VmHWM in %s", out)
	}
	kb, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// endlessModels settles one conversation for each endless output, concurrently.
func endlessModels(t *testing.T) {
	const enough = 2 << 30 // output beyond which memory must be bounded
	piece := strings.Repeat("x", 4<<10)
	ways := map[string]func(a *providers.Assembler){
		"text":      func(a *providers.Assembler) { a.Text(piece) },
		"reasoning": func(a *providers.Assembler) { a.Reasoning(piece, "") },
		"parts": func(a *providers.Assembler) {
			for range len(piece) / 16 {
				a.Text("x")
				a.Reasoning("y", "")
			}
		},
		"arguments": func(a *providers.Assembler) { a.CallArguments(0, piece) },
	}
	a := chatAgent()
	a.Limits = agent.Limits{ResponseBytes: 1 << 20, ArgumentBytes: 256 << 10}
	w := newWorld(t)
	n := w.start(setup{opts: agents(a), model: script(func(_ context.Context, req providers.Request, out *providers.Assembler) error {
		seen := shown(req)
		way := strings.TrimPrefix(seen[len(seen)-1], "user: ")
		if way == "arguments" {
			out.StartCall("p", "t")
		}
		for i := 0; i < enough/len(piece) && !out.Stopped(); i++ {
			ways[way](out)
		}
		out.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})})
	for way := range ways {
		n.admit(chat(way), "1", way)
	}
	for way := range ways {
		afterSettlements(w, chat(way), 1)
		settled := only[*conversation.SubmissionSettled](w.records(chat(way)))[0]
		if settled.Error == nil || settled.Error.Type != conversation.CodeOutputTooLong {
			t.Errorf("%s: got outcome %s with %+v", way, settled.Outcome, settled.Error)
		}
	}
}

// TestMemoryOfALongLog opens a log without checkpoints, for a message and for readers. Its history is
// 96 MiB.
func TestMemoryOfALongLog(t *testing.T) {
	turns, size := longTurnsOfMemory, 1<<20
	at, text := chat("c"), strings.Repeat("and so on, ", size/11)
	model := replies("ok")
	t.Run("message", func(t *testing.T) {
		peak(t, 320<<20, func(t *testing.T) {
			w := newWorld(t)
			w.settledTurns(at, turns, text)
			opts := agents(chatAgent())
			opts.AdmitTimeout = time.Minute // it folds the whole log
			n := w.start(setup{opts: opts, model: model})
			got := n.admit(at, "next", "hello")
			var settled []*conversation.SubmissionSettled
			w.until("the settlement", func() bool {
				settled = w.settledAfter(at, got.Offset)
				return len(settled) > 0
			})
			if settled[0].Outcome != conversation.OutcomeCompleted {
				t.Errorf("got settlement %+v", settled[0])
			}
			if again := n.admit(at, "0", "Go on."); !again.Deduplicated || again.Offset != 0 {
				t.Errorf("got replay of the first message %+v", again)
			}
			if n.stop() != nil || len(w.keysWith("/ckpt/")) == 0 {
				t.Error("got no checkpoint")
			}
			n = w.start(setup{opts: agents(chatAgent()), model: model})
			page, err := n.rt.Reader().Snapshot(t.Context(), at)
			var all counting
			if err == nil {
				err = page.Write(t.Context(), &all)
			}
			if err != nil || int(all) < turns*size || int(all) > turns*(size+2000) {
				t.Errorf("got snapshot of %d bytes, %v", all, err)
			}
		})
	})
	t.Run("read", func(t *testing.T) {
		peak(t, 320<<20, func(t *testing.T) {
			w := newWorld(t)
			w.settledTurns(at, turns, text)
			n := w.start(setup{opts: agents(chatAgent()), model: model})
			r := n.rt.Reader()
			page, err := r.Snapshot(t.Context(), at)
			var all counting
			if err == nil {
				err = page.Write(t.Context(), &all)
			}
			if err != nil || int(all) < turns*size || int(all) > turns*(size+2000) {
				t.Errorf("got snapshot of %d bytes, %v", all, err)
			}
			for _, after := range []conversation.Offset{conversation.Start, conversation.Offset(turns / 2)} {
				if got, err := r.Updates(t.Context(), at, after, turns); err != nil || got.Next == after {
					t.Errorf("updates after %s: got next %s, %v", after, got.Next, err)
				}
			}
		})
	})
}

// counting is a writer that counts bytes.
type counting int

func (c *counting) Write(p []byte) (int, error) {
	*c += counting(len(p))
	return len(p), nil
}

// settledTurns writes the log of settled turns with one text each, and a compaction of all but the
// last.
func (w *world) settledTurns(at conversation.Address, turns int, text string) {
	w.tb.Helper()
	batches := make([][]conversation.Record, turns)
	for i := range turns {
		sub, reply, turn := conversation.SubmissionID(fmt.Sprint("sub_", i)), conversation.MessageID(fmt.Sprint("msg_a", i)), conversation.TurnID(fmt.Sprint("turn_", i))
		var records []conversation.Record
		if i == 0 {
			records = append(records, &conversation.ConversationCreated{Agent: at.Agent, ID: at.ID, UID: "inst_1", ConversationID: "conv_1"})
		}
		adm := message(at, fmt.Sprint(i), "Go on.")
		hash, err := adm.PayloadHash()
		if err != nil {
			w.tb.Fatal(err)
		}
		records = append(records,
			&conversation.SubmissionAdmitted{
				Submission: sub, Message: conversation.MessageID(fmt.Sprint("msg_u", i)), Key: adm.Key, PayloadHash: hash, Delivery: adm.Delivery,
			},
			&conversation.AttemptStarted{Submission: sub, Attempt: 1, Writer: "first"},
			&conversation.ResponseStarted{Message: reply, Submission: sub, Turn: turn, Model: spec},
			&conversation.Delta{Message: reply, Kind: conversation.PartText, Text: text},
			&conversation.StepCompleted{Message: reply, Turn: turn, StopReason: "stop"},
			&conversation.SubmissionSettled{Submission: sub, Outcome: conversation.OutcomeCompleted})
		if i == turns-1 {
			records = append(records, &conversation.Compacted{Summary: "It went on.", FirstKept: sub})
		}
		batches[i] = records
	}
	w.write(at, batches...)
}

func (w *world) write(at conversation.Address, batches ...[]conversation.Record) {
	w.tb.Helper()
	if err := storage.EnsureFormat(context.Background(), w.bucket); err != nil {
		w.tb.Fatal(err)
	}
	writer := w.logs.Writer(at.Key(), "first", storage.Start(), 0)
	for _, records := range batches {
		lines, err := conversation.EncodeRecords(nil, records)
		if err == nil {
			_, err = writer.Append(context.Background(), lines, 1)
		}
		if err != nil {
			w.tb.Fatal(err)
		}
	}
}

// settledAfter returns the settlements in the batches after an offset.
func (w *world) settledAfter(at conversation.Address, after conversation.Offset) []*conversation.SubmissionSettled {
	w.tb.Helper()
	last, err := w.logs.Tail(context.Background(), at.Key(), int64(after))
	if err != nil {
		w.tb.Fatal(err)
	}
	var settled []*conversation.SubmissionSettled
	for next := int64(after) + 1; next <= last; {
		list, err := w.logs.Range(context.Background(), at.Key(), next, last)
		if err != nil {
			w.tb.Fatal(err)
		}
		for _, b := range list {
			records, err := conversation.DecodeRecords(b.Lines)
			if err != nil {
				w.tb.Fatal(err)
			}
			settled = append(settled, only[*conversation.SubmissionSettled](records)...)
		}
		next += int64(len(list))
	}
	return settled
}

// TestMemoryOfAResumedReply continues a log whose last response exceeds the bound, as an older version
// left it: no prompt contains it.
func TestMemoryOfAResumedReply(t *testing.T) {
	size := longTurnsOfMemory * 2 / 3 << 20
	peak(t, 320<<20, func(t *testing.T) {
		w, at := newWorld(t), chat("c")
		text := strings.Repeat("and so on, ", 4<<20/11)
		batches := [][]conversation.Record{{
			&conversation.ConversationCreated{Agent: at.Agent, ID: at.ID, UID: "inst_1", ConversationID: "conv_1"},
			&conversation.SubmissionAdmitted{Submission: "sub_1", Message: "msg_u", Key: "1", Delivery: message(at, "1", "Go on.").Delivery},
			&conversation.AttemptStarted{Submission: "sub_1", Attempt: 1, Writer: "first"},
			&conversation.ResponseStarted{Message: "msg_a", Submission: "sub_1", Turn: "turn_1", Model: spec},
		}}
		for range size / len(text) {
			batches = append(batches, []conversation.Record{&conversation.Delta{Message: "msg_a", Kind: conversation.PartText, Text: text}})
		}
		w.write(at, batches...)
		a := chatAgent()
		a.Limits.ResponseBytes = 4 << 20
		n := w.start(setup{opts: agents(a), model: script(func(_ context.Context, req providers.Request, out *providers.Assembler) error {
			// The next message is "hello", or a summary of a response that does not fit next to it.
			if seen := shown(req); strings.Contains(seen[len(seen)-1], "Your reply was interrupted") {
				t.Error("got a prompt to continue the response")
			}
			out.Text("ok")
			out.Finish(providers.Done{StopReason: providers.StopStop})
			return nil
		})})
		got := n.admit(at, "next", "hello")
		var settled []*conversation.SubmissionSettled
		w.until("the settlement", func() bool {
			settled = w.settledAfter(at, got.Offset)
			return len(settled) > 0
		})
		if err := settled[0].Error; err == nil || err.Type != conversation.CodeOutputTooLong {
			t.Errorf("got outcome %s with %+v", settled[0].Outcome, err)
		}
	})
}

// TestMemoryOfManyOutcomes: the total output of a response's calls is bounded. Each call runs once,
// and the prompt has a part of it or a note that it was omitted.
func TestMemoryOfManyOutcomes(t *testing.T) {
	calls, size, fit := longTurnsOfMemory, longTurnsOfMemory<<20/48, 5
	peak(t, 384<<20, func(t *testing.T) {
		output := strings.Repeat("x", size)
		var runs atomic.Int32
		big := agent.NewTool("big", "Returns much.", func(context.Context, struct{}) (string, error) {
			runs.Add(1)
			return output, nil
		}, nil)
		w, at, a := newWorld(t), chat("c"), chatAgent(big)
		a.Limits.OutputBytes = (fit + 1) * size
		left, parts := 0, 0
		n := w.start(setup{opts: agents(a), model: script(func(_ context.Context, req providers.Request, out *providers.Assembler) error {
			defer out.Finish(providers.Done{StopReason: providers.StopStop})
			if last := req.Messages[len(req.Messages)-1]; last.Role == providers.RoleTool {
				for _, p := range last.Parts {
					switch result := p.(providers.ToolResult); {
					case result.IsError:
						left++
					case strings.Contains(result.Content[0].(providers.Text).Text, "bytes omitted here"):
						parts++
					}
				}
				out.Text("done")
				return nil
			}
			for i := range calls {
				out.CallArguments(out.StartCall(fmt.Sprint("p", i), "big"), "{}")
			}
			return nil
		})})
		got := n.admit(at, "1", "go")
		w.until("the settlement", func() bool {
			return len(w.settledAfter(at, got.Offset)) > 0
		})
		// Prompts have parts of complete outputs, too.
		stored := len(only[*conversation.OutputStored](w.records(at)))
		if int(runs.Load()) != calls || left+parts != calls || left+stored != max(0, calls-fit) {
			t.Errorf("got %d runs of %d calls, %d outcomes omitted and %d in part, want %d", runs.Load(), calls, left, stored, max(0, calls-fit))
		}
	})
}
