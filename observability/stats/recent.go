package stats

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// RecentCount is how many submissions a summary has one by one.
const RecentCount = 10

// Recent is one submission, as far as the events of the time tell of it: those of its
// admission, its attempts, its model calls and its settlement.
type Recent struct {
	// Begun is when the first of them happened.
	Begun      conversation.Time         `json:"begun"`
	Submission conversation.SubmissionID `json:"submission"`
	// Agent and Instance are its conversation, "" if none of its own events is there.
	Agent    string `json:"agent,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Outcome is "" for one that is not settled; of one that is, TotalMs is how long it took.
	Outcome string `json:"outcome,omitempty"`
	TotalMs int64  `json:"totalMs"`
	// Error is the type of what it failed with, Message its words.
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
	Turns   int64  `json:"turns"`
	Tokens
}

// recents keeps the newest submissions.
type recents map[conversation.SubmissionID]*Recent

// maxRecents bounds those that are kept while events are read.
const maxRecents = 1 << 10

func (r recents) count(e *observability.Event) {
	if e.Submission == "" {
		return
	}
	switch p := e.Payload.(type) {
	case *observability.SubmissionQueued, *observability.SubmissionRunning:
		r.own(e)
	case *observability.SubmissionSettled:
		s := r.own(e)
		s.Outcome, s.TotalMs = p.Outcome, p.TotalMs
		if p.Error != nil {
			s.Error, s.Message = p.Error.Type, p.Error.Message
		}
	case *observability.Turn:
		s := r.of(e)
		s.Turns++
		s.add(p.Response.Usage)
	}
}

// own is that of an event which names its conversation.
func (r recents) own(e *observability.Event) *Recent {
	s := r.of(e)
	s.Agent, s.Instance = e.Agent, e.Instance
	return s
}

func (r recents) of(e *observability.Event) *Recent {
	s := r[e.Submission]
	if s == nil {
		if len(r) >= maxRecents {
			for _, old := range r.newest(len(r))[maxRecents/2:] {
				delete(r, old.Submission)
			}
		}
		s = &Recent{Begun: e.At, Submission: e.Submission}
		r[e.Submission] = s
	}
	s.Begun = min(s.Begun, e.At)
	return s
}

// newest are up to n, the newest first.
func (r recents) newest(n int) []Recent {
	all := make([]Recent, 0, len(r))
	for _, s := range r {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Recent) int {
		return cmp.Or(cmp.Compare(b.Begun, a.Begun), strings.Compare(string(b.Submission), string(a.Submission)))
	})
	return all[:min(n, len(all))]
}
