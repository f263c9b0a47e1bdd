package bench

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Options say what to measure. Without a Program only raw PUTs, and what Against
// names, can be measured.
type Options struct {
	// Program is the parley program that is measured, as "parley serve". Self is the
	// program that has ModelCommand.
	Program, Self string
	// Dir is the folder below which everything durable goes, in a folder of its own
	// that is removed; "" is the system's temporary folder.
	Dir string
	// Quick takes small counts.
	Quick bool
	// Percent of the counts are put on as load, 1 to 100; 0 is 100.
	Percent int
	// Only names the scenarios to run, in any order; empty is all of them. The raw
	// PUTs of one writer are measured in any case, for the ratios.
	Only []string
	// Against is the URL an agent is mounted at on a running server; "" measures a
	// server of the run's own. Token, if any, goes with every request to it.
	Against, Token string
	// Model is the URL of the Model that the agent at Against uses; "" if it uses
	// another one, and then scenarios that need its help are left out.
	Model string
	// ClickHouse is host:port of a server that the run's own server sends its events to,
	// native protocol, database parley_bench; "" sends none.
	ClickHouse string
	// Profiles is an existing folder for profiles of the run's own server in each
	// scenario whose costs are measured, of the last round where there are several;
	// "" takes none. They cost some time.
	Profiles string
	// Version is put into the report: [VersionOf] the Program.
	Version string
	// Progress is told what begins; nil is nobody.
	Progress io.Writer
}

// valid checks everything that can be wrong before anything starts.
func (o *Options) valid() error {
	if o.Percent < 0 || o.Percent > 100 {
		return fmt.Errorf("%d percent of the counts are not 1 to 100", o.Percent)
	}
	if strings.ContainsAny(o.Token, "\r\n") {
		return errors.New("the token has a line break")
	}
	if o.ClickHouse != "" && o.Against != "" {
		return fmt.Errorf("the server at %s is not the run's own and sends its events where it likes", o.Against)
	}
	if o.Profiles != "" {
		if o.Against != "" {
			return fmt.Errorf("the server at %s is not the run's own and has no profiles", o.Against)
		}
		if f, err := os.Stat(o.Profiles); err != nil {
			return fmt.Errorf("find the folder for profiles: %w", err)
		} else if !f.IsDir() {
			return fmt.Errorf("%s, for profiles, is no folder", o.Profiles)
		}
	}
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no scenario is named %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	if o.Model != "" && o.Against == "" {
		return fmt.Errorf("model %s belongs to no server; name that, too", o.Model)
	}
	for _, at := range []string{o.Against, o.Model} {
		if at == "" {
			continue
		}
		if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%q is not a URL with http or https and a host", at)
		}
	}
	return nil
}

// counts say how much load a run puts on.
type counts struct {
	// Warmup operations are not measured.
	Warmup int
	// RawPuts are the writes of each raw scenario.
	RawPuts int
	// Pool is the number of warm conversations.
	Pool int
	// Single are operations with one in flight.
	Single int
	// Burst are admissions with 64 in flight, Held those with the model held back.
	Burst, Held int
	// Turns are whole short ones.
	Turns int
	// Deltas are first ones, Replies paced ones.
	Deltas, Replies int
	// Readers are event streams of one conversation.
	Readers int
	// LongTurns is the length of the long conversation, LastTurns those measured at
	// its end, Shorts the number of short conversations it is compared with.
	LongTurns, LastTurns, Shorts int
	// Reads are snapshots and updates.
	Reads int
	// Restarts are orderly ends, Reopened those after which the long conversation is read,
	// Kills others; Killed is the turns under way then.
	Restarts, Reopened, Kills, Killed int
	// Idle is the number of conversations at rest, Stored of those weighed, Rush of those
	// that are created within RushTime.
	Idle, Stored, Rush int

	// Rest is the wait before idle conversations are weighed.
	Rest time.Duration
	// RushTime is over what time a rush is spread.
	RushTime time.Duration
	// Loop bounds the time of one loop, and Long that of building the long
	// conversation, and of filling a server with idle ones.
	Loop, Long time.Duration
	// Scenario bounds the time of each scenario, Run that of all.
	Scenario, Run time.Duration
}

func countsOf(quick bool, percent int) counts {
	full := counts{
		Warmup: 20, RawPuts: 2000, Pool: 1000, Single: 500, Burst: 5000, Held: 10_000, Turns: 5000, Deltas: 100, Replies: 10,
		Readers: 500, LongTurns: 1000, LastTurns: 50, Shorts: 10, Reads: 200, Restarts: 5, Reopened: 50, Kills: 3, Killed: 50, Idle: 10_000, Stored: 20,
		Rush: 50_000, RushTime: time.Minute, Rest: 30 * time.Second, Loop: 40 * time.Second, Long: 90 * time.Second, Scenario: 3 * time.Minute, Run: 570 * time.Second,
	}
	c := full
	if quick {
		c = counts{
			Warmup: 5, RawPuts: 200, Pool: 100, Single: 100, Burst: 500, Held: 1000, Turns: 500, Deltas: 20, Replies: 2,
			Readers: 100, LongTurns: 100, LastTurns: 10, Shorts: 3, Reads: 50, Restarts: 2, Reopened: 2, Kills: 1, Killed: 10, Idle: 500, Stored: 4,
			Rush: 2000, RushTime: 5 * time.Second, Rest: 2 * time.Second, Loop: 5 * time.Second, Long: 10 * time.Second, Scenario: 25 * time.Second, Run: 55 * time.Second,
		}
	}
	if percent == 0 || percent == 100 {
		return c
	}
	for _, n := range []*int{
		&c.Warmup, &c.RawPuts, &c.Pool, &c.Single, &c.Burst, &c.Held, &c.Turns, &c.Deltas, &c.Replies, &c.Readers,
		&c.LongTurns, &c.LastTurns, &c.Shorts, &c.Reads, &c.Restarts, &c.Reopened, &c.Kills, &c.Killed, &c.Idle, &c.Stored, &c.Rush,
	} {
		*n = max(1, *n*percent/100)
	}
	// So few operations are to be carried out, however long they take.
	c.Rest, c.RushTime = c.Rest*time.Duration(percent)/100, c.RushTime*time.Duration(percent)/100
	c.Loop, c.Long, c.Scenario, c.Run = full.Loop, full.Long, full.Scenario, full.Run
	return c
}
