package killrun_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// maxLine is more than any line of an event stream has here.
const maxLine = 64 << 20

// reader follows a conversation over all servers, by SSE or long-poll. It resumes
// from the last offset it was given and drops what it has.
type reader struct {
	client *client
	site   *site
	room   int
	poll   bool
	fail   func(format string, args ...any)

	mu       sync.Mutex
	from     conversation.Offset // Where it began.
	next     conversation.Offset // Where it resumes.
	seen     []seenChunk
	shown    shown
	resumed  int // Connections beyond the first.
	repeated int // Chunks that came again after a connection broke.
}

// seenChunk is a chunk as it came.
type seenChunk struct {
	at  conversation.Position
	raw json.RawMessage
}

// shown is what a person in front of a reader has seen of responses.
type shown struct {
	texts   map[conversation.MessageID]string
	outputs map[conversation.CallID]string
	settled map[conversation.SubmissionID]conversation.Outcome
}

func newShown() shown {
	return shown{map[conversation.MessageID]string{}, map[conversation.CallID]string{}, map[conversation.SubmissionID]conversation.Outcome{}}
}

// follow reads until ctx ends.
func (r *reader) follow(ctx context.Context) {
	for tries := 0; ; tries++ {
		base, err := r.site.get(ctx)
		if err != nil {
			return
		}
		if tries > 0 {
			r.mu.Lock()
			r.resumed++
			r.mu.Unlock()
		}
		if r.poll {
			err = r.polls(ctx, base)
		} else {
			err = r.stream(ctx, base)
		}
		if ctx.Err() != nil {
			return
		}
		if broken(err) {
			r.fail("reader of %s: %v", room(r.room), err)
			return
		}
		if pause(ctx, 5*time.Millisecond) != nil {
			return
		}
	}
}

func (r *reader) url(base, live string) (string, conversation.Offset) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%s%s?view=updates&live=%s&offset=%s", base, roomPath(r.room), live, r.next), r.next
}

func (r *reader) polls(ctx context.Context, base string) error {
	for {
		url, after := r.url(base, "long-poll")
		body, header, err := r.client.do(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if err := r.take(after, body); err != nil {
			return err
		}
		if err := r.advance(header.Get("Stream-Next-Offset")); err != nil {
			return err
		}
	}
}

func (r *reader) stream(ctx context.Context, base string) error {
	url, after := r.url(base, "sse")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := r.client.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return errBusy
	default:
		body, _ := io.ReadAll(resp.Body) // What there is of it.
		return &statusError{"GET " + url, resp.StatusCode, body}
	}
	var event string
	var data []byte
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "event":
			event = strings.TrimPrefix(value, " ")
		case "data":
			data = append(data, strings.TrimPrefix(value, " ")...)
		case "":
			if value != "" || event == "" {
				continue // a heartbeat
			}
			// An event counts once its blank line has come.
			if after, err = r.event(after, event, data); err != nil {
				return err
			}
			event, data = "", nil
		}
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

