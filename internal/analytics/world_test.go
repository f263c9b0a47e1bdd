package analytics_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

const (
	// worldStart is 2026-03-01T00:00:00Z.
	worldStart    conversation.Time = 1772323200000
	hourMs        conversation.Time = 3_600_000
	dayMs         conversation.Time = 24 * hourMs
	conversations                   = 48
)

// world is a few days of an installation: every event once, in the order of each conversation. It
// depends only on the seed.
type world struct {
	rand   *rand.Rand
	events []observability.Event
	live   int64
	ids    int
}

func newWorld(seed uint64) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 8))}
	for i := range conversations {
		s := w.begin(i)
		for range w.between(8, 18) {
			s.at += conversation.Time(w.between(1000, int64(3*hourMs)))
			s.submission()
		}
	}
	return w
}

func (w *world) between(low, high int64) int64 { return low + w.rand.Int64N(high-low) }

// chance returns true with the given probability.
func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

func (w *world) pick(words ...string) string { return words[w.rand.IntN(len(words))] }

// id returns the next id. Ids have no order.
func (w *world) id(prefix string) string {
	w.ids++
	return fmt.Sprintf("%s_%04x%04d", prefix, w.rand.IntN(1<<16), w.ids)
}

type scenario struct {
	*world
	src    observability.Source
	stream observability.Stream
	seq    conversation.Offset
	at     conversation.Time
}

// work is the submission or subagent task that a turn belongs to.
type work struct {
	conversation.Origin
	child      conversation.ConversationID
	submission conversation.SubmissionID
	message    conversation.MessageID
	depth      int
}

func (w *world) begin(i int) *scenario {
	agent := []string{"triage", "support", "research"}[i%3]
	s := &scenario{world: w, at: worldStart + conversation.Time(w.between(0, int64(2*dayMs)))}
	s.batch(&conversation.ConversationCreated{
		Agent: agent, ID: fmt.Sprintf("case %d", i/3), UID: conversation.UID(w.id("inst")), ConversationID: conversation.ConversationID(w.id("conv")), At: s.at,
	})
	return s
}

// batch appends records, and adds their events.
func (s *scenario) batch(records ...conversation.Record) {
	b := conversation.Batch{Offset: s.seq, Records: records}
	s.seq++
	s.events = append(s.events, observability.Project(s.src, b, nil)...)
	s.src = s.src.After(b)
	for _, e := range s.stream.Batch(b, s.at) {
		s.emit(e)
	}
}

// emit adds a live event under a name like that of a node.
func (s *scenario) emit(e observability.Event) {
	e.ID, e.Index = fmt.Sprintf("live_n1_%d", s.live), s.live
	s.live++
	s.events = append(s.events, e)
}

func (s *scenario) pass(low, high int64) int64 {
	ms := s.between(low, high)
	s.at += conversation.Time(ms)
	return ms
}

// submission admits a delivery, and works on it until it settles or stops.
func (s *scenario) submission() {
	id := conversation.SubmissionID(s.id("sub"))
	job := work{Origin: conversation.Origin{Root: id}, submission: id, message: conversation.MessageID(s.id("msg"))}
	admitted := s.at
	dispatched := s.chance(20)
	s.batch(&conversation.SubmissionAdmitted{
		Submission: id, Message: conversation.MessageID(s.id("msg")), Key: string(id), Dispatched: dispatched, At: s.at,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "Please look at this."},
	})
	settled := &conversation.SubmissionSettled{
		Submission: id, Outcome: conversation.OutcomeCompleted, Dispatched: dispatched, AdmissionMs: s.between(0, 30),
	}
	defer func() {
		if settled != nil {
			settled.At, settled.TotalMs = s.at, int64(s.at-admitted)
			if settled.Outcome == conversation.OutcomeAborted {
				s.batch(&conversation.AbortRequested{Submissions: []conversation.SubmissionID{id}, At: s.at}, settled)
			} else {
				s.batch(settled)
			}
		}
	}()
	queued := s.pass(1, 4000)
	if s.chance(6) {
		settled.Outcome = conversation.OutcomeAborted
		return
	}
	if s.chance(4) {
		settled = nil // It remains suspended.
		return
	}
	began := s.at
	settled.Began, settled.Open, settled.Attempts = true, true, s.attempts(id, queued, dispatched)
	for range s.between(1, 4) {
		s.turn(&job)
	}
	if s.chance(30) {
		s.post(id)
	}
	settled.ElapsedMs, settled.AttemptMs = int64(s.at-began), int64(s.at-began)
	switch {
	case s.chance(3):
		settled = nil // It remains unfinished.
	case s.chance(8):
		settled.Outcome = conversation.OutcomeAborted
		settled.Error = &conversation.SettlementError{Type: conversation.CodeAborted, Message: "It was aborted."}
	case s.chance(12):
		s.fail(settled)
	case s.chance(15):
		s.compact(&job, s.chance(40))
	}
}

