package folder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/console"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/folder"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/stats"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// world is a node over a bucket in memory, with a file of events.
type world struct {
	*testing.T
	bucket  storage.Bucket
	events  string
	runtime *actors.Runtime
	stop    func() // stops the node, once
}

func newWorld(t *testing.T) *world {
	store := local.NewMemory()
	w := &world{T: t, bucket: store, events: filepath.Join(t.TempDir(), "events.jsonl")}
	file, err := jsonl.Open(w.events, nil)
	if err != nil {
		t.Fatal(err)
	}
	models := providers.NewRegistry(nil)
	if err := demo.Register(models, 0); err != nil {
		t.Fatal(err)
	}
	w.runtime, err = actors.New(store, &actors.Options{
		Agents:    []*agent.Agent{{Name: "echo", Model: "demo/parrot"}, {Name: "other", Model: "demo/parrot"}},
		Providers: models, Pace: time.Millisecond, SegmentBatches: 1,
		Events: actors.EventOptions{Sinks: []observability.Sink{file}, Prompts: true, GroupEvery: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.runtime.Run(ctx) }()
	<-w.runtime.Ready()
	w.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		w.stop()
		if err := errors.Join(file.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// send sends a message and waits for its outcome.
func (w *world) send(agentName, id, body string) conversation.SubmissionID {
	w.Helper()
	at := conversation.Address{Agent: agentName, ID: id}
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	receipt, err := w.runtime.Admit(ctx, conversation.Admission{Address: at, Key: body + id, Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: body}})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.runtime.Wait(ctx, at, receipt); err != nil {
		w.Fatal(err)
	}
	return receipt.SubmissionID
}

// ask calls an endpoint and decodes its response into v, unless v is nil.
func (w *world) ask(f *folder.Folder, name string, query url.Values, v any) error {
	w.Helper()
	answer, err := f.Endpoints()[name](httptest.NewRequest(http.MethodGet, "/?"+query.Encode(), nil).WithContext(w.Context()))
	if err != nil || v == nil {
		return err
	}
	encoded, err := json.Marshal(answer)
	if err != nil {
		w.Fatal(err)
	}
	return json.Unmarshal(encoded, v)
}

type listed struct {
	Conversations []folder.Conversation
	Found, All    int
}

// TestConversations checks order, search and updates of the list.
func TestConversations(t *testing.T) {
	w := newWorld(t)
	f := folder.New(w.bucket, folder.Events{})
	first := w.send("echo", "one", "hello  there")
	w.send("other", "two", "a question")
	second := w.send("echo", "one", "more")
	var all listed
	if err := w.ask(f, "conversations", nil, &all); err != nil {
		t.Fatal(err)
	}
	if all.All != 2 || all.Found != 2 || all.Conversations[0].ID != "one" || all.Conversations[1].ID != "two" {
		t.Fatalf("got list %+v", all)
	}
	one := all.Conversations[0]
	if one.Agent != "echo" || one.Title != "hello there" || one.Admitted != 2 || one.Output == 0 || one.Begun == 0 || one.Active < one.Begun {
		t.Errorf("got conversation %+v", one)
	}
	if s := one.Submissions; len(s) != 2 || s[0].ID != second || s[1].ID != first || s[0].State != "completed" || s[0].Title != "more" || s[0].Output+s[1].Output != one.Output {
		t.Errorf("got submissions %+v", s)
	}
	// Times have milliseconds: the next message needs a later one.
	w.eventually(func() bool { return conversation.TimeOf(time.Now()) > one.Active })
	w.send("other", "two", "newest")
	for words, want := range map[string]int{"": 2, "HELLO": 1, "other": 1, "newest": 1, string(first): 1, "nothing": 0} {
		var found listed
		if err := w.ask(f, "conversations", url.Values{"q": {words}}, &found); err != nil || found.Found != want || found.All != 2 {
			t.Errorf("query %q: got %+v, %v; want %d", words, found, err, want)
		}
	}
	for _, tt := range []struct {
		query url.Values
		want  int
	}{
		{url.Values{"agent": {"echo"}}, 1}, {url.Values{"agent": {"unknown"}}, 0}, {url.Values{"outcome": {"completed"}}, 2}, {url.Values{"outcome": {"failed"}}, 0},
		{url.Values{"since": {fmt.Sprint(int64(one.Active) + 1)}}, 1}, {url.Values{"since": {"1"}, "agent": {"other"}, "outcome": {"completed"}, "q": {"newest"}}, 1},
	} {
		var found listed
		if err := w.ask(f, "conversations", tt.query, &found); err != nil || found.Found != tt.want || found.All != 2 {
			t.Errorf("query %v: got %+v, %v; want %d", tt.query, found, err, tt.want)
		}
	}
	var now listed
	if err := w.ask(f, "conversations", nil, &now); err != nil || now.Conversations[0].ID != "two" {
		t.Errorf("got newest %+v, %v", now, err)
	}
	// Read one by its address: in a new folder, and in one that has not read the newest message.
	third := w.send("echo", "one", "the last")
	for name, f := range map[string]*folder.Folder{"new": folder.New(w.bucket, folder.Events{}), "behind": f} {
		var got folder.Conversation
		if err := w.ask(f, "conversation", url.Values{"agent": {"echo"}, "id": {"one"}}, &got); err != nil {
			t.Fatal(err)
		}
		if s := got.Submissions; len(s) != 3 || s[0].ID != third || s[0].Model != "demo/parrot" || s[0].State != "completed" || s[0].Output == 0 {
			t.Errorf("%s: got %+v, want %s first, of demo/parrot", name, s, third)
		}
	}
	now = listed{}
	if err := w.ask(f, "conversations", nil, &now); err != nil {
		t.Fatal(err)
	}
	// A new folder reads the same.
	var anew listed
	if err := w.ask(folder.New(w.bucket, folder.Events{}), "conversations", nil, &anew); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(now, anew); d != "" {
		t.Errorf("incremental and full read differ (-incremental +full):\n%s", d)
	}
}

// TestManySubmissions checks that dropped submissions still count.
func TestManySubmissions(t *testing.T) {
	w := newWorld(t)
	first := w.send("echo", "long", "first")
	for i := range 55 {
		w.send("echo", "long", fmt.Sprint("message ", i))
	}
	f := folder.New(w.bucket, folder.Events{})
	var all listed
	if err := w.ask(f, "conversations", nil, &all); err != nil {
		t.Fatal(err)
	}
	if c := all.Conversations[0]; c.Admitted != 56 || len(c.Submissions) != 50 || c.Title != "first" || c.Submissions[0].Title != "message 54" {
		t.Errorf("got %d admitted, %d listed, titles %q and %q", c.Admitted, len(c.Submissions), c.Title, c.Submissions[0].Title)
	}
	var rejected *console.Error
	if err := w.ask(f, "submission", url.Values{"id": {string(first)}}, nil); !errors.As(err, &rejected) || rejected.Status != http.StatusNotFound {
		t.Errorf("oldest submission: got error %v", err)
	}
}

// TestTimeline compares the tree with that of the file's events. From a log alone only prompts are
// missing.
func TestTimeline(t *testing.T) {
	w := newWorld(t)
	w.send("echo", "one", "before")
	id := w.send("echo", "one", "think")
	var whole, alone folder.Timeline
	query := url.Values{"id": {string(id)}}
	f := folder.New(w.bucket, folder.Events{File: w.events})
	w.eventually(func() bool {
		want, err := stats.Trace(jsonl.ReadFiles(w.events), id)
		if err != nil && !errors.Is(err, stats.ErrNoEvents) {
			t.Fatal(err)
		}
		if want == nil || want.State != stats.StateCompleted {
			return false
		}
		// Live events arrive later.
		whole = folder.Timeline{}
		if err := w.ask(f, "submission", query, &whole); err != nil {
			t.Fatal(err)
		}
		return len(whole.Requests) == 1
	})
	want, err := stats.Trace(jsonl.ReadFiles(w.events), id)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, whole.Trace); d != "" {
		t.Errorf("tree (-parley trace +timeline):\n%s", d)
	}
	if r := whole.Requests[0]; !strings.Contains(string(r.Input), "think") || r.Turn == "" || whole.Body == nil || whole.Body.Text != "think" || whole.First <= 0 || whole.Last < whole.First {
		t.Errorf("got timeline %+v", whole)
	}
	if err := w.ask(folder.New(w.bucket, folder.Events{}), "submission", query, &alone); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole.Trace, alone.Trace); d != "" || len(alone.Requests) != 0 {
		t.Errorf("log only: got %d prompts (-with file +without):\n%s", len(alone.Requests), d)
	}
}

// eventually waits for an asynchronous write.
func (w *world) eventually(done func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(end) {
			w.Fatal("condition was not met in time")
		}
	}
}

