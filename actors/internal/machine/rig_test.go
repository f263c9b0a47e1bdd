package machine_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

var (
	errFenced = errors.New("fenced")
)

// entry is a durable batch as read back, with its writer.
type entry struct {
	writer string
	batch  conversation.Batch
	built  conversation.Time
}

type checkpoint struct {
	machine.Checkpoint
	pages []*conversation.HistoryPage
}

// rig holds a machine, its durable log and the clocks. Tests perform the effects.
type rig struct {
	cfg        machine.Config
	writer     string      // writer of the activation; final once open
	idleWriter *idleWriter // writer of a passivated activation
	limits     machine.Limits
	m          *machine.Machine
	log        []entry
	inflight   *conversation.Batch
	saved      *checkpoint // newest checkpoint
	pages      []*conversation.HistoryPage
	frozen     string             // the batch in flight, encoded by its append
	decoded    conversation.Batch // the same, decoded
	built      conversation.Time  // build time of the batch in flight
	steps      uint64
	mono       time.Duration
	wall       conversation.Time
	skew       conversation.Time // lead of this process's clock
}

func newRig() *rig {
	r := &rig{
		wall:   1_700_000_000_000,
		limits: machine.Limits{MaxAttempts: 10, Timeout: time.Hour, Patience: 10 * time.Minute, ToolConcurrency: 16, MaxResponse: 16 << 20, MaxCallBytes: 32 << 20, MaxCalls: 128, MaxTurns: 100, MaxToolCalls: 1000},
		cfg: machine.Config{
			Pace: 250 * time.Millisecond, RetryPause: time.Second, IdleAfter: 5 * time.Minute, MaxWaiting: 100, MaxWaitingBytes: 1 << 20,
			MaxPendingBytes: 1 << 20, MaxBatchBytes: 4 << 20,
			CheckpointBatches: 64, CheckpointBytes: 256 << 10,
		},
	}
	r.cfg.Limits = func(agent string) (machine.Limits, bool) {
		return r.limits, agent == "triage" && r.limits.Function == "" || agent == conversation.WorkflowAgent(workflow) && r.limits.Function != ""
	}
	return r
}

// checkObject is the schema of the agent: an object, or nothing.
func checkObject(data json.RawMessage) *conversation.Error {
	if len(data) > 0 && data[0] != '{' {
		return conversation.Errorf(conversation.CodeInvalidRequest, "initialData does not fit the agent's schema: want an object")
	}
	return nil
}

// idleWriter is the writer of a passivated activation and the tail of the log.
type idleWriter struct {
	writer string
	at     conversation.Offset
}

// boot starts an activation. writer is used unless an idle one continues.
func (r *rig) boot(writer string) {
	r.writer = writer
	r.m, r.inflight, r.pages = machine.New(&r.cfg), nil, nil
}

// stopped records the writer of a passivated activation if it has a batch.
func (r *rig) stopped(e machine.Stop) {
	switch {
	case e.Reason == machine.StopUnread:
	case e.Reason == machine.StopPassivated && r.claimed():
		r.idleWriter = &idleWriter{r.writer, conversation.Offset(len(r.log) - 1)}
	default:
		r.idleWriter = nil
	}
}

func (r *rig) claimed() bool {
	for _, e := range r.log {
		if e.writer == r.writer {
			return true
		}
	}
	return false
}

// name sets the writer of Opened. An idle writer continues if the log ends where it did.
func (r *rig) name(in *machine.Opened) {
	if r.idleWriter != nil && r.idleWriter.at == in.State.Head() {
		r.writer, in.Claimed = r.idleWriter.writer, true
	}
	in.Writer = r.writer
}

