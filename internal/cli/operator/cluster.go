package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/table"
	"github.com/parleyrun/parley/storage"
)

const (
	// watchWindow is how long "parley cluster status" watches heartbeats, unless the file sets longer
	// intervals.
	watchWindow = 1100 * time.Millisecond
	// watchPause is the polling interval of the table.
	watchPause = 200 * time.Millisecond
)

// clusterConfig holds the flags of "parley cluster".
type clusterConfig struct {
	place *cli.Place
	json  bool
	undo  bool
	wait  time.Duration
}

func clusterCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Inspect and manage the nodes that share a bucket",
	}
	cmd.AddCommand(clusterStatusCommand(p), clusterDrainCommand(p), clusterCertsCommand())
	return cmd
}

func clusterStatusCommand(p *cli.Program) *cobra.Command {
	cfg := clusterConfig{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print the nodes that share a bucket",
		Long: "status prints the members of the bucket that a configuration file names. It reads the bucket\n" +
			"and contacts no node, so it works from every host with access to the bucket, even if no node\n" +
			"responds.\n\n" +
			"  SHARE      share of all conversations that this node owns\n" +
			"  REACHES    number of other members that respond to it; a node that most of them do not\n" +
			"             reach is in state \"not reached\" and owns nothing\n" +
			"  ACTIVE     conversations in its memory\n" +
			"  BUSY       conversations in its memory with unsettled work\n" +
			"  HEARTBEAT  time since its last change, while status watched for about a second; a node\n" +
			"             without a change may have crashed: the others detect it themselves\n\n" +
			"Below the table it lists record types that some member cannot read: no node writes those.\n\n" +
			"Exit code: 0 every member is reached, 2 one is not reached by all others, 1 any other error.",
		Example: "  parley cluster status\n  parley cluster status --config /etc/parley.yaml --json | jq '.members[] | select(.seen | not)'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cfg.status(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cfg.place = cli.NewPlace(p, cmd, "the bucket", false)
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print one line of JSON")
	return cmd
}

func (cfg clusterConfig) open(ctx context.Context) (*config.Server, storage.Bucket, error) {
	conf, file, err := cfg.place.Find("bucket")
	if err != nil {
		return nil, nil, err
	}
	if conf.Bucket.Endpoint == "" {
		return nil, nil, fmt.Errorf("%s: the bucket is a folder, which only one process can serve; several nodes need a bucket at an endpoint: name its file with --config", cmp.Or(file, conf.Bucket.Dir))
	}
	bucket, err := conf.Bucket.Open()
	if err != nil {
		return nil, nil, err
	}
	bound, cancel := storage.WithFirstAnswer(ctx)
	defer cancel()
	if _, err := storage.CheckFormat(bound, bucket); err != nil {
		return nil, nil, conf.Bucket.Explain(err)
	}
	return conf, bucket, nil
}

// status prints the table of members.
func (cfg clusterConfig) status(ctx context.Context, out io.Writer) error {
	conf, bucket, err := cfg.open(ctx)
	if err != nil {
		return err
	}
	window := watchWindow
	if conf.Cluster != nil {
		window = max(window, 2*conf.Cluster.Heartbeat+100*time.Millisecond)
	}
	w := newClusterWatch(bucket)
	for end := time.Now().Add(window); ; {
		if err := w.poll(ctx); err != nil {
			return fmt.Errorf("%s: %w", conf.Bucket.Place(), err)
		}
		if w.all() || time.Now().After(end) {
			break
		}
		if err := pause(ctx, watchPause); err != nil {
			return err
		}
	}
	r := w.report(conf.Bucket.Place())
	if cfg.json {
		err = json.NewEncoder(out).Encode(r)
	} else {
		err = r.print(out)
	}
	if err != nil {
		return fmt.Errorf("print members: %w", err)
	}
	if !r.reached() {
		return &cli.ExitError{Code: cli.ExitUnreached}
	}
	return nil
}

// reached reports whether all other members reach every member, as far as they report it.
func (r ClusterReport) reached() bool {
	ids := map[string]bool{}
	for _, m := range r.Members {
		ids[m.ID] = true
	}
	for _, m := range r.Members {
		if m.State == notReached || m.Reach != nil && slices.ContainsFunc(m.Reach.Missing, func(id string) bool { return ids[id] }) {
			return false
		}
	}
	return true
}

// pause waits for d, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// clusterWatch polls the members and counts changes of their heartbeats.
type clusterWatch struct {
	bucket storage.Bucket
	view   *actors.ClusterView
	beats  map[string]int64     // last value
	seen   map[string]time.Time // time of the last change by the local clock
	counts map[string]int       // number of changes
}

func newClusterWatch(b storage.Bucket) *clusterWatch {
	return &clusterWatch{bucket: b, beats: map[string]int64{}, seen: map[string]time.Time{}, counts: map[string]int{}}
}

func (w *clusterWatch) poll(ctx context.Context) error {
	view, err := actors.ReadCluster(ctx, w.bucket)
	if err != nil {
		return err
	}
	w.view = view
	for _, m := range view.Members {
		if last, ok := w.beats[m.ID]; ok && m.Beats != last {
			w.seen[m.ID] = time.Now()
			w.counts[m.ID]++
		}
		w.beats[m.ID] = m.Beats
	}
	return nil
}

// all reports whether the heartbeat of every member has changed.
func (w *clusterWatch) all() bool {
	for _, m := range w.view.Members {
		if w.counts[m.ID] == 0 {
			return false
		}
	}
	return true
}

// member returns a member of the newest view.
func (w *clusterWatch) member(id string) (actors.ClusterMember, bool) {
	for _, m := range w.view.Members {
		if m.ID == id {
			return m, true
		}
	}
	return actors.ClusterMember{}, false
}

// ClusterReport is the output of status.
type ClusterReport struct {
	Bucket  string         `json:"bucket"`
	Epoch   int64          `json:"epoch"`
	Members []memberReport `json:"members"`
	// Unread lists record types that some members can read and others cannot.
	Unread []unreadType `json:"unread"`
}

type memberReport struct {
	storage.Member
	State  string     `json:"state"`
	Share  float64    `json:"share"`
	Active int64      `json:"active"`
	Busy   int64      `json:"busy"`
	Beat   *time.Time `json:"beat,omitempty"` // by that node's clock
	// Reach lists the members that answer this one, nil if it does not report it.
	Reach *storage.Reach `json:"reach,omitempty"`
	Seen  bool           `json:"seen"`
	age   time.Duration
}

// unreadType is a record type and the members that cannot read it.
type unreadType struct {
	Type    conversation.RecordType `json:"type"`
	Members []string                `json:"members"`
}

func (w *clusterWatch) report(bucket string) ClusterReport {
	r := ClusterReport{Bucket: bucket, Epoch: w.view.Epoch, Members: []memberReport{}, Unread: unread(w.view.Members)}
	for _, m := range w.view.Members {
		row := memberReport{Member: m.Member, State: stateOf(m), Share: m.Share, Active: m.Active, Busy: m.Busy, Reach: m.Reach}
		if !m.Beat.IsZero() {
			row.Beat = &m.Beat
		}
		var at time.Time
		if at, row.Seen = w.seen[m.ID]; row.Seen {
			row.age = time.Since(at)
		}
		r.Members = append(r.Members, row)
	}
	return r
}

// States of members that most others do not reach, and of members that drain.
const (
	notReached    = "not reached"
	stateDraining = "draining"
)

// stateOf returns the state of a member as one word.
func stateOf(m actors.ClusterMember) string {
	switch {
	case m.Draining:
		return stateDraining
	case m.Node == "":
		return "alone"
	case m.Weight == 0 && m.Wants > 0:
		return notReached
	case m.Weight == 0:
		return "owns none"
	}
	return "serving"
}

// unread returns the record types that not all members list.
func unread(members []actors.ClusterMember) []unreadType {
	out := []unreadType{}
	known := map[conversation.RecordType]bool{}
	for _, m := range members {
		for _, t := range m.Records {
			if known[t] {
				continue
			}
			known[t] = true
			u := unreadType{Type: t}
			for _, other := range members {
				if !lists(other, t) {
					u.Members = append(u.Members, other.ID)
				}
			}
			if len(u.Members) > 0 {
				out = append(out, u)
			}
		}
	}
	return out
}

func lists(m actors.ClusterMember, t conversation.RecordType) bool {
	for _, r := range m.Records {
		if r == t {
			return true
		}
	}
	return false
}

// print prints the report as a table, followed by notes.
func (r ClusterReport) print(out io.Writer) error {
	if len(r.Members) == 0 {
		_, err := fmt.Fprintf(out, "parley cluster status: %s\n\nNo node serves it.\n", r.Bucket)
		return err
	}
	short := shortIDs(r.Members)
	if _, err := fmt.Fprintf(out, "parley cluster status: %s, epoch %d\n", r.Bucket, r.Epoch); err != nil {
		return err
	}
	t := table.New([]int{0, 1, 2, 3, 5, 7, 10}, "MEMBER", "NODE", "HTTP", "VERSION", "WEIGHT", "STATE", "SHARE", "REACHES", "ACTIVE", "BUSY", "HEARTBEAT")
	t.Sparse, t.Width, t.Spare = true, cli.Width(out), []int{4, 2, 6, 3, 9, 1, 8}
	versions := r.versions()
	for _, m := range r.Members {
		beat := "not seen"
		if m.Seen {
			beat = fmt.Sprintf("%.1f s ago", m.age.Seconds())
		}
		version := ""
		if len(versions) > 1 { // a common version has a line below
			version = dash(m.Version)
		}
		t.Add(short[m.ID], dash(m.Node), dash(m.Address), version, fmt.Sprint(m.Weight), m.State, fmt.Sprintf("%.1f %%", 100*m.Share),
			r.reaches(m), fmt.Sprint(m.Active), fmt.Sprint(m.Busy), beat)
	}
	if err := t.Print(out); err != nil {
		return err
	}
	if err := r.printMissing(out, short); err != nil {
		return err
	}
	for _, m := range r.Members {
		if m.Draining {
			fmt.Fprintf(out, "\n%s is draining: %d conversations left. \"parley cluster drain --undo %s\" cancels it.\n", short[m.ID], m.Active, short[m.ID])
		}
	}
	for _, u := range r.Unread {
		var ids []string
		for _, id := range u.Members {
			ids = append(ids, short[id])
		}
		fmt.Fprintf(out, "\nVersion skew: %s cannot read %s records; no node writes them if they are mandatory.\n", strings.Join(ids, ", "), u.Type)
	}
	switch {
	case len(versions) == 1:
		fmt.Fprint(out, cli.Fold(fmt.Sprintf("\nAll run version %s.\n", dash(versions[0])), t.Width))
	case len(r.Unread) == 0:
		fmt.Fprintf(out, "\nThe members have %d versions; all read the same records.\n", len(versions))
	}
	return nil
}

// versions returns the versions of the members without duplicates.
func (r ClusterReport) versions() []string {
	var list []string
	for _, m := range r.Members {
		if !slices.Contains(list, m.Version) {
			list = append(list, m.Version)
		}
	}
	return list
}

// reaches formats how many other members a member reaches.
func (r ClusterReport) reaches(m memberReport) string {
	if m.Reach == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", m.Reach.Reached, len(r.Members)-1)
}

// printMissing prints the members that a member does not reach.
func (r ClusterReport) printMissing(out io.Writer, short map[string]string) error {
	for _, m := range r.Members {
		if m.Reach == nil {
			continue
		}
		var ids []string
		for _, id := range m.Reach.Missing {
			if s, ok := short[id]; ok { // otherwise it has left since
				ids = append(ids, s)
			}
		}
		if len(ids) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s does not reach %s.\n", short[m.ID], strings.Join(ids, ", ")); err != nil {
			return err
		}
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shortIDs returns unique prefixes of ids, of at least 8 characters.
func shortIDs(members []memberReport) map[string]string {
	n := 8
	for _, a := range members {
		for _, b := range members {
			for a.ID != b.ID && len(a.ID) > n && strings.HasPrefix(b.ID, a.ID[:n]) {
				n++
			}
		}
	}
	short := map[string]string{}
	for _, m := range members {
		short[m.ID] = m.ID[:min(n, len(m.ID))]
	}
	return short
}

// findMember finds a member by its id or a prefix of it, its node address or its HTTP address.
func findMember(v *actors.ClusterView, name string) (actors.ClusterMember, error) {
	var found []actors.ClusterMember
	for _, m := range v.Members {
		if m.ID == name {
			return m, nil
		}
		if name != "" && (strings.HasPrefix(m.ID, name) || m.Node == name || m.Address == name) {
			found = append(found, m)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(v.Members) == 0 {
		return actors.ClusterMember{}, errors.New("no node serves the bucket")
	}
	problem := "no member is"
	if len(found) > 1 {
		problem = fmt.Sprintf("%d members are", len(found))
	}
	var list strings.Builder
	for _, m := range v.Members {
		fmt.Fprintf(&list, "\n  %s  node %s  http %s", m.ID, dash(m.Node), dash(m.Address))
	}
	return actors.ClusterMember{}, fmt.Errorf("%s %q; name one by a prefix of its id, its node address or its HTTP address:%s", problem, name, list.String())
}
