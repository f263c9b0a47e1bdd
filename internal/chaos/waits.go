package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/providers"
)

const (
	// waiting marks a body for which the model calls the tool that waits, in its first step,
	// and says what came of it in its second. Its tool waits for the body.
	waiting = "wait-"
	// waitTool waits for a signal.
	waitTool = "await"
	// shortWait is how long some calls wait; the others wait for longer than any schedule takes.
	shortWait = time.Minute
	// unheard is what a call returns whose time is over.
	unheard = "nobody"
)

func waits(body string) bool { return strings.HasPrefix(body, waiting) }

// waitsShortly reports whether the call for a body waits for a time that comes.
func (w *world) waitsShortly(body string) bool {
	return schedule.Draw(w.seed, "waits shortly", body)%3 == 0
}

type waitInput struct {
	Name string `json:"name"`
}

// await is the function of the tool that waits.
func (a *author) await(ctx context.Context, in waitInput) (string, error) {
	if err := begin(ctx); err != nil {
		return "", err
	}
	heard, err := a.hear(ctx, in)
	if err != nil {
		return "", err
	}
	return heard, a.post(ctx, heard)
}

// hear asks, or waits.
func (a *author) hear(ctx context.Context, in waitInput) (string, error) {
	if a.world.runs(in.Name) {
		return a.run(ctx, in.Name)
	}
	if to, ok := a.world.asks(in.Name); ok {
		return a.ask(ctx, to, in.Name)
	}
	o := &agent.WaitOptions{}
	if a.world.waitsShortly(in.Name) {
		o.Timeout = shortWait
	}
	heard, err := agent.Wait[string](ctx, in.Name, o)
	if errors.Is(err, agent.ErrWaitTimeout) {
		return unheard, nil
	}
	return heard, err
}

// answerWaiting is what the model says for a body that waits.
func (m *model) answerWaiting(ctx context.Context, out *providers.Assembler, req providers.Request, body string) error {
	step := 1
	if slices.ContainsFunc(req.Messages, func(x providers.Message) bool { return calls(x, body) }) {
		step = 2
	}
	if err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(m.world.seed, "model", body, step), 5*time.Millisecond, 500*time.Millisecond)); err != nil {
		return err
	}
	out.Text(said(m.world.seed, body, step))
	done := providers.Done{StopReason: providers.StopStop, Usage: providers.Usage{Input: 1, Output: 1}}
	if step == 1 {
		done.StopReason = providers.StopToolUse
		out.CallArguments(out.StartCall(body, waitTool), fmt.Sprintf(`{"name":%q}`, body))
	}
	out.Finish(done)
	return nil
}

// calls reports whether a message has the call for a body.
func calls(x providers.Message, body string) bool {
	return slices.ContainsFunc(x.Parts, func(p providers.Part) bool {
		c, ok := p.(providers.ToolCall)
		return ok && c.ID == body
	})
}

// asker delivers messages to a conversation whose calls wait, and signals for them: before,
// meanwhile and afterwards, some twice.
func (w *world) asker(ctx context.Context, name string, at conversation.Address) {
	rng := w.rng(name)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 1 + rng.IntN(2) {
		if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 8*time.Second)) != nil {
			return
		}
		key := fmt.Sprintf("%s-%d", name, i)
		for n := range rng.IntN(3) {
			own := w.rng(fmt.Sprint(key, " signal ", n))
			wg.Go(func() {
				w.signal(as(ctx, fmt.Sprint(key, " signal ", n)), own, at, waiting+key, fmt.Sprint(key, "-signal-", n))
			})
		}
		w.deliver(ctx, rng, w.newPost(rng, at, key, waiting+key), 1+rng.IntN(8))
	}
}

// signal says something to who waits for a name.
func (w *world) signal(ctx context.Context, rng *rand.Rand, at conversation.Address, name, key string) {
	if schedule.Sleep(ctx, schedule.Between(rng.Uint64(), 0, 15*time.Second)) != nil {
		return
	}
	d, err := conversation.SignalFor(name, "said "+key)
	p := &post{body: d.Body, Admission: conversation.Admission{Address: at, Key: key, Delivery: d}}
	if err == nil {
		p.hash, err = p.PayloadHash()
	}
	if err != nil {
		w.trace.Violate(key, "make a signal: %v", err)
	}
	w.deliver(ctx, rng, p, 8)
}

