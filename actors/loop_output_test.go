package actors_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// longOutput has lines with their own position.
func longOutput() string {
	var out strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&out, "line %d of the report\n", i)
	}
	return out.String()
}

// cutCall returns the id of the newest call with a shortened output.
func cutCall(t *testing.T, req providers.Request) string {
	t.Helper()
	all := regexp.MustCompile(`Read on with the tool read_output: call "(call_\w+)", from \d+\.`).FindAllStringSubmatch(strings.Join(shown(req), "\n"), -1)
	if all == nil {
		t.Error("got no offset to continue at")
		return ""
	}
	return all[len(all)-1][1]
}

// reads requests a part of the shortened output, with more as further input.
func reads(t *testing.T, more string) script {
	return func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		return toolCalls(fmt.Sprintf(`read_output {"call":%q%s}`, cutCall(t, req), more))(ctx, req, a)
	}
}

// offered counts the tools for reading outputs in a request.
func offered(req providers.Request) (n int) {
	for _, tool := range req.Tools {
		if tool.Name == conversation.ReadOutputTool {
			n++
		}
	}
	return n
}

func lastResult(req providers.Request) string {
	m := req.Messages[len(req.Messages)-1]
	r := m.Parts[len(m.Parts)-1].(providers.ToolResult)
	text := r.Content[0].(providers.Text).Text
	if r.IsError {
		return "error: " + text
	}
	return text
}

// TestLongOutputIsReadInParts: the prompt has the beginning and the end, and the model reads other parts,
// in the same response and after a restart. Clients see all of it.
func TestLongOutputIsReadInParts(t *testing.T) {
	long := longOutput()
	for _, name := range []string{"model", "child"} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				report, small := returning("report", long), returning("small", "short")
				work := inTurn(toolCalls("small"), toolCalls("report"), reads(t, ""), reads(t, `,"from":200000`), reads(t, `,"from":100,"find":"line 12345 of"`),
					reads(t, `,"find":"line 20000"`), reads(t, `,"from":100000000`), toolCalls(`read_output {"call":"call_other"}`), toolCalls(`read_output {}`), replies("done"))
				a := withSubagents(chatAgent(report, small), researcher(report, small))
				c := &vendor{models: map[string]script{"model": work}}
				if name == "child" {
					c.models = map[string]script{"model": inTurn(toolCalls(task("researcher", "Report.")), replies("done")), "child": work}
				}
				n := l.run(part{opts: agents(a), vendor: c, page: 1, windows: map[string]int{"model": 32_768, "child": 32_768}})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				got := c.requests(name)
				if len(got) != 10 || offered(got[1].req) != 0 || offered(got[2].req) != 1 || offered(got[9].req) != 1 {
					t.Fatalf("got %d requests, want all of them with the tool", len(got))
				}
				first := lastResult(got[2].req)
				if len(first) > 8<<10 || !strings.HasPrefix(first, "line 0 of") || !strings.HasSuffix(first, "line 19999 of the report\n") {
					t.Errorf("got %d bytes of the output in the prompt: %.80q", len(first), first)
				}
				for i, want := range []string{
					"[bytes 0 to 7936 of", "[bytes 200000 to 207936 of", "line 12345 of the report\n",
					"error: The output does not have this text at or after byte 0.", fmt.Sprintf("error: The output has %d bytes, and nothing after them.", len(long)),
					`error: There is no output of a call "call_other".`, "error: The input needs a call",
				} {
					result := lastResult(got[3+i].req)
					wants(t, fmt.Sprint("result ", i), result, want)
					if len(result) > 8<<10 || strings.Contains(result, "bytes omitted here") && i < 3 {
						t.Errorf("result %d: got %d bytes", i, len(result))
					}
				}
				if name == "child" {
					return // a child's outputs are not public
				}
				if out := string(toolParts(n.snapshot(chat("c")))[1].Output); len(out) < len(long) {
					t.Errorf("got %d public bytes", len(out))
				}
				n.crash()
				c = onlyModel(inTurn(reads(t, `,"from":300000`), replies("seen")))
				n = l.run(part{opts: agents(a), vendor: c, page: 1, windows: map[string]int{"model": 32_768}})
				n.admit(chat("c"), "2", "and?")
				l.completes(chat("c"), 2)
				wants(t, "the result after a restart", lastResult(c.requests("model")[1].req), "[bytes 300000 to 307936 of")
			})
		})
	}
}

// TestShortOutputIsNotShortened: an output that is short for the model's window is not shortened.
func TestShortOutputIsNotShortened(t *testing.T) {
	output := strings.Repeat("0123456789", 2000)
	for window, cut := range map[int]bool{0: false, 200_000: false, 32_768: true} {
		inLoop(t, func(t *testing.T, l *loop) {
			c := onlyModel(inTurn(toolCalls("report"), replies("done")))
			n := l.run(part{opts: agents(chatAgent(returning("report", output))), vendor: c, windows: map[string]int{"model": window}})
			n.admit(chat("c"), "1", "go")
			l.completes(chat("c"), 1)
			req := c.requests("model")[1].req
			if got := lastResult(req); (got != output) != cut || (offered(req) == 1) != cut {
				t.Errorf("window %d: got %d bytes in the prompt", window, len(got))
			}
		})
	}
}

// TestInterruptedReadIsRepeated: a read interrupted by a crash runs again.
func TestInterruptedReadIsRepeated(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		begun := make(chan struct{})
		slow := agent.NewTool("slow", "Ends with the process.", func(ctx context.Context, _ struct{}) (string, error) {
			close(begun)
			<-ctx.Done()
			return "", ctx.Err()
		}, nil)
		a := chatAgent(returning("report", longOutput()), slow)
		a.ToolConcurrency = 1 // the read has not begun, but the log cannot tell
		c := onlyModel(inTurn(toolCalls("report"), func(ctx context.Context, req providers.Request, out *providers.Assembler) error {
			return toolCalls("slow", fmt.Sprintf(`read_output {"call":%q}`, cutCall(t, req)))(ctx, req, out)
		}))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, begun, "the tool")
		n.crash()
		c = onlyModel(replies("done"))
		l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		wants(t, "the request after a restart", strings.Join(c.last(t, "model"), "\n"), "The outcome of this call is unknown", "[bytes 0 to ")
		if strings.Count(strings.Join(c.last(t, "model"), "\n"), "The outcome of this call is unknown") != 1 {
			t.Error("got an unknown outcome of the read")
		}
	})
}
