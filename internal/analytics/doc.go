// Package analytics holds what analysts and operators are told to run to what the events
// say: every query of docs/analytics.md and every panel of the dashboard under
// deploy/grafana.
//
// Its tests make the events of a seeded time of many conversations, of records through
// the projection, store them in a real engine through the real sink, some of them twice,
// and compare every number of every query with one that is computed of the events in Go.
// A query without such a computation fails, and so does a computation without a query.
package analytics
