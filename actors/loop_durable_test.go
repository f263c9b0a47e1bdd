package actors_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/storagetest"
)

// work counts the calls of an author's functions over all processes.
type work struct {
	mu   sync.Mutex
	done map[string]int
}

func (k *work) did(desc string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done == nil {
		k.done = map[string]int{}
	}
	k.done[desc]++
}

func (k *work) counts() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]int{}
	for desc, n := range k.done {
		out[desc] = n
	}
	return out
}

// deploys is a durable tool of three steps. Between the first two it calls gate.
func deploys(k *work, gate func(context.Context) error) agent.Tool {
	step := func(ctx context.Context, name string) (string, error) {
		return agent.Step(ctx, name, func(context.Context) (string, error) {
			k.did(name)
			return name + " done", nil
		})
	}
	return agent.NewTool("deploy", "Deploys.", func(ctx context.Context, _ struct{}) (string, error) {
		k.did("deploy")
		one, err := step(ctx, "one")
		if err != nil {
			return "", err
		}
		if err := gate(ctx); err != nil {
			return "", err
		}
		two, err := step(ctx, "two")
		if err != nil {
			return "", err
		}
		three, err := step(ctx, "three")
		return strings.Join([]string{one, two, three}, ", "), err
	}, &agent.ToolOptions{Durable: true})
}

// firstTime blocks the first caller until its context ends.
func firstTime(reached chan<- struct{}) func(context.Context) error {
	var once sync.Once
	return func(ctx context.Context) error {
		first := false
		once.Do(func() { first = true })
		if !first {
			return nil
		}
		close(reached)
		<-ctx.Done()
		return ctx.Err()
	}
}

// TestDurableToolAfterACrash kills a node between the first two steps of a durable tool, while a plain
// tool runs. Only the durable tool continues, and calls with an outcome do not run again.
func TestDurableToolAfterACrash(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k, reached := &work{}, make(chan struct{})
		stuck := agent.NewTool("stuck", "Hangs.", func(ctx context.Context, _ struct{}) (string, error) {
			k.did("stuck")
			<-ctx.Done()
			return "", ctx.Err()
		}, nil)
		quick := agent.NewTool("quick", "Ends.", func(context.Context, struct{}) (string, error) {
			k.did("quick")
			return "quickly", nil
		}, nil)
		a := chatAgent(deploys(k, firstTime(reached)), stuck, quick)
		c := onlyModel(inTurn(toolCalls("deploy", "stuck", "quick"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, reached, "the end of the first step")
		l.until("the outcome of the quick tool", func() bool { return len(only[*conversation.ToolSettled](l.records(chat("c")))) == 1 })
		synctest.Wait() // the third tool has begun, too
		n.crash()

		l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		want := map[string]int{"deploy": 2, "one": 1, "two": 1, "three": 1, "stuck": 1, "quick": 1}
		if diff := cmp.Diff(want, k.counts()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		seen := c.last(t, "model")
		wants(t, "the prompt", seen[len(seen)-1],
			"p1=one done, two done, three done|", "p2!The outcome of this call is unknown", "|p3=quickly")
		var steps []string
		for _, r := range only[*conversation.StepRecorded](l.records(chat("c"))) {
			steps = append(steps, r.Name+string(r.Output))
		}
		if diff := cmp.Diff([]string{`one"one done"`, `two"two done"`, `three"three done"`}, steps); diff != "" {
			t.Errorf("recorded steps (-want +got):\n%s", diff)
		}
		if got := len(c.requests("model")); got != 2 {
			t.Errorf("got %d model calls, want 2", got)
		}
	})
}

// TestCrashAtEveryStep kills a node in each of the three steps, one after the other.
func TestCrashAtEveryStep(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k := &work{}
		reached := make(chan string)
		var mu sync.Mutex
		crashed := map[string]bool{}
		tool := agent.NewTool("deploy", "Deploys.", func(ctx context.Context, _ struct{}) (int, error) {
			sum := 0
			for i := range 3 {
				name := fmt.Sprint("step ", i)
				v, err := agent.Step(ctx, name, func(ctx context.Context) (int, error) {
					k.did(name)
					mu.Lock()
					first := !crashed[name]
					crashed[name] = true
					mu.Unlock()
					if first {
						reached <- name
						<-ctx.Done()
						return 0, ctx.Err()
					}
					return 1 << i, nil
				})
				if err != nil {
					return 0, err
				}
				sum += v
			}
			return sum, nil
		}, &agent.ToolOptions{Durable: true})
		c := onlyModel(inTurn(toolCalls("deploy"), replies("done")))
		n := l.run(part{opts: agents(chatAgent(tool)), vendor: c})
		n.admit(chat("c"), "1", "go")
		for i := range 3 {
			if got := await(t, reached, "a step"); got != fmt.Sprint("step ", i) {
				t.Errorf("got %s, want step %d", got, i)
			}
			n.crash()
			n = l.run(part{opts: agents(chatAgent(tool)), vendor: c})
		}
		l.completes(chat("c"), 1)
		// Each ran once without a record, and once with.
		if diff := cmp.Diff(map[string]int{"step 0": 2, "step 1": 2, "step 2": 2}, k.counts()); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if seen := c.last(t, "model"); seen[len(seen)-1] != "tool: p1=7" {
			t.Errorf("got prompt %q", seen)
		}
	})
}

