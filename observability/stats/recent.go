package stats

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// RecentCount is the number of single submissions in a summary.
const RecentCount = 10

// Recent describes one submission by its events of the period: its admission, attempts, model calls
// and settlement.
type Recent struct {
	// Begun is the time of the first of them.
	Begun      conversation.Time         `json:"begun"`
	Submission conversation.SubmissionID `json:"submission"`
	// Agent and Instance are its conversation, "" if none of its own events is present.
	Agent    string `json:"agent,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Outcome is "" for an unsettled submission. TotalMs is the duration of a settled one.
	Outcome string `json:"outcome,omitempty"`
	TotalMs int64  `json:"totalMs"`
	// Error is the type of its error, Message its text.
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
	Turns   int64  `json:"turns"`
	Tokens
}

// recents holds the newest submissions.
type recents map[conversation.SubmissionID]*Recent

// maxRecents bounds the submissions held while events are read.
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

// own returns the entry of an event that names its conversation.
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

// newest returns up to n submissions, newest first.
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
