package noderun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers/sse"
)

const (
	// maxEvent limits an event of a stream, in bytes.
	maxEvent = 64 << 20
	// silence is the timeout of a stream without data. A running node sends a heartbeat every 15 s, or
	// later on a busy machine.
	silence = time.Minute
)

// ErrSilent is the timeout of a stream without data, heartbeats included.
var ErrSilent = errors.New("no data on the stream")

// Sight holds the chunks read of a conversation between two offsets. The other fields are of a reader.
type Sight struct {
	Name     string
	From, To conversation.Offset
	Chunks   []Chunk
	Marks    []Mark
	Resumed  int // connections beyond the first
	Repeated int // chunks received again after a broken connection
}

// Mark is the time at which a reader had everything up to an offset.
type Mark struct {
	Call, At time.Time // of the request, and of the offset
	Offset   conversation.Offset
}

// Reader follows a conversation over one connection after the other. It resumes from the last received
// offset and drops repeated chunks.
type Reader struct {
	client *Client
	fresh  func(Chunk) error

	mu   sync.Mutex
	seen Sight // To is the resume offset
}

// NewReader makes a reader of the records after an offset. If fresh is not nil, it is called with each
// new chunk, in order. Its error ends the read; it may not call the reader.
func NewReader(c *Client, from conversation.Offset, fresh func(Chunk) error) *Reader {
	return &Reader{client: c, fresh: fresh, seen: Sight{From: from, To: from, Resumed: -1}}
}

// At returns the resume offset.
func (r *Reader) At() conversation.Offset {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.To
}

// Sight returns the chunks read so far. The lists are shared.
func (r *Reader) Sight(name string) Sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen
	s.Name, s.Resumed = name, max(0, s.Resumed)
	return s
}

// Poll reads the conversation at a URL by long-poll until there is an error, which it returns.
func (r *Reader) Poll(ctx context.Context, url string) error {
	for after := r.connect(); ; {
		call := time.Now()
		answer, header, err := r.client.Do(ctx, http.MethodGet, readURL(url, "long-poll", after), nil)
		if err != nil {
			return err
		}
		if err := r.take(answer, after); err != nil {
			return err
		}
		if after, err = r.advance(call, header.Get("Stream-Next-Offset")); err != nil {
			return err
		}
	}
}

// Follow reads by event streams of the URLs that next returns, one after the other, until ctx ends. It
// returns a breach; no record is lost between two streams.
func (r *Reader) Follow(ctx context.Context, dice *rand.Rand, next func() string) error {
	for ctx.Err() == nil {
		url := next()
		err := r.Stream(ctx, url)
		// The message that creates the conversation may be less than a heartbeat old.
		young := Missing(err) && r.At() == conversation.Start
		if ctx.Err() == nil && Broken(err) && !young {
			return fmt.Errorf("%s: %w", url, err)
		}
		_ = Pause(ctx, time.Duration(5+dice.IntN(95))*time.Millisecond)
	}
	return nil
}

// Stream reads one event stream of the conversation at a URL to its end, which is an error too:
// [ErrSilent] after a timeout.
func (r *Reader) Stream(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(r.client.within, func() { cancel(ErrSilent) })
	defer quiet.Stop()
	after, call := r.connect(), time.Now()
	resp, err := r.client.send(ctx, http.MethodGet, readURL(url, "sse", after), nil)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer resp.Body.Close()
	events := sse.NewReader(io.TeeReader(resp.Body, idleTimer{quiet}), &sse.Options{MaxEventBytes: maxEvent})
	for {
		e, err := events.Next()
		if err != nil || e.Unterminated { // An event counts once its blank line was received.
			return errors.Join(err, context.Cause(ctx), io.ErrUnexpectedEOF)
		}
		switch e.Name {
		case "data":
			err = r.take(e.Data, after)
		case "control":
			var c struct{ StreamNextOffset string }
			if err = json.Unmarshal(e.Data, &c); err != nil {
				return Breach("control frame %s: %v", e.Data, err)
			}
			after, err = r.advance(call, c.StreamNextOffset)
		default:
			err = Breach("event %q", e.Name)
		}
		if err != nil {
			return err
		}
	}
}

// idleTimer resets the timeout of a stream whenever data arrives.
type idleTimer struct{ quiet *time.Timer }

func (h idleTimer) Write(data []byte) (int, error) {
	h.quiet.Reset(silence)
	return len(data), nil
}

func readURL(url, live string, after conversation.Offset) string {
	return fmt.Sprintf("%s?view=updates&live=%s&offset=%s", url, live, after)
}

// connect counts a connection and returns its resume offset.
func (r *Reader) connect() conversation.Offset {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Resumed++
	return r.seen.To
}

// advance sets a new resume offset.
func (r *Reader) advance(call time.Time, text string) (conversation.Offset, error) {
	next, err := conversation.ParseOffset(text)
	if err != nil {
		return 0, Breach("%v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if next < r.seen.To {
		return 0, Breach("offset %s comes after %s", next, r.seen.To)
	}
	if n := len(r.seen.Chunks); n > 0 && r.seen.Chunks[n-1].Position.Batch > next {
		return 0, Breach("offset %s comes after a chunk of %s", next, r.seen.Chunks[n-1].Position.Batch)
	}
	if next > r.seen.To {
		r.seen.Marks = append(r.seen.Marks, Mark{call, time.Now(), next})
	}
	r.seen.To = next
	return next, nil
}

// take adds the chunks of a read after an offset. Chunks received again after a broken connection must
// be equal.
func (r *Reader) take(data []byte, after conversation.Offset) error {
	chunks, err := ReadChunks(data, after)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range chunks {
		if n := len(r.seen.Chunks); n > 0 && c.Position.Compare(r.seen.Chunks[n-1].Position) <= 0 {
			if err := r.again(c); err != nil {
				return err
			}
			continue
		}
		r.seen.Chunks = append(r.seen.Chunks, c)
		if r.fresh != nil {
			if err := r.fresh(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// again checks a repeated chunk. The caller holds mu.
func (r *Reader) again(c Chunk) error {
	r.seen.Repeated++
	at := c.Position
	for i := len(r.seen.Chunks) - 1; i >= 0 && r.seen.Chunks[i].Position.Compare(at) >= 0; i-- {
		if r.seen.Chunks[i].Position == at {
			if !bytes.Equal(r.seen.Chunks[i].Raw, c.Raw) {
				return Breach("chunk %v repeated with another value: first %s, then %s", at, r.seen.Chunks[i].Raw, c.Raw)
			}
			return nil
		}
	}
	return Breach("chunk %s was missing before", c.Raw)
}
