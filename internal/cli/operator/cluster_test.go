package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// paper is a bucket with members that have no node. Each read of the heartbeat of a live member stores
// its next one.
type paper struct {
	*clitest.Endpoint
	file string

	mu     sync.Mutex
	counts map[string]int64
	active map[string]int64
	// reach is the content of heartbeats, by member.
	reach map[string]*storage.Reach
	// drains is the number of conversations that a draining member hands over per heartbeat; 0 is
	// none.
	drains map[string]int64
}

// newPaper stores an epoch of these members. All but the silent ones are live.
func newPaper(t *testing.T, members []storage.Member, silent ...string) *paper {
	t.Helper()
	tb := &paper{counts: map[string]int64{}, active: map[string]int64{}, drains: map[string]int64{}}
	quiet := map[string]bool{}
	for _, id := range silent {
		quiet[id] = true
	}
	tb.Endpoint = clitest.NewEndpoint(t, func(r *http.Request) {
		if _, id, ok := strings.Cut(r.URL.Path, "/heartbeat/"); ok && r.Method == http.MethodGet && !quiet[id] {
			tb.beat(t, id)
		}
	})
	if err := storage.EnsureFormat(t.Context(), tb.Bucket); err != nil {
		t.Fatal(err)
	}
	tb.file = clitest.EchoConfig(t, t.TempDir(), tb.Line)
	if len(members) == 0 {
		return tb
	}
	if newest, err := storage.CreateEpoch(t.Context(), tb.Bucket, storage.Epoch{N: 7, Nonce: "by-hand", Members: members}); err != nil || !newest {
		t.Fatal(newest, err)
	}
	for _, m := range members {
		tb.active[m.ID] = 4
		tb.beat(t, m.ID)
	}
	return tb
}

// beat stores the next heartbeat of a member, as its node would.
func (tb *paper) beat(t *testing.T, id string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	e, _, err := storage.NewestEpoch(context.Background(), tb.Bucket, 0)
	if err != nil {
		t.Error(err)
	}
	for _, m := range e.Members {
		if m.ID == id && m.Draining {
			tb.active[id] = max(tb.active[id]-tb.drains[id], 0)
		}
	}
	tb.counts[id]++
	h := storage.Heartbeat{Member: id, Count: tb.counts[id], At: conversation.Time(1_800_000_000_000 + tb.counts[id]), Active: tb.active[id], Busy: 1, Reach: tb.reach[id]}
	if err := storage.PutHeartbeat(context.Background(), tb.Bucket, h); err != nil {
		t.Error(err)
	}
}

func member(id, host string) storage.Member {
	return storage.Member{
		ID: id, Address: host + ":3000", Node: host + ":7946", Version: "v1.2.0", Weight: 1,
		Records: []conversation.RecordType{conversation.TypeDelta, conversation.TypePartDone},
	}
}

func three() []storage.Member {
	return []storage.Member{member("01AAAAAAAAAA1", "10.0.0.1"), member("01AAAAAAAAAA2", "10.0.0.2"), member("01BBBBBBBBBB3", "10.0.0.3")}
}