func (r *rig) step(in machine.Input) []machine.Effect {
	r.steps++
	env := machine.Env{Wall: r.wall + r.skew, Mono: r.mono}
	binary.BigEndian.PutUint64(env.Seed[:8], r.steps)
	if a, ok := in.(machine.Admit); ok {
		a.Unfit = checkObject(a.Admission.InitialData)
		in = a
	}
	out := append([]machine.Effect(nil), r.m.Step(env, in)...)
	if err := r.m.CheckSums(); err != nil {
		panic(violation(err.Error()))
	}
	for _, e := range out {
		switch e := e.(type) {
		case machine.Append:
			r.inflight, r.frozen, r.decoded, r.built = &e.Batch, encode(e.Batch), reread(e.Batch), env.Wall
		case machine.Checkpoint:
			r.pages = append(r.pages[:len(r.pages):len(r.pages)], e.Closed...)
			r.saved = &checkpoint{e, r.pages}
		case machine.Stop:
			r.stopped(e)
		}
	}
	return out
}

func encode(b conversation.Batch) string {
	lines, err := conversation.EncodeRecords(nil, b.Records)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%d %s", int64(b.Offset), lines)
}

// reread returns the batch as a reader decodes it.
func reread(b conversation.Batch) conversation.Batch {
	lines, err := conversation.EncodeRecords(nil, b.Records)
	if err != nil {
		panic(err)
	}
	records, err := conversation.DecodeRecords(lines)
	if err != nil {
		panic(err)
	}
	return conversation.Batch{Offset: b.Offset, Records: records}
}

// inlineBytes is so small that some queued deliveries stay in the log.
const inlineBytes = 16

func fold(log []entry) (*conversation.State, error) {
	s := conversation.NewStateHolding(inlineBytes)
	for _, e := range log {
		if err := s.Apply(e.batch); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// opened returns the input for an activation from the whole log.
func (r *rig) opened() (machine.Opened, error) {
	state, err := fold(r.log)
	out := machine.Opened{State: state}
	for i, e := range r.log {
		if i == 0 || r.log[i-1].writer != e.writer {
			out.Claims = append(out.Claims, machine.Claim{Seq: e.batch.Offset, Nonce: e.writer})
		}
	}
	out.Last = built(r.log)
	r.name(&out)
	return out, err
}

func built(log []entry) conversation.Time {
	for _, e := range slices.Backward(log) {
		if len(e.batch.Records) > 0 {
			return e.built
		}
	}
	return 0
}

// resumed returns the input for an activation from the newest checkpoint and the log after it.
func (r *rig) resumed() (machine.Opened, error) {
	out := machine.Opened{Claims: append([]machine.Claim(nil), r.saved.Claims...)}
	var err error
	if out.State, err = conversation.DecodeState(r.saved.State); err != nil {
		return out, err
	}
	r.pages = r.saved.pages
	for _, e := range r.log[r.saved.At+1:] {
		if r.log[e.batch.Offset-1].writer != e.writer {
			out.Claims = append(out.Claims, machine.Claim{Seq: e.batch.Offset, Nonce: e.writer})
		}
		if err := out.State.Apply(e.batch); err != nil {
			return out, err
		}
		out.Since++
	}
	out.Last = built(r.log[r.saved.At+1:])
	r.name(&out)
	return out, nil
}

func (r *rig) land() (conversation.Offset, error) {
	b := *r.inflight
	r.inflight = nil
	if encode(b) != r.frozen {
		return b.Offset, fmt.Errorf("batch %d changed in flight: %s", int64(b.Offset), encode(b))
	}
	if want := conversation.Offset(len(r.log)); b.Offset != want {
		return b.Offset, fmt.Errorf("batch %d is appended at %d", int64(b.Offset), int64(want))
	}
	r.log = append(r.log, entry{r.writer, r.decoded, r.built})
	return b.Offset, nil
}

func (r *rig) intrude(writer string) {
	r.log = append(r.log, entry{writer: writer, batch: conversation.Batch{Offset: conversation.Offset(len(r.log))}})
}

const workflow = "report"

func runOf(input string) conversation.Admission {
	return conversation.RunOf(workflow, conversation.RunFor(workflow, "k"), []byte(input))
}

func admission(key, body string) conversation.Admission {
	return conversation.Admission{
		Address: conversation.Address{Agent: "triage", ID: "42"}, Key: key,
		Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body},
	}
}
