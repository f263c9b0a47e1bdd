package stats

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// counter collects a summary.
type counter struct {
	sum       Summary
	seen      ids
	addresses map[conversation.Address]struct{}
	errors    map[ErrorRow]int64 // with Count 0
	models    map[modelKey]*ModelRow
	tools     map[string]*toolCount
	hours     map[conversation.Time]*HourRow
	recent    recents

	admission, queue, firstToken, turn, settlement []int64
}

type modelKey struct{ agent, provider, model string }

type toolCount struct {
	calls, errors int64
	took          []int64
}

func newCounter() *counter {
	return &counter{
		seen: ids{}, addresses: map[conversation.Address]struct{}{}, errors: map[ErrorRow]int64{},
		models: map[modelKey]*ModelRow{}, tools: map[string]*toolCount{}, hours: map[conversation.Time]*HourRow{}, recent: recents{},
	}
}

func (c *counter) count(e *observability.Event) {
	if c.sum.Events == 0 || e.At < c.sum.First {
		c.sum.First = e.At
	}
	c.sum.Last = max(c.sum.Last, e.At)
	c.sum.Events++
	if e.Instance != "" {
		c.addresses[conversation.Address{Agent: e.Agent, ID: e.Instance}] = struct{}{}
	}
	c.recent.count(e)
	switch p := e.Payload.(type) {
	case *observability.SubmissionQueued:
		c.sum.Submissions.Queued++
		c.hour(e.At).Queued++
	case *observability.SubmissionRunning:
		if !p.Resumed {
			c.queue = append(c.queue, p.QueuedMs)
		}
		if p.Recovered {
			c.sum.Recovered++
		}
	case *observability.SubmissionRecovery:
		c.sum.Recoveries++
		if p.Fenced {
			c.sum.Fences++
		}
	case *observability.SubmissionSettled:
		c.settlement = append(c.settlement, p.TotalMs)
		if p.AdmissionMs > 0 {
			c.admission = append(c.admission, p.AdmissionMs)
		}
		c.sum.Submissions.settle(p.Outcome)
		c.hour(e.At).settle(p.Outcome)
		c.failed(e.Type, p.Error)
	case *observability.Turn:
		c.ended(e, p)
	case *observability.Tool:
		c.called(p)
	case *observability.Compaction:
		c.sum.Compactions++
		if p.IsError {
			c.sum.CompactionErrors++
		}
		c.failed(e.Type, p.Error)
	}
}

func (s *Submissions) settle(outcome string) {
	switch conversation.Outcome(outcome) {
	case conversation.OutcomeCompleted:
		s.Completed++
	case conversation.OutcomeFailed:
		s.Failed++
	case conversation.OutcomeAborted:
		s.Aborted++
	}
}

func (c *counter) failed(t observability.Type, err *observability.Error) {
	if err != nil && err.Type != "" {
		c.errors[ErrorRow{Event: t, Type: err.Type}]++
	}
}

func (c *counter) ended(e *observability.Event, t *observability.Turn) {
	key := modelKey{e.Agent, t.Request.Provider, t.Request.Model}
	row := c.models[key]
	if row == nil {
		row = &ModelRow{Agent: key.agent, Provider: key.provider, Model: key.model}
		c.models[key] = row
	}
	row.Turns++
	if !t.Dropped { // The last call includes the counts of all before it.
		row.Retries += int64(t.Retries)
	}
	row.add(t.Response.Usage)
	hour := c.hour(e.At)
	hour.Turns++
	hour.add(t.Response.Usage)
	if t.FirstTokenMs > 0 {
		c.firstToken = append(c.firstToken, t.FirstTokenMs)
	}
	switch {
	case t.IsError:
		row.Errors++
	case t.CutOff():
		row.CutOff++
	default:
		c.turn = append(c.turn, t.DurationMs)
	}
	c.failed(e.Type, t.Response.Error)
}

func (c *counter) called(t *observability.Tool) {
	n := c.tools[t.ToolName]
	if n == nil {
		n = &toolCount{}
		c.tools[t.ToolName] = n
	}
	n.calls++
	if t.IsError {
		n.errors++
	} else {
		n.took = append(n.took, t.DurationMs)
	}
}

// hour returns the row of a time.
func (c *counter) hour(at conversation.Time) *HourRow {
	const ms = conversation.Time(time.Hour / time.Millisecond)
	start := at - at%ms
	row := c.hours[start]
	if row == nil {
		row = &HourRow{Hour: start}
		c.hours[start] = row
	}
	return row
}

func (c *counter) summary() *Summary {
	s := &c.sum
	s.Conversations = int64(len(c.addresses))
	s.Admission, s.Queue, s.FirstToken = latency(c.admission), latency(c.queue), latency(c.firstToken)
	s.Turn, s.Settlement = latency(c.turn), latency(c.settlement)
	s.Errors, s.Models, s.Tools, s.Hours = []ErrorRow{}, []ModelRow{}, []ToolRow{}, []HourRow{}
	for row, n := range c.errors {
		row.Count = n
		s.Errors = append(s.Errors, row)
	}
	slices.SortFunc(s.Errors, func(a, b ErrorRow) int {
		return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(a.Type, b.Type))
	})
	for _, row := range c.models {
		s.Models = append(s.Models, *row)
	}
	slices.SortFunc(s.Models, func(a, b ModelRow) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	for _, name := range slices.Sorted(maps.Keys(c.tools)) {
		n := c.tools[name]
		s.Tools = append(s.Tools, ToolRow{Name: name, Calls: n.calls, Errors: n.errors, Latency: latency(n.took)})
	}
	for _, hour := range slices.Sorted(maps.Keys(c.hours)) {
		s.Hours = append(s.Hours, *c.hours[hour])
	}
	s.Recent = c.recent.newest(RecentCount)
	return s
}

// latency summarizes values, which it sorts.
func latency(ms []int64) Latency {
	if len(ms) == 0 {
		return Latency{}
	}
	slices.Sort(ms)
	at := func(p float64) int64 { return ms[int(p*float64(len(ms)))] }
	return Latency{Count: int64(len(ms)), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: ms[len(ms)-1]}
}