func TestClusterStatus(t *testing.T) {
	members := three()
	members[1].Draining = true
	members[2].Version = "v1.3.0"
	members[2].Records = append(members[2].Records, "novelty")
	tb := newPaper(t, members, members[0].ID)
	code, out, errOut := program.Output(t, "cluster", "status", "--config", tb.file)
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 9 && strings.Contains(line, ":7946") {
			rows[f[0]] = f[1:10]
		}
	}
	for id, want := range map[string]string{
		"01AAAAAAAAAA1": "10.0.0.1:7946 10.0.0.1:3000 v1.2.0 1 serving", "01AAAAAAAAAA2": "10.0.0.2:7946 10.0.0.2:3000 v1.2.0 1 draining",
		"01BBBBBBBBBB3": "10.0.0.3:7946 10.0.0.3:3000 v1.3.0 1 serving",
	} {
		if got := strings.Join(rows[id], " "); !strings.HasPrefix(got, want+" ") {
			t.Errorf("row of %s is %q, want %q", id, got, want)
		}
	}
	for _, want := range []string{
		"epoch 7", tb.Address, "HEARTBEAT", "not seen\n", " s ago\n", "01AAAAAAAAAA2 is draining: 4 conversations left",
		"Version skew: 01AAAAAAAAAA1, 01AAAAAAAAAA2 cannot read novelty records",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Count(out, "not seen") != 1 {
		t.Errorf("the silent member is not marked:\n%s", out)
	}
	code, out, errOut = program.Output(t, "cluster", "status", "--config", tb.file, "--json")
	r := clitest.Into[ClusterReport](t, out)
	if code != 0 || errOut != "" || r.Epoch != 7 || len(r.Members) != 3 || strings.Count(out, "\n") != 1 {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	if d := cmp.Diff([]unreadType{{Type: "novelty", Members: []string{members[0].ID, members[1].ID}}}, r.Unread); d != "" {
		t.Errorf("skew (-want +got):\n%s", d)
	}
	share := 0.0
	for i, m := range r.Members {
		if d := cmp.Diff(members[i], m.Member); d != "" {
			t.Errorf("row %d (-want +got):\n%s", i, d)
		}
		if m.Seen != (i != 0) || m.Active != 4 || m.Busy != 1 || m.Beat == nil {
			t.Errorf("row %d: %+v", i, m)
		}
		share += m.Share
	}
	if share < 0.999 || share > 1.001 {
		t.Errorf("the shares sum up to %v", share)
	}
}

// The first two members reach each other, none reaches the third, and the fourth has a version that
// does not report it.
func TestClusterStatusOfReach(t *testing.T) {
	members := append(three(), member("01CCCCCCCCCC4", "10.0.0.4"))
	members[2].Weight, members[2].Wants = 0, 1
	tb := newPaper(t, members)
	tb.mu.Lock()
	tb.reach = map[string]*storage.Reach{
		members[0].ID: {Reached: 2, Missing: []string{members[2].ID}}, members[1].ID: {Reached: 2, Missing: []string{members[2].ID, "01GONE"}},
		members[2].ID: {Missing: []string{members[0].ID, members[1].ID, members[3].ID}},
	}
	tb.mu.Unlock()
	code, out, _ := program.Output(t, "cluster", "status", "--config", tb.file)
	if code != cli.ExitUnreached {
		t.Errorf("status of a cluster with a member that is not reached: exit %d, want %d", code, cli.ExitUnreached)
	}
	for _, want := range []string{
		"serving      33.3 %  2 of 3", "not reached   0.0 %  0 of 3", "serving      33.3 %  -", "01AAAAAAAAAA1 does not reach 01BBBBBBBBBB3.\n",
		"01AAAAAAAAAA2 does not reach 01BBBBBBBBBB3.\n", "01BBBBBBBBBB3 does not reach 01AAAAAAAAAA1, 01AAAAAAAAAA2, 01CCCCCCCCCC4.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	code, out, _ = program.Output(t, "cluster", "status", "--config", tb.file, "--json")
	if code != cli.ExitUnreached {
		t.Errorf("status --json: exit %d, want %d", code, cli.ExitUnreached)
	}
	r := clitest.Into[ClusterReport](t, out)
	if m := r.Members[2]; m.State != "not reached" || m.Wants != 1 || m.Reach == nil || len(m.Reach.Missing) != 3 || r.Members[3].Reach != nil {
		t.Errorf("rows: %s", out)
	}
}

func TestClusterStatusOfVersions(t *testing.T) {
	members := three()
	members[2].Version = "v1.3.0"
	tb := newPaper(t, members)
	if _, out, _ := program.Output(t, "cluster", "status", "--config", tb.file); !strings.Contains(out, "The members have 2 versions; all read the same records.") {
		t.Error(out)
	}
	if _, out, _ := program.Output(t, "cluster", "status", "--config", newPaper(t, three()).file); !strings.Contains(out, "\nAll run version v1.2.0.\n") {
		t.Error(out)
	}
	empty := newPaper(t, nil)
	if code, out, errOut := program.Output(t, "cluster", "status", "--config", empty.file); code != 0 || !strings.Contains(out, "No node serves it.") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
}

func TestClusterDrain(t *testing.T) {
	for _, name := range []string{"01B", "10.0.0.3:7946", "10.0.0.3:3000", "01BBBBBBBBBB3"} {
		tb := newPaper(t, three())
		tb.drains["01BBBBBBBBBB3"] = 1
		code, out, errOut := program.Output(t, "cluster", "drain", name, "--config", tb.file)
		if code != 0 || errOut != "" {
			t.Fatalf("%s: exit %d, %q, %s", name, code, out, errOut)
		}
		for _, want := range []string{"member 01BBBBBBBBBB3 at 10.0.0.3:7946 is draining\n", " conversations left\n", "has no conversation left\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, out)
			}
		}
		draining := func() bool {
			v, err := actors.ReadCluster(t.Context(), tb.Bucket)
			if err != nil {
				t.Fatal(err)
			}
			return v.Members[2].Draining
		}
		if !draining() {
			t.Error("the row is not marked")
		}
		code, out, errOut = program.Output(t, "cluster", "drain", name, "--json", "--config", tb.file)
		if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || lines[len(lines)-1] != `{"member":"01BBBBBBBBBB3","node":"10.0.0.3:7946","state":"drained","active":0}` {
			t.Errorf("drain --json: exit %d, %q, %q; want lines of JSON, and last the state drained", code, out, errOut)
		}
		code, out, errOut = program.Output(t, "cluster", "drain", name, "--undo", "--config", tb.file)
		if code != 0 || !strings.Contains(out, "owns conversations again") || draining() {
			t.Errorf("undo: exit %d, %q, %q", code, out, errOut)
		}
	}
}

func TestClusterDrainTimesOut(t *testing.T) {
	tb := newPaper(t, three(), "01AAAAAAAAAA1")
	code, out, errOut := program.Output(t, "cluster", "drain", "01B", "--wait", "900ms", "--config", tb.file)
	if code != 1 || !strings.Contains(errOut, "has 4 conversations left after 900ms and continues draining: wait longer") || !strings.Contains(out, "4 conversations left\n") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	if code, _, errOut := program.Output(t, "cluster", "drain", "01AAAAAAAAAA1", "--wait", "300ms", "--config", tb.file); code != 1 || !strings.Contains(errOut, "has no heartbeat") {
		t.Errorf("exit %d, %q", code, errOut)
	}
	// It is the last member that takes conversations.
	if code, _, errOut := program.Output(t, "cluster", "drain", "01AAAAAAAAAA2", "--config", tb.file); code != 1 || !strings.Contains(errOut, "start another node first") {
		t.Errorf("exit %d, %q", code, errOut)
	}
	if code, out, errOut := program.Output(t, "cluster", "drain", "01B", "--wait", "0", "--config", tb.file); code != 0 || !strings.Contains(out, "is draining") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
}

func TestClusterDrainIsInterrupted(t *testing.T) {
	tb := newPaper(t, three())
	ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
	defer stop()
	var errOut bytes.Buffer
	seen := clitest.WriterFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("conversations left")) {
			stop()
		}
		return len(p), nil
	})
	code := program.Run(ctx, []string{"cluster", "drain", "01B", "--wait", "1h", "--config", tb.file}, seen, &errOut)
	if code != cli.ExitInterrupted || !strings.Contains(errOut.String(), "continues draining; \"parley cluster drain --undo 01BBBBBBBBBB3\"") {
		t.Errorf("exit %d, %q", code, errOut.String())
	}
}

