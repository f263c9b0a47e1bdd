package server

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/observability"
)

// A line is printed for each message that was or will not be processed, with the totals of its model
// calls.
func TestOutcomeLines(t *testing.T) {
	var out strings.Builder
	sink := outcomeLines(&out)
	events := clitest.Events(t)
	for id, outcome := range map[conversation.SubmissionID]conversation.Outcome{"sub_8": conversation.OutcomeCompleted, "sub_9": conversation.OutcomeAborted} {
		events = append(events, observability.Event{
			Envelope: observability.Envelope{
				Version: observability.Version, ID: "k/" + string(id), Type: observability.TypeSubmissionSettled, Agent: "desk", Instance: "c\x1b[2Jlear",
				Submission: id, At: conversation.TimeOf(time.Now()),
			},
			Payload: &observability.SubmissionSettled{Outcome: string(outcome), TotalMs: 20}, // without an attempt, like a signal for a wait
		})
	}
	if err := sink.Write(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		"  desk/c1  completed in 7.00 s, 27,000 tokens in, 240 out, $1.51",
		"  desk/c2  failed in 5.00 s, the model could not answer",
		"  desk/c [2Jlear  aborted in 20 ms",
	} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) {
			t.Fatalf("printed\n%s\nwant line %d to end with %q", out.String(), i+1, want)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestDevShowsOutcomes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
	defer cancel()
	var output waiting.Log
	var sent sync.WaitGroup
	shown := make(chan struct{})
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/agents/assistant`)
	out := clitest.WriterFunc(func(b []byte) (int, error) {
		switch {
		case strings.Contains(string(b), "Press Ctrl-C to stop."):
			at := url.FindString(output.String())
			sent.Go(func() {
				defer cancel() // The server must stay up until send has read the settlement.
				if code, out, errOut := program.Output(t, "send", at+"/ada", "hello"); code != 0 {
					t.Errorf("send to %s: exit %d, %s%s", at, code, out, errOut)
					return
				}
				select {
				case <-shown:
				case <-ctx.Done():
				}
			})
		case strings.Contains(string(b), "  assistant/ada  completed in "):
			defer close(shown)
		}
		return output.Write(b)
	})
	var errOut waiting.Log
	if code := program.Run(ctx, []string{"dev", "--listen", "127.0.0.1:0", "--data", t.TempDir()}, out, &errOut); code != 0 {
		t.Errorf("exit %d, %s", code, errOut.String())
	}
	sent.Wait()
	if line := output.With("assistant/ada", "tokens in"); line == "" {
		t.Errorf("printed\n%s", output.String())
	}
}
