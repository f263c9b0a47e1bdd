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
	// Since and Until bound the times of events: Since is inclusive, Until exclusive, 0 is no bound.
	Since, Until conversation.Time
}

// Includes reports whether the filter selects an event.
func (f Filter) Includes(e *observability.Envelope) bool {
	return (f.Agent == "" || f.Agent == e.Agent) && (f.Since == 0 || e.At >= f.Since) && (f.Until == 0 || e.At < f.Until)
}

// Summary aggregates the events of a period. It counts durable events and submission_recovery, and
// ignores other live events. Lists are sorted by their keys, the fields before the values of a row, in
// that order.
type Summary struct {
	// Events is the number of counted events, First and Last the times of the first and the last, 0 if
	// there are none.
	Events int64             `json:"events"`
	First  conversation.Time `json:"first,omitempty"`
	Last   conversation.Time `json:"last,omitempty"`
	// Conversations is the number of addresses, agent and id, in the events.
	Conversations int64 `json:"conversations"`

	Submissions Submissions `json:"submissions"`
	// Recovered counts attempts whose predecessor was lost, Recoveries submission_recovery events,
	// Fences those of a fenced writer.
	Recovered  int64 `json:"recovered"`
	Recoveries int64 `json:"recoveries"`
	Fences     int64 `json:"fences"`
	// Compactions counts their ends, CompactionErrors those with isError.
	Compactions      int64 `json:"compactions"`
	CompactionErrors int64 `json:"compactionErrors"`

	// Admission is admissionMs of settlements that have it, Queue queuedMs of first attempts,
	// FirstToken firstTokenMs of turns that have it. Turn is durationMs of turns that are neither
	// errors nor cut off, Settlement totalMs of all settlements.
	Admission  Latency `json:"admission"`
	Queue      Latency `json:"queue"`
	FirstToken Latency `json:"firstToken"`
	Turn       Latency `json:"turn"`
	Settlement Latency `json:"settlement"`

	Errors []ErrorRow `json:"errors"`
	Models []ModelRow `json:"models"`
	Tools  []ToolRow  `json:"tools"`
	Hours  []HourRow  `json:"hours"`
	// Recent lists the newest submissions, newest first, at most RecentCount.
	Recent []Recent `json:"recent"`
}

// Submissions counts submissions by their events of the period.
type Submissions struct {
	Queued    int64 `json:"queued"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Aborted   int64 `json:"aborted"`
}

// Settled returns the number of submissions with an outcome.
func (s Submissions) Settled() int64 { return s.Completed + s.Failed + s.Aborted }

// Latency summarizes durations in milliseconds. The quantile p of n values in ascending order is the
// one at the index floor(p·n), from 0, with the product in float64, as in quantileExact of ClickHouse.
// All are 0 without values.
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

// Tokens is the usage of model calls, as in [observability.Usage]; Cost is its total in US dollars.
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

// ModelRow counts the turns of an agent with a model, for all purposes. Provider and Model are
// providerId and requestedModel of the requests. Errors counts turns with isError, CutOff those with
// [observability.Turn.CutOff]. Retries sums the failed calls that turns repeat, including those with
// output.
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

// ToolRow counts the calls of a tool. Errors counts calls with isError; Latency is durationMs of the
// others.
type ToolRow struct {
	Name    string  `json:"name"`
	Calls   int64   `json:"calls"`
	Errors  int64   `json:"errors"`
	Latency Latency `json:"latency"`
}

// HourRow counts the events of an hour, in UTC. Hours without events have no row.
type HourRow struct {
	Hour conversation.Time `json:"hour"`
	Submissions
	Turns int64 `json:"turns"`
	Tokens
}

// Summarize reads events to their end. It returns an error of events unchanged.
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

// ids is a set of ids, 16 bytes each.
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
