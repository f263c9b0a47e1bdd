package actors

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

// maxCompactWords bounds the instructions of one compaction, in bytes.
const maxCompactWords = 16 << 10

// Compact replaces the older part of what the model is sent of a conversation by a
// summary now, and reports whether there was anything to leave out. The transcript
// that clients read stays whole. Instructions of at most 16 KiB are told to the
// summarizer beside those of the agent; they may be empty. What is being worked on
// goes on meanwhile and sees the summary from its next model call on.
//
// When it returns true the summary is durable. It takes as long as a model call
// does; when ctx ends before, the compaction goes on without its caller. A
// conversation that was never created has nothing to leave out.
//
// The error is an [*UnknownAgentError], a [*conversation.Error] or internal.
// runtime_unavailable says that a compaction of the conversation is under way
// already, or that the summarizer failed: nothing has changed then, and it may be
// repeated. The conversation protocol has no request for it, so only programs that
// hold a Runtime can ask. It is safe for concurrent use.
func (r *Runtime) Compact(ctx context.Context, at conversation.Address, instructions string) (bool, error) {
	compacted, err := r.compact(ctx, at, instructions)
	if err != nil {
		return false, fmt.Errorf("compact %.80s/%.80s: %w", at.Agent, at.ID, err)
	}
	return compacted, nil
}

func (r *Runtime) compact(ctx context.Context, at conversation.Address, instructions string) (bool, error) {
	switch {
	case !r.Serves(at.Agent):
		return false, &UnknownAgentError{at.Agent}
	case len(instructions) > maxCompactWords || !utf8.ValidString(instructions):
		return false, conversation.Errorf(conversation.CodeInvalidRequest, "Instructions are UTF-8 of at most %d bytes.", maxCompactWords)
	}
	limit := r.opts.AdmitTimeout + r.work.SummaryTime()
	reply, err := r.callWithin(ctx, limit, at, &wire.CompactRequest{Instructions: instructions})
	if err != nil {
		return false, err
	}
	switch res := reply.GetResult().(type) {
	case *wire.OwnerReply_Compacted:
		return res.Compacted, nil
	case *wire.OwnerReply_Failure:
		return false, errorOf(res.Failure)
	}
	return false, errors.New("owner answered without a result")
}