func TestClusterMistakes(t *testing.T) {
	tb := newPaper(t, three())
	alone := three()[:1]
	alone[0].Node = ""
	single := newPaper(t, alone)
	dir := t.TempDir()
	folder := clitest.EchoConfig(t, dir, clitest.DirBucket(dir))
	refusing := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: words, secure: false}", noderun.Refusing(t)))
	empty := newPaper(t, nil)
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"no node":          {[]string{"drain"}, []string{"parley cluster status\" lists them"}},
		"unknown node":     {[]string{"drain", "10.0.0.9:7946", "--config", tb.file}, []string{`no member is "10.0.0.9:7946"`, "01AAAAAAAAAA1  node 10.0.0.1:7946  http 10.0.0.1:3000", "01BBBBBBBBBB3"}},
		"ambiguous node":   {[]string{"drain", "01A", "--config", tb.file}, []string{`2 members are "01A"`, "01AAAAAAAAAA2"}},
		"nobody to drain":  {[]string{"drain", "01A", "--config", empty.file}, []string{"no node serves the bucket"}},
		"alone":            {[]string{"drain", "01A", "--config", single.file}, []string{"serves the bucket alone", "stop it instead"}},
		"a folder":         {[]string{"status", "--config", folder}, []string{"the bucket is a folder, which only one process can serve"}},
		"drain a folder":   {[]string{"drain", "x", "--config", folder}, []string{"the bucket is a folder"}},
		"bucket is away":   {[]string{"status", "--config", refusing}, []string{"check bucket.endpoint"}},
		"no file":          {[]string{"status", "--config", filepath.Join(dir, "none.yaml")}, []string{"create it"}},
		"an argument":      {[]string{"status", "x"}, []string{"parley cluster status takes no argument"}},
		"unknown flag":     {[]string{"drain", "x", "--undoo"}, []string{"parley cluster drain --help lists the flags"}},
		"unknown command":  {[]string{"stat"}, []string{`no command "stat" (did you mean status?)`}},
		"wait is no time":  {[]string{"drain", "x", "--wait", "30"}, []string{"--wait"}},
		"status of nobody": {[]string{"drain", "", "--config", tb.file}, []string{"drain takes one node"}},
	} {
		code, out, errOut := program.Output(t, append([]string{"cluster"}, tt.args...)...)
		wantCode := 1
		if slices.Contains([]string{"no node", "an argument", "unknown flag", "unknown command", "wait is no time", "status of nobody"}, name) {
			wantCode = cli.ExitUsage
		}
		for _, want := range tt.want {
			if code != wantCode || out != "" || !strings.Contains(errOut, want) {
				t.Errorf("%s: exit %d, %q, %q; want %q", name, code, out, errOut, want)
			}
		}
	}
	for _, args := range [][]string{{"cluster"}, {"cluster", "status", "--help"}, {"cluster", "drain", "--help"}, {"cluster", "certs", "--help"}} {
		if code, out, _ := program.Output(t, args...); code != 0 || !strings.Contains(out, "parley cluster") {
			t.Errorf("%v: exit %d, %q", args, code, out)
		}
	}
}

func TestReportIsJSON(t *testing.T) {
	data, err := json.Marshal(ClusterReport{Members: []memberReport{{Member: member("01A", "h"), State: "serving"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":"01A"`, `"node":"h:7946"`, `"weight":1`, `"state":"serving"`, `"share":0`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("lacks %s: %s", want, data)
		}
	}
}
