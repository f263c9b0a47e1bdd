package actors_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
)

var manyWaits = flag.Int("waits-at-once", sample.Of(300, 40), "let so many conversations wait at once")

// TestManyWaits suspends many conversations of one node for a month, by a signal or a timer. None of
// them stays in memory, and each continues once with the right value.
func TestManyWaits(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		many, month := *manyWaits, sample.Of(30*24*time.Hour, 24*time.Hour)
		k := &work{}
		answers := func(_ context.Context, req providers.Request, a *providers.Assembler) error {
			if req.Messages[len(req.Messages)-1].Role == providers.RoleTool {
				return replies("done")(context.Background(), req, a)
			}
			return toolCalls("approve")(context.Background(), req, a)
		}
		l.patience = 2 * month
		n := l.run(part{opts: agents(chatAgent(approves(k, &agent.WaitOptions{Timeout: month}))), vendor: onlyModel(answers)})
		at := func(i int) conversation.Address { return chat(fmt.Sprint("c", i)) }
		for i := range many {
			n.admit(at(i), "1", "go")
		}
		time.Sleep(10 * time.Minute)
		for i := range many {
			if n.rt.InMemory(at(i)) {
				t.Fatalf("got conversation %d in memory", i)
			}
		}
		l.journalsAreEmpty()
		for i := range many / 2 {
			time.Sleep(month * 9 / 10 / time.Duration(many/2))
			m, err := agent.Signal("approval", verdict{OK: true})
			if err == nil {
				_, err = n.rt.Dispatch(context.Background(), at(2*i), m)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(month/10 + time.Hour)
		for i := range many {
			var values strings.Builder
			attempts := 0
			for _, r := range l.records(at(i)) {
				switch r := r.(type) {
				case *conversation.AttemptStarted:
					attempts++
				case *conversation.ToolSettled:
					values.Write(r.Output)
				}
			}
			want := `"nobody answered"`
			if i%2 == 0 {
				want = `"ok is true"`
			}
			if values.String() != want || attempts != 2 {
				t.Errorf("conversation %d: got %s in %d attempts, want %s in 2", i, values.String(), attempts, want)
			}
		}
		if got := k.counts(); got["approve"] != 2*many || got["ask"] != many {
			t.Errorf("got runs %v", got)
		}
		l.checkNothingLeft()
	})
}
