// Package analytics verifies the queries for analysts and operators against events: every query of
// docs/analytics.md and every panel of the dashboard under deploy/grafana.
//
// Its tests generate events of many conversations over some days from a seed, by projecting records.
// They store them in a real engine through the real sink, some of them twice, and compare every number
// of every query with one computed from the events in Go. A query without such a computation fails,
// and so does a computation without a query.
package analytics
