package admin

import "github.com/prometheus/client_golang/prometheus"

// Process is what the process of a node uses of what its machine has.
type Process struct {
	// Connections are open connections of clients, ConnectionsMost is how many there may
	// be; 0 is no limit.
	Connections, ConnectionsMost int
	// SpoolBytes are in temporary files of large bodies, and SpoolRefused counts those that
	// found no room there.
	SpoolBytes, SpoolRefused int64
	// Deliveries are the webhooks of channels, by channel and result.
	Deliveries []Deliveries
	// Volumes are those that the node writes to, one for each folder.
	Volumes []Volume
}

// Deliveries are webhooks of a channel that had one result.
type Deliveries struct {
	Channel, Result string
	Count           int64
}

// Volume is the volume of a folder.
type Volume struct {
	// Folder is "data" or "spool".
	Folder string
	// FreeBytes are free and ReserveBytes are kept for work under way; both are 0 if the
	// system does not tell.
	FreeBytes, ReserveBytes int64
	// Refused counts what was not begun for lack of room.
	Refused int64
}

// processCollector reads it once per scrape.
type processCollector struct {
	read                                                               func() Process
	connections, most, spooled, refused, free, kept, short, deliveries *prometheus.Desc
}

func newProcessCollector(read func() Process) *processCollector {
	folder := []string{"folder"}
	return &processCollector{
		read:        read,
		connections: prometheus.NewDesc("parley_connections", "Open connections of clients.", nil, nil),
		most:        prometheus.NewDesc("parley_connections_limit", "How many connections of clients may be open, 0 for no limit.", nil, nil),
		spooled:     prometheus.NewDesc("parley_spool_bytes", "Bytes in temporary files of large bodies and their attachments.", nil, nil),
		refused:     prometheus.NewDesc("parley_spool_refused_total", "Bodies that were refused since the temporary files have as much as they may.", nil, nil),
		deliveries:  prometheus.NewDesc("parley_channel_deliveries_total", "Webhooks of channels, by what became of them.", []string{"channel", "result"}, nil),
		free:        prometheus.NewDesc("parley_volume_free_bytes", "Bytes that are free on the volume of a folder.", folder, nil),
		kept:        prometheus.NewDesc("parley_volume_reserve_bytes", "Bytes of it that are kept for work under way.", folder, nil),
		short:       prometheus.NewDesc("parley_volume_refusals_total", "Requests that were refused since no more than the reserve was free.", folder, nil),
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