// TestStepIsDurableWhenItReturns holds the answer to every append: no step returns earlier, and work
// of a node that never got the answer is not lost.
func TestStepIsDurableWhenItReturns(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				k := &work{}
				var mu sync.Mutex
				holding, release := false, make(chan struct{})
				hold := func(op storagetest.Op) {
					mu.Lock()
					wait := holding && strings.Contains(op.Key, "/log/")
					mu.Unlock()
					if wait {
						<-release
					}
				}
				stepping, returned := make(chan struct{}), make(chan struct{}, 2)
				tool := agent.NewTool("pay", "Pays.", func(ctx context.Context, _ struct{}) (string, error) {
					out, err := agent.Step(ctx, "pay", func(context.Context) (string, error) {
						k.did("pay")
						mu.Lock()
						holding = true
						mu.Unlock()
						close(stepping)
						return "paid", nil
					})
					if err == nil {
						returned <- struct{}{}
					}
					return out, err
				}, &agent.ToolOptions{Durable: true})
				c := onlyModel(inTurn(toolCalls("pay"), replies("done")))
				opts := agents(chatAgent(tool))
				opts.AppendTimeout = longest
				n := l.run(part{opts: opts, vendor: c, hold: hold})
				n.admit(chat("c"), "1", "go")
				await(t, stepping, "the step")
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case <-returned:
					t.Error("a step returned before it was durable")
				default:
				}
				if got := len(only[*conversation.StepRecorded](l.records(chat("c")))); got != 1 {
					t.Fatalf("got %d steps in the log, want the one with the held answer", got)
				}
				if crash {
					n.cut()
					n.stopActors()
				}
				close(release)
				if crash {
					n.crash()
					l.run(part{opts: opts, vendor: c})
				}
				l.completes(chat("c"), 1)
				await(t, returned, "the end of the step")
				if diff := cmp.Diff(map[string]int{"pay": 1}, k.counts()); diff != "" {
					t.Errorf("runs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestStepAfterOutcome: a tool cannot record steps after its timeout.
func TestStepAfterOutcome(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		result := make(chan error, 1)
		tool := agent.NewTool("slow", "Is slow.", func(ctx context.Context, _ struct{}) (string, error) {
			time.Sleep(time.Minute)
			_, err := agent.Step(ctx, "late", func(context.Context) (string, error) { return "late", nil })
			result <- err
			return "late", nil
		}, &agent.ToolOptions{Durable: true, Timeout: time.Second})
		c := onlyModel(inTurn(toolCalls("slow"), replies("done")))
		n := l.run(part{opts: agents(chatAgent(tool)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if err := <-result; err == nil {
			t.Error("a step was recorded after the outcome of its call")
		}
		if got := only[*conversation.StepRecorded](l.records(chat("c"))); len(got) != 0 {
			t.Errorf("got records %+v", got)
		}
	})
}

// TestDataOfADurableTool: a call that runs again writes its data again, except in recorded steps.
func TestDataOfADurableTool(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		card := agent.NewDataWriter[string]("card", nil)
		reached := make(chan struct{})
		gate := firstTime(reached)
		tool := agent.NewTool("show", "Shows.", func(ctx context.Context, _ struct{}) (string, error) {
			if err := card.Write(ctx, "outside"); err != nil {
				return "", err
			}
			if _, err := agent.Step(ctx, "show", func(ctx context.Context) (int, error) { return 1, card.Write(ctx, "in a step") }); err != nil {
				return "", err
			}
			return "shown", gate(ctx)
		}, &agent.ToolOptions{Durable: true})
		a := chatAgent(tool)
		a.Data = []agent.Data{card}
		c := onlyModel(inTurn(toolCalls("show"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, reached, "the step")
		n.crash()
		l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		var got string
		for _, d := range only[*conversation.DataWritten](l.records(chat("c"))) {
			got += string(d.Data)
		}
		if want := `"outside""in a step""outside"`; got != want {
			t.Errorf("got data %s, want %s", got, want)
		}
	})
}
