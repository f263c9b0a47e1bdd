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
	// errEnough ends a follow whose caller has enough, errClosed one of a stream that has ended for good.
	errEnough = errors.New("enough")
	errClosed = errors.New("the stream is closed")
	errEnded  = errors.New("the event stream ended")
)

// over reports whether nothing more is to be read.
func over(err error) bool { return errors.Is(err, errEnough) || errors.Is(err, errClosed) }

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
