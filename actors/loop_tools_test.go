package actors_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// naps is a tool that sleeps for the given seconds.
func naps() agent.Tool {
	return agent.NewTool("naps", "Waits.", func(_ context.Context, in struct {
		Seconds int `json:"seconds"`
	}) (string, error) {
		time.Sleep(time.Duration(in.Seconds) * time.Second)
		return fmt.Sprint(in.Seconds, " seconds"), nil
	}, nil)
}

// TestResultsInCallOrder ends calls in reverse order, within the concurrency limit: the prompt has
// them in call order, the log in order of completion.
func TestResultsInCallOrder(t *testing.T) {
	for _, tt := range []struct {
		bound int
		took  time.Duration
		order []string
	}{
		{0, 30 * time.Second, []string{"15", "20", "30"}},
		{2, 35 * time.Second, []string{"20", "30", "15"}},
		{1, 65 * time.Second, []string{"30", "20", "15"}},
	} {
		t.Run(fmt.Sprint(tt.bound), func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				began := time.Now()
				c := onlyModel(inTurn(toolCalls(`naps {"seconds":30}`, `naps {"seconds":20}`, `naps {"seconds":15}`), replies("done")))
				a := chatAgent(naps())
				a.ToolConcurrency = tt.bound
				n := l.run(part{opts: agents(a), vendor: c})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				if took := time.Since(began).Truncate(5 * time.Second); took != tt.took {
					t.Errorf("got %v, want %v", took, tt.took)
				}
				want := `tool: p1=30 seconds|p2=20 seconds|p3=15 seconds`
				if seen := c.last(t, "model"); seen[len(seen)-1] != want {
					t.Errorf("got prompt %q, want %q", seen, want)
				}
				var order []string
				for _, r := range only[*conversation.ToolSettled](l.records(chat("c"))) {
					order = append(order, strings.TrimSuffix(strings.Trim(string(r.Output), `"`), " seconds"))
				}
				if diff := cmp.Diff(tt.order, order); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestModelCorrectsItsCalls: the model gets the error of an invalid call in enough detail to correct
// it.
func TestModelCorrectsItsCalls(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		label := agent.NewTool("label", "Labels.", func(_ context.Context, in struct {
			Issue int      `json:"issue"`
			Names []string `json:"names"`
		}) (string, error) {
			return fmt.Sprintf("#%d is %s", in.Issue, strings.Join(in.Names, "+")), nil
		}, nil)
		c := onlyModel(inTurn(
			toolCalls(`label {"issue":"7","names":[1]}`, `labels {"issue":7}`, `label {"issue":7,`),
			toolCalls(`label {"issue":7,"names":["bug"]}`), replies("done")))
		n := l.run(part{opts: agents(chatAgent(label)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		seen := c.last(t, "model")
		results := strings.Split(strings.TrimPrefix(seen[2], "tool: "), "|")
		if len(results) != 3 {
			t.Fatalf("got results %q", results)
		}
		wants(t, "the first result", results[0], "p1!", "tool label", "/issue", "/names/0", "call the tool again")
		wants(t, "the second result", results[1], "p2!", `no tool named "labels"`, "Use one of the tools")
		wants(t, "the third result", results[2], "p3!", "tool label", "call the tool again")
		if want := "tool: p1=#7 is bug"; seen[4] != want {
			t.Errorf("corrected call: got result %q, want %q", seen[4], want)
		}
	})
}

// TestFailingTools: a call has an outcome in time for any failure of its tool, the model gets it,
// and the submission continues.
func TestFailingTools(t *testing.T) {
	limit := &agent.ToolOptions{Timeout: 20 * time.Second}
	for name, tt := range map[string]struct {
		do   func(context.Context, <-chan struct{}) (any, error)
		took time.Duration
		text string
	}{
		"heeds its limit": {func(ctx context.Context, _ <-chan struct{}) (any, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("copy: %w", ctx.Err())
		}, 20 * time.Second, "tool bad did not finish within 20s"},
		"ignores its limit": {func(_ context.Context, end <-chan struct{}) (any, error) {
			<-end
			return "late", nil
		}, 25 * time.Second, "tool bad did not finish within 20s"},
		"is late but ends": {func(context.Context, <-chan struct{}) (any, error) {
			time.Sleep(23 * time.Second)
			return "just so", nil
		}, 23 * time.Second, "just so"},
		"panics": {func(context.Context, <-chan struct{}) (any, error) { panic("the secret") }, 0, "tool bad crashed"},
		"panics with an error": {func(context.Context, <-chan struct{}) (any, error) {
			var none []int
			return none[len(none)], nil
		}, 0, "tool bad crashed"},
		"output too long": {func(context.Context, <-chan struct{}) (any, error) {
			return strings.Repeat("x", conversation.MaxOutputBytes), nil
		}, 0, "its output was omitted: it has 33554434 bytes, at most 33554432 are taken"},
		"output without JSON": {func(context.Context, <-chan struct{}) (any, error) { return func() {}, nil }, 0, "encode output of tool bad"},
		"invalid image": {func(context.Context, <-chan struct{}) (any, error) {
			return agent.Result{Images: []agent.Image{{MimeType: "text/html", Data: []byte("x")}}}, nil
		}, 0, `"text/html" is not that of an image`},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				end := make(chan struct{})
				t.Cleanup(func() { close(end) })
				bad := agent.NewTool("bad", "Goes wrong.", func(ctx context.Context, _ struct{}) (any, error) { return tt.do(ctx, end) }, limit)
				c := onlyModel(inTurn(toolCalls("bad", "fine"), replies("done")))
				n := l.run(part{opts: agents(chatAgent(bad, returning("fine", "good"))), vendor: c})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				requests := c.requests("model")
				if took := requests[1].at.Sub(requests[0].at).Truncate(time.Second); took != tt.took {
					t.Errorf("got the next model call after %v, want %v", took, tt.took)
				}
				seen := c.last(t, "model")
				wants(t, "the result", seen[len(seen)-1], tt.text, "p2=good")
				lacks(t, "the log", l.lines(chat("c")), "the secret")
				time.Sleep(time.Minute) // late results change nothing
				if got := len(only[*conversation.ToolSettled](l.records(chat("c")))); got != 2 {
					t.Errorf("got %d outcomes of 2 calls", got)
				}
			})
		})
	}
}

