package conversation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// generator makes random histories that the runtime can produce. Its rules:
//
//   - An incarnation begins with one batch: creation, first message, first attempt.
//     Claims (batches without records) may come before and between.
//   - No record of a response is in the batch of its attempt, because an attempt
//     has to be durable before anything runs.
//   - Submissions run in admission order, one at a time, except for one that overtakes
//     a suspended one. Others may be admitted at any moment.
//   - A turn is closed, and its calls have outcomes, before the next turn opens
//     and before the submission settles. A recovery or an abort does the same.
//   - Data parts and metadata are written only while no text part is streaming.
//   - Only the first turn's response_started has metadata.
//   - Only the open turn is withdrawn, and none of its calls has an outcome.
//   - A subagent works for a call without an outcome. It ends, and its calls are
//     settled, before that call has an outcome.
//   - A signal that ends a wait, or is kept, is admitted and settled in its batch.
//   - A deletion waits until all submissions are settled, and ends its batch.
//
// Every prefix of such a history is valid too, so histories end anywhere.
type generator struct {
	r      *rand.Rand
	serial int
	clock  conversation.Time
	target int
	out    []conversation.Batch
	cur    []conversation.Record
	queue  []*work
}

// work is an unsettled submission.
type work struct {
	sub       conversation.SubmissionID
	message   conversation.MessageID
	turn      conversation.TurnID
	attempt   int
	running   bool
	started   bool // the response has its first turn
	open      bool // a turn is open
	streaming bool // the last part is text or reasoning
	over      bool // settled
	calls     []conversation.CallID
	child     conversation.ConversationID // of a subagent
	depth     int
	tasks     []conversation.CallID // calls that have, or had, a subagent
}

func generate(seed uint64) []conversation.Batch {
	g := &generator{r: rand.New(rand.NewPCG(seed, 8)), clock: 1_700_000_000_000}
	g.target = 5 + g.r.IntN(56)
	for !g.full() {
		g.incarnation()
	}
	return g.out[:g.target]
}

func (g *generator) full() bool { return len(g.out) >= g.target }

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) next(prefix string) string {
	g.serial++
	return fmt.Sprintf("%s_%05d", prefix, g.serial)
}

func (g *generator) now() conversation.Time {
	g.clock += conversation.Time(g.r.IntN(5000))
	return g.clock
}

