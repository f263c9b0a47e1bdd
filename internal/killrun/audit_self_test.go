package killrun_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/storage"
)

// forgery is evidence with one flaw.
type forgery struct {
	name string
	want string // expected part of a flaw
	make func(t *testing.T, e *evidence)
}

// first returns the first conversation whose reader has many chunks.
func first(e *evidence) *convEvidence {
	n := slices.IndexFunc(e.convs, func(k convEvidence) bool { return len(k.reads) > 0 && len(k.reads[0].Chunks) > 4 })
	return &e.convs[n]
}

func forgeries() []forgery {
	seen := func(change func(s []noderun.Chunk) []noderun.Chunk) func(*testing.T, *evidence) {
		return func(_ *testing.T, e *evidence) {
			k := first(e)
			k.reads = slices.Clone(k.reads)
			k.reads[0].Chunks = change(slices.Clone(k.reads[0].Chunks))
		}
	}
	receipt := func(change func(r *conversation.Receipt)) func(*testing.T, *evidence) {
		return func(_ *testing.T, e *evidence) {
			k := first(e)
			k.posts = slices.Clone(k.posts)
			i := slices.IndexFunc(k.posts, func(p *post) bool { return p.Receipt != nil })
			p, r := *k.posts[i], *k.posts[i].Receipt
			change(&r)
			p.Receipt = &r
			k.posts[i] = &p
		}
	}
	return []forgery{
		{"a chunk is missing", "as in the log", seen(func(s []noderun.Chunk) []noderun.Chunk { return slices.Delete(s, 2, 3) })},
		{"the last chunk is missing", " lacks ", seen(func(s []noderun.Chunk) []noderun.Chunk { return s[:len(s)-1] })},
		{"a chunk came twice", "as in the log", seen(func(s []noderun.Chunk) []noderun.Chunk { return slices.Insert(s, 3, s[2]) })},
		{"a chunk too many", "which is not in the log", seen(func(s []noderun.Chunk) []noderun.Chunk { return append(s, s[len(s)-1]) })},
		{"another text", "as in the log", seen(func(s []noderun.Chunk) []noderun.Chunk {
			s[1].Raw = bytes.Replace(s[1].Raw, []byte(`":"`), []byte(`":"x`), 1)
			return s
		})},
		{"another offset in a receipt", "the log has", receipt(func(r *conversation.Receipt) { r.Offset++ })},
		{"another submission in a receipt", "the log has", receipt(func(r *conversation.Receipt) { r.SubmissionID += "x" })},
		{"another incarnation in a receipt", "the log has", receipt(func(r *conversation.Receipt) { r.UID += "x" })},
		{"an acknowledged message is lost", "is not in the log", func(_ *testing.T, e *evidence) {
			k := first(e)
			k.posts = append(slices.Clone(k.posts), &post{Key: "lost", Receipt: &conversation.Receipt{}})
		}},
		{"a message never sent", "which was never sent", func(_ *testing.T, e *evidence) { first(e).posts = nil }},
		{"another message than was sent", ": sent ", func(_ *testing.T, e *evidence) {
			k := first(e)
			p := *k.posts[0]
			p.Op.Steps = append(slices.Clone(p.Op.Steps), step{Words: 1})
			k.posts = append([]*post{&p}, k.posts[1:]...)
		}},
		{"an abort that was answered is lost", "log has ", func(_ *testing.T, e *evidence) { first(e).aborts = aborts{9, 9} }},
		{"another snapshot", "the fold of its log", func(_ *testing.T, e *evidence) {
			k := first(e)
			k.snapshot = bytes.Replace(k.snapshot, []byte(`"w1`), []byte(`"w2`), 1)
		}},
		{"a snapshot beyond the log", "log ends at", func(_ *testing.T, e *evidence) { first(e).offset += 1000 }},
		{"a snapshot that is not there", "unknown to the last server", func(_ *testing.T, e *evidence) { first(e).snapshot = nil }},
		{"a call that began twice", "began 2 times", ledgerChange(func(l []ledgerLine) []ledgerLine { return append(l, l[0]) })},
		{"a call that is in no log", "is in no log", ledgerChange(func(l []ledgerLine) []ledgerLine {
			return append(l, ledgerLine{Call: "call_x", Began: true})
		})},
		{"a call that never began", "began 0 times", ledgerChange(func(l []ledgerLine) []ledgerLine {
			return slices.DeleteFunc(l, func(l ledgerLine) bool { return l.Began })
		})},
		{"another result", "returned \"other\"", ledgerChange(func(l []ledgerLine) []ledgerLine {
			for i := range l { // the kill may come before any one of them is recorded
				if l[i].Ended {
					l[i].Result = "other"
				}
			}
			return l
		})},
		{"a call before its attempt", "in attempt 99", ledgerChange(func(l []ledgerLine) []ledgerLine {
			l[0].Attempt = 99
			return l[:1]
		})},
	}
}

