package stats

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// ErrNoEvents reports that no event belongs to the submission.
var ErrNoEvents = errors.New("no event of the submission")

// Kind is the kind of a node.
type Kind string

// Kinds. They nest: submission ⊃ operation ⊃ run ⊃ tool ⊃ task ⊃ operation. A turn and a compaction
// are within a run or an operation, a wait within a tool, the rest within the submission. A tool that
// outlives its run is within the operation.
const (
	KindSubmission Kind = "submission"
	KindQueue      Kind = "queue" // until the first attempt
	KindRecovery   Kind = "recovery"
	KindOperation  Kind = "operation"
	KindRun        Kind = "run" // of the agent loop, one per attempt
	KindTurn       Kind = "turn"
	KindTool       Kind = "tool"
	KindTask       Kind = "task"
	KindWait       Kind = "wait" // of a tool, for a signal
	KindPost       Kind = "post" // an attempt to deliver a post
	KindCompaction Kind = "compaction"
	KindLog        Kind = "log"
)

// State is the end state of a node, or running.
type State string

// States. A node is lost if its process was, or if its parent has ended and no event has its end.
// Aborted nodes were stopped by a caller, handover ones by a drain. The state of the submission is its
// outcome, queued or running. A wait is ok if it was ended by a signal.
const (
	StateOK        State = "ok"
	StateError     State = "error"
	StateRunning   State = "running"
	StateLost      State = "lost"
	StateQueued    State = "queued"
	StateHandover  State = "handover"
	StateTimeout   State = State(observability.WaitTimeout)
	StateAbandoned State = State(observability.WaitAbandoned)
	StateDeferred  State = State(observability.PostDeferred)
	StateDead      State = State(observability.PostDead)
	StateCompleted State = State(conversation.OutcomeCompleted)
	StateFailed    State = State(conversation.OutcomeFailed)
	StateAborted   State = State(conversation.OutcomeAborted)
)

// Node is a part of the timeline of a submission.
type Node struct {
	Kind Kind `json:"kind"`
	// Name is the agent of a submission or task, the kind of an operation, the model of a turn, or the
	// name of a tool, wait or post target. It is the reason of a compaction or of the end of a run,
	// the operation and outcome of a recovery, and the message of a log.
	Name  string `json:"name,omitempty"`
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	// Start is 0 if no event has it. DurationMs is the time from there to the end, to the last event
	// of lost work, or to the last event of running work. A node lies within its parent.
	Start      conversation.Time `json:"start,omitempty"`
	DurationMs int64             `json:"durationMs"`
	// Attempt is that of a run, recovery or post, and the last one of a submission. Recovered is set
	// if the attempt before this run was lost.
	Attempt   int  `json:"attempt,omitempty"`
	Recovered bool `json:"recovered,omitempty"`
	// FirstTokenMs, Retries and Dropped belong to turns, as does Purpose unless it is agent.
	FirstTokenMs int64  `json:"firstTokenMs,omitempty"`
	Retries      int    `json:"retries,omitempty"`
	Dropped      bool   `json:"dropped,omitempty"`
	Purpose      string `json:"purpose,omitempty"`
	// Until and Signal belong to waits: the end of its time, and the submission that ended it.
	Until  conversation.Time         `json:"until,omitempty"`
	Signal conversation.SubmissionID `json:"signalSubmissionId,omitempty"`
	// Tree is the usage of the dispatch tree that a submission began, nil for none.
	Tree *Tree `json:"tree,omitempty"`
	// Usage is that of a turn, or of the turns below.
	Usage    *observability.Usage `json:"usage,omitempty"`
	Error    *observability.Error `json:"error,omitempty"`
	Children []*Node              `json:"children,omitempty"`
	// After holds work that ended after the settlement: attempts to deliver posts and a compaction.
	// The duration of the submission excludes it.
	After []*Node `json:"after,omitempty"`
}

// Tree is the usage of a dispatch tree in 24 hours, and its limits, 0 for none.
type Tree struct {
	Submissions    int     `json:"submissions"`
	MaxSubmissions int     `json:"maxSubmissions,omitempty"`
	Dollars        float64 `json:"dollars,omitempty"`
	MaxDollars     float64 `json:"maxDollars,omitempty"`
}

// Trace reads events to their end and returns the tree of a submission. It skips other events.
// Children are ordered by their starts. The error wraps [ErrNoEvents] if there are none, and is that
// of events otherwise.
func Trace(events iter.Seq2[observability.Event, error], id conversation.SubmissionID) (*Node, error) {
	var durable, live []observability.Event
	seen := ids{}
	for e, err := range events {
		switch {
		case err != nil:
			return nil, err
		case e.Submission != id || !seen.first(e.ID):
		case e.Live():
			live = append(live, e)
		default:
			durable = append(durable, e)
		}
	}
	if len(durable)+len(live) == 0 {
		return nil, ErrNoEvents
	}
	slices.SortFunc(durable, func(a, b observability.Event) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Index, b.Index))
	})
	slices.SortFunc(live, func(a, b observability.Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Index, b.Index))
	})
	b := newBuilder(id)
	// Clocks of nodes differ, so live events cannot be ordered among durable ones. They only add to
	// the nodes of those.
	for _, e := range slices.Concat(durable, live) {
		b.add(&e)
	}
	return b.finish(), nil
}