// cutOff answers with a call that reaches the output limit.
func cutOff(_ context.Context, _ providers.Request, a *providers.Assembler) error {
	a.CallArguments(a.StartCall("p1", "count"), "{}")
	a.Finish(providers.Done{StopReason: providers.StopLength})
	return nil
}

// TestCallsOfACutOffReply do not run: the model gets an error, and up to three retries.
func TestCallsOfACutOffReply(t *testing.T) {
	for name, tt := range map[string]struct {
		model []script
		calls int
		want  *conversation.SettlementError
	}{
		"once":       {[]script{cutOff, replies("done")}, 2, nil},
		"thrice":     {[]script{cutOff, cutOff, cutOff, replies("done")}, 4, nil},
		"for ever":   {[]script{cutOff}, 4, &conversation.SettlementError{Type: conversation.CodeModelFailed, Message: "The model repeatedly reached its length limit.", Meta: map[string]any{"reason": "length"}}},
		"in between": {[]script{cutOff, cutOff, toolCalls("count"), cutOff, cutOff, replies("done")}, 6, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				ran := 0
				count := agent.NewTool("count", "Counts.", func(context.Context, struct{}) (int, error) {
					ran++
					return ran, nil
				}, nil)
				c := onlyModel(inTurn(tt.model...))
				n := l.run(part{opts: agents(chatAgent(count)), vendor: c})
				n.admit(chat("c"), "1", "go")
				s := l.settles(chat("c"), 1)[0]
				if diff := cmp.Diff(tt.want, s.Error); diff != "" {
					t.Errorf("settlement (-want +got):\n%s", diff)
				}
				if got := len(c.requests("model")); got != tt.calls {
					t.Errorf("got %d model calls, want %d", got, tt.calls)
				}
				want := 0
				if name == "in between" {
					want = 1
				}
				if ran != want {
					t.Errorf("got %d runs of the tool, want %d", ran, want)
				}
				wants(t, "the second request", strings.Join(c.requests("model")[1].seen(), "\n"), "p1!This call did not run: the reply reached the model's length limit.")
			})
		})
	}
}

