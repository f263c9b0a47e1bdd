package folder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"net/http"
	"strconv"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/stats"
)

const (
	// maxBatches and maxBytes bound the batches of one response.
	maxBatches = 50
	maxBytes   = 1 << 20
	// maxRequests bounds the model calls with prompts.
	maxRequests = 500
)

// Timeline is the execution of a submission.
type Timeline struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
	// Trace is the tree that "parley trace" prints.
	Trace *stats.Node `json:"trace"`
	// Body is the message.
	Body *observability.Content `json:"body,omitempty"`
	// Requests are the model requests, in order.
	Requests []Request `json:"requests"`
	// Calls are the tools' inputs and outputs by call id.
	Calls map[conversation.CallID]*Call `json:"calls"`
	// First and Last are the first and the last batch of the submission.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Missing is the reason why data of the event destination is missing, "" if it is complete.
	Missing string `json:"missing,omitempty"`
}

// Request is a model call as it was sent.
type Request struct {
	Turn conversation.TurnID `json:"turn"`
	At   conversation.Time   `json:"at"`
	// Purpose is the purpose of the model call.
	Purpose string `json:"purpose"`
	observability.ModelRequest
}

// Call is a tool call.
type Call struct {
	Args   *observability.Content `json:"args,omitempty"`
	Result *observability.Content `json:"result,omitempty"`
}

// submission returns the timeline of the submission id.
func (f *Folder) submission(r *http.Request) (any, error) {
	id := conversation.SubmissionID(r.URL.Query().Get("id"))
	if id == "" {
		return nil, malformed("id", "the id of a submission")
	}
	key, err := f.keyOf(r.Context(), id)
	if err != nil {
		return nil, err
	}
	missing := ""
	events := both(f.logged(r.Context(), key), f.sent(r.Context(), id), func(err error) { missing = err.Error() })
	t, err := timeline(events, id)
	if errors.Is(err, stats.ErrNoEvents) {
		return nil, notFound("There is no such submission.", "No log has this id. Submission ids begin with sub_.")
	}
	t.Missing = missing
	return t, err
}

// keyOf finds the conversation of a submission.
func (f *Folder) keyOf(ctx context.Context, id conversation.SubmissionID) (conversation.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(ctx); err != nil {
		return "", err
	}
	for key, row := range f.rows {
		for _, s := range row.Submissions {
			if s.ID == id {
				return key, nil
			}
		}
	}
	return "", notFound("There is no such submission.", "It is not among the newest "+strconv.Itoa(maxSubmissions)+" of any conversation of this folder.")
}

// timeline builds the timeline of a submission from events.
func timeline(events iter.Seq2[observability.Event, error], id conversation.SubmissionID) (*Timeline, error) {
	t := &Timeline{Requests: []Request{}, Calls: map[conversation.CallID]*Call{}, First: -1, Last: -1}
	seen := func(yield func(observability.Event, error) bool) {
		for e, err := range events {
			if err == nil && e.Submission == id {
				t.add(&e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
	var err error
	t.Trace, err = stats.Trace(seen, id)
	return t, err
}

func (t *Timeline) add(e *observability.Event) {
	if t.Agent == "" {
		t.Agent, t.ID = e.Agent, e.Instance
	}
	if !e.Live() {
		if t.First < 0 {
			t.First = e.Seq
		}
		t.Last = max(t.Last, e.Seq)
	}
	switch p := e.Payload.(type) {
	case *observability.SubmissionQueued:
		t.Body = p.Body
	case *observability.TurnRequest:
		if len(t.Requests) < maxRequests {
			t.Requests = append(t.Requests, Request{e.Turn, e.At, p.Purpose, p.Request})
		}
	case *observability.ToolStart:
		t.call(p.ToolCallID).Args = p.Args
	case *observability.Tool:
		t.call(p.ToolCallID).Result = p.Result
	}
}

func (t *Timeline) call(id conversation.CallID) *Call {
	if t.Calls[id] == nil {
		t.Calls[id] = &Call{}
	}
	return t.Calls[id]
}

// batch is a stored batch.
type batch struct {
	Seq     int64             `json:"seq"`
	Offset  string            `json:"offset"`
	Records []json.RawMessage `json:"records"`
}

// records returns the batches of the conversation agent and id from the number from on.
func (f *Folder) records(r *http.Request) (any, error) {
	q := r.URL.Query()
	from, err := strconv.ParseInt(q.Get("from"), 10, 64)
	if err != nil || from < 0 || from > math.MaxInt64-maxBatches {
		return nil, malformed("from", "the number of a batch")
	}
	at := conversation.Address{Agent: q.Get("agent"), ID: q.Get("id")}
	tail, err := f.logs.Tail(r.Context(), at.Key(), from-1)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Batches []batch `json:"batches"`
		Last    int64   `json:"last"`
	}{[]batch{}, tail}
	if tail < from {
		return answer, nil
	}
	found, err := f.logs.Range(r.Context(), at.Key(), from, min(tail, from+maxBatches-1))
	if err != nil {
		return nil, err
	}
	size := 0
	for _, b := range found {
		shown := batch{b.Seq, conversation.Offset(b.Seq).String(), []json.RawMessage{}}
		for line := range bytes.Lines(b.Lines) {
			shown.Records = append(shown.Records, bytes.TrimSpace(line))
		}
		size += len(b.Lines)
		if answer.Batches = append(answer.Batches, shown); size > maxBytes {
			break
		}
	}
	return answer, nil
}

// stats returns the statistics of the agent agent since the moment since; both are optional.
func (f *Folder) stats(r *http.Request) (any, error) {
	q := r.URL.Query()
	since, err := moment(q.Get("since"))
	if err != nil {
		return nil, err
	}
	return f.summary(r.Context(), stats.Filter{Agent: q.Get("agent"), Since: since})
}

// moment parses the parameter since; "" is 0.
func moment(since string) (conversation.Time, error) {
	if since == "" {
		return 0, nil
	}
	ms, err := strconv.ParseInt(since, 10, 64)
	if err != nil || ms < 0 {
		return 0, malformed("since", "a time in milliseconds since 1970")
	}
	return conversation.Time(ms), nil
}