// TestStats compares with "parley stats", from a file and from the logs.
func TestStats(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{"help", "think", "long 5"} {
		w.send("echo", "one", body)
		w.send("other", "two", body)
	}
	for filter, messages := range map[stats.Filter]int64{{}: 6, {Agent: "echo"}: 3, {Since: conversation.TimeOf(time.Now().Add(time.Hour))}: 0} {
		query := url.Values{"agent": {filter.Agent}}
		if filter.Since != 0 {
			query.Set("since", fmt.Sprint(int64(filter.Since)))
		}
		var want *stats.Summary
		w.eventually(func() bool {
			var err error
			if want, err = stats.Summarize(jsonl.ReadFiles(w.events), filter); err != nil {
				t.Fatal(err)
			}
			return want.Submissions.Settled() == messages
		})
		for _, events := range []string{w.events, ""} {
			var got stats.Summary
			if err := w.ask(folder.New(w.bucket, folder.Events{File: events}), "figures", query, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(*want, got); d != "" {
				t.Errorf("%+v of the file %q (-parley stats +folder):\n%s", filter, events, d)
			}
		}
	}
}

func TestRecords(t *testing.T) {
	w := newWorld(t)
	w.send("echo", "one", "hello")
	f := folder.New(w.bucket, folder.Events{})
	var got struct {
		Batches []struct {
			Seq     int64
			Offset  string
			Records []map[string]any
		}
		Last int64
	}
	query := url.Values{"agent": {"echo"}, "id": {"one"}, "from": {"0"}}
	if err := w.ask(f, "records", query, &got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Batches); n < 2 || got.Last != int64(n-1) || got.Batches[0].Records[0]["type"] != "conversation_created" || got.Batches[1].Seq != 1 || got.Batches[1].Offset != conversation.Offset(1).String() {
		t.Errorf("got %+v", got)
	}
	query.Set("from", fmt.Sprint(got.Last+1))
	if err := w.ask(f, "records", query, &got); err != nil || len(got.Batches) != 0 {
		t.Errorf("after the end: got %+v, %v", got, err)
	}
}

// TestMistakes checks the errors of invalid requests.
func TestMistakes(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name   string
		query  url.Values
		status int
		want   string
	}{
		{"submission", nil, 400, "id must be"},
		{"submission", url.Values{"id": {"sub_x"}}, 404, "sub"},
		{"records", url.Values{"from": {"-1"}}, 400, "from must be"},
		{"records", url.Values{"from": {"x"}}, 400, "from must be"},
		{"records", url.Values{"from": {"9223372036854775807"}}, 400, "from must be"},
		{"figures", url.Values{"since": {"yesterday"}}, 400, "since must be"},
		{"conversations", url.Values{"since": {"-1"}}, 400, "since must be"},
		{"conversation", url.Values{"agent": {"echo"}, "id": {"none"}}, 404, "no such conversation"},
	} {
		var rejected *console.Error
		if err := w.ask(folder.New(w.bucket, folder.Events{File: w.events}), tt.name, tt.query, nil); !errors.As(err, &rejected) || rejected.Status != tt.status || !strings.Contains(rejected.Error(), tt.want) {
			t.Errorf("%s %v: %v", tt.name, tt.query, err)
		}
	}
}

