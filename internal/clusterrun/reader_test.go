package clusterrun_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

const (
	// maxLine is more than any line of an event stream has here.
	maxLine = 64 << 20
	// silence is how long a stream may say nothing before a reader goes elsewhere. A
	// node that lives says something every 15 s.
	silence = 20 * time.Second
)

// reader follows a conversation by SSE over all nodes. It resumes from the last
// offset it was given and drops what it has.
type reader struct {
	client *client
	rand   *rand.Rand // Of the goroutine that follows.
	id     string

	mu       sync.Mutex
	from     conversation.Offset // Where it began.
	next     conversation.Offset // Where it resumes.
	seen     []seenChunk
	marks    []mark
	resumed  int // Connections beyond the first.
	repeated int // Chunks that came again after a connection broke.
}

// mark is when a reader had everything up to an offset.
type mark struct {
	Call, At time.Time // When it asked, and when it had it.
	Offset   conversation.Offset
}

// follow reads until ctx ends.
func (r *reader) follow(ctx context.Context) {
	for tries := 0; ctx.Err() == nil; tries++ {
		if tries > 0 {
			r.mu.Lock()
			r.resumed++
			r.mu.Unlock()
		}
		err := r.stream(ctx, r.client.any(r.rand))
		if ctx.Err() != nil {
			return
		}
		if broken(err) {
			r.client.fail("reader of %s: %v", r.id, err)
			return
		}
		if pause(ctx, milliseconds(r.rand, 5, 100)) != nil {
			return
		}
	}
}

// stream reads one event stream to its end.
func (r *reader) stream(ctx context.Context, n *node) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(answerWithin, func() { cancel(errors.New("nothing was heard")) })
	defer quiet.Stop()
	after, call := r.at(), time.Now()
	url := fmt.Sprintf("%s?view=updates&live=sse&offset=%s", n.url(r.id), after)
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
	case http.StatusNotFound:
		if after == conversation.Start {
			return errBusy // The message that creates it may be less than a heartbeat old.
		}
		fallthrough
	default:
		body, _ := io.ReadAll(resp.Body) // What there is of it.
		return &statusError{"GET " + url, resp.StatusCode, body}
	}
	var event string
	var data []byte
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		quiet.Reset(silence)
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
			if after, err = r.event(after, call, event, data); err != nil {
				return fmt.Errorf("%v: %w", n, err)
			}
			event, data = "", nil
		}
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

func (r *reader) event(after conversation.Offset, call time.Time, event string, data []byte) (conversation.Offset, error) {
	switch event {
	case "data":
		seen, err := decodeChunks(data, after)
		if err != nil {
			return after, err
		}
		return after, r.take(seen)
	case "control":
		var c struct{ StreamNextOffset string }
		if err := json.Unmarshal(data, &c); err != nil {
			return after, &promiseError{fmt.Sprintf("control frame %s: %v", data, err)}
		}
		return r.advance(call, c.StreamNextOffset)
	}
	return after, &promiseError{fmt.Sprintf("event %q", event)}
}

// advance is a new offset to resume from.
func (r *reader) advance(call time.Time, text string) (conversation.Offset, error) {
	next, err := conversation.ParseOffset(text)
	if err != nil {
		return 0, &promiseError{err.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if next < r.next {
		return 0, &promiseError{fmt.Sprintf("offset %s comes after %s", next, r.next)}
	}
	if n := len(r.seen); n > 0 && r.seen[n-1].chunk.Position.Batch > next {
		return 0, &promiseError{fmt.Sprintf("offset %s comes after a chunk of %s", next, r.seen[n-1].chunk.Position.Batch)}
	}
	if next > r.next {
		r.marks = append(r.marks, mark{call, time.Now(), next})
	}
	r.next = next
	return next, nil
}

// take adds chunks. What came before the connection broke and comes again has to be
// the same.
func (r *reader) take(chunks []seenChunk) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range chunks {
		if n := len(r.seen); n == 0 || c.chunk.Position.Compare(r.seen[n-1].chunk.Position) > 0 {
			r.seen = append(r.seen, c)
			continue
		}
		if err := r.again(c); err != nil {
			return err
		}
	}
	return nil
}

// again is a chunk that has come before. The caller holds mu.
func (r *reader) again(c seenChunk) error {
	r.repeated++
	at := c.chunk.Position
	for i := len(r.seen) - 1; i >= 0 && r.seen[i].chunk.Position.Compare(at) >= 0; i-- {
		if r.seen[i].chunk.Position == at {
			if !bytes.Equal(r.seen[i].raw, c.raw) {
				return &promiseError{fmt.Sprintf("chunk %v was %s and is now %s", at, r.seen[i].raw, c.raw)}
			}
			return nil
		}
	}
	return &promiseError{fmt.Sprintf("chunk %s was left out before", c.raw)}
}

// at is where the reader resumes.
func (r *reader) at() conversation.Offset {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}
