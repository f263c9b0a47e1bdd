package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
)

// RunID names a run of a workflow: "run_" and a ULID.
type RunID string

// workflowMark begins the name of a workflow where that of an agent stands. No agent has such a name.
const workflowMark = "@"

// WorkflowAgent is the name of a workflow where that of an agent stands: in the log of a run, in events, and where
// runtimes register it.
func WorkflowAgent(workflow string) string { return workflowMark + workflow }

// WorkflowOf returns the workflow that such a name is of. It is not ok for an agent.
func WorkflowOf(agent string) (workflow string, ok bool) {
	if workflow, ok = strings.CutPrefix(agent, workflowMark); !ok {
		return "", false
	}
	return workflow, true
}

// RunAddress is where a run is reached. Its log says which workflow it is of; [Address.Key] is the same with and without.
func RunAddress(id RunID) Address { return Address{Agent: workflowMark, ID: string(id)} }

// Reach returns the address that any node finds a conversation by. Of a run it is without the workflow, because
// versions that know no runs make the key of all that is in it.
func (a Address) Reach() Address {
	if strings.HasPrefix(a.Agent, workflowMark) {
		a.Agent = workflowMark
	}
	return a
}

// RunFor returns the id of the run that a key begins: the same for the same workflow and key, at any time. What it says of
// a time means nothing.
func RunFor(workflow, key string) RunID {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	sum := sha256.Sum256([]byte(workflow + "\x00" + key))
	out := make([]byte, 0, runDigits)
	buffer, bits := 0, 2 // 26 digits of 5 bits have two more than 16 bytes: the first digit has three
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

// RunOf asks for a run of a workflow, with an input that is JSON.
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

// Valid reports whether the id is one of a run, in its only spelling.
func (id RunID) Valid() bool {
	rest, ok := strings.CutPrefix(string(id), runPrefix)
	if !ok || len(rest) != runDigits || rest[0] > '7' {
		return false
	}
	return !strings.ContainsFunc(rest, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z' || strings.ContainsRune("ILOU", r))
	})
}

// Run is what is known of a run of a workflow. Values returned by [State.Run] are read-only.
type Run struct {
	Submission SubmissionID    `json:"submission"`
	Hash       string          `json:"hash"` // of what it was started with
	Offset     Offset          `json:"offset"`
	Input      json.RawMessage `json:"input"`
	StartedAt  Time            `json:"startedAt"`
	// Outcome is empty while it goes on. Output is that of a run that is completed.
	Outcome Outcome          `json:"outcome,omitempty"`
	Error   *SettlementError `json:"error,omitempty"`
	Output  json.RawMessage  `json:"output,omitempty"`
	EndedAt Time             `json:"endedAt,omitempty"`
}

// Run returns the run that the log is of, nil if it is of a conversation.
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

// ranOut notes what the function of the run has returned.
func (s *State) ranOut(p *part) {
	if s.run != nil && p.sub.ID == s.run.Submission && !p.failed {
		done := *s.run
		done.Output = p.output
		s.run = &done
	}
}

// ended notes how the run has ended.
func (s *State) ended(r *SubmissionSettled) {
	if s.run != nil && r.Submission == s.run.Submission {
		done := *s.run
		done.Outcome, done.Error, done.EndedAt = r.Outcome, r.Error, r.At
		s.run = &done
	}
}

// outputOf is what a submission has come to, in the form that was asked for.
func (s *State) outputOf(sub *Submission) json.RawMessage {
	if s.run != nil && sub.ID == s.run.Submission {
		return s.run.Output
	}
	return sub.Output()
}

// weight is about how many bytes are kept of the run.
func (r *Run) weight() int {
	if r == nil {
		return 0
	}
	return len(r.Input) + len(r.Output)
}

// RunReader is the read seam of runs. Implementations are safe for concurrent use.
type RunReader interface {
	Reader
	// ReadRun returns what is known of a run, which is read-only, and the workflow that it is of. It activates nothing. A
	// run that was never begun answers CodeRunNotFound.
	ReadRun(ctx context.Context, id RunID) (workflow string, run *Run, err error)
}

// AwaitRun returns a run when it has ended. The error is the reader's, or that of ctx.
func AwaitRun(ctx context.Context, r RunReader, id RunID) (workflow string, run *Run, err error) {
	for reading := ctx; ; reading = Tailing(ctx) {
		// What ends it comes later than this, so that nothing is missed in between.
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

// Err is nil for a run that goes on or is completed, else a [*SettledError].
func (r *Run) Err() error {
	if r.Outcome == "" {
		return nil
	}
	return (&Settlement{SubmissionID: r.Submission, Outcome: r.Outcome, Error: r.Error}).AsError()
}
