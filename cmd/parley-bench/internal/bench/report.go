package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/internal/table"
)

// Report is the outcome of a run.
type Report struct {
	Machine Machine `json:"machine"`
	// Version is what the measured program calls itself; "" for a foreign server.
	Version string `json:"version,omitempty"`
	// Against is the server that was measured; "" for one of the run's own.
	Against string `json:"against,omitempty"`
	// ClickHouse is where the server sent its events; "" if it sent none.
	ClickHouse string `json:"clickhouse,omitempty"`
	// Bucket names what the log was measured on; "" where a server was measured.
	Bucket string `json:"bucket,omitempty"`
	// Quick tells that the counts were small: the figures are a first look.
	Quick     bool       `json:"quick,omitempty"`
	Scenarios []Scenario `json:"scenarios"`
}

// Scenario is what one load showed.
type Scenario struct {
	Name string `json:"name"`
	// What says what was timed.
	What string `json:"what"`
	// Target is what is aimed at; "" if nothing is.
	Target string `json:"target,omitempty"`
	// Error is why there are no figures; "" if there are.
	Error string `json:"error,omitempty"`
	// Samples counts the times behind Latency.
	Samples int      `json:"samples,omitempty"`
	Latency *Latency `json:"milliseconds,omitempty"`
	// ToRawPut is p50 as a multiple of the p50 of a raw conditional PUT at one
	// writer in the same run; 0 where that says nothing.
	ToRawPut float64 `json:"toRawPut,omitempty"`
	// Seconds is how long the measured part took, PerSecond its operations by that.
	Seconds   float64 `json:"seconds,omitempty"`
	PerSecond float64 `json:"perSecond,omitempty"`
	// ServerCPU is the processor time of the server in the measured part, in
	// seconds, user and system; nil where it is not known. In a broadcast the
	// model's process is the server.
	ServerCPU *float64 `json:"serverCpuSeconds,omitempty"`
	// GeneratorCPU and ModelCPU are the same of the processes beside it: what they
	// take of the machine the server cannot have.
	GeneratorCPU *float64 `json:"generatorCpuSeconds,omitempty"`
	ModelCPU     *float64 `json:"modelCpuSeconds,omitempty"`
	// Memory is the server's after the measured part; nil where it is not known.
	Memory  *Memory  `json:"serverMemory,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
}

// Memory is the memory of a process as the kernel counts it, in bytes.
type Memory struct {
	RSS  int64 `json:"rss"`
	Peak int64 `json:"peak"`
	// Anonymous is the part of RSS that is not backed by a file.
	Anonymous int64 `json:"anonymous"`
}

// Figure is one more value of a scenario.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

func (s *Scenario) figure(name string, value float64, unit string) {
	s.Figures = append(s.Figures, Figure{name, value, unit})
}

// Failed counts the scenarios without figures.
func (r *Report) Failed() int {
	n := 0
	for _, s := range r.Scenarios {
		if s.Error != "" {
			n++
		}
	}
	return n
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the report for people: a line on the machine and a row per
// scenario, with errors below. Columns without a figure are left out. A kB is 1,000
// bytes and an MB 1,000,000.
func (r *Report) WriteTable(w io.Writer) error {
	rows := table.New([]int{0, 12, 13}, "scenario", "n", "p50 ms", "p90 ms", "p99 ms", "max ms", "× PUT", "per s", "CPU s", "gen s", "model s", "RSS MB", "figures", "target")
	rows.Sparse = true
	var failed []string
	for _, s := range r.Scenarios {
		rows.Add(s.row()...)
		if s.Error != "" {
			failed = append(failed, fmt.Sprintf("%s failed: %s\n", s.Name, s.Error))
		}
	}
	head := r.Machine.String()
	if r.Version != "" {
		head += ", " + r.Version
	}
	if r.Against != "" {
		head += ", against " + r.Against
	}
	if r.ClickHouse != "" {
		head += ", events to " + r.ClickHouse
	}
	if r.Bucket != "" {
		head += ", on " + r.Bucket
	}
	if r.Quick {
		head += ", quick"
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	if err := rows.Print(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.Join(failed, ""))
	return err
}

func (s *Scenario) row() []string {
	row := make([]string, 14)
	row[0], row[13] = s.Name, s.Target
	if s.Error != "" {
		row[12] = "failed"
		return row
	}
	if l := s.Latency; l != nil {
		row[1] = strconv.Itoa(s.Samples)
		row[2], row[3], row[4], row[5] = short(l.P50), short(l.P90), short(l.P99), short(l.Max)
	}
	if s.ToRawPut > 0 {
		row[6] = short(s.ToRawPut)
	}
	if s.PerSecond > 0 {
		row[7] = short(s.PerSecond)
	}
	for i, cpu := range []*float64{s.ServerCPU, s.GeneratorCPU, s.ModelCPU} {
		if cpu != nil {
			row[8+i] = short(*cpu)
		}
	}
	if s.Memory != nil {
		row[11] = short(float64(s.Memory.RSS) / 1e6)
	}
	var figures []string
	for _, f := range s.Figures {
		figures = append(figures, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Name, short(f.Value), f.Unit)))
	}
	row[12] = strings.Join(figures, ", ")
	return row
}

// short writes a number with the digits that can be meant.
func short(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
