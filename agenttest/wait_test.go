package agenttest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/client"
)

// refunds is an agent whose tool waits for a person and then sleeps over it.
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

// TestWaitOverCrashes at every write of a conversation that waits for a signal, and then for a time:
// neither is lost, and the signal counts once. It comes when the call waits for it, or before.
func TestWaitOverCrashes(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Hour} {
		for n := 1; n < 16; n++ {
			synctest.Test(t, func(t *testing.T) {
				paid := map[string]int{}
				model := agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer { // whoever dies asks again
					if strings.Contains(r.Last(), "paid") { // and a call that was cut off has not run
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
				if err != nil || reply.Text != "Done." {
					t.Errorf("signal after %v, crash at write %d: %+v, %v", after, n, reply, err)
				}
				if took := time.Since(began); took < after+time.Hour || took > after+2*time.Hour {
					t.Errorf("signal after %v, crash at write %d: took %v", after, n, took)
				}
				if err := <-signalled; err != nil {
					t.Errorf("signal after %v, crash at write %d: signalled: %v", after, n, err)
				}
				if len(paid) != 1 {
					t.Errorf("paid %v", paid)
				}
			})
		}
	}
}
