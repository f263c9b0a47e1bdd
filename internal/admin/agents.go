package admin

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// maxValues bounds the distinct values of a label; further ones are "other".
const maxValues = 100

// otherValue replaces label values above the bound.
const otherValue = "other"

// Agents measures agents and clients. It is a sink of the node's durable events, and a middleware of
// the requests to it. Its labels are names given by authors and operators, at most 100 of each.
type Agents struct {
	tools []string // of all agents; a model may call any other

	mu     sync.Mutex
	values map[string]map[string]bool // by label

	admitted, settled, failures, retries, tokens, cost *prometheus.CounterVec
	total, queued, calls, firstToken, toolCalls        *prometheus.HistogramVec

	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	readers  *prometheus.GaugeVec
}

var _ observability.Sink = (*Agents)(nil)

// NewAgents returns an empty set of measurements. tools are the names given by agents.
func NewAgents(tools []string) *Agents {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	// From a cached model to one with long reasoning.
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, labels)
	}
	own := []string{conversation.TaskTool, conversation.FinishTool, conversation.ReadOutputTool}
	return &Agents{
		tools: append(own, tools...), values: map[string]map[string]bool{},
		admitted:   counter("parley_submissions_admitted_total", "Submissions that were admitted, by agent and kind of sender.", "agent", "kind"),
		settled:    counter("parley_submissions_settled_total", "Submissions that were settled, by agent and outcome.", "agent", "outcome"),
		failures:   counter("parley_submission_failures_total", "Submissions that failed, by agent and type of error.", "agent", "error"),
		total:      histogram("parley_submission_seconds", "Time from the admission of a submission to its settlement.", "agent"),
		queued:     histogram("parley_submission_queue_seconds", "Time from the admission of a submission to its first attempt.", "agent"),
		calls:      histogram("parley_model_call_seconds", "Time of calls of models, by provider and outcome.", "provider", "outcome"),
		firstToken: histogram("parley_model_first_token_seconds", "Time of calls of models until their first output.", "provider"),
		retries:    counter("parley_model_retries_total", "Calls of models that failed and were retried.", "provider"),
		tokens:     counter("parley_model_tokens_total", "Tokens of calls of models, by agent, provider and kind.", "agent", "provider", "kind"),
		cost:       counter("parley_model_cost_dollars_total", "Cost of calls of models in US dollars, as far as prices are known.", "agent", "provider"),
		toolCalls:  histogram("parley_tool_call_seconds", "Time of calls of tools, by tool and outcome.", "tool", "outcome"),
		requests:   counter("parley_http_requests_total", "HTTP requests of clients, by method and status.", "method", "code"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_http_request_seconds", Help: "Time of HTTP requests of clients that are not live reads.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"method"}),
		readers: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "parley_live_readers", Help: "Open live reads of conversations, by mode."}, []string{"mode"}),
	}
}

func (a *Agents) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		a.admitted, a.settled, a.failures, a.retries, a.tokens, a.cost, a.total, a.queued, a.calls, a.firstToken, a.toolCalls,
		a.requests, a.seconds, a.readers,
	}
}

// Name implements observability.Sink.
func (*Agents) Name() string { return "metrics" }

// Write implements observability.Sink. It never fails.
func (a *Agents) Write(_ context.Context, events []observability.Event) error {
	for i := range events {
		a.event(&events[i])
	}
	return nil
}

// label returns the bounded value of a label.
func (a *Agents) label(name, value string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.values[name]
	if seen == nil {
		seen = map[string]bool{}
		a.values[name] = seen
	}
	if !seen[value] && len(seen) >= maxValues {
		return otherValue
	}
	seen[value] = true
	return value
}

func (a *Agents) event(e *observability.Event) {
	agent := a.label("agent", e.Agent)
	switch p := e.Payload.(type) {
	case *observability.SubmissionQueued:
		a.admitted.WithLabelValues(agent, a.label("kind", p.Kind)).Inc()
	case *observability.SubmissionRunning:
		if !p.Resumed {
			a.queued.WithLabelValues(agent).Observe(seconds(p.QueuedMs))
		}
	case *observability.SubmissionSettled:
		a.settled.WithLabelValues(agent, a.label("outcome", p.Outcome)).Inc()
		a.total.WithLabelValues(agent).Observe(seconds(p.TotalMs))
		if p.Error != nil && p.Outcome == string(conversation.OutcomeFailed) {
			a.failures.WithLabelValues(agent, a.label("error", p.Error.Type)).Inc()
		}
	case *observability.Turn:
		a.turn(agent, p)
	case *observability.Tool:
		tool := otherValue
		if slices.Contains(a.tools, p.ToolName) {
			tool = a.label("tool", p.ToolName)
		}
		a.toolCalls.WithLabelValues(tool, outcome(p.IsError)).Observe(seconds(p.DurationMs))
	}
}

func (a *Agents) turn(agent string, t *observability.Turn) {
	provider := a.label("provider", t.Request.Provider)
	a.calls.WithLabelValues(provider, callOutcome(t)).Observe(seconds(t.DurationMs))
	if t.FirstTokenMs > 0 {
		a.firstToken.WithLabelValues(provider).Observe(seconds(t.FirstTokenMs))
	}
	if !t.Dropped { // The event that ends the call has the failures of all attempts.
		a.retries.WithLabelValues(provider).Add(float64(t.Retries))
	}
	u := t.Response.Usage
	if u == nil {
		return
	}
	for kind, n := range map[string]int64{"input": u.Input, "output": u.Output, "cache_read": u.CacheRead, "cache_write": u.CacheWrite} {
		a.tokens.WithLabelValues(agent, provider, kind).Add(float64(n))
	}
	a.cost.WithLabelValues(agent, provider).Add(max(u.Cost.Total, 0))
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// callOutcome returns ok, error, or the finish reason of a truncated call.
func callOutcome(t *observability.Turn) string {
	if t.CutOff() {
		return t.Response.FinishReason
	}
	return outcome(t.IsError)
}

func outcome(isError bool) string {
	if isError {
		return "error"
	}
	return "ok"
}

// Middleware measures the requests handled by next.
func (a *Agents) Middleware(next http.Handler) http.Handler {
	counted := promhttp.InstrumentHandlerCounter(a.requests, next)
	timed := promhttp.InstrumentHandlerDuration(a.seconds, counted)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mode := r.URL.Query().Get("live")
		if r.Method != http.MethodGet || mode != "sse" && mode != "long-poll" {
			timed.ServeHTTP(w, r)
			return
		}
		open := a.readers.WithLabelValues(mode)
		open.Inc()
		defer open.Dec()
		counted.ServeHTTP(w, r)
	})
}