func (g *generator) text() string {
	return pick(g.r, "Hello", " world", "<b>&amp;", "line\nbreak", "…", "😀", "\u2028", `"q"\`, "\t", "0")
}

func (g *generator) json() json.RawMessage {
	return json.RawMessage(pick(g.r, `null`, `true`, `"a<b"`, `[]`, `{}`, `12345678901234567890`, `[1,{"a":null}]`,
		`{"n":{"x":[1.50]}}`, `""`, `-0.0`))
}

func (g *generator) object() json.RawMessage {
	return json.RawMessage(pick(g.r, `{}`, `{"a":1}`, `{"a":{"b":{"c":[1]}}}`, `{"a":{"b":{"d":null}}}`,
		`{"a":[{"x":1}],"z":"<&>"}`, `{"b":null}`, `{"n":12345678901234567890}`))
}

func pick[T any](r *rand.Rand, options ...T) T { return options[r.IntN(len(options))] }

// push adds a record that the next one follows in the same batch.
func (g *generator) push(r conversation.Record) { g.cur = append(g.cur, r) }

// add adds a record. The batch may end after it, and an unrelated record may follow.
func (g *generator) add(r conversation.Record) {
	g.push(r)
	if g.chance(35) {
		g.cut()
	}
	if g.chance(10) {
		g.noise()
	}
}

func (g *generator) cut() {
	if len(g.cur) > 0 {
		g.out = append(g.out, conversation.Batch{Offset: conversation.Offset(len(g.out)), Records: g.cur})
		g.cur = nil
	}
}

func (g *generator) claim() {
	g.cut()
	g.out = append(g.out, conversation.Batch{Offset: conversation.Offset(len(g.out))})
}

func (g *generator) noise() {
	switch g.r.IntN(9) {
	case 8:
		g.keepSignal(g.next("name"))
	case 0, 1:
		g.admit(false)
	case 7:
		g.push(&conversation.ImagesRefused{Must: true, Attachments: []conversation.AttachmentID{
			conversation.AttachmentID(g.next("refused")), pick[conversation.AttachmentID](g.r, "att_a", "att_b"),
		}, At: g.now()})
	case 2:
		g.push(&conversation.StateWritten{Key: pick(g.r, "a", "b"), Value: g.json()})
	case 3:
		g.push(&conversation.Unknown{Name: "later", Line: json.RawMessage(`{"type":"later","x":[1, 2]}`)})
	case 4:
		g.push(&conversation.Advisory{
			Message: conversation.MessageID(g.next("msg")), Text: g.text(), Display: conversation.DisplayDiagnostic,
			TagName: "environment", Attributes: map[string]string{"kind": "narration"},
		})
	case 5:
		g.note()
	case 6:
		g.claim()
	}
}

// note adds a hidden advisory to the model about the running submission.
func (g *generator) note() {
	if len(g.queue) == 0 {
		return
	}
	g.push(&conversation.Advisory{
		Message: conversation.MessageID(g.next("msg")), Submission: g.queue[0].sub, TagName: "stream_continued",
		Text: "continue", Display: conversation.DisplayHidden,
	})
}

func (g *generator) incarnation() {
	for range g.r.IntN(3) {
		g.claim()
	}
	id := conversation.ConversationID(g.next("conv"))
	run := g.chance(15)
	agent := "triage"
	if run {
		agent = conversation.WorkflowAgent("report")
	}
	g.push(&conversation.ConversationCreated{
		Agent: agent, ID: "42", UID: conversation.UID(g.next("inst")), ConversationID: id, At: g.now(),
		InitialData: pick(g.r, nil, g.json()),
	})
	g.admit(run)
	for !g.full() {
		switch {
		case len(g.queue) > 0:
			g.run(g.queue[0])
		case g.chance(12):
			g.push(&conversation.ConversationDeleted{At: g.now()})
			g.cut()
			return
		case g.chance(15):
			g.claim()
		default:
			g.admit(false)
		}
	}
}

func (g *generator) delivery() conversation.Delivery {
	if g.chance(30) {
		return conversation.Delivery{
			Kind: conversation.KindSignal, Body: g.text(), Type: "build.done", TagName: pick(g.r, "", "build"),
			Attributes: pick(g.r, nil, map[string]string{}, map[string]string{"x": "<1>", "a b": ""}),
		}
	}
	d := conversation.Delivery{Kind: conversation.KindUser, Body: pick(g.r, "", g.text())}
	for range g.r.IntN(6) / 3 {
		d.Attachments = append(d.Attachments, conversation.Attachment{
			ID: conversation.AttachmentID(g.next("att")), SHA256: "00ff", MimeType: "image/png",
			Size: int64(g.r.IntN(3)), Filename: pick(g.r, "", "a&b.png"),
		})
	}
	return d
}

func (g *generator) admit(run bool) {
	idle := len(g.queue) == 0
	w := &work{
		sub:     conversation.SubmissionID(g.next("sub")),
		message: conversation.MessageID(g.next("msg")),
	}
	g.queue = append(g.queue, w)
	d := g.delivery()
	if run {
		d = conversation.Delivery{Kind: conversation.KindUser, Body: `{"day":"<1>"}`}
	}
	g.push(&conversation.SubmissionAdmitted{
		Submission: w.sub, Message: conversation.MessageID(g.next("msg")), Key: g.next("key"), PayloadHash: "h",
		Delivery: d, At: g.now(),
	})
	if run {
		g.push(&conversation.RunStarted{Must: true, Submission: w.sub, At: g.now()})
	}
	if idle {
		g.attempt(w)
	}
}

func (g *generator) attempt(w *work) {
	w.attempt++
	w.running = true
	g.push(&conversation.AttemptStarted{Submission: w.sub, Attempt: w.attempt, Writer: g.next("w"), At: g.now()})
	g.cut()
}

// run executes a submission until its settlement.
func (g *generator) run(w *work) {
	for steps := g.r.IntN(5); steps > 0 && !w.over && !g.full(); steps-- {
		if g.chance(10) {
			g.release(w)
		}
		if g.chance(10) {
			g.count(w)
		}
		g.takeTurn(w)
		if !w.over {
			g.between(w)
		}
	}
	if !w.over {
		g.finish(w)
	}
}

func (g *generator) release(w *work) {
	g.push(&conversation.AttemptReleased{Submission: w.sub, Attempt: w.attempt, Reason: "drain"})
	w.attempt--
	g.cut()
	if g.chance(50) {
		g.claim()
	}
	g.attempt(w)
}

func (g *generator) openTurn(w *work) {
	w.turn = conversation.TurnID(g.next("turn"))
	w.open, w.streaming = true, false
	r := &conversation.ResponseStarted{
		Message: w.message, Submission: w.sub, Child: w.child, Turn: w.turn, Model: "anthropic/x", At: g.now(),
	}
	if !w.started && w.child == "" && g.chance(40) {
		r.Metadata = g.object()
	}
	w.started = true
	g.add(r)
}

func (g *generator) takeTurn(w *work) {
	g.openTurn(w)
	for range 1 + g.r.IntN(9) {
		switch n := g.r.IntN(100); {
		case n < 4:
			g.crash(w)
			return
		case n < 7:
			g.abort(w)
			return
		case n < 12:
			g.add(&conversation.StepDropped{Message: w.message, Turn: w.turn})
			w.open, w.calls = false, nil
			if g.chance(50) {
				g.add(&conversation.RetryScheduled{
					Must: true, Submission: w.sub, Child: w.child, Model: "anthropic/x", Reason: "rate_limit", Until: g.now(), Rounds: 1, At: g.now(),
				})
			}
			g.openTurn(w)
		case n < 24:
			g.call(w)
		case n < 34:
			if !w.streaming {
				g.decorate(w)
			}
		default:
			g.delta(w)
		}
	}
	g.closeTurn(w, pick(g.r, "stop", "tool_use", "length"))
	g.settleCalls(w)
}

func (g *generator) delta(w *work) {
	w.streaming = true
	kind := pick(g.r, conversation.PartText, conversation.PartText, conversation.PartReasoning)
	g.add(&conversation.Delta{Message: w.message, Child: w.child, Kind: kind, Text: g.text()})
	if kind == conversation.PartReasoning && g.chance(30) {
		g.add(&conversation.PartDone{Message: w.message, Child: w.child, Signature: "sig"})
	}
	if g.chance(20) { // also of a part without text
		kind := pick(g.r, conversation.PartText, conversation.PartReasoning)
		g.add(&conversation.PartSigned{Must: true, Message: w.message, Child: w.child, Kind: kind, Signature: g.next("sig")})
	}
}

func (g *generator) call(w *work) {
	w.streaming = false
	id := conversation.CallID(g.next("call"))
	w.calls = append(w.calls, id)
	g.add(&conversation.ToolCalled{
		Message: w.message, Child: w.child, Call: id, ProviderCall: "toolu", Name: "label", Input: g.json(), Durable: g.chance(20), At: g.now(),
	})
	if g.chance(20) {
		g.add(&conversation.PartSigned{Must: true, Message: w.message, Child: w.child, Call: id, Signature: "sig"})
	}
}

func (g *generator) decorate(w *work) {
	if g.chance(50) {
		g.add(&conversation.DataWritten{Message: w.message, Name: pick(g.r, "plan", "plan", "cost"), Data: g.json()})
		return
	}
	meta := g.object()
	if g.chance(20) {
		meta = json.RawMessage(`{"constructor":{"a":1},"a":{"__proto__":2,"k":3},"prototype":1}`)
	}
	g.add(&conversation.MetadataMerged{Message: w.message, Metadata: meta})
}

func (g *generator) closeTurn(w *work, reason string) {
	if !w.open {
		return
	}
	w.open, w.streaming = false, false
	g.add(&conversation.StepCompleted{
		Message: w.message, Child: w.child, Turn: w.turn, StopReason: reason, Usage: conversation.Usage{Output: 3}, ElapsedMs: 5, At: g.now(),
	})
}

// settleCalls gives every call an outcome, in any order and any batch.
func (g *generator) settleCalls(w *work) {
	g.r.Shuffle(len(w.calls), func(i, j int) { w.calls[i], w.calls[j] = w.calls[j], w.calls[i] })
	for len(w.calls) > 0 {
		id := w.calls[0]
		switch n := g.r.IntN(100); {
		case n < 5:
			g.crash(w)
			return
		case n < 8:
			g.abort(w)
			return
		case n < 16:
			g.add(&conversation.StepRecorded{Call: id, Name: "fetch", Output: g.json()})
			continue
		case n < 24:
			if !w.asked(id) {
				g.subagent(w, id)
			}
			continue
		case n < 28:
			g.push(&conversation.Suspended{Submission: w.sub, Until: g.now(), Reason: conversation.ReasonTimer, ElapsedMs: int64(g.r.IntN(9))})
			w.attempt--
			g.cut()
			if len(g.queue) == 1 {
				g.pass()
			}
			g.attempt(w)
			continue
		case n < 40:
			g.decorate(w)
			continue
		case n < 52:
			g.wait(w, id)
			continue
		}
		w.calls = w.calls[1:]
		took := int64(g.r.IntN(9))
		r := &conversation.ToolSettled{Call: id, Child: w.child, DurationMs: pick(g.r, nil, &took), ElapsedMs: 7, At: g.now()}
		if g.chance(30) {
			r.Failed, r.ErrorText = true, pick(g.r, "", "no such label")
		} else {
			r.Output, r.Terminate = pick(g.r, nil, g.json()), g.chance(10)
			if g.chance(10) {
				r.Attachments = []conversation.Attachment{{
					ID: conversation.AttachmentID(g.next("att")), SHA256: "00ff", MimeType: "image/png", Size: 3,
				}}
			}
		}
		if !r.Failed && g.chance(15) {
			g.push(&conversation.OutputStored{Must: true, Call: id, Child: w.child, StoredOutput: conversation.StoredOutput{
				Size: 5, Head: g.text(), Tail: g.text(), Pieces: []conversation.StoredPiece{{SHA256: g.next("piece"), Size: 5}},
			}})
		}
		g.add(r)
	}
}

// wait lets a call wait for a signal, suspended or not, and may deliver one.
func (g *generator) wait(w *work, id conversation.CallID) {
	name := g.next("name")
	kept := g.chance(20)
	if kept {
		g.keepSignal(name)
	}
	g.add(&conversation.WaitStarted{Must: true, Call: id, Child: w.child, Name: name, Schema: json.RawMessage(`true`), Until: g.now(), At: g.now()})
	end := &conversation.WaitEnded{Must: true, Call: id, Child: w.child, Name: name, Reason: conversation.EndedByTimeout, At: g.now()}
	switch {
	case kept:
		end.Reason, end.Value = conversation.EndedBySignal, g.json()
	case g.chance(50):
		suspended := g.chance(50)
		if suspended {
			g.push(&conversation.Suspended{Submission: w.sub, Until: g.now(), Reason: conversation.ReasonTimer})
			w.attempt--
			g.cut()
		}
		end.Reason, end.Signal, end.Value = conversation.EndedBySignal, g.signal(name), g.json()
		g.push(end)
		if suspended {
			g.attempt(w)
		}
		return
	case g.chance(30):
		return // its call has another outcome
	}
	g.add(end)
}

// pass answers a message while the one before it is suspended.
func (g *generator) pass() {
	w := &work{sub: conversation.SubmissionID(g.next("sub")), message: conversation.MessageID(g.next("msg"))}
	g.push(&conversation.SubmissionAdmitted{
		Submission: w.sub, Message: conversation.MessageID(g.next("msg")), Key: g.next("key"), PayloadHash: "h", Delivery: g.delivery(), At: g.now(),
	})
	if g.chance(50) {
		g.push(&conversation.KeyKept{Must: true, Submission: w.sub, Until: g.now() + conversation.Time(g.r.IntN(1000))})
	}
	withReply := g.chance(80)
	if withReply {
		g.push(&conversation.ReplyPending{Must: true, Submission: w.sub, To: sampleReplyTo()})
	}
	notify := g.chance(80)
	if g.chance(50) {
		g.push(&conversation.ReplyAddressed{Must: true, Submission: w.sub, Channel: "slack", Address: g.text()})
	}
	if notify {
		g.push(&conversation.NoticeAsked{Must: true, Submission: w.sub, Target: "ledger"})
	}
	g.push(&conversation.Overtook{Must: true, Submission: w.sub})
	g.attempt(w)
	g.openTurn(w)
	for range g.r.IntN(4) {
		g.delta(w)
	}
	g.closeTurn(w, "stop")
	g.push(&conversation.SubmissionSettled{Submission: w.sub, Outcome: conversation.OutcomeCompleted, At: g.now()})
	if notify {
		g.post(w)
	}
	if withReply {
		g.cut()
		g.push(&conversation.ReplySent{Must: true, Submission: w.sub, At: g.now()})
	}
}

// post enqueues a notice of a settlement, which is delivered or a dead letter, possibly at once.
func (g *generator) post(w *work) {
	id := conversation.PostID(g.next("post"))
	g.push(&conversation.PostEnqueued{Must: true, Post: id, Submission: w.sub, Target: "ledger", Body: json.RawMessage(`{"n":1}`), At: g.now()})
	g.cut()
	attempts := g.r.IntN(4)
	for n := range attempts {
		g.push(&conversation.PostDeferred{Must: true, Post: id, Attempts: n + 1, Reason: g.text(), Until: g.now() + 1000, At: g.now()})
		g.cut()
	}
	g.push(&conversation.PostDone{Must: true, Post: id, End: conversation.PostDelivered, Attempts: attempts + 1, At: g.now()})
}

// signal adds a signal for a wait, settled at once.
func (g *generator) signal(name string) conversation.SubmissionID {
	id := conversation.SubmissionID(g.next("sub"))
	g.push(&conversation.SubmissionAdmitted{
		Submission: id, Message: conversation.MessageID(g.next("msg")), Key: g.next("key"), PayloadHash: "h", At: g.now(),
		Delivery: conversation.Delivery{
			Kind: conversation.KindSignal, Type: conversation.SignalWait, Body: g.text(), Attributes: map[string]string{"name": name},
		},
	})
	g.push(&conversation.SubmissionSettled{Submission: id, Outcome: conversation.OutcomeCompleted, At: g.now()})
	return id
}

func (g *generator) keepSignal(name string) {
	g.push(&conversation.SignalKept{Must: true, Submission: g.signal(name), Name: name, Body: "later", At: g.now()})
}

// asked reports whether a call has a subagent already.
func (w *work) asked(id conversation.CallID) bool {
	if slices.Contains(w.tasks, id) {
		return true
	}
	w.tasks = append(w.tasks, id)
	return false
}

// subagent runs a subagent for a call, possibly with nested ones, from start to end.
func (g *generator) subagent(w *work, call conversation.CallID) {
	if w.depth == conversation.MaxDepth {
		return
	}
	c := &work{
		sub: conversation.SubmissionID(g.next("sub")), message: conversation.MessageID(g.next("msg")),
		child: conversation.ConversationID(g.next("conv")), depth: w.depth + 1,
	}
	g.add(&conversation.ChildStarted{
		Child: c.child, Submission: c.sub, Call: call, Agent: "sub", Prompt: g.text(), At: g.now(),
	})
	for range g.r.IntN(3) {
		g.openTurn(c)
		for range g.r.IntN(4) {
			switch n := g.r.IntN(100); {
			case n < 10:
				g.add(&conversation.StepDropped{Message: c.message, Child: c.child, Turn: c.turn})
				c.open, c.calls = false, nil
				g.openTurn(c)
			case n < 40:
				g.call(c)
			default:
				g.delta(c)
			}
		}
		g.closeTurn(c, "stop")
		for _, id := range c.calls {
			if g.chance(30) {
				g.subagent(c, id)
			}
			g.add(&conversation.ToolSettled{Call: id, Child: c.child, Output: g.json(), ElapsedMs: 8, At: g.now()})
		}
		c.calls = nil
	}
	if g.chance(20) {
		g.add(&conversation.Compacted{Child: c.child, Summary: "so far", FirstKept: c.sub, FirstTurn: c.turn, At: g.now()})
	}
	if g.chance(30) {
		g.add(&conversation.Advisory{
			Message: conversation.MessageID(g.next("msg")), Child: c.child, Submission: c.sub, Text: "continue",
			Display: conversation.DisplayHidden,
		})
	}
	g.add(&conversation.ChildSettled{Child: c.child, Outcome: conversation.OutcomeCompleted, At: g.now()})
}

// closeAll ends the open work of a lost or aborted attempt.
func (g *generator) closeAll(w *work, reason, text string) {
	g.closeTurn(w, reason)
	for _, id := range w.calls {
		g.add(&conversation.ToolSettled{Call: id, Failed: true, ErrorText: text, At: g.now()})
	}
	w.calls = nil
}

// count adds a member of a submission's tree, or a cost.
func (g *generator) count(w *work) {
	g.add(&conversation.TreeCounted{
		Must: true, Submission: w.sub, Member: conversation.Address{Agent: "desk", ID: g.next("m")}, Key: g.next("k"),
		Joined: g.chance(70), Cost: pick(g.r, 0, 0.25), Submissions: 1, At: g.now(),
	})
}

// crash ends the writer; another one recovers the submission.
func (g *generator) crash(w *work) {
	g.cut()
	if g.chance(40) {
		g.claim()
	}
	first := g.chance(50)
	if first {
		g.attempt(w)
	}
	g.closeAll(w, conversation.ReasonInterrupted, "outcome unknown")
	if g.chance(80) {
		g.note()
	}
	if !first {
		g.attempt(w)
	}
}

// abort covers everything queued; later admissions continue.
func (g *generator) abort(w *work) {
	covered := append([]*work{}, g.queue...)
	r := &conversation.AbortRequested{At: g.now(), Trees: g.chance(50)}
	for _, c := range covered {
		r.Submissions = append(r.Submissions, c.sub)
	}
	g.add(r)
	g.closeAll(w, "aborted", "aborted")
	for _, c := range covered {
		g.advise(c.sub)
		g.settle(c, conversation.OutcomeAborted)
	}
	g.continueQueue()
}

func (g *generator) advise(sub conversation.SubmissionID) {
	g.add(&conversation.Advisory{
		Message: conversation.MessageID(g.next("msg")), Submission: sub, TagName: "submission_ended",
		Text: g.text(), Display: conversation.DisplayDiagnostic,
	})
}

func (g *generator) settle(w *work, outcome conversation.Outcome) {
	r := &conversation.SubmissionSettled{Submission: w.sub, Outcome: outcome, ElapsedMs: 9, At: g.now()}
	if outcome != conversation.OutcomeCompleted {
		r.Error = &conversation.SettlementError{
			Type: conversation.CodeAborted, Message: "It ended.", Meta: pick(g.r, nil, map[string]any{"attempts": 10}),
		}
	}
	w.over = true
	g.queue = g.queue[1:]
	g.push(r)
}

func (g *generator) continueQueue() {
	if len(g.queue) > 0 && !g.queue[0].running {
		g.attempt(g.queue[0])
	} else if g.chance(60) {
		g.cut()
	}
}

// between is what happens from one turn to the next.
func (g *generator) between(w *work) {
	switch n := g.r.IntN(100); {
	case n < 8:
		g.add(&conversation.Compacted{Summary: "so far", FirstKept: w.sub, Usage: conversation.Usage{Input: 1}, At: g.now()})
	case n < 40:
		g.decorate(w)
	case n < 50:
		g.note()
	case n < 60:
		g.add(&conversation.HookDone{Submission: w.sub, Hook: pick(g.r, conversation.HookDeliveryStarted, conversation.HookContinued)})
	}
}

func (g *generator) finish(w *work) {
	outcome := conversation.OutcomeCompleted
	if g.chance(25) {
		outcome = conversation.OutcomeFailed
		g.advise(w.sub)
	}
	g.settle(w, outcome)
	g.continueQueue()
}
