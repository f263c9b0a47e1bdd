package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parleyrun/parley/actors"
)

// reading is one metric and its source in a status.
type reading struct {
	name, help string
	kind       prometheus.ValueType
	value      func(actors.Status) float64
}

// readings are the metrics of a node's status.
func readings() []reading {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type status = actors.Status
	return []reading{
		{"parley_ready", "1 if the node should get requests, as /readyz reports.", gauge, func(s status) float64 { return truth(s.Ready) }},
		{"parley_passive", "1 if the node cannot confirm its row in the bucket and starts no work.", gauge, func(s status) float64 { return truth(s.Passive) }},
		{"parley_leaving", "1 if the node is shutting down in order.", gauge, func(s status) float64 { return truth(s.Leaving) }},
		{"parley_members", "Members of the newest epoch that the node knows, itself included.", gauge, func(s status) float64 { return float64(s.Members) }},
		{"parley_members_draining", "Members that own nothing and hand over their conversations.", gauge, func(s status) float64 { return float64(s.Draining) }},
		{"parley_members_unreached", "Members that own nothing until most of the others respond to them.", gauge, func(s status) float64 { return float64(s.Unreached) }},
		{"parley_members_others", "Members that the node should reach.", gauge, func(s status) float64 { return float64(s.Others) }},
		{"parley_members_reachable", "Members that the node reaches, of parley_members_others.", gauge, func(s status) float64 { return float64(s.Reachable) }},
		{"parley_members_epoch", "Number of the newest epoch that the node knows.", gauge, func(s status) float64 { return float64(s.Epoch) }},
		{"parley_activations", "Conversations in memory.", gauge, func(s status) float64 { return float64(s.Active) }},
		{"parley_resting", "Passivated conversations whose writer is kept.", gauge, func(s status) float64 { return float64(s.IdleWriters) }},
		{"parley_suspended", "Suspended conversations whose timers are on the node.", gauge, func(s status) float64 { return float64(s.Suspended) }},
		{"parley_pending", "Conversations with unsettled work.", gauge, func(s status) float64 { return float64(s.Busy) }},
		{"parley_followers", "Conversations that the node follows for readers.", gauge, func(s status) float64 { return float64(s.Followers) }},
		{"parley_queued_callers", "Callers waiting for the response of a conversation's owner.", gauge, func(s status) float64 { return float64(s.QueuedCallers) }},
		{"parley_queued_submissions", "Submissions in memory that are not settled, the running ones included.", gauge, func(s status) float64 { return float64(s.QueuedSubmissions) }},
		{"parley_queued_dispatches", "Messages of tools and hooks that wait for their turn to be dispatched.", gauge, func(s status) float64 { return float64(s.QueuedDispatches) }},
		{"parley_refused_dispatches_total", "Messages of tools and hooks rejected because too many waited.", counter, func(s status) float64 { return float64(s.RefusedDispatches) }},
		{"parley_posts_waiting", "Attempts to deliver posts that are running or waiting.", gauge, func(s status) float64 { return float64(s.Posts.Waiting) }},
		{"parley_posts_delivered_total", "Posts that were delivered to their targets.", counter, func(s status) float64 { return float64(s.Posts.Delivered) }},
		{"parley_posts_failed_total", "Attempts to deliver posts that have failed.", counter, func(s status) float64 { return float64(s.Posts.Failed) }},
		{"parley_posts_given_up_total", "Posts that became dead letters.", counter, func(s status) float64 { return float64(s.Posts.DeadLettered) }},
		{"parley_follower_lag_seconds", "Longest time that a followed conversation has had no owner pushing its batches.", gauge, func(s status) float64 { return s.FollowerLag.Seconds() }},
		{"parley_fences_total", "Writers of the node that were fenced by another one.", counter, func(s status) float64 { return float64(s.Fences) }},
		{"parley_sweeps_total", "Sweeps of the pending-work journals.", counter, func(s status) float64 { return float64(s.Sweeps) }},
		{"parley_probes_total", "Conversations that a sweep asked their owner about.", counter, func(s status) float64 { return float64(s.Probes) }},
		{"parley_taken_over_total", "Journal entries of lost nodes that were taken over.", counter, func(s status) float64 { return float64(s.TakenOver) }},
		{"parley_handed_over_total", "Activations handed over to another node.", counter, func(s status) float64 { return float64(s.HandedOver) }},
		{"parley_conversations_quarantined", "Conversations of the bucket that are quarantined.", gauge, func(s status) float64 { return float64(s.Quarantined) }},
		{"parley_unchecked_data_total", "Initial data rejected because its check exceeded a bound.", counter, func(s status) float64 { return float64(s.Unchecked) }},
		{"parley_refused_requests_total", "Requests that found no owner of their conversation in time.", counter, func(s status) float64 { return float64(s.Refused) }},
		{"parley_relayed_batches_total", "Batches sent to readers on other nodes.", counter, func(s status) float64 { return float64(s.Relayed) }},
		{"parley_follower_gaps_total", "Gaps in pushed batches that required a read of the bucket.", counter, func(s status) float64 { return float64(s.Follower.Gaps) }},
		{"parley_follower_loads_total", "Reads of a log up to its newest batch, for readers.", counter, func(s status) float64 { return float64(s.Follower.Loads) }},
		{"parley_memory_limit_bytes", "Memory budget of the node, 0 for no bound.", gauge, func(s status) float64 { return float64(s.MemoryLimit) }},
		{"parley_large_work_waiting", "Pieces of work on large messages that wait for their turn.", gauge, func(s status) float64 { return float64(s.LargeWork) }},
		{"parley_relay_gaps_total", "Batches that could not be relayed, so that readers read the bucket.", counter, func(s status) float64 { return float64(s.RelayGaps) }},
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collector reads a node's status once per scrape.
type collector struct {
	status   func() actors.Status
	readings []reading
	descs    []*prometheus.Desc
	info     *prometheus.Desc
	sinks    sinkMetrics
	held     *prometheus.Desc
	refused  *prometheus.Desc
	idle     *prometheus.Desc
	expiry   *prometheus.Desc
	dropped  *prometheus.Desc
	version  string
}

func newCollector(status func() actors.Status, version string) *collector {
	c := &collector{
		status: status, readings: append(readings(), eventReadings()...), sinks: newSinkMetrics(), version: version,
		info:    prometheus.NewDesc("parley_info", "Always 1; says which node and which version this is.", []string{"member", "address", "version"}, nil),
		held:    prometheus.NewDesc("parley_memory_bytes", "What the node holds for others, by what it is for.", []string{"consumer"}, nil),
		idle:    prometheus.NewDesc("parley_idle_bytes", "What the node holds without need, so that what comes next comes sooner, by whose it is.", []string{"consumer"}, nil),
		dropped: prometheus.NewDesc("parley_idle_dropped_total", "How often something idle left memory before its time, by whose it was and why.", []string{"consumer", "reason"}, nil),
		expiry:  prometheus.NewDesc("parley_certificate_expires_in_seconds", "Seconds until a certificate for other nodes expires, negative afterwards: the node's own, and its authority's.", []string{"certificate"}, nil),
		refused: prometheus.NewDesc("parley_memory_refused_total", "New work that was refused, or put off, for want of memory.", []string{"consumer"}, nil),
	}
	for _, r := range c.readings {
		c.descs = append(c.descs, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.info
	out <- c.held
	out <- c.refused
	out <- c.idle
	out <- c.dropped
	out <- c.expiry
	c.sinks.describe(out)
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.status()
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, s.Member, s.Address, c.version)
	c.sinks.collect(s, out)
	for _, u := range s.Memory {
		out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(u.Used), u.Account)
		out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(u.Refused), u.Account)
	}
	for _, u := range s.Idle {
		out <- prometheus.MustNewConstMetric(c.idle, prometheus.GaugeValue, float64(u.Held), u.Consumer)
		out <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(u.Crowded), u.Consumer, "idle")
		out <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(u.Tight), u.Consumer, "memory")
	}
	for _, cert := range s.Certificates {
		out <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, time.Until(cert.Expires).Seconds(), cert.Name)
	}
	for i, r := range c.readings {
		out <- prometheus.MustNewConstMetric(c.descs[i], r.kind, r.value(s))
	}
}
