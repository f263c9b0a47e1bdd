package admin

import "github.com/prometheus/client_golang/prometheus"

// Process is what the process of a node uses of what its machine has.
type Process struct {
	// Connections are open connections of clients, ConnectionsMost is how many there may
	// be; 0 is no limit.
	Connections, ConnectionsMost int
}

// processCollector reads it once per scrape.
type processCollector struct {
	read                         func() Process
	connections, connectionsMost *prometheus.Desc
}

func newProcessCollector(read func() Process) *processCollector {
	return &processCollector{
		read:            read,
		connections:     prometheus.NewDesc("parley_connections", "Open connections of clients.", nil, nil),
		connectionsMost: prometheus.NewDesc("parley_connections_limit", "How many connections of clients may be open, 0 for no limit.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *processCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.connections
	out <- c.connectionsMost
}

// Collect implements prometheus.Collector.
func (c *processCollector) Collect(out chan<- prometheus.Metric) {
	p := c.read()
	out <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(p.Connections))
	out <- prometheus.MustNewConstMetric(c.connectionsMost, prometheus.GaugeValue, float64(p.ConnectionsMost))
}
