package admin

import "github.com/prometheus/client_golang/prometheus"

// Process is the resource use of a node's process.
type Process struct {
	// Connections is the number of open client connections, ConnectionsMost its limit; 0 is no limit.
	Connections, ConnectionsMost int
	// SpoolBytes is the size of temporary files of large bodies. SpoolRefused counts the bodies
	// rejected for lack of room.
	SpoolBytes, SpoolRefused int64
	// Deliveries are the webhooks of channels, by channel and result.
	Deliveries []Deliveries
	// Volumes has one entry for each folder that the node writes to.
	Volumes []Volume
}

// Deliveries counts the webhooks of a channel with one result.
type Deliveries struct {
	Channel, Result string
	Count           int64
}

// Volume is the volume of a folder.
type Volume struct {
	// Folder is "data" or "spool".
	Folder string
	// FreeBytes is the free space, and ReserveBytes the part kept for work in progress. Both are 0 if
	// the system does not report it.
	FreeBytes, ReserveBytes int64
	// Refused counts the work rejected for lack of room.
	Refused int64
}

// processCollector calls Process once per scrape.
type processCollector struct {
	read                                                               func() Process
	connections, most, spooled, refused, free, kept, short, deliveries *prometheus.Desc
}

func newProcessCollector(read func() Process) *processCollector {
	folder := []string{"folder"}
	return &processCollector{
		read:        read,
		connections: prometheus.NewDesc("parley_connections", "Open connections of clients.", nil, nil),
		most:        prometheus.NewDesc("parley_connections_limit", "Limit of open client connections, 0 for no limit.", nil, nil),
		spooled:     prometheus.NewDesc("parley_spool_bytes", "Bytes in temporary files of large bodies and their attachments.", nil, nil),
		refused:     prometheus.NewDesc("parley_spool_refused_total", "Bodies rejected because the limit of temporary files was reached.", nil, nil),
		deliveries:  prometheus.NewDesc("parley_channel_deliveries_total", "Webhooks of channels, by result.", []string{"channel", "result"}, nil),
		free:        prometheus.NewDesc("parley_volume_free_bytes", "Bytes that are free on the volume of a folder.", folder, nil),
		kept:        prometheus.NewDesc("parley_volume_reserve_bytes", "Bytes of the volume reserved for work in progress.", folder, nil),
		short:       prometheus.NewDesc("parley_volume_refusals_total", "Requests rejected because only the reserve was free.", folder, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *processCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connections, c.most, c.spooled, c.refused, c.free, c.kept, c.short, c.deliveries} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *processCollector) Collect(out chan<- prometheus.Metric) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	p := c.read()
	out <- prometheus.MustNewConstMetric(c.connections, gauge, float64(p.Connections))
	out <- prometheus.MustNewConstMetric(c.most, gauge, float64(p.ConnectionsMost))
	out <- prometheus.MustNewConstMetric(c.spooled, gauge, float64(p.SpoolBytes))
	out <- prometheus.MustNewConstMetric(c.refused, counter, float64(p.SpoolRefused))
	for _, d := range p.Deliveries {
		out <- prometheus.MustNewConstMetric(c.deliveries, counter, float64(d.Count), d.Channel, d.Result)
	}
	for _, v := range p.Volumes {
		out <- prometheus.MustNewConstMetric(c.free, gauge, float64(v.FreeBytes), v.Folder)
		out <- prometheus.MustNewConstMetric(c.kept, gauge, float64(v.ReserveBytes), v.Folder)
		out <- prometheus.MustNewConstMetric(c.short, counter, float64(v.Refused), v.Folder)
	}
}
