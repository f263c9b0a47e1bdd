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
	stop    func() // ends the node, once
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

// say sends a message and waits for its outcome.
func (w *world) say(agentName, id, body string) conversation.SubmissionID {
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

// ask asks an endpoint and decodes its answer into v, unless that is nil.
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

// TestConversations: the newest first, with what is said of them, found by their words, and live.
func TestConversations(t *testing.T) {
	w := newWorld(t)
	f := folder.New(w.bucket, folder.Events{})
	first := w.say("echo", "one", "hello  there")
	w.say("other", "two", "a question")
	second := w.say("echo", "one", "more")
	var all listed
	if err := w.ask(f, "conversations", nil, &all); err != nil {
		t.Fatal(err)
	}
	if all.All != 2 || all.Found != 2 || all.Conversations[0].ID != "one" || all.Conversations[1].ID != "two" {
		t.Fatalf("listed %+v", all)
	}
	one := all.Conversations[0]
	if one.Agent != "echo" || one.Title != "hello there" || one.Admitted != 2 || one.Output == 0 || one.Begun == 0 || one.Active < one.Begun {
		t.Errorf("told %+v", one)
	}
	if s := one.Submissions; len(s) != 2 || s[0].ID != second || s[1].ID != first || s[0].State != "completed" || s[0].Title != "more" || s[0].Output+s[1].Output != one.Output {
		t.Errorf("submissions %+v", s)
	}
	// Moments are milliseconds: the next message is in another one.
	w.eventually(func() bool { return conversation.TimeOf(time.Now()) > one.Active })
	w.say("other", "two", "newest")
	for words, want := range map[string]int{"": 2, "HELLO": 1, "other": 1, "newest": 1, string(first): 1, "nothing": 0} {
		var found listed
		if err := w.ask(f, "conversations", url.Values{"q": {words}}, &found); err != nil || found.Found != want || found.All != 2 {
			t.Errorf("%q finds %+v, %v; want %d", words, found, err, want)
		}
	}
	for _, tt := range []struct {
		query url.Values
		want  int
	}{
		{url.Values{"agent": {"echo"}}, 1}, {url.Values{"agent": {"nobody"}}, 0}, {url.Values{"outcome": {"completed"}}, 2}, {url.Values{"outcome": {"failed"}}, 0},
		{url.Values{"since": {fmt.Sprint(int64(one.Active) + 1)}}, 1}, {url.Values{"since": {"1"}, "agent": {"other"}, "outcome": {"completed"}, "q": {"newest"}}, 1},
	} {
		var found listed
		if err := w.ask(f, "conversations", tt.query, &found); err != nil || found.Found != tt.want || found.All != 2 {
			t.Errorf("%v finds %+v, %v; want %d", tt.query, found, err, tt.want)
		}
	}
	var now listed
	if err := w.ask(f, "conversations", nil, &now); err != nil || now.Conversations[0].ID != "two" {
		t.Errorf("now the newest is %+v, %v", now, err)
	}
	// One of them by its address: in a folder that has read nothing, and in one that has not read its newest message.
	third := w.say("echo", "one", "the last")
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
	// Another one that reads everything anew says the same.
	var anew listed
	if err := w.ask(folder.New(w.bucket, folder.Events{}), "conversations", nil, &anew); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(now, anew); d != "" {
		t.Errorf("read bit by bit and at once (-bit +once):\n%s", d)
	}
}

// TestManySubmissions: the oldest are forgotten, and counted all the same.
func TestManySubmissions(t *testing.T) {
	w := newWorld(t)
	first := w.say("echo", "long", "first")
	for i := range 55 {
		w.say("echo", "long", fmt.Sprint("message ", i))
	}
	f := folder.New(w.bucket, folder.Events{})
	var all listed
	if err := w.ask(f, "conversations", nil, &all); err != nil {
		t.Fatal(err)
	}
	if c := all.Conversations[0]; c.Admitted != 56 || len(c.Submissions) != 50 || c.Title != "first" || c.Submissions[0].Title != "message 54" {
		t.Errorf("told %d, %d, %q, %q", c.Admitted, len(c.Submissions), c.Title, c.Submissions[0].Title)
	}
	var refused *console.Error
	if err := w.ask(f, "submission", url.Values{"id": {string(first)}}, nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("the oldest: %v", err)
	}
}

// TestTimeline: the tree is that of all events of the file, and with a log alone it lacks prompts only.
func TestTimeline(t *testing.T) {
	w := newWorld(t)
	w.say("echo", "one", "before")
	id := w.say("echo", "one", "think")
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
		// What is live comes when it comes.
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
		t.Errorf("the tree (-parley trace +here):\n%s", d)
	}
	if r := whole.Requests[0]; !strings.Contains(string(r.Input), "think") || r.Turn == "" || whole.Body == nil || whole.Body.Text != "think" || whole.First <= 0 || whole.Last < whole.First {
		t.Errorf("the timeline is %+v", whole)
	}
	if err := w.ask(folder.New(w.bucket, folder.Events{}), "submission", query, &alone); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole.Trace, alone.Trace); d != "" || len(alone.Requests) != 0 {
		t.Errorf("of the log alone: %d prompts, (-with the file +without):\n%s", len(alone.Requests), d)
	}
}