// TestManyRecords checks that responses have a bounded size.
func TestManyRecords(t *testing.T) {
	w := newWorld(t)
	f := folder.New(w.bucket, folder.Events{})
	for i := range 30 {
		w.send("echo", "many", fmt.Sprint("message ", i))
	}
	for i := range 4 {
		w.send("echo", "large", fmt.Sprint(i, strings.Repeat("x", 600_000)))
	}
	for _, id := range []string{"many", "large"} {
		next, last := int64(0), int64(0)
		for next <= last {
			var got struct {
				Batches []struct {
					Seq     int64
					Records []json.RawMessage
				}
				Last int64
			}
			query := url.Values{"agent": {"echo"}, "id": {id}, "from": {fmt.Sprint(next)}}
			if err := w.ask(f, "records", query, &got); err != nil {
				t.Fatal(err)
			}
			size, before := 0, 0
			for _, b := range got.Batches {
				if b.Seq != next {
					t.Fatalf("%s: batch %d follows %d", id, b.Seq, next-1)
				}
				next, before = next+1, size
				for _, r := range b.Records {
					size += len(r)
				}
			}
			if n := len(got.Batches); n == 0 || n > 50 || before > 1<<20 {
				t.Errorf("%s: got a response of %d batches, %d bytes before the last one", id, n, before)
			}
			if last = got.Last; int64(len(got.Batches)) > last {
				t.Errorf("%s: got all batches in one response", id)
			}
		}
	}
}

// TestCorruptLog checks that a corrupt log is reported, and the others are listed.
func TestCorruptLog(t *testing.T) {
	w := newWorld(t)
	w.send("echo", "good", "hello")
	w.send("echo", "bad", "hello")
	w.stop() // Batches are moved into a segment some time after their responses.
	key := conversation.Address{Agent: "echo", ID: "bad"}.Key()
	page, err := w.bucket.List(t.Context(), storage.ListQuery{})
	if err != nil || page.More {
		t.Fatal(err, page.More)
	}
	for _, k := range page.Keys {
		if strings.Contains(k.Key, string(key)+"/log/") || strings.Contains(k.Key, string(key)+"/seg/") {
			if err := w.bucket.Put(t.Context(), k.Key, storage.Bytes([]byte("no batch"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var all listed
	if err := w.ask(folder.New(w.bucket, folder.Events{}), "conversations", nil, &all); err != nil {
		t.Fatal(err)
	}
	corrupt := map[string]bool{}
	for _, c := range all.Conversations {
		corrupt[c.ID] = c.Corrupt != ""
	}
	if d := cmp.Diff(map[string]bool{"good": false, "": true}, corrupt); d != "" {
		t.Errorf("corrupt (-want +got):\n%s", d)
	}
}