// attempts starts the work on a submission, possibly with several attempts.
func (s *scenario) attempts(id conversation.SubmissionID, queued int64, dispatched bool) int {
	start := &conversation.AttemptStarted{
		Submission: id, Attempt: 1, MaxAttempts: 10, Writer: "n1", QueuedMs: queued, Dispatched: dispatched, At: s.at,
	}
	s.batch(start)
	for s.chance(15) {
		next := *start
		next.QueuedMs = 0
		if s.chance(40) {
			// A released attempt continues under its number.
			elapsed := s.pass(10, 5000)
			s.batch(&conversation.AttemptReleased{Submission: id, Attempt: start.Attempt, Reason: "drain", ElapsedMs: elapsed, At: s.at})
			next.After = conversation.AfterPause
		} else {
			s.emit(s.src.Live(s.at, observability.Place{Submission: id, Whole: true}, &observability.SubmissionRecovery{
				Operation: observability.RecoveryProcess, Outcome: observability.OutcomeDeferred, Fenced: s.chance(60),
			}))
			next.After = conversation.AfterLoss
			next.Attempt++
		}
		s.pass(100, 20_000)
		next.At = s.at
		s.batch(&next)
		start = &next
	}
	return start.Attempt
}

// fail makes an outcome one of the possible failures.
func (s *scenario) fail(settled *conversation.SubmissionSettled) {
	code := conversation.Code(s.pick(string(conversation.CodeModelFailed), string(conversation.CodeTimeout), string(conversation.CodeRetryExhausted)))
	settled.Outcome = conversation.OutcomeFailed
	settled.Error = &conversation.SettlementError{Type: code, Message: "It did not work out."}
	if code == conversation.CodeModelFailed {
		took := s.pass(100, 30_000)
		settled.Unheard = &conversation.FailedCall{Turn: conversation.TurnID(s.id("turn")), Model: s.model(), DurationMs: took, Retries: 3}
	}
}

func (s *scenario) model() string {
	return s.pick("anthropic/opus", "anthropic/opus", "anthropic/haiku", "router/meta/llama")
}

// turn calls a model, with retries, and runs the tools that it calls.
func (s *scenario) turn(job *work) {
	turn, model, retries := conversation.TurnID(s.id("turn")), s.model(), 0
	for s.chance(12) && retries < 3 {
		if retries++; s.chance(40) {
			s.pass(100, 3000)
			continue // It failed before its first event.
		}
		wait := s.pass(50, 2000)
		s.opened(job, turn, model, wait)
		rest := s.pass(10, 4000)
		s.batch(&conversation.StepDropped{
			Origin: job.Origin, Message: job.message, Child: job.child, Turn: turn, Model: model, Reason: s.pick("overloaded", "cut_off"),
			DurationMs: wait + rest, Retries: retries - 1, At: s.at,
		})
	}
	wait := s.pass(50, 4000)
	s.opened(job, turn, model, wait)
	step := &conversation.StepCompleted{
		Origin: job.Origin, Message: job.message, Child: job.child, Turn: turn, Model: model, StopReason: "stop",
		WaitMs: wait, Retries: retries, Usage: s.usage(), Facts: conversation.CallFacts{API: "messages", Price: s.price(model)},
	}
	step.DurationMs = wait + s.pass(20, 9000)
	var records []conversation.Record
	if s.chance(55) {
		step.StopReason = "tool_use"
		for range s.between(1, 3) {
			name := s.pick("label", "search", "search", conversation.TaskTool)
			if name == conversation.TaskTool && job.depth == 2 {
				name = "label"
			}
			call := conversation.CallName{Call: conversation.CallID(s.id("call")), Name: name}
			step.Calls = append(step.Calls, call)
			records = append(records, &conversation.ToolCalled{
				Origin: job.Origin, Message: job.message, Child: job.child, Call: call.Call, Name: name, Turn: turn, Input: []byte(`{"a":1}`), At: s.at,
			})
		}
	} else if s.chance(5) {
		step.StopReason = conversation.ReasonInterrupted
	}
	step.At = s.at
	s.batch(append(records, step)...)
	for _, call := range step.Calls {
		s.call(job, turn, call)
	}
}

