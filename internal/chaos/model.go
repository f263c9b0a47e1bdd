package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/providers"
)

const (
	modelAPI  = "scripted"
	modelSpec = "scripted/model"
)

// model is the provider as seen by one node. Its content depends only on the seed, the delivery and
// the step. Whether a call succeeds depends on the call, too.
type model struct {
	*world
	link  *link
	calls schedule.Counter[string] // by submission, attempt and step
}

func newProviders(w *world, l *link) (*providers.Registry, error) {
	reg := providers.NewRegistry(nil)
	reg.RegisterProtocol(modelAPI, &model{world: w, link: l})
	r := providers.Registration{API: modelAPI, BaseURL: "scripted:", Input: []string{providers.InputText, providers.InputImage}, Cost: w.rates()}
	return reg, reg.RegisterProvider("scripted", r)
}

// Faults of a model call.
const (
	fine       = ""
	overloaded = "overloaded"    // before the first event
	breaks     = "broken off"    // in mid-stream
	ends       = "cut short"     // in mid-stream, without its end
	mute       = "mute"          // from the start
	falls      = "fallen silent" // in mid-stream
	refused    = "refused"       // permanently
)

// passing returns the faults that are worth a retry.
func passing() []string { return []string{overloaded, breaks, ends, mute, falls} }

// trouble chooses the fault of the n-th call for a step.
func (m *model) trouble(body string, step, n int) string {
	d := schedule.Draw(m.Seed, "trouble", body, step)
	if isBrief(body) || spreads(body) {
		return fine
	}
	if d%25 == 0 {
		return refused
	}
	every := uint64(8)
	if d%16 == 1 { // the vendor is down for a while
		every = 1
	}
	if d := schedule.Draw(m.Seed, "trouble", body, step, n); d%every == 0 {
		return passing()[(d>>8)%uint64(len(passing()))]
	}
	return fine
}

// Stream implements providers.Protocol. The consumer is done with an event before the next is yielded.
func (m *model) Stream(ctx context.Context, spec providers.Model, req providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	events := providers.NewStream(ctx, spec, func(out *providers.Assembler) error { return m.reply(ctx, out, req) })
	return func(yield func(providers.Event, error) bool) {
		n := 0
		for e, err := range events {
			if !yield(e, err) {
				return
			}
			n++
			if _, end := e.(providers.Done); err == nil && !end {
				schedule.Sleep(ctx, schedule.Between(schedule.Draw(m.Seed, "event", req.System, n), 0, tremble))
			}
		}
	}
}

func (m *model) reply(ctx context.Context, out *providers.Assembler, req providers.Request) error {
	var sub, body string
	var attempt, step int
	if _, err := fmt.Sscan(req.System, &sub, &attempt, &step, &body); err != nil {
		return fmt.Errorf("read instructions: %w", err)
	}
	if err := begin(ctx); err != nil {
		return err
	}
	if m.link.killed.Load() {
		return errKilled
	}
	n := m.calls.Next(fmt.Sprint(sub, " ", attempt, " ", step))
	m.trace.Did("model call")
	m.trace.Add(m.link.member, "model call %d for %s (%s), attempt %d, step %d", n, body, sub, attempt, step)
	if err := m.ledger.model(m.link.member, attemptID{conversation.SubmissionID(sub), attempt}); err != nil && ctx.Err() == nil {
		m.trace.Violate(m.link.member, "%v", err)
	}
	if err := m.inspect(ctx, req, body); err != nil {
		m.ledger.failed(conversation.SubmissionID(sub), n, true)
		return err
	}
	switch {
	case waits(body):
		return m.answerByCall(ctx, out, req, body, waitTool, fmt.Sprintf(`{"name":%q}`, body))
	case spreads(body) && !isLeaf(body):
		return m.answerByCall(ctx, out, req, body, sendTool, fmt.Sprintf(`{"body":%q}`, body))
	}
	bad := m.trouble(body, step, n)
	if bad != fine {
		m.trace.Did("model " + bad)
		m.ledger.failed(conversation.SubmissionID(sub), n, bad != refused)
	}
	return m.answer(ctx, out, body, step, bad)
}

// inspect checks the images of the newest user message.
func (m *model) inspect(ctx context.Context, req providers.Request, body string) error {
	for _, msg := range req.Messages {
		if msg.Role != providers.RoleUser || len(msg.Parts) < 2 {
			continue
		}
		if text, ok := msg.Parts[0].(providers.Text); !ok || text.Text != body {
			continue
		}
		image, ok := msg.Parts[1].(providers.Image)
		if !ok {
			m.trace.Violate(m.link.member, "model got %T for the attachment of %s", msg.Parts[1], body)
			return nil
		}
		data, err := whole(image.Content.Open(ctx))
		if err != nil {
			m.trace.ViolateIf(!errors.Is(err, providers.ErrUnavailable) && ctx.Err() == nil,
				m.link.member, "the image of %s cannot be read: %v", body, err)
			return &providers.Error{Kind: providers.KindImageUnavailable, Provider: "scripted", Err: err}
		}
		m.trace.ViolateIf(!bytes.Equal(data, picture(m.Seed, body)), m.link.member, "model got a wrong image for %s", body)
		m.trace.Did("image seen by a model")
	}
	return nil
}

