package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

type day struct {
	Day string `json:"day"`
}

type reported struct {
	Day      string `json:"day"`
	Approved bool   `json:"approved"`
}

// report is a workflow that waits for an approval unless the day is skipped.
func report() *agent.Workflow[day, reported] {
	return agent.NewWorkflow("report", func(ctx context.Context, in day) (reported, error) {
		if in.Day == "doomsday" {
			return reported{}, errors.New("out of paper")
		}
		if _, err := agent.Step(ctx, "write", func(context.Context) (string, error) { return in.Day, nil }); err != nil {
			return reported{}, err
		}
		ok, err := agent.Wait[bool](ctx, "approval", nil)
		return reported{in.Day, ok}, err
	}, nil)
}

// runs returns a client of the server's workflows.
func (s *server) runs(o *client.Options) *client.Runs {
	s.t.Helper()
	r, err := client.NewRuns(s.web.URL+"/", flushNow(o))
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func begin(t *testing.T, r *client.Runs, in any, key string) client.Begun {
	t.Helper()
	begun, err := r.Begin(withPatience(t), "report", in, &client.BeginOptions{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return begun
}

// TestRunOverRestart begins a run twice under one key, and follows it over a restart of the server.
func TestRunOverRestart(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		s := newServer(t)
		r := s.runs(o)
		begun, again := begin(t, r, day{"monday"}, "k 1"), begin(t, r, day{"monday"}, "k 1")
		if !begun.RunID.Valid() || begun.Key != "k 1" || again != begun || begun.StreamURL != s.web.URL+"/runs/"+string(begun.RunID) {
			t.Errorf("got run %+v, repeated %+v", begun, again)
		}
		run := r.Run(begun.RunID)
		var seen []string
		last := conversation.Start
		for e, err := range run.Events(withPatience(t), begun.Offset) {
			if err != nil {
				t.Fatal(err)
			}
			seen, last = append(seen, e.Type), e.Offset()
			if e.Type == "data" {
				break // it waits
			}
		}
		if status, err := run.Status(withPatience(t)); err != nil || status.State != client.RunActive || status.Ended() || status.Err() != nil ||
			status.Workflow != "report" || string(status.Input) != `{"day":"monday"}` || status.StartedAt == 0 {
			t.Errorf("got status %+v, %v", status, err)
		}
		type outcome struct {
			status *client.RunStatus
			got    reported
			err    error
		}
		ended := make(chan outcome, 1)
		waits := make(chan struct{}, 100)
		s.watch(func(r *http.Request) {
			if r.URL.Query().Has("live") {
				waits <- struct{}{}
			}
		})
		ctx := withPatience(t)
		go func() {
			var o outcome
			o.status, o.err = run.Await(ctx, &o.got)
			ended <- o
		}()
		<-waits
		s.watch(nil)
		s.halt()
		s.start()
		if _, err := run.Signal(withPatience(t), "approval", true); err != nil {
			t.Fatal(err)
		}
		end := <-ended
		if end.err != nil || end.got != (reported{"monday", true}) || end.status.State != client.RunCompleted || end.status.EndedAt < end.status.StartedAt {
			t.Errorf("awaited run: got %+v, %v", end, end.err)
		}
		for e, err := range run.Events(withPatience(t), last) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Index != int64(len(seen)) {
				t.Errorf("got event %d at position %d", e.Index, len(seen))
			}
			seen = append(seen, e.Type)
		}
		if got := strings.Join(seen, " "); !strings.HasPrefix(got, "run_start log data ") || !strings.HasSuffix(got, " run_end") || strings.Count(got, "run_") != 2 {
			t.Errorf("got events %s", got)
		}
		for range run.Events(withPatience(t), conversation.Offset(len(seen)-1)) {
			t.Error("got an event after the last one")
		}
		if aborted, err := run.Abort(withPatience(t)); aborted || err != nil {
			t.Errorf("abort of an ended run: got %t, %v", aborted, err)
		}
		_, err := run.Signal(withPatience(t), "approval", false)
		wantRejected(t, "a second signal", err, conversation.CodeAlreadyDecided)
	})
}

// TestRunOutcomes checks the error and the status of a failed and of an aborted run.
func TestRunOutcomes(t *testing.T) {
	r := newServer(t).runs(nil)
	failed, aborted := r.Run(begin(t, r, day{"doomsday"}, "").RunID), r.Run(begin(t, r, json.RawMessage(`{"day":"tuesday"}`), "").RunID)
	if ok, err := aborted.Abort(withPatience(t)); !ok || err != nil {
		t.Fatalf("abort: %t, %v", ok, err)
	}
	for run, want := range map[*client.Run]client.RunError{
		failed:  {Outcome: conversation.OutcomeFailed, Type: conversation.CodeRunFailed, Message: "out of paper"},
		aborted: {Outcome: conversation.OutcomeAborted, Type: conversation.CodeAborted},
	} {
		var result reported
		status, err := run.Await(withPatience(t), &result)
		var got *client.RunError
		if !errors.As(err, &got) || status == nil || !status.IsError || status.ID != run.ID() || result != (reported{}) {
			t.Fatalf("%s: %+v, %v", want.Outcome, status, err)
		}
		if got.Run != run.ID() || got.Outcome != want.Outcome || got.Type != want.Type || !strings.Contains(got.Message, want.Message) {
			t.Errorf("got error %+v, want %+v", got, want)
		}
		if errors.Is(err, client.ErrFailed) == errors.Is(err, client.ErrAborted) || errors.Is(err, client.ErrAborted) != (run == aborted) {
			t.Errorf("error %v matches another outcome", err)
		}
	}
}