// opened begins a step, with its first text.
func (s *scenario) opened(job *work, turn conversation.TurnID, model string, wait int64) {
	s.batch(
		&conversation.ResponseStarted{
			Origin: job.Origin, Message: job.message, Submission: job.submission, Child: job.child, Turn: turn, Model: model, WaitMs: wait, At: s.at,
		},
		&conversation.Delta{Message: job.message, Child: job.child, Kind: conversation.PartReasoning, Text: "Well. "},
		&conversation.Delta{Message: job.message, Child: job.child, Kind: conversation.PartText, Text: "Let me see."},
	)
}

func (s *scenario) usage() conversation.Usage {
	u := conversation.Usage{Input: s.between(1, 5000), Output: s.between(1, 900), CacheWrite: s.between(0, 300)}
	if s.chance(60) {
		u.CacheRead = s.between(1, 20_000)
	}
	u.Total = u.Input + u.Output + u.CacheRead + u.CacheWrite
	return u
}

// price returns a price whose sums are exact, or nil for a model without one.
func (s *scenario) price(model string) *conversation.Price {
	if model == "router/meta/llama" {
		return nil
	}
	in, out := float64(s.between(1, 500))/1024, float64(s.between(1, 900))/1024
	return &conversation.Price{Input: in, Output: out, Total: in + out}
}

// call runs a tool to its outcome, or a subagent.
func (s *scenario) call(job *work, turn conversation.TurnID, call conversation.CallName) {
	outcome := &conversation.ToolSettled{
		Origin: job.Origin, Child: job.child, Call: call.Call, Name: call.Name, Turn: turn, Output: []byte(`"done"`),
	}
	if call.Name == conversation.TaskTool {
		s.task(job, turn, call.Call, outcome)
	}
	if call.Name == "label" {
		for range s.between(0, 3) {
			s.wait(job, turn, call, outcome)
		}
	}
	outcome.DurationMs = new(s.pass(1, 2500))
	if s.chance(12) {
		outcome.Failed, outcome.Output, outcome.ErrorText = true, nil, "no such label"
		if s.chance(50) {
			outcome.DurationMs = nil // It never ran.
		}
	}
	outcome.At = s.at
	s.batch(outcome)
}

// wait makes a call wait for a signal, for a timeout, or until its outcome.
func (s *scenario) wait(job *work, turn conversation.TurnID, call conversation.CallName, outcome *conversation.ToolSettled) {
	name := s.id("approval")
	s.batch(&conversation.WaitStarted{
		Must: true, Origin: job.Origin, Call: call.Call, Child: job.child, Tool: call.Name, Turn: turn, Name: name, Until: s.at + hourMs, At: s.at,
	})
	took := s.pass(100, 60_000)
	ended := &conversation.WaitEnded{
		Must: true, Origin: job.Origin, Call: call.Call, Child: job.child, Tool: call.Name, Turn: turn, Name: name,
		Reason: conversation.EndedByTimeout, WaitedMs: took, At: s.at,
	}
	switch {
	case s.chance(15):
		outcome.Waits = append(outcome.Waits, conversation.OpenWait{Name: name, WaitedMs: took})
		return
	case s.chance(60):
		ended.Reason, ended.Signal = conversation.EndedBySignal, conversation.SubmissionID(s.id("sub"))
	}
	s.batch(ended)
}

