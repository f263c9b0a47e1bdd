// Package analytics tests the queries that analysts and operators run on events: every query of
// docs/analytics.md and every panel of the dashboard under deploy/grafana. It contains tests only.
//
// The tests generate the events of many conversations over some days from a seed, by projecting log
// records. They write them to a ClickHouse engine through the sink of the product, some of them twice.
// Then they compare every number of every query with one that Go code computes from the events. A
// query without such a computation fails, and so does a computation without a query.
package analytics
