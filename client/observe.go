package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// ObserveOptions change one call of [Conversation.Observe]. Nil means the default.
type ObserveOptions struct {
	// AwaitCreation waits for the first message of a conversation that does not
	// exist. Otherwise that is an [*Error] of conversation.CodeStreamNotFound.
	AwaitCreation bool
}

// Update is what one read found.
type Update struct {
	// Chunks are new, in order of position, and may be none. They are not shared.
	Chunks []conversation.Chunk
	// Next is where the read ended: whoever goes on from it gets what follows
	// Chunks, and nothing twice.
	Next conversation.Offset
	// UpToDate is set if the read reached the head.
	UpToDate bool
}

// Observe yields what was and is recorded after an offset, for as long as ctx
// lives: every chunk once and in order. It yields when there is something new, and
// when the head is reached for the first time since. Chunks that are to be
// applied to a snapshot are those after the snapshot's offset.
//
// The sequence ends when the caller stops ranging, or with one error: the context's,
// or what trying again cannot help, such as an [*Error] of
// conversation.CodeStreamStoreFailure for an offset beyond the head. Everything
// else is tried again for as long as ctx lives; Options.Retrying is told. Between
// two iterations a caller may take its time: what it misses is read afterwards.
// Each range over the sequence begins anew.
func (c *Conversation) Observe(ctx context.Context, after conversation.Offset, o *ObserveOptions) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		f := &follow{c: c, next: after, last: endOf(after), yield: yield, pauses: c.pauses(), again: c.opts.SSEAgain}
		if o != nil {
			f.opts = *o
		}
		if err := f.run(ctx); !errors.Is(err, errEnough) {
			yield(Update{}, fmt.Errorf("observe %s: %w", c.name(), err))
		}
	}
}

var (
	// errEnough ends a follow whose caller has enough.
	errEnough = errors.New("enough")
	errEnded  = errors.New("the event stream ended")
)

// endOf is the last position of a batch.
func endOf(o conversation.Offset) conversation.Position {
	return conversation.Position{Batch: o, Index: math.MaxInt}
}

// follow is where one range over Observe stands.
type follow struct {
	c     *Conversation
	opts  ObserveOptions
	yield func(Update, error) bool

	next     conversation.Offset
	last     conversation.Position // Invariant: everything up to it was yielded.
	upToDate bool

	pauses pauses
	moved  bool // the connection under way got something
	odd    int  // attempts in a row that an ill server answered

	short     int           // event streams in a row that ended at once
	pollUntil time.Time     // long-polls replace event streams until then
	again     time.Duration // the next such time
}

// run connects until there is a reason to end.
func (f *follow) run(ctx context.Context) error {
	for {
		f.moved = false
		pause, err := f.connect(ctx)
		switch {
		case errors.Is(err, errEnough):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if f.moved {
			f.odd = 0
			if err != nil || !pause {
				f.pauses.reset()
			}
		}
		waiting := f.opts.AwaitCreation && missing(err)
		switch {
		case err == nil || waiting:
		case !temporary(err):
			return err
		default:
			if odd(err) {
				f.odd++
			}
			if f.odd >= f.c.opts.Tries {
				return err
			}
			if !f.moved {
				f.c.retrying(err)
			}
		}
		if !pause {
			continue
		}
		if err := f.pauses.wait(ctx, err); err != nil {
			return err
		}
	}
}

// connect reads over one connection, by an event stream if that works here. It
// reports whether a pause has to follow.
func (f *follow) connect(ctx context.Context) (pause bool, err error) {
	if f.c.opts.Live == LiveLongPoll || time.Now().Before(f.pollUntil) {
		return f.poll(ctx)
	}
	began := time.Now()
	opened, err := f.stream(ctx)
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return false, err
	}
	if f.broken(opened, time.Since(began), err) {
		f.c.opts.Logger.Info("event streams do not work here, long-polls replace them",
			"conversation", f.c.name(), "for", f.again, "err", err)
		f.short, f.pollUntil = 0, time.Now().Add(f.again)
		f.again = min(2*f.again, time.Hour)
		return false, nil
	}
	return true, err
}

// shortStreams is how many event streams in a row have to end within shortTime to
// be taken for the work of something on the way.
const (
	shortStreams = 3
	shortTime    = time.Second
)

// broken reports whether an event stream ended as they do where something on the
// way does not let them through: it is not one, nothing of it came, or it is
// always cut at once.
func (f *follow) broken(opened bool, took time.Duration, err error) bool {
	var silent *silenceError
	switch {
	case errors.Is(err, errNoStream):
		return true
	case errors.As(err, &silent):
		return !f.moved
	case opened && took < shortTime:
		f.short++
	case opened:
		f.short = 0
	}
	return f.short >= shortStreams
}

// take yields what a read found.
func (f *follow) take(chunks []conversation.Chunk, next conversation.Offset, upToDate bool) error {
	if next < f.next {
		return badAnswer("it ends at %v, before the offset %v", next, f.next)
	}
	fresh := chunks[:0]
	for _, c := range chunks {
		if c.Position.Compare(f.last) > 0 {
			f.last = c.Position
			fresh = append(fresh, c)
		}
	}
	news := len(fresh) > 0 || next != f.next || upToDate && !f.upToDate
	f.moved, f.next, f.upToDate = true, next, upToDate
	if end := endOf(next); end.Compare(f.last) > 0 {
		f.last = end
	}
	if news && !f.yield(Update{Chunks: fresh, Next: next, UpToDate: upToDate}, nil) {
		return errEnough
	}
	return nil
}

// decodeChunks appends the chunks of a JSON array. What has no position is not of
// the order, and is left out.
func decodeChunks(list []conversation.Chunk, b []byte) ([]conversation.Chunk, error) {
	var chunks []struct {
		conversation.Chunk
		Position *conversation.Position `json:"position"`
	}
	if err := json.Unmarshal(b, &chunks); err != nil {
		return list, badAnswer("decode chunks: %w", err)
	}
	for _, c := range chunks {
		if c.Position == nil {
			continue
		}
		if c.Type == conversation.ChunkReset && c.Snapshot == nil || c.Type == conversation.ChunkAppended && c.Message == nil {
			return list, badAnswer("chunk %s at %v has no content", c.Type, c.Position.Batch)
		}
		c.Chunk.Position = *c.Position
		list = append(list, c.Chunk)
	}
	return list, nil
}
