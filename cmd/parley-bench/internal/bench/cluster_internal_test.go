package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

func TestResultOf(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		err    error
		want   result
	}{
		"answered":              {202, nil, answered},
		"unavailable":           {503, nil, unavailable},
		"another answer":        {200, nil, failed},
		"an error of the node":  {500, nil, failed},
		"refused":               {0, fmt.Errorf("ask: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), refused},
		"no connection in time": {0, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, failed},
		"no answer in time":     {0, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, failed},
		"reset":                 {0, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, cut},
		"gone while writing":    {0, &net.OpError{Op: "write", Err: syscall.EPIPE}, cut},
		"no answer":             {0, io.ErrUnexpectedEOF, cut},
		"half an answer":        {0, fmt.Errorf("read the body: %w", io.ErrUnexpectedEOF), cut},
		"anything else":         {0, errors.New("malformed HTTP response"), failed},
	} {
		if got := resultOf(tt.status, 202, tt.err); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// fakeNodes returns nodes that answer with a status; 0 has no listener.
func fakeNodes(t *testing.T, statuses ...int) (*cluster, []*atomic.Int64) {
	t.Helper()
	j := &job{runner: &runner{o: Options{Progress: io.Discard}}, Scenario: &Scenario{Name: "x"}}
	c := &cluster{job: j, nodes: make([]atomic.Pointer[incarnation], len(statuses))}
	var asked []*atomic.Int64
	for i, status := range statuses {
		count := &atomic.Int64{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			count.Add(1)
			body, err := io.ReadAll(r.Body)
			if err != nil || !strings.Contains(string(body), `"idempotencyKey":"x-0"`) {
				t.Errorf("request body %q, %v", body, err)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"submissionId":"sub","offset":"1"}`)
		}))
		t.Cleanup(server.Close)
		at, err := newTarget(server.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		if status == 0 {
			server.Close()
		}
		l := &incarnation{child: &child{target: at}, place: i}
		l.ready.Store(true)
		c.nodes[i].Store(l)
		asked = append(asked, count)
	}
	c.turn.Store(-1)
	return c, asked
}

// A request that a node does not take is retried once at another one, and counted.
func TestLoadRetries(t *testing.T) {
	for name, tt := range map[string]struct {
		statuses []int
		result   result
		failed   int
		asked    []int64
	}{
		"taken":                  {[]int{202, 503}, answered, 0, []int64{1, 0}},
		"unavailable once":       {[]int{503, 202, 500}, unavailable, 0, []int64{1, 1, 0}},
		"unavailable twice":      {[]int{503, 503, 202}, unavailable, 1, []int64{1, 1, 0}},
		"no listener":            {[]int{0, 202}, refused, 0, []int64{0, 1}},
		"an error":               {[]int{500, 202}, failed, 1, []int64{1, 0}},
		"an error, second":       {[]int{503, 500}, unavailable, 1, []int64{1, 1}},
		"no other node is ready": {[]int{503}, unavailable, 1, []int64{1}},
	} {
		c, asked := fakeNodes(t, tt.statuses...)
		l := &load{c: c, ids: []string{"c"}, rate: 1, acknowledged: map[string][]string{}, began: time.Now()}
		l.request(t.Context(), 0, time.Now())
		var got []int64
		for _, a := range asked {
			got = append(got, a.Load())
		}
		if l.results[tt.result] != 1 || l.failed != tt.failed || len(l.took) != 1-tt.failed || !slices.Equal(got, tt.asked) {
			t.Errorf("%s: results %v, failed %d, %d times, asked %v; want %+v", name, l.results, l.failed, len(l.took), got, tt)
		}
		if acknowledged := slices.Equal(l.acknowledged["c"], []string{"sub"}); acknowledged != (tt.failed == 0) {
			t.Errorf("%s: acknowledged %v", name, l.acknowledged)
		}
	}
}

func TestLoadHeedsReadiness(t *testing.T) {
	c, _ := fakeNodes(t, 202, 202, 202)
	c.nodes[1].Load().ready.Store(false)
	c.nodes[2].Store(nil)
	for range 5 {
		if l := c.pick(nil); l == nil || l.place != 0 {
			t.Fatalf("picked %+v, want the first", l)
		}
	}
	if l := c.pick(c.nodes[0].Load()); l != nil {
		t.Errorf("picked node %d, want none", l.place)
	}
	c.nodes[0].Load().ready.Store(false)
	late := time.AfterFunc(time.Millisecond, func() { c.nodes[1].Load().ready.Store(true) })
	defer late.Stop()
	if l, err := c.next(t.Context()); err != nil || l.place != 1 {
		t.Errorf("waited for %+v, %v; want the second", l, err)
	}
}

func TestLastBatch(t *testing.T) {
	for in, want := range map[string]int64{
		`[{"type":"a","position":{"batch":10,"index":0}},{"type":"b","position":{"batch":12,"index":2}}]`: 12,
		`[{"type":"a","position":{"batch":0,"index":0}}]`:                                                 0,
		`[]`: -1, `[{"position":{"batch":`: -1, `[{"position":{"batch":x,"index":0}}]`: -1,
	} {
		if got, ok := lastBatch([]byte(in)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v", in, got, ok)
		}
	}
}

// A batch of a new writer ends the interruption; batches in flight at the kill do not.
func TestInterrupted(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	killed := at(10)
	for name, tt := range map[string]struct {
		nonces   string // of batches 0, 1, …
		seen     []arrival
		want     time.Duration // 0 if the turn was not interrupted
		attempts int
	}{
		"taken over":                     {"aaaabb", []arrival{{1, at(8)}, {3, at(9)}, {5, at(12)}}, 2 * time.Second, 2},
		"a claim shows nothing":          {"aaaabbb", []arrival{{3, at(9)}, {6, at(13)}}, 3 * time.Second, 2},
		"one was on its way":             {"aaaabb", []arrival{{2, at(9)}, {3, at(11)}, {4, at(14)}}, 4 * time.Second, 2},
		"not interrupted":                {"aaaaaa", []arrival{{2, at(9)}, {4, at(11)}, {5, at(12)}}, 0, 1},
		"another owner before":           {"aabbbb", []arrival{{2, at(9)}, {4, at(11)}, {5, at(12)}}, 0, 1},
		"settled before":                 {"aaa", []arrival{{2, at(9)}}, 0, 1},
		"nothing was seen before":        {"aabb", []arrival{{2, at(12)}}, 0, 1},
		"nothing was seen of the change": {"aabb", []arrival{{1, at(9)}}, 0, 2},
	} {
		s := newLogView("c")
		for i, nonce := range tt.nonces {
			s.add(written{int64(i), storage.Nonce(nonce)})
		}
		for range tt.attempts {
			s.add(written{}, &conversation.AttemptStarted{Submission: "s"})
		}
		s.add(written{}, &conversation.SubmissionSettled{Submission: "s"})
		s.batches = s.batches[:len(tt.nonces)]
		var sum failures
		sum.add(&follower{turn: receipt{SubmissionID: "s"}, seen: tt.seen}, s, killed)
		var want []time.Duration
		if tt.want > 0 {
			want = []time.Duration{tt.want}
		}
		if !slices.Equal(sum.took, want) || sum.interrupted.consumed+sum.others.consumed != tt.attempts-1 || (tt.attempts == 1) != (sum.undisturbed == 1) {
			t.Errorf("%s: %+v, want %v", name, sum, tt)
		}
	}
}

func TestAudit(t *testing.T) {
	s := newLogView("c")
	add := func(records ...conversation.Record) { s.add(written{}, records...) }
	begun := func(id string) conversation.Record {
		return &conversation.AttemptStarted{Submission: conversation.SubmissionID(id)}
	}
	done := func(id string) conversation.Record {
		return &conversation.SubmissionSettled{Submission: conversation.SubmissionID(id)}
	}
	add(begun("plain"), done("plain"), begun("released"))
	add(&conversation.AttemptReleased{Submission: "released"})
	add(begun("released"), done("released"), begun("tried"))
	add(begun("tried"), begun("tried"), done("tried"), begun("twice"), done("twice"), done("twice"), begun("owed"))
	ids := []string{"plain", "released", "tried", "twice", "owed", "unknown"}
	var got audit
	odd := got.count(s, ids...)
	if want := (audit{lost: 2, twice: 1, consumed: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want := "submission tried was settled 1 times after 3 attempts, submission twice was settled 2 times after 1 attempts, " +
		"submission owed was settled 0 times after 1 attempts, submission unknown was settled 0 times after 0 attempts"
	if odd != want {
		t.Errorf("findings %q, want %q", odd, want)
	}
}

func TestBehind(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	owners := [][]arrival{{{1, at(10)}, {2, at(20)}}, {{1, at(12)}, {2, at(22)}}, {{2, at(30)}}}
	others := [][]arrival{{{1, at(13)}, {2, at(25)}}, {{1, at(11)}}, {{2, at(21)}}}
	got := behind(owners, others)
	slices.Sort(got)
	var want []time.Duration
	// The owner's median has batch 1 at 12 and batch 2 at 22; one frame had both.
	for _, ms := range []int{-1, -1, 1, 3, 9} {
		want = append(want, time.Duration(ms)*time.Millisecond)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestBucketAt(t *testing.T) {
	for in, want := range map[string]config.Bucket{
		"http://127.0.0.1:1/b": {Endpoint: "127.0.0.1:1", Name: "b"},
		"":                     {}, "//127.0.0.1:1/b": {}, "http://127.0.0.1:1": {}, "http:///b": {}, "http://h:1/": {}, "http://h:1/a/b": {},
	} {
		at, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := bucketAt(at); err == nil && got != want || (err == nil) != (want.Name != "") {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

// Options are checked before anything starts, and a scenario that cannot run reports its reason.
func TestRunClusterMistakes(t *testing.T) {
	for name, tt := range map[string]struct {
		o    Options
		want string
	}{
		"unknown scenario":   {Options{Only: []string{"turns"}}, `unknown scenario of a cluster "turns": want one of cluster-failover, `},
		"too much":           {Options{Percent: 101}, "invalid percent 101"},
		"no folder for logs": {Options{Logs: "none"}, "find the folder for logs"},
		"a file for logs":    {Options{Logs: "doc.go"}, "is not a folder"},
		"no such folder":     {Options{Dir: "none"}, "make a folder for the data"},
	} {
		r, err := Run(t.Context(), Cluster, tt.o)
		if r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want %q", name, r, err, tt.want)
		}
	}
	dir := t.TempDir()
	r, err := Run(t.Context(), Cluster, Options{Program: "none", Self: "none", Dir: dir, Only: []string{"cluster-idle"}})
	if err != nil || r.Failed() != 1 || !strings.Contains(r.Scenarios[0].Error, "start model") || r.Bucket == "" {
		t.Errorf("without a program: %+v, %v", r, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err = Run(ctx, Cluster, Options{Program: "none", Dir: dir})
	if err != nil || r.Failed() != len(Cluster.Names()) {
		t.Errorf("cancelled: %+v, %v", r, err)
	}
}
