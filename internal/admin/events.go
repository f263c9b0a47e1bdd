package admin

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/observability"
)

// eventReadings are the metrics of events sent to sinks.
func eventReadings() []reading {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	of := func(value func(actors.EventStatus) float64) func(actors.Status) float64 {
		return func(s actors.Status) float64 {
			if s.Events == nil {
				return 0
			}
			return value(*s.Events)
		}
	}
	type status = actors.EventStatus
	return []reading{
		{"parley_events_shipped_total", "Durable events that all sinks have stored.", counter, of(func(s status) float64 { return float64(s.Shipped) })},
		{"parley_events_waiting", "Durable events in memory that a sink has not stored yet.", gauge, of(func(s status) float64 { return float64(s.Waiting) })},
		{"parley_events_behind", "Conversations whose events are rebuilt from their logs because memory was full.", gauge, of(func(s status) float64 { return float64(s.Behind) })},
		{"parley_events_listed", "Conversations in this node's export journals.", gauge, of(func(s status) float64 { return float64(s.Listed) })},
		{"parley_events_lag_seconds", "How long the oldest durable event has waited for a sink.", gauge, of(func(s status) float64 { return s.Lag.Seconds() })},
		{"parley_events_lost_total", "Logs that could not be read, so that their events are missing.", counter, of(func(s status) float64 { return float64(s.Lost) })},
	}
}

// sinkMetrics describes the metrics of a sink.
type sinkMetrics struct {
	stored, rejected, failures, failing, emitted, dropped *prometheus.Desc
}

func newSinkMetrics() sinkMetrics {
	return sinkMetrics{
		stored:   prometheus.NewDesc("parley_events_stored_total", "Events that a sink has stored, durable and live.", []string{"sink"}, nil),
		rejected: prometheus.NewDesc("parley_events_rejected_total", "Events that a sink's destination rejected, by reason.", []string{"sink", "reason"}, nil),
		failures: prometheus.NewDesc("parley_events_failures_total", "Writes of a sink that failed.", []string{"sink"}, nil),
		failing:  prometheus.NewDesc("parley_events_failing", "1 if the last write of durable events to a sink failed.", []string{"sink"}, nil),
		emitted:  prometheus.NewDesc("parley_events_emitted_total", "Best-effort events emitted to a sink: stored, dropped or waiting.", []string{"sink"}, nil),
		dropped:  prometheus.NewDesc("parley_events_dropped_total", "Best-effort events dropped because a sink was too slow, by type.", []string{"sink", "type"}, nil),
	}
}

func (m sinkMetrics) describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.stored, m.rejected, m.failures, m.failing, m.emitted, m.dropped} {
		out <- d
	}
}

func (m sinkMetrics) collect(s actors.Status, out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	dropped := func(sink string, by map[observability.Type]int64) {
		for _, t := range slices.Sorted(maps.Keys(by)) {
			counter(m.dropped, by[t], sink, string(t))
		}
	}
	rejected := func(sink string, by ...observability.Rejections) {
		all := map[string]int64{}
		for _, r := range by {
			for reason, n := range r {
				all[reason] += n
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(all)) {
			counter(m.rejected, all[reason], sink, reason)
		}
	}
	if s.Events != nil {
		for _, sink := range s.Events.Sinks {
			counter(m.stored, sink.Stored+sink.Live.Stored, sink.Name)
			rejected(sink.Name, sink.Rejected, sink.Live.Rejected)
			counter(m.failures, sink.Failures+sink.Live.Failures, sink.Name)
			out <- prometheus.MustNewConstMetric(m.failing, prometheus.GaugeValue, truth(sink.Failing), sink.Name)
			counter(m.emitted, sink.Live.Emitted, sink.Name)
			dropped(sink.Name, sink.Live.DroppedBy)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Observers)) {
		o := s.Observers[name]
		counter(m.stored, o.Stored, name)
		rejected(name, o.Rejected)
		counter(m.failures, o.Failures, name)
		counter(m.emitted, o.Emitted, name)
		dropped(name, o.DroppedBy)
	}
}
