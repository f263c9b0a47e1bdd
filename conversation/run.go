package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
)

// RunID names a run of a workflow: "run_" and a ULID.
type RunID string

// workflowMark is the prefix of a workflow's name in place of an agent's. No agent has such a name.
const workflowMark = "@"

// WorkflowAgent returns the name of a workflow in place of an agent's. The log of a run, events, and
// runtimes use it.
func WorkflowAgent(workflow string) string { return workflowMark + workflow }

// WorkflowOf returns the workflow of such a name. It is not ok for an agent.
func WorkflowOf(agent string) (workflow string, ok bool) {
	if workflow, ok = strings.CutPrefix(agent, workflowMark); !ok {
		return "", false
	}
	return workflow, true
}

// RunAddress returns the address of a run. Its log names the workflow; [Address.Key] is the same with
// and without it.
func RunAddress(id RunID) Address { return Address{Agent: workflowMark, ID: string(id)} }

// Reach returns the address by which any node finds a conversation. For a run it omits the workflow,
// because versions without runs derive the key from the whole name.
func (a Address) Reach() Address {
	if strings.HasPrefix(a.Agent, workflowMark) {
		a.Agent = workflowMark
	}
	return a
}

// RunFor returns the id of the run that a key begins. It depends only on workflow and key. The time in
// the id has no meaning.
func RunFor(workflow, key string) RunID {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	sum := sha256.Sum256([]byte(workflow + "\x00" + key))
	out := make([]byte, 0, runDigits)
	buffer, bits := 0, 2 // 26 digits of 5 bits have two bits more than 16 bytes: the first digit has three
	for _, b := range sum[:16] {
		buffer, bits = buffer<<8|int(b), bits+8
		for bits >= 5 {
			bits -= 5
			out = append(out, digits[buffer>>bits&31])
		}
		buffer &= 1<<bits - 1
	}
	return RunID(runPrefix + string(out))
}

// RunOf returns the admission of a workflow's run. The input is JSON.
func RunOf(workflow string, id RunID, input json.RawMessage) Admission {
	return Admission{
		Address: Address{Agent: WorkflowAgent(workflow), ID: string(id)}, Key: string(id),
		Delivery: Delivery{Kind: KindUser, Body: string(input)},
	}
}

const (
	runPrefix = "run_"
	runDigits = 26
)

// Valid reports whether the id is a run id in canonical form.
func (id RunID) Valid() bool {
	rest, ok := strings.CutPrefix(string(id), runPrefix)
	if !ok || len(rest) != runDigits || rest[0] > '7' {
		return false
	}
	return !strings.ContainsFunc(rest, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z' || strings.ContainsRune("ILOU", r))
	})
}

// Run is the state of a run of a workflow. Values returned by [State.Run] are read-only.
type Run struct {
	Submission SubmissionID    `json:"submission"`
	Hash       string          `json:"hash"` // hash of its input
	Offset     Offset          `json:"offset"`
	Input      json.RawMessage `json:"input"`
	StartedAt  Time            `json:"startedAt"`
	// Outcome is empty while the run is active. Output is that of a completed run.
	Outcome Outcome          `json:"outcome,omitempty"`
	Error   *SettlementError `json:"error,omitempty"`
	Output  json.RawMessage  `json:"output,omitempty"`
	EndedAt Time             `json:"endedAt,omitempty"`
}

// Run returns the run of the log, nil for a conversation.
func (s *State) Run() *Run { return s.run }

func (s *State) foldRunStarted(r *RunStarted) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	input := json.RawMessage(sub.Delivery.Body)
	if _, ok := WorkflowOf(s.created.Agent); !ok || s.run != nil || sub.Offset != s.head || !json.Valid(input) {
		return s.bad(r, "submission %s cannot be a run", r.Submission)
	}
	s.run = &Run{Submission: sub.ID, Hash: sub.PayloadHash, Offset: s.head, Input: input, StartedAt: r.At}
	return nil
}

// setOutput records the result of the run's function.
func (s *State) setOutput(p *part) {
	if s.run != nil && p.sub.ID == s.run.Submission && !p.failed {
		done := *s.run
		done.Output = p.output
		s.run = &done
	}
}

// setOutcome records the settlement of the run.
func (s *State) setOutcome(r *SubmissionSettled) {
	if s.run != nil && r.Submission == s.run.Submission {
		done := *s.run
		done.Outcome, done.Error, done.EndedAt = r.Outcome, r.Error, r.At
		s.run = &done
	}
}

// outputOf returns the structured output of a submission.
func (s *State) outputOf(sub *Submission) json.RawMessage {
	if s.run != nil && sub.ID == s.run.Submission {
		return s.run.Output
	}
	return sub.Output()
}

// weight returns the estimated memory of the run, in bytes.
func (r *Run) weight() int {
	if r == nil {
		return 0
	}
	return len(r.Input) + len(r.Output)
}

// RunReader is the read interface of runs. Implementations are safe for concurrent use.
type RunReader interface {
	Reader
	// ReadRun returns the state of a run, which is read-only, and its workflow. It activates nothing.
	// A run that was never begun returns CodeRunNotFound.
	ReadRun(ctx context.Context, id RunID) (workflow string, run *Run, err error)
}

// AwaitRun waits until a run has ended and returns it. The error is the reader's, or that of ctx.
func AwaitRun(ctx context.Context, r RunReader, id RunID) (workflow string, run *Run, err error) {
	for reading := ctx; ; reading = Tailing(ctx) {
		// Read the head first, so that an end recorded after it is not missed.
		head, err := r.Head(reading, RunAddress(id))
		if CodeOf(err) == CodeStreamNotFound {
			err = Errorf(CodeRunNotFound, "No run %.80q is known.", string(id))
		}
		if err == nil {
			workflow, run, err = r.ReadRun(Tailing(ctx), id)
		}
		if err != nil || run.Outcome != "" {
			return workflow, run, err
		}
		if err := r.Wait(Tailing(ctx), RunAddress(id), head); err != nil {
			return workflow, nil, err
		}
	}
}

// Err returns nil for an active or completed run, otherwise a [*SettledError].
func (r *Run) Err() error {
	if r.Outcome == "" {
		return nil
	}
	return (&Settlement{SubmissionID: r.Submission, Outcome: r.Outcome, Error: r.Error}).AsError()
}
