package stats

import (
	"crypto/sha256"
	"iter"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// Filter selects events. The zero value selects all.
type Filter struct {
	// Agent is the registered agent, "" for all.
	Agent string
	// Since and Until bound the moments of events: Since is in, Until is not, 0 is no
	// bound.
	Since, Until conversation.Time
}

// Includes reports whether the filter selects an event.
func (f Filter) Includes(e *observability.Envelope) bool {
	return (f.Agent == "" || f.Agent == e.Agent) && (f.Since == 0 || e.At >= f.Since) && (f.Until == 0 || e.At < f.Until)
}

// Summary is what the events of a time say. Counted are durable events and
// submission_recovery; other live events make no difference. Lists are in ascending
// order of their keys: what stands before the figures of a row, in that order.
type Summary struct {
	// Events is how many counted, First and Last when the first and the last of them
	// happened, 0 without one.
	Events int64             `json:"events"`
	First  conversation.Time `json:"first,omitempty"`
	Last   conversation.Time `json:"last,omitempty"`
	// Conversations is how many addresses, agent and id, the events have.
	Conversations int64 `json:"conversations"`

	Submissions Submissions `json:"submissions"`
	// Recovered counts attempts whose predecessor was lost, Recoveries submission_recovery
	// events, Fences those of them that say a writer was fenced.
	Recovered  int64 `json:"recovered"`
	Recoveries int64 `json:"recoveries"`
	Fences     int64 `json:"fences"`
	// Compactions counts their ends, CompactionErrors those with isError.
	Compactions      int64 `json:"compactions"`
	CompactionErrors int64 `json:"compactionErrors"`

	// Admission is admissionMs of settlements that have it, Queue queuedMs of first
	// attempts, FirstToken firstTokenMs of turns that have it, Turn durationMs of turns
	// that are neither errors nor cut off, Settlement totalMs of all settlements.
	Admission  Latency `json:"admission"`
	Queue      Latency `json:"queue"`
	FirstToken Latency `json:"firstToken"`
	Turn       Latency `json:"turn"`
	Settlement Latency `json:"settlement"`

	Errors []ErrorRow `json:"errors"`
	Models []ModelRow `json:"models"`
	Tools  []ToolRow  `json:"tools"`
	Hours  []HourRow  `json:"hours"`
	// Recent are the newest submissions, the newest first, at most RecentCount.
	Recent []Recent `json:"recent"`
}

// Submissions counts submissions by what happened to them in the time.
type Submissions struct {
	Queued    int64 `json:"queued"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Aborted   int64 `json:"aborted"`
}

// Settled is how many have an outcome.
func (s Submissions) Settled() int64 { return s.Completed + s.Failed + s.Aborted }

// Latency describes durations in milliseconds. The quantile p of n values in ascending
// order is the one at the index floor(p·n), from 0, with the product in float64: what
// quantileExact of ClickHouse returns. All are 0 without a value.
type Latency struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
	Max   int64 `json:"max"`
}

// ErrorRow counts the errors of a type in the events of a type: submission_settled,
// turn and compaction.
type ErrorRow struct {
	Event observability.Type `json:"event"`
	Type  string             `json:"type"`
	Count int64              `json:"count"`
}

// Tokens is what model calls used, as [observability.Usage] has it; Cost is its total
// in US dollars.
type Tokens struct {
	Input      int64   `json:"input"`
	Output     int64   `json:"output"`
	CacheRead  int64   `json:"cacheRead"`
	CacheWrite int64   `json:"cacheWrite"`
	Reasoning  int64   `json:"reasoning"`
	Cost       float64 `json:"cost"`
}

func (t *Tokens) add(u *observability.Usage) {
	if u == nil {
		return
	}
	t.Input += u.Input
	t.Output += u.Output
	t.CacheRead += u.CacheRead
	t.CacheWrite += u.CacheWrite
	t.Reasoning += u.Reasoning
	t.Cost += u.Cost.Total
}

// ModelRow is what an agent asked of a model: turns of all purposes. Provider and Model
// are providerId and requestedModel of the requests. Errors counts turns with isError,
// CutOff those that ended for a reason that is not the model's ([observability.Turn.CutOff]), Retries sums the failed calls that turns repeat, those that had said something included.
type ModelRow struct {
	Agent    string `json:"agent"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Turns    int64  `json:"turns"`
	Errors   int64  `json:"errors"`
	CutOff   int64  `json:"cutOff"`
	Retries  int64  `json:"retries"`
	Tokens
}

// ToolRow is what happened with a tool. Errors counts calls with isError; Latency is
// durationMs of the others.
type ToolRow struct {
	Name    string  `json:"name"`
	Calls   int64   `json:"calls"`
	Errors  int64   `json:"errors"`
	Latency Latency `json:"latency"`
}

// HourRow is what happened within an hour, by UTC. Hours without any of it have none.
type HourRow struct {
	Hour conversation.Time `json:"hour"`
	Submissions
	Turns int64 `json:"turns"`
	Tokens
}

// Summarize reads events to their end. An error of events ends it, and is returned as
// it is.
func Summarize(events iter.Seq2[observability.Event, error], f Filter) (*Summary, error) {
	c := newCounter()
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if f.Includes(&e.Envelope) && (!e.Live() || e.Type == observability.TypeSubmissionRecovery) && c.seen.first(e.ID) {
			c.count(&e)
		}
	}
	return c.summary(), nil
}

// ids tells ids that were there from those which were not, in 16 bytes each.
type ids map[[16]byte]struct{}

func (s ids) first(id string) bool {
	sum := sha256.Sum256([]byte(id))
	key := [16]byte(sum[:])
	if _, ok := s[key]; ok {
		return false
	}
	s[key] = struct{}{}
	return true
}