// TestImagesOfATool are attachments under their digests, and parts of the prompt, also after a
// restart.
func TestImagesOfATool(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		data := bytes.Repeat([]byte("png "), 40_000)
		draw := agent.NewTool("draw", "Draws.", func(context.Context, struct{}) (agent.Result, error) {
			return agent.Result{Output: map[string]int{"width": 7}, Images: []agent.Image{
				{MimeType: "image/png", Data: data, Filename: "a.png"}, {MimeType: "image/jpeg", Data: []byte("jpeg")},
			}}, nil
		}, nil)
		var read []string
		c := onlyModel(inTurn(toolCalls("draw"), func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			result := req.Messages[len(req.Messages)-1].Parts[0].(providers.ToolResult)
			for _, p := range result.Content[1:] {
				b, err := fetch(p.(providers.Image).Content)
				read = append(read, fmt.Sprint(p.(providers.Image).MimeType, " ", len(b), " ", err))
			}
			return replies("done")(ctx, req, a)
		}, replies("more")))
		n := l.run(part{opts: agents(chatAgent(draw)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if diff := cmp.Diff([]string{"image/png 160000 <nil>", "image/jpeg 4 <nil>"}, read); diff != "" {
			t.Errorf("prompt (-want +got):\n%s", diff)
		}

		var shown struct {
			Output json.RawMessage
			Images []struct {
				ID                 conversation.AttachmentID
				MimeType, Filename string
				Size               int64
			}
		}
		if err := json.Unmarshal(toolParts(n.snapshot(chat("c")))[0].Output, &shown); err != nil {
			t.Fatal(err)
		}
		if string(shown.Output) != `{"width":7}` || len(shown.Images) != 2 || shown.Images[0].MimeType != "image/png" ||
			shown.Images[0].Filename != "a.png" || shown.Images[0].Size != int64(len(data)) || shown.Images[0].ID == shown.Images[1].ID {
			t.Fatalf("got public parts %+v", shown)
		}
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		check := func(n *actorNode) {
			at, content, err := n.rt.Reader().Attachment(t.Context(), chat("c"), shown.Images[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			defer content.Close()
			if got, err := io.ReadAll(content); err != nil || !bytes.Equal(got, data) || at.SHA256 != digest || at.MimeType != "image/png" {
				t.Errorf("got download of %d bytes of %+v, %v", len(got), at, err)
			}
		}
		check(n)
		if len(l.keysWith("/blob/"+digest)) != 1 {
			t.Errorf("got image keys %v, want its digest", l.keysWith("/blob/"))
		}
		seen := c.last(t, "model")
		wants(t, "the result", seen[len(seen)-1], "p1=", string(shown.Images[0].ID), `"width":7`, "|[image/png]|[image/jpeg]")

		n.crash()
		n = l.run(part{opts: agents(chatAgent(draw)), vendor: c})
		n.admit(chat("c"), "2", "and?")
		l.completes(chat("c"), 2)
		check(n)
		wants(t, "the request after a restart", strings.Join(c.last(t, "model"), "\n"), "|[image/png]|[image/jpeg]")
	})
}

// TestTerminatingResults: a run ends if all calls of a step request it and none failed.
func TestTerminatingResults(t *testing.T) {
	last := agent.NewTool("last", "Ends.", func(context.Context, struct{}) (agent.Result, error) {
		return agent.Result{Output: "over", Terminate: true}, nil
	}, nil)
	broken := agent.NewTool("broken", "Fails.", func(context.Context, struct{}) (*agent.Result, error) {
		return &agent.Result{Terminate: true}, fmt.Errorf("no luck")
	}, nil)
	for name, tt := range map[string]struct {
		calls  []string
		models int
	}{
		"alone":           {[]string{"last"}, 1},
		"all":             {[]string{"last", "last"}, 1},
		"not all":         {[]string{"last", "fine"}, 2},
		"one that failed": {[]string{"last", "broken"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				c := onlyModel(inTurn(toolCalls(tt.calls...), replies("done")))
				n := l.run(part{opts: agents(chatAgent(last, broken, returning("fine", "good"))), vendor: c})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				if got := len(c.requests("model")); got != tt.models {
					t.Errorf("got %d model calls, want %d", got, tt.models)
				}
				n.admit(chat("c"), "2", "again")
				l.completes(chat("c"), 2)
				wants(t, "the next request", strings.Join(c.last(t, "model"), "\n"), "p1=over", "user: again")
			})
		})
	}
}
