package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/table"
)

// Report is the outcome of a run.
type Report struct {
	Machine Machine `json:"machine"`
	// Version is the version of the measured program; "" for a foreign server.
	Version string `json:"version,omitempty"`
	// Against is the URL of the measured server; "" for one that the run started.
	Against string `json:"against,omitempty"`
	// ClickHouse is the destination of the server's events; "" if it sent none.
	ClickHouse string `json:"clickhouse,omitempty"`
	// Bucket names the bucket of the measured log; "" where a server was measured.
	Bucket string `json:"bucket,omitempty"`
	// Quick marks a run with small counts, whose metrics are preliminary.
	Quick     bool       `json:"quick,omitempty"`
	Scenarios []Scenario `json:"scenarios"`
}

// Scenario is the result of one load.
type Scenario struct {
	Name string `json:"name"`
	// Description describes the timed operation.
	Description string `json:"what"`
	// Target is the performance target; "" if there is none.
	Target string `json:"target,omitempty"`
	// Error is the reason for missing metrics; "" if there are metrics.
	Error string `json:"error,omitempty"`
	// Samples is the number of times behind Latency.
	Samples int      `json:"samples,omitempty"`
	Latency *Latency `json:"milliseconds,omitempty"`
	// ToRawPut is p50 as a multiple of the p50 of a raw conditional PUT by one writer in the same run;
	// 0 where the ratio is meaningless.
	ToRawPut float64 `json:"toRawPut,omitempty"`
	// Seconds is the duration of the measured part, PerSecond its rate of operations.
	Seconds   float64 `json:"seconds,omitempty"`
	PerSecond float64 `json:"perSecond,omitempty"`
	// ServerCPU is the processor time of the server in the measured part, in seconds, user and system;
	// nil where it is unknown. In a broadcast the model's process is the server.
	ServerCPU *float64 `json:"serverCpuSeconds,omitempty"`
	// GeneratorCPU and ModelCPU are the same for the other processes, which compete with the server
	// for the machine.
	GeneratorCPU *float64 `json:"generatorCpuSeconds,omitempty"`
	ModelCPU     *float64 `json:"modelCpuSeconds,omitempty"`
	// Memory is the server's memory after the measured part; nil where it is unknown.
	Memory  *proc.Memory `json:"serverMemory,omitempty"`
	Metrics []Metric     `json:"figures,omitempty"`
}

type Metric struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

func (s *Scenario) take(samples []time.Duration) {
	s.Samples = len(samples)
	s.Latency = new(NewLatency(samples))
}

func (s *Scenario) metric(name string, value float64, unit string) {
	s.Metrics = append(s.Metrics, Metric{name, value, unit})
}

func (r *Report) failures() (all []string) {
	for _, s := range r.Scenarios {
		if s.Error != "" {
			all = append(all, fmt.Sprintf("%s failed: %s", s.Name, s.Error))
		}
	}
	return all
}

// Failed counts the scenarios without metrics.
func (r *Report) Failed() int { return len(r.failures()) }

// WriteJSON writes a report or a comparison as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteTable writes the report as a table: a line on the machine and a row per scenario, with errors
// below. Columns without a metric are omitted. A kB is 1,000 bytes and an MB 1,000,000.
func (r *Report) WriteTable(w io.Writer) error {
	rows := table.New([]int{0, 12, 13}, slices.Concat([]string{"scenario"}, headings(), []string{"figures", "target"})...)
	rows.Sparse = true
	for _, s := range r.Scenarios {
		rows.Add(s.row()...)
	}
	head := r.Machine.String()
	for _, more := range [][2]string{{"", r.Version}, {"against ", r.Against}, {"events to ", r.ClickHouse}, {"on ", r.Bucket}} {
		if more[1] != "" {
			head += ", " + more[0] + more[1]
		}
	}
	if r.Quick {
		head += ", quick"
	}
	return printed(w, head, rows, r.failures())
}

func printed(w io.Writer, head string, rows *table.Table, errors []string) error {
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	if err := rows.Print(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.Join(append(errors, ""), "\n"))
	return err
}

func headings() []string {
	return []string{"n", "p50 ms", "p90 ms", "p99 ms", "max ms", "× PUT", "per s", "CPU s", "gen s", "model s", "RSS MB"}
}

// numbers returns the columns of a scenario; nil is an empty cell.
func (s *Scenario) numbers() []*float64 {
	all := make([]*float64, 11)
	if l := s.Latency; l != nil {
		copy(all, []*float64{new(float64(s.Samples)), &l.P50, &l.P90, &l.P99, &l.Max})
	}
	if s.ToRawPut > 0 {
		all[5] = &s.ToRawPut
	}
	if s.PerSecond > 0 {
		all[6] = &s.PerSecond
	}
	all[7], all[8], all[9] = s.ServerCPU, s.GeneratorCPU, s.ModelCPU
	if s.Memory != nil {
		all[10] = new(float64(s.Memory.RSS) / 1e6)
	}
	return all
}

func (s *Scenario) row() []string {
	row := []string{s.Name}
	for _, v := range s.numbers() {
		cell := ""
		if v != nil {
			cell = short(*v)
		}
		row = append(row, cell)
	}
	var metrics []string
	for _, f := range s.Metrics {
		metrics = append(metrics, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Name, short(f.Value), f.Unit)))
	}
	if s.Error != "" {
		metrics = []string{"failed"}
	}
	return append(row, strings.Join(metrics, ", "), s.Target)
}

// short formats a number with its significant digits.
func short(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