func isSignal(p *post) bool {
	_, ok := p.Delivery.Awaited()
	return ok
}

// comesLate notes a signal that was refused because somebody has decided.
func (w *world) comesLate(p *post) {
	name, _ := p.Delivery.Awaited()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late[p.Address] = append(w.late[p.Address], name)
}

// rests reports whether a submission waits for what does not come. What came after it does not.
func rests(sub *conversation.Submission) bool {
	return !sub.Settled && sub.Parked != nil && !sub.Due && sub.Parked.Until-sub.Parked.At > conversation.Time(shortWait/time.Millisecond)
}

// checkWaits checks that every call has heard what its log says, and that what was acknowledged
// is heard, or kept.
func (w *world) checkWaits(at conversation.Address, log *knownLog) {
	bodies := map[conversation.SubmissionID]string{}
	heard := map[conversation.CallID]string{}
	decided := map[string]bool{}
	asked := map[conversation.CallID]string{}
	first := map[string]conversation.SubmissionID{} // the signal for a name
	take := func(b conversation.Batch, name string, id conversation.SubmissionID) {
		if old, ok := first[name]; ok && old != id {
			w.trace.Violate(at.ID, "batch %d takes %s for %s, which %s has decided", int64(b.Offset), id, name, old)
		}
		first[name], decided[name] = id, true
	}
	for _, b := range log.batches {
		for _, r := range b.Records {
			switch r := r.(type) {
			case *conversation.SubmissionAdmitted:
				bodies[r.Submission] = r.Delivery.Body
			case *conversation.SignalKept:
				w.shown.Add(didKeep)
				take(b, r.Name, r.Submission)
			case *conversation.WaitEnded:
				w.shown.Add(didEndWait + schedule.Deed(r.Reason))
				value, said := unheard, bodies[r.Signal]
				if r.Signal != "" {
					take(b, r.Name, r.Signal)
				}
				if text, ok := heardReply(r); ok {
					value, said = text, text
				} else if text, ok := heardRun(r); ok {
					value, said = text, text
				} else if r.Reason == conversation.EndedBySignal && (json.Unmarshal(r.Value, &value) != nil || value != said) {
					w.trace.Violate(at.ID, "batch %d ends the wait for %s with %s, the signal said %q", int64(b.Offset), r.Name, r.Value, said)
				}
				heard[r.Call], decided[r.Name] = value, true
			case *conversation.WaitStarted:
				asked[r.Call] = r.Name
			case *conversation.ToolSettled:
				decided[asked[r.Call]] = true // also by an abort
				var got string
				if want, ok := heard[r.Call]; ok && !r.Failed && (json.Unmarshal(r.Output, &got) != nil || got != want) {
					w.trace.Violate(at.ID, "batch %d: call %s returns %s, it has heard %q", int64(b.Offset), r.Call, r.Output, want)
				}
			}
		}
	}
	now := conversation.TimeOf(time.Now())
	for name := range decided {
		if log.state.Awaiting(name) != nil && log.state.Kept(name, now) != nil {
			w.trace.Violate(at.ID, "somebody waits for %s, and a signal is kept for it", name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.late[at] {
		if !decided[name] {
			w.trace.Violate(at.ID, "a signal for %s was refused as late, and nothing has decided it", name)
		}
	}
	for _, a := range w.acks {
		if _, signal := a.Delivery.Awaited(); signal && a.Address == at && !takes(log.batches[a.receipt.Offset], a.receipt.SubmissionID) {
			w.trace.Violate(a.Key, "was acknowledged at %d, and is neither heard nor kept", int64(a.receipt.Offset))
		}
	}
}

// takes reports whether a batch says what has become of a signal.
func takes(b conversation.Batch, id conversation.SubmissionID) bool {
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.WaitEnded:
			if r.Signal == id {
				return true
			}
		case *conversation.SignalKept:
			if r.Submission == id {
				return true
			}
		}
	}
	return false
}

func wantedOfWaits() map[schedule.Deed]int {
	return map[schedule.Deed]int{
		didAck: 3000, didBatch: 10000, didClaim: 2000, didModel: 2000, didCrash: 500, didDrain: 100, didOutage: 100, didLate: 500,
		didSettle + "completed": 1500, didEndWait + "signal": 500, didEndWait + "timeout": 100, didKeep: 300, didComeLate: 100, didRest: 100, didHear: 100,
	}
}