// post adds delivery attempts of a post, until one succeeds or the post is abandoned.
func (s *scenario) post(id conversation.SubmissionID) {
	post, target := conversation.PostID(s.id("post")), s.pick("ledger", "desk", "https://hooks.example.com/secret?key=1")
	for attempt := 1; ; attempt++ {
		took := s.pass(5, 2000)
		if !s.chance(40) || attempt == 3 {
			end := conversation.PostDelivered
			if attempt == 3 {
				end = conversation.PostDead
			}
			s.batch(&conversation.PostDone{Must: true, Post: post, Submission: id, Target: target, End: end, Attempts: attempt, DurationMs: took, At: s.at})
			return
		}
		s.batch(&conversation.PostDeferred{Must: true, Post: post, Submission: id, Target: target, Attempts: attempt, Until: s.at + hourMs, DurationMs: took, At: s.at})
	}
}

// task delegates work to a subagent.
func (s *scenario) task(job *work, turn conversation.TurnID, call conversation.CallID, outcome *conversation.ToolSettled) {
	began := s.at
	origin := conversation.Origin{Root: job.Root, Parent: job.child}
	own := &work{
		Origin: origin, child: conversation.ConversationID(s.id("conv")), submission: conversation.SubmissionID(s.id("sub")),
		message: conversation.MessageID(s.id("msg")), depth: job.depth + 1,
	}
	agent := s.pick("reader", "critic")
	s.batch(&conversation.ChildStarted{
		Origin: origin, Child: own.child, Submission: own.submission, Call: call, Agent: agent, Prompt: "Read it.", Turn: turn, At: s.at,
	})
	settled := &conversation.ChildSettled{
		Origin: origin, Child: own.child, Outcome: conversation.OutcomeCompleted, Agent: agent, Call: call, Submission: own.submission, Turn: turn,
	}
	for range s.between(1, 3) {
		s.turn(own)
		settled.Usage.Add(s.usage())
	}
	if s.chance(20) {
		settled.Outcome = conversation.OutcomeFailed
		outcome.Failed, outcome.ErrorText, outcome.Output = true, "the task failed", nil
	}
	settled.DurationMs, settled.At = int64(s.at-began), s.at
	s.batch(settled)
}

// compact summarizes the prompt; detached means outside of a submission.
func (s *scenario) compact(job *work, detached bool) {
	model := s.model()
	took := s.pass(500, 9000)
	c := &conversation.Compacted{
		Origin: job.Origin, Summary: "So far so good.", FirstKept: job.submission, Before: int(s.between(2, 30)), After: int(s.between(1, 6)),
		Reason: conversation.CompactionReason(s.pick(string(conversation.CompactionThreshold), string(conversation.CompactionOverflow))),
		Model:  model, Usage: s.usage(), Turn: conversation.TurnID(s.id("turn")), Facts: conversation.CallFacts{Price: s.price(model)},
		Tokens: s.between(50_000, 200_000), DurationMs: took, At: s.at,
	}
	if detached {
		c.Detached, c.Origin, c.Reason = true, conversation.Origin{}, conversation.CompactionManual
	}
	s.batch(c)
}

// writes returns the events as a sink gets them: in groups, and a third of them again later, in
// another order and other groups.
func (w *world) writes() [][]observability.Event {
	groups := slices.Collect(slices.Chunk(w.events, 3000))
	var again []observability.Event
	for i := len(w.events) - 1; i >= 0; i-- {
		if w.chance(33) {
			again = append(again, w.events[i])
		}
	}
	return append(groups, slices.Collect(slices.Chunk(again, 2000))...)
}

// since returns the events of types since a time; without types it returns all types.
func (w *world) since(at conversation.Time, types ...observability.Type) []observability.Event {
	var out []observability.Event
	for _, e := range w.events {
		if e.At >= at && (len(types) == 0 || slices.Contains(types, e.Type)) {
			out = append(out, e)
		}
	}
	return out
}
