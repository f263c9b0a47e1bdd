package stats

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// ErrNoEvents says that no event is of the submission.
var ErrNoEvents = errors.New("no event of the submission")

// Kind says what a node is.
type Kind string

// The kinds. They nest: submission ⊃ operation ⊃ run ⊃ tool ⊃ task ⊃ operation; a turn and
// a compaction are within a run or an operation, a wait within a tool, the rest within the
// submission. A tool that outlives the run it began in is within the operation.
const (
	KindSubmission Kind = "submission"
	KindQueue      Kind = "queue" // waiting for the first attempt
	KindRecovery   Kind = "recovery"
	KindOperation  Kind = "operation"
	KindRun        Kind = "run" // of the agent loop, one for every attempt
	KindTurn       Kind = "turn"
	KindTool       Kind = "tool"
	KindTask       Kind = "task"
	KindWait       Kind = "wait" // of a tool, for a signal
	KindPost       Kind = "post" // an attempt to deliver one
	KindCompaction Kind = "compaction"
	KindLog        Kind = "log"
)

// State says how a node ended, or that it has not.
type State string

// The states. A node is lost if its process was, or if no event has its end although what
// it belongs to has ended; aborted is what a caller stopped, handover what a drain cut off.
// That of the submission is its outcome, queued or running. Of a wait ok is the signal.
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
	// Name is the agent of a submission or a task, the kind of an operation, the model of
	// a turn, the name of a tool, of what is waited for or of who a post is for, the reason of a compaction or of the end of a run, the
	// operation and outcome of a recovery, the words of a log.
	Name  string `json:"name,omitempty"`
	ID    string `json:"id,omitempty"`
	State State  `json:"state"`
	// Start is 0 if no event has it. DurationMs is the length from there on: to the end, to
	// the last sign of what was lost, or to the last event of what runs. A node lies within
	// its parent.
	Start      conversation.Time `json:"start,omitempty"`
	DurationMs int64             `json:"durationMs"`
	// Attempt is that of a run, of a recovery and of a post, and the last one of a submission.
	// Recovered says that the attempt before this run was lost.
	Attempt   int  `json:"attempt,omitempty"`
	Recovered bool `json:"recovered,omitempty"`
	// FirstTokenMs, Retries and Dropped are of turns, Purpose too unless it is agent.
	FirstTokenMs int64  `json:"firstTokenMs,omitempty"`
	Retries      int    `json:"retries,omitempty"`
	Dropped      bool   `json:"dropped,omitempty"`
	Purpose      string `json:"purpose,omitempty"`
	// Until and Signal are of waits: the end of its time, and the submission that has ended it.
	Until  conversation.Time         `json:"until,omitempty"`
	Signal conversation.SubmissionID `json:"signalSubmissionId,omitempty"`
	// Tree is what the tree of dispatches has used that a submission began, nil for none.
	Tree *Tree `json:"tree,omitempty"`
	// Usage is what a turn used, or the turns below.
	Usage    *observability.Usage `json:"usage,omitempty"`
	Error    *observability.Error `json:"error,omitempty"`
	Children []*Node              `json:"children,omitempty"`
	// After is of the submission: what ended after its settlement, attempts to deliver posts
	// and a compaction that went on. Its length is not of the submission's.
	After []*Node `json:"after,omitempty"`
}

// Tree is what a tree of dispatches has used in 24 hours, and its limits, 0 for none.
type Tree struct {
	Submissions    int     `json:"submissions"`
	MaxSubmissions int     `json:"maxSubmissions,omitempty"`
	Dollars        float64 `json:"dollars,omitempty"`
	MaxDollars     float64 `json:"maxDollars,omitempty"`
}

// Trace reads events to their end and returns the tree of a submission; what is not of
// it is passed over. Children are in the order of their starts. The error wraps
// [ErrNoEvents] if there are none, and is that of events otherwise.
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
	// Clocks of nodes differ, so live events have no place among the durable ones. They
	// only add to what those have built.
	for _, e := range slices.Concat(durable, live) {
		b.add(&e)
	}
	return b.finish(), nil
}