func wantRejected(t *testing.T, name string, err error, want conversation.Code) {
	t.Helper()
	var rejected *client.Error
	if !errors.As(err, &rejected) || rejected.Type != want {
		t.Errorf("%s: %v, want %s", name, err, want)
	}
}

// TestRunRefusals checks that rejected requests are not retried.
func TestRunRefusals(t *testing.T) {
	var posts atomic.Int64
	s := newServer(t)
	r := s.runs(nil)
	begin(t, r, day{"monday"}, "taken")
	s.watch(func(*http.Request) { posts.Add(1) })
	ctx := withPatience(t)
	try := func(workflow string, in any, key string) error {
		_, err := r.Begin(ctx, workflow, in, &client.BeginOptions{Key: key})
		return err
	}
	wantRejected(t, "another input", try("report", day{"tuesday"}, "taken"), conversation.CodeSubmissionConflict)
	wantRejected(t, "an input that does not fit", try("report", 7, ""), conversation.CodeInvalidRequest)
	wantRejected(t, "no such workflow", try("re/port", day{}, ""), conversation.CodeWorkflowNotFound)
	unknown := r.Run(conversation.RunFor("report", "nobody"))
	_, err := unknown.Status(ctx)
	wantRejected(t, "the status of no run", err, conversation.CodeRunNotFound)
	_, err = unknown.Await(ctx, nil)
	wantRejected(t, "the end of no run", err, conversation.CodeRunNotFound)
	_, err = unknown.Abort(ctx)
	wantRejected(t, "the abort of no run", err, conversation.CodeRunNotFound)
	_, err = unknown.Signal(ctx, "approval", true)
	wantRejected(t, "a signal to no run", err, conversation.CodeRunNotFound)
	for _, err := range unknown.Events(ctx, conversation.Start) {
		wantRejected(t, "the events of no run", err, conversation.CodeRunNotFound)
	}
	if n := posts.Load(); n != 8 {
		t.Errorf("%d requests, want one for each", n)
	}
	for desc, err := range map[string]error{
		"a key that no header has":   try("report", day{}, "k\n"),
		"a key with a space":         try("report", day{}, "k "),
		"a key of another alphabet":  try("report", day{}, "schlüssel"),
		"a long key":                 try("report", day{}, strings.Repeat("k", 257)),
		"no name":                    try("", day{}, ""),
		"an input that has no JSON":  try("report", func() {}, ""),
		"a server that is none":      must2(client.NewRuns("ftp://x", nil)),
		"an option that cannot be":   must2(client.NewRuns("http://x", &client.Options{Tries: -1})),
		"a server URL with a query":  must2(client.NewRuns("http://x/?a=b", nil)),
		"a conversation without one": must2(client.New("http://x/", nil)),
	} {
		if err == nil {
			t.Errorf("%s: got no error", desc)
		}
	}
	if n := posts.Load(); n != 8 {
		t.Errorf("got %d requests, want no more", n)
	}
}

// TestBeginOfNoRun checks that a response without a run id is an error, whatever its status.
func TestBeginOfNoRun(t *testing.T) {
	for _, body := range []string{"{}", `{"runId":"run_1"}`, "[]", "<html>"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, body)
		}))
		defer srv.Close()
		r, err := client.NewRuns(srv.URL, &client.Options{Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		if begun, err := r.Begin(withPatience(t), "report", day{}, nil); err == nil {
			t.Errorf("%s: got %+v, want an error", body, begun)
		}
	}
}

// TestBeginInDoubt loses responses: the client retries under the same key, and there is one run.
func TestBeginInDoubt(t *testing.T) {
	s := newServer(t)
	lose := 2
	keys := map[string]int{}
	lossy := over(func(req *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if req.Method != http.MethodPost || err != nil {
			return resp, err
		}
		if keys[req.Header.Get("Idempotency-Key")]++; lose != 0 {
			lose--
			resp.Body.Close()
			return nil, errors.New("response is lost")
		}
		return resp, nil
	})
	r := s.runs(&client.Options{HTTPClient: lossy, Tries: 4})
	begun := begin(t, r, day{"monday"}, "")
	if len(keys) != 1 || keys[begun.Key] != 3 {
		t.Errorf("got requests with keys %v and result %q", keys, begun.Key)
	}
	lose = -1
	_, err := r.Begin(withPatience(t), "report", day{"tuesday"}, nil)
	var uncertain *client.UncertainError
	if !errors.As(err, &uncertain) || keys[uncertain.Key] != 4 {
		t.Fatalf("got error %v, keys %v", err, keys)
	}
	lose = 0
	if again := begin(t, r, day{"tuesday"}, uncertain.Key); again.RunID != conversation.RunFor("report", uncertain.Key) {
		t.Errorf("repeated: got %+v", again)
	}
}

func must2[T any](_ T, err error) error { return err }
