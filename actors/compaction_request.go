package actors

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

// maxInstructions bounds the instructions of one compaction, in bytes.
const maxInstructions = 16 << 10

// Compact summarizes the older part of a conversation's prompt now, and reports whether there was
// anything to summarize. The transcript that clients read stays complete. Instructions of at most 16
// KiB are added to those of the agent's summarizer; they may be empty. A running submission continues
// and uses the summary from its next model call on.
//
// When Compact returns true, the summary is durable. It takes as long as a model call; if ctx ends
// before, the compaction continues without its caller. For a conversation that does not exist Compact
// returns false.
//
// The error is an [*UnknownAgentError], a [*conversation.Error] or internal. The code
// runtime_unavailable means that another compaction is in progress or that the summarizer failed.
// Nothing has changed then, and the call may be retried. The conversation protocol has no such
// request, so only programs that hold a Runtime can send it. It is safe for concurrent use.
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
	case len(instructions) > maxInstructions || !utf8.ValidString(instructions):
		return false, conversation.Errorf(conversation.CodeInvalidRequest, "Instructions are UTF-8 of at most %d bytes.", maxInstructions)
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
