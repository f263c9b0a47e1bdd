package agenttest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/internal/sample"
)

// refunds returns an agent whose tool waits for a signal and then sleeps.
func refunds(paid map[string]int) *agent.Agent {
	refund := agent.NewTool("refund", "Pays back, once a person agrees.", func(ctx context.Context, _ struct{}) (string, error) {
		ok, err := agent.Wait[bool](ctx, "refund 7", nil)
		if err != nil || !ok {
			return "refused", err
		}
		if err := agent.Sleep(ctx, "overnight", time.Hour); err != nil {
			return "", err
		}
		return agent.Step(ctx, "pay", func(ctx context.Context) (string, error) {
			call, _ := agent.CallFrom(ctx)
			paid[string(call.ID)]++
			return "paid", nil
		})
	}, &agent.ToolOptions{Durable: true})
	return &agent.Agent{Name: "till", Model: "openai/gpt-5", Tools: []agent.Tool{refund}}
}

// TestWaitOverCrashes crashes at each write of a conversation that waits for a signal and then for a
// time. Neither is lost, and the signal counts once. It arrives before or during the wait.
func TestWaitOverCrashes(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Hour} {
		for n := 1; n <= sample.Of(15, 2); n++ {
			synctest.Test(t, func(t *testing.T) {
				paid := map[string]int{}
				model := agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer { // a process that crashed repeats the call
					if strings.Contains(viewOf(r), "paid") { // an interrupted call has not run
						return agenttest.Say("Done.")
					}
					return agenttest.Call("refund", nil)
				})
				h := agenttest.New(t, []*agent.Agent{refunds(paid)}, &agenttest.Options{Model: model})
				c := h.Conversation("till", "1")
				h.CrashAtWrite(n)
				signalled := make(chan error, 1)
				go func() {
					time.Sleep(after)
					_, err := c.Signal(context.Background(), "refund 7", true)
					signalled <- err
				}()
				began := time.Now()
				reply, err := c.Settle(client.Message{Body: "I want my money back"})
				if err != nil || !strings.HasPrefix(reply.Text, "Done.") { // twice if the reply was interrupted
					t.Errorf("signal after %v, crash at write %d: got %+v, %v", after, n, reply, err)
				}
				if took := time.Since(began); took < after+time.Hour || took > after+2*time.Hour {
					t.Errorf("signal after %v, crash at write %d: got duration %v", after, n, took)
				}
				if err := <-signalled; err != nil {
					t.Errorf("signal after %v, crash at write %d: got signal error %v", after, n, err)
				}
				if len(paid) != 1 {
					t.Errorf("got payments %v", paid)
				}
			})
		}
	}
}

func viewOf(r agenttest.Request) string { return fmt.Sprintf("%+v", r.Messages) }

// TestMessageWhileACallWaits crashes at each write. A message during a wait is answered first, by a
// model that sees the pending call; then the call continues.
func TestMessageWhileACallWaits(t *testing.T) {
	for n := range sample.Of(22, 2) {
		synctest.Test(t, func(t *testing.T) {
			paid := map[string]int{}
			model := agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
				switch {
				case strings.Contains(viewOf(r), "How long?"):
					if !strings.Contains(viewOf(r), "Its response continues when it has ended") {
						t.Errorf("crash at write %d: got model input %s", n, viewOf(r))
					}
					return agenttest.Say("Until somebody agrees.")
				case strings.Contains(viewOf(r), "paid"):
					return agenttest.Say("Done.")
				}
				return agenttest.Call("refund", nil)
			})
			h := agenttest.New(t, []*agent.Agent{refunds(paid)}, &agenttest.Options{Model: model})
			c := h.Conversation("till", "1")
			if _, err := c.Send(context.Background(), client.Message{Body: "I want my money back"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // until the call waits
			if n > 0 {
				h.CrashAtWrite(n)
			}
			if reply, err := c.Settle(client.Message{Body: "How long?"}); err != nil || !strings.HasPrefix(reply.Text, "Until somebody agrees.") {
				t.Errorf("crash at write %d: got %+v, %v", n, reply, err)
			}
			if len(paid) != 0 {
				t.Errorf("crash at write %d: got payments %v during the wait", n, paid)
			}
			if _, err := c.Signal(context.Background(), "refund 7", true); err != nil {
				t.Errorf("crash at write %d: got %v", n, err)
			}
			time.Sleep(2 * time.Hour)
			if last := c.Transcript(); !strings.Contains(last, "Done.") || len(paid) != 1 {
				t.Errorf("crash at write %d: got payments %v\n%s", n, paid, last)
			}
		})
	}
}
