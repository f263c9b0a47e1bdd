package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"

	"github.com/parleyrun/parley/conversation"
)

// ObserveOptions are the options of [Conversation.Observe]. Nil means the defaults.
type ObserveOptions struct {
	// AwaitCreation waits for the first message of a conversation that does not exist. Without it that
	// is an [*Error] of conversation.CodeStreamNotFound.
	AwaitCreation bool
}

// Update is the result of one read.
type Update struct {
	// Chunks are the new chunks in order of position; there may be none. They are not shared.
	Chunks []conversation.Chunk
	// Next is the offset at which the read ended. A read that continues there gets the chunks after
	// Chunks, without repetition.
	Next conversation.Offset
	// UpToDate is set if the read reached the head.
	UpToDate bool
}

// Observe yields the chunks recorded after an offset, past and future, until ctx ends: every chunk
// once and in order. It yields when there is something new, and when the head is reached for the first
// time since. The chunks that follow a snapshot are those after the snapshot's offset.
//
// The sequence ends when the caller stops ranging, or with one error: the context's, or a permanent
// one, such as an [*Error] of conversation.CodeStreamStoreFailure for an offset beyond the head. Other
// errors are retried until ctx ends and reported to Options.Retrying. A caller may be slow between
// iterations: missed chunks are read afterwards. Each range over the sequence begins anew.
func (c *Conversation) Observe(ctx context.Context, after conversation.Offset, o *ObserveOptions) iter.Seq2[Update, error] {
	chunks := flow[conversation.Chunk]{
		query: url.Values{"view": {"updates"}}, awaited: o != nil && o.AwaitCreation,
		decode: decodeChunks, at: func(c conversation.Chunk) conversation.Position { return c.Position },
	}
	return func(yield func(Update, error) bool) {
		f := newFollow(c, chunks, after, func(u found[conversation.Chunk]) bool { return yield(Update{u.items, u.next, u.upToDate}, nil) })
		if err := f.run(ctx); !errors.Is(err, errEnough) {
			yield(Update{}, fmt.Errorf("observe %s: %w", c.name(), err))
		}
	}
}

var (
	// errEnough ends a follow whose caller stops, errClosed one of a stream that has ended
	// permanently.
	errEnough = errors.New("enough")
	errClosed = errors.New("the stream is closed")
	errEnded  = errors.New("the event stream ended")
)

// over reports whether reading is finished.
func over(err error) bool { return errors.Is(err, errEnough) || errors.Is(err, errClosed) }

// decodeChunks appends the chunks of a JSON array. Chunks without a position are not ordered and are
// omitted.
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