// eventually waits for what is written beside.
func (w *world) eventually(done func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(end) {
			w.Fatal("it never happens")
		}
	}
}

// TestFigures are those of "parley stats", whether of a file or of the logs.
func TestFigures(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{"help", "think", "long 5"} {
		w.say("echo", "one", body)
		w.say("other", "two", body)
	}
	for filter, said := range map[stats.Filter]int64{{}: 6, {Agent: "echo"}: 3, {Since: conversation.TimeOf(time.Now().Add(time.Hour))}: 0} {
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
			return want.Submissions.Settled() == said
		})
		for _, events := range []string{w.events, ""} {
			var got stats.Summary
			if err := w.ask(folder.New(w.bucket, folder.Events{File: events}), "figures", query, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(*want, got); d != "" {
				t.Errorf("%+v of the file %q (-parley stats +here):\n%s", filter, events, d)
			}
		}
	}
}

// TestRecords: batches as they are stored, from a number on.
func TestRecords(t *testing.T) {
	w := newWorld(t)
	w.say("echo", "one", "hello")
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
		t.Errorf("behind the end: %+v, %v", got, err)
	}
}

// TestMistakes: what cannot be is refused in words.
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
		var refused *console.Error
		if err := w.ask(folder.New(w.bucket, folder.Events{File: w.events}), tt.name, tt.query, nil); !errors.As(err, &refused) || refused.Status != tt.status || !strings.Contains(refused.Error(), tt.want) {
			t.Errorf("%s %v: %v", tt.name, tt.query, err)
		}
	}
}

// TestManyRecords come in answers of a bounded size, one after the other.
func TestManyRecords(t *testing.T) {
	w := newWorld(t)
	f := folder.New(w.bucket, folder.Events{})
	for i := range 30 {
		w.say("echo", "many", fmt.Sprint("message ", i))
	}
	for i := range 4 {
		w.say("echo", "large", fmt.Sprint(i, strings.Repeat("x", 600_000)))
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
				t.Errorf("%s: an answer has %d batches, %d bytes before the last of them", id, n, before)
			}
			if last = got.Last; int64(len(got.Batches)) > last {
				t.Errorf("%s: one answer has all of it", id)
			}
		}
	}
}

// TestDamagedLog: what cannot be read is told, and the others are there.
func TestDamagedLog(t *testing.T) {
	w := newWorld(t)
	w.say("echo", "good", "hello")
	w.say("echo", "bad", "hello")
	w.stop() // It puts batches into a segment a while after they were answered.
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
	told := map[string]bool{}
	for _, c := range all.Conversations {
		told[c.ID] = c.Corrupt != ""
	}
	if d := cmp.Diff(map[string]bool{"good": false, "": true}, told); d != "" {
		t.Errorf("damaged (-want +got):\n%s", d)
	}
}