func (r *reader) event(after conversation.Offset, event string, data []byte) (conversation.Offset, error) {
	switch event {
	case "data":
		return after, r.take(after, data)
	case "control":
		var c struct{ StreamNextOffset string }
		if err := json.Unmarshal(data, &c); err != nil {
			return after, &promiseError{fmt.Sprintf("control frame %s: %v", data, err)}
		}
		if err := r.advance(c.StreamNextOffset); err != nil {
			return after, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.next, nil
	}
	return after, &promiseError{fmt.Sprintf("event %q", event)}
}

// advance is a new offset to resume from.
func (r *reader) advance(text string) error {
	next, err := conversation.ParseOffset(text)
	if err != nil {
		return &promiseError{err.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if next < r.next {
		return &promiseError{fmt.Sprintf("offset %s comes after %s", next, r.next)}
	}
	if n := len(r.seen); n > 0 && r.seen[n-1].at.Batch > next {
		return &promiseError{fmt.Sprintf("offset %s comes after a chunk of %s", next, r.seen[n-1].at.Batch)}
	}
	r.next = next
	return nil
}

// take adds chunks of a read after an offset. What came before the connection
// broke and comes again has to be the same.
func (r *reader) take(after conversation.Offset, data []byte) error {
	var chunks []json.RawMessage
	if err := json.Unmarshal(data, &chunks); err != nil {
		return &promiseError{fmt.Sprintf("chunks %s: %v", data, err)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := conversation.Position{Batch: after, Index: 1 << 30}
	for _, raw := range chunks {
		var c conversation.Chunk
		if err := json.Unmarshal(raw, &c); err != nil {
			return &promiseError{fmt.Sprintf("chunk %s: %v", raw, err)}
		}
		if c.Position.Compare(last) <= 0 {
			return &promiseError{fmt.Sprintf("chunk at %v comes after %v", c.Position, last)}
		}
		last = c.Position
		if n := len(r.seen); n > 0 && c.Position.Compare(r.seen[n-1].at) <= 0 {
			if err := r.again(c.Position, raw); err != nil {
				return err
			}
			continue
		}
		if _, twice := r.shown.settled[c.SubmissionID]; twice && c.Type == conversation.ChunkSettled {
			return &promiseError{fmt.Sprintf("chunk %s settles for the second time", raw)}
		}
		r.seen = append(r.seen, seenChunk{c.Position, raw})
		r.shown.add(&c)
		r.client.events.add(atChunk)
	}
	return nil
}

// again is a chunk that has come before. The caller holds mu.
func (r *reader) again(at conversation.Position, raw json.RawMessage) error {
	r.repeated++
	for i := len(r.seen) - 1; i >= 0 && r.seen[i].at.Compare(at) >= 0; i-- {
		if r.seen[i].at == at {
			if !bytes.Equal(r.seen[i].raw, raw) {
				return &promiseError{fmt.Sprintf("chunk %v was %s and is now %s", at, r.seen[i].raw, raw)}
			}
			return nil
		}
	}
	return &promiseError{fmt.Sprintf("chunk %s was left out before", raw)}
}

// add changes what is shown.
func (s *shown) add(c *conversation.Chunk) {
	switch c.Type {
	case conversation.ChunkReset:
		*s = shownBy(c.Snapshot)
	case conversation.ChunkDelta:
		if c.Kind == conversation.PartText {
			s.texts[c.MessageID] += c.Delta
		}
	case conversation.ChunkToolOutput:
		s.outputs[c.ToolCallID] = string(c.Output)
	case conversation.ChunkToolOutputError:
		s.outputs[c.ToolCallID] = "error: " + *c.ErrorText
	case conversation.ChunkSettled:
		s.settled[c.SubmissionID] = c.Outcome
	}
}

// shownBy is what a snapshot shows.
func shownBy(snap *conversation.Snapshot) shown {
	s := newShown()
	for _, m := range snap.Messages {
		if m.Role != conversation.RoleAssistant {
			continue
		}
		for _, p := range m.Parts {
			switch {
			case p.Type == conversation.PartTypeText:
				s.texts[m.ID] += *p.Text
			case p.State == conversation.StateOutputAvailable:
				s.outputs[p.ToolCallID] = string(p.Output)
			case p.State == conversation.StateOutputError:
				s.outputs[p.ToolCallID] = "error: " + *p.ErrorText
			}
		}
	}
	for _, e := range snap.Settlements {
		s.settled[e.SubmissionID] = e.Outcome
	}
	return s
}

// lacks says what of before is not in s any more, "" for nothing.
func (s *shown) lacks(before shown) string {
	for id, text := range before.texts {
		if !strings.HasPrefix(s.texts[id], text) {
			return fmt.Sprintf("message %s said %q and now %q", id, text, s.texts[id])
		}
	}
	for id, output := range before.outputs {
		if s.outputs[id] != output {
			return fmt.Sprintf("call %s had %q and now %q", id, output, s.outputs[id])
		}
	}
	for id, outcome := range before.settled {
		if s.settled[id] != outcome {
			return fmt.Sprintf("submission %s was %q and is now %q", id, outcome, s.settled[id])
		}
	}
	return ""
}

// view is a copy of what is shown.
func (r *reader) view() shown {
	r.mu.Lock()
	defer r.mu.Unlock()
	return shown{maps.Clone(r.shown.texts), maps.Clone(r.shown.outputs), maps.Clone(r.shown.settled)}
}

// at is where the reader resumes.
func (r *reader) at() conversation.Offset {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}