func ledgerChange(change func([]ledgerLine) []ledgerLine) func(*testing.T, *evidence) {
	return func(t *testing.T, e *evidence) {
		data, err := os.ReadFile(e.ledger)
		if err != nil {
			t.Fatal(err)
		}
		var lines []ledgerLine
		for line := range bytes.Lines(data) {
			var l ledgerLine
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, l)
		}
		e.ledger += "-forged"
		out, err := os.Create(e.ledger)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		d := desk{ledger: out}
		for _, l := range change(lines) {
			if err := d.note(l); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// calm returns a cycle with many operations and few interruptions.
func calm() cycle {
	steps := []step{{Words: 5, Tools: []tool{{"quick", 0}, {"note", 3}}}, {Words: 5}}
	return cycle{
		Kill: kill{At: atTool, N: 4, Limit: liveness},
		Ops:  []op{{Room: 0, Steps: steps}, {Room: 0, Steps: steps}, {Room: 3, Steps: steps}},
	}
}

func TestAuditDetectsForgeries(t *testing.T) {
	r := newRun(t, noderun.Place{Dir: t.TempDir()}, []cycle{calm()})
	e := r.perform()
	if e == nil {
		t.Fatal(r.describe())
	}
	if flaws, err := audit(t.Context(), e, &r.report); err != nil || len(flaws) > 0 {
		t.Fatalf("audit without a forgery: %v, %s", err, strings.Join(flaws, "\n"))
	}
	for _, f := range forgeries() {
		t.Run(f.name, func(t *testing.T) {
			forged := *e
			forged.convs = slices.Clone(e.convs)
			f.make(t, &forged)
			rep := newReport()
			flaws, err := audit(t.Context(), &forged, &rep)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(flaws, "\n"), f.want) {
				t.Errorf("audit: got %q, want %q", flaws, f.want)
			}
		})
	}
}

// The test removes an acknowledged batch while no server runs.
func TestLostLogIsDetected(t *testing.T) {
	steps := []step{{Words: 30, Pace: 5 * time.Millisecond}}
	c := cycle{Kill: kill{At: atAck, N: 2, Limit: liveness}, Ops: []op{{Room: 0, Steps: steps}, {Room: 0, Steps: steps}}}
	r := newRun(t, noderun.Place{Dir: t.TempDir()}, []cycle{c, c})
	r.after = func() {
		bucket, closeBucket, err := r.place.Open()
		if err != nil {
			t.Fatal(err)
		}
		key := conversation.Address{Agent: "worker", ID: room(0)}.Key()
		last, err := storage.NewLogs(bucket, nil).Tail(t.Context(), key, -1)
		if err != nil {
			t.Fatal(err)
		}
		for n := last; n >= int64(r.posts[0][1].Receipt.Offset); n-- {
			if err := bucket.Delete(t.Context(), storage.LogKey(key, n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := closeBucket(); err != nil {
			t.Fatal(err)
		}
	}
	if e := r.perform(); e != nil {
		flaws, err := audit(t.Context(), e, &r.report)
		if len(flaws) > 0 || err != nil {
			r.Fail("%v, %v", flaws, err)
		}
	}
	if !r.Any() {
		t.Error("removed an acknowledged message: audit found no flaw")
	}
}

// A server that ends by itself is distinguished from one that was killed.
func TestServerFlawsAreDetected(t *testing.T) {
	dir, reaper := t.TempDir(), proc.ReaperOf(t)
	start := func(name string, p noderun.Place) *server {
		s, err := startServer(reaper, serverConfig{Place: p, Vendor: "http://127.0.0.1:1", Ledger: filepath.Join(dir, name+".ledger")}, filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	bad := start("bad", noderun.Place{Dir: os.Args[0]}) // not a folder
	if base, err := bad.Await(t.Context()); err == nil {
		t.Errorf("server without data serves at %s", base)
	}
	bad.Kill()
	if flaws := bad.flaws(); len(flaws) == 0 {
		t.Error("server ended by itself: got no flaw")
	}
	good := start("good", noderun.Place{Dir: t.TempDir()})
	if base, err := good.Await(t.Context()); base == "" || err != nil {
		t.Errorf("start server: %v", err)
	}
	good.Kill()
	if flaws := good.flaws(); len(flaws) > 0 {
		t.Errorf("killed server: got flaws %s, want none", flaws)
	}
	if err := os.WriteFile(good.Log, []byte("WARNING: DATA RACE"), 0o600); err != nil {
		t.Fatal(err)
	}
	if flaws := good.flaws(); len(flaws) == 0 {
		t.Error("data race: got no flaw")
	}
}

func TestObservedIsNotRevoked(t *testing.T) {
	before := newObserved()
	before.texts["m"], before.outputs["c"], before.settled["s"] = "one two", "1", conversation.OutcomeCompleted
	same := observed{maps.Clone(before.texts), maps.Clone(before.outputs), maps.Clone(before.settled)}
	same.texts["m"] += " three"
	if lack := same.lacks(before); lack != "" {
		t.Errorf("lacks with more text: got %s, want none", lack)
	}
	for name, change := range map[string]func(s *observed){
		"less text":      func(s *observed) { s.texts["m"] = "one" },
		"no text":        func(s *observed) { delete(s.texts, "m") },
		"another result": func(s *observed) { s.outputs["c"] = "2" },
		"another end":    func(s *observed) { s.settled["s"] = conversation.OutcomeFailed },
	} {
		now := observed{maps.Clone(before.texts), maps.Clone(before.outputs), maps.Clone(before.settled)}
		if change(&now); now.lacks(before) == "" {
			t.Errorf("lacks after %s: got none", name)
		}
	}
}

// A reader delivers each chunk once, and reports a second settlement.
func TestReaderDetectsRepeats(t *testing.T) {
	chunk := func(batch, index, text string) string {
		return `{"type":"message-delta","conversationId":"c","messageId":"m","kind":"text","delta":"` + text + `","position":{"batch":` + batch + `,"index":` + index + `}}`
	}
	settled := `{"type":"submission-settled","conversationId":"c","submissionId":"s","outcome":"completed","position":{"batch":`
	for name, c := range map[string]struct {
		frames []string
		broken bool
		text   string
	}{
		"repeated chunks, then new ones": {[]string{"[" + chunk("1", "0", "a") + "]", "[" + chunk("1", "0", "a") + "," + chunk("2", "0", "b") + "]"}, false, "ab"},
		"two settlements":                {[]string{"[" + settled + `1,"index":0}}]`, "[" + settled + `2,"index":0}}]`}, true, ""},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for _, f := range c.frames {
				fmt.Fprintf(w, "event: data\ndata:%s\n\n", f)
			}
		}))
		events := newCounters()
		r := newReader(&run{events: events, client: newClient(events)}, 0, false, 0)
		if err := r.Stream(t.Context(), s.URL); noderun.Broken(err) != c.broken || r.view().texts["m"] != c.text {
			t.Errorf("%s: %v, shown %q", name, err, r.view().texts["m"])
		}
		s.Close()
	}
}