// longWait is the largest Retry-After of the vendor.
const longWait = 40 * time.Second

// answer streams reasoning, text and calls, with pauses, until a fault ends it.
func (m *model) answer(ctx context.Context, out *providers.Assembler, body string, step int, bad string) error {
	d := func(desc string) uint64 { return schedule.Draw(m.Seed, "model", desc, body, step) }
	longest := 150 * time.Millisecond
	if isBrief(body) {
		longest *= 10 // Journals: the answer is short, so leave time for a crash in between.
	}
	pause := func(desc string) error {
		return schedule.Sleep(ctx, schedule.Between(d(desc), 5*time.Millisecond, longest))
	}
	if err := pause("first"); err != nil {
		return err
	}
	switch bad {
	case overloaded:
		err := &providers.Error{Kind: providers.KindOverloaded, Provider: "scripted", Status: 529}
		if d("asks to wait")%8 == 0 {
			m.trace.Did("vendor asked to wait")
			err.RetryAfter = longWait // suspends the turn
		}
		return err
	case refused:
		return &providers.Error{Kind: providers.KindInvalidRequest, Provider: "scripted", Status: 400}
	case mute:
		return schedule.Sleep(ctx, time.Hour)
	}
	if d("thinks")%3 == 0 {
		out.Reasoning("thinking about "+body, "")
		if err := pause("thought"); err != nil {
			return err
		}
		out.Reasoning("", "signed")
	}
	for i, word := range words(m.Seed, body, step) {
		out.Text(word)
		if err := pause(fmt.Sprint("word", i)); err != nil {
			return err
		}
		switch bad {
		case breaks:
			return &providers.Error{Kind: providers.KindNetwork, Provider: "scripted", Err: errReset}
		case ends:
			return nil
		case falls:
			return schedule.Sleep(ctx, time.Hour)
		}
	}
	var asked [][3]string
	if step < lastStep(m.Seed, body) {
		for i := range 1 + d("calls")%4 {
			name, args := m.call(body, step, i)
			asked = append(asked, [3]string{fmt.Sprintf("%s-%d-%d", body, step, i), name, args})
		}
	}
	finish(out, asked...)
	return nil
}

// finish ends an answer with calls, given as id, tool and arguments.
func finish(out *providers.Assembler, calls ...[3]string) {
	done := providers.Done{StopReason: providers.StopStop, Usage: providers.Usage{Input: 1, Output: 1}}
	for _, c := range calls {
		done.StopReason = providers.StopToolUse
		out.CallArguments(out.StartCall(c[0], c[1]), c[2])
	}
	out.Finish(done)
}

func (m *model) call(body string, step int, i uint64) (name, args string) {
	d := schedule.Draw(m.Seed, "call", body, step, i)
	millis, writes := d>>8%500, d>>20%3
	if d>>32%8 == 0 {
		millis += 1500 // slow
	}
	args = fmt.Sprintf(`{"millis":%d,"writes":%d}`, millis, writes)
	if i == 1 { // The step begins with another output and must not end with this one.
		return "work", args
	}
	switch d % 16 {
	case 0:
		return "missing", args
	case 1:
		return "work", `{"millis":"many"}`
	case 2, 3, 4:
		return "hurry", args
	}
	return "work", args
}

// lastStep returns the last step, which makes no calls.
func lastStep(seed uint64, body string) int {
	switch {
	case isBrief(body), isLeaf(body):
		return 1
	case waits(body), spreads(body):
		return 2
	}
	return []int{1, 1, 1, 2, 2, 3}[schedule.Draw(seed, "steps", body)%6]
}

// words returns the text of a step in pieces.
func words(seed uint64, body string, step int) []string {
	var out []string
	pieces := 1 + schedule.Draw(seed, "words", body, step)%3
	if isBrief(body) || waits(body) || spreads(body) {
		pieces = 1
	}
	for i := range pieces {
		out = append(out, fmt.Sprintf("%s says %d.%d. ", body, step, i))
	}
	return out
}

func stepText(seed uint64, body string, step int) string {
	return strings.Join(words(seed, body, step), "")
}

// answerByCall makes one call and ends in the step after it.
func (m *model) answerByCall(ctx context.Context, out *providers.Assembler, req providers.Request, body, tool, arguments string) error {
	step, asked := 1, [][3]string{{body, tool, arguments}}
	for _, msg := range req.Messages {
		for _, p := range msg.Parts {
			if c, ok := p.(providers.ToolCall); ok && c.ID == body {
				step, asked = 2, nil
			}
		}
	}
	if err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(m.Seed, "model", body, step), 5*time.Millisecond, 500*time.Millisecond)); err != nil {
		return err
	}
	out.Text(stepText(m.Seed, body, step))
	finish(out, asked...)
	return nil
}
