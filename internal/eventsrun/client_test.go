package eventsrun_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

type client struct{ *cluster }

// do sends a request to one node after the other until it is answered, or ctx ends.
func (c *client) do(ctx context.Context, r *rand.Rand, method, path string, body []byte) ([]byte, http.Header, error) {
	return c.Client.Insist(ctx, r, method, func() string { return c.pick(r).url(path) }, body)
}

// post sends a message until it is admitted.
func (c *client) post(ctx context.Context, r *rand.Rand, id, key, text string) (receipt conversation.Receipt, err error) {
	answer, header, err := c.do(ctx, r, http.MethodPost, id, noderun.Message(key, text))
	if err == nil {
		receipt, err = noderun.ReadReceipt(answer, header)
	}
	if err != nil {
		return receipt, fmt.Errorf("post message %s: %w", key, err)
	}
	return receipt, nil
}

// abort aborts all unsettled submissions of a conversation.
func (c *client) abort(ctx context.Context, r *rand.Rand, id string) error {
	_, _, err := c.do(ctx, r, http.MethodPost, id+"/abort", nil)
	return err
}

// settled waits for the settlement of a submission.
func (c *client) settled(ctx context.Context, r *rand.Rand, id string, receipt conversation.Receipt) (conversation.Outcome, error) {
	after := receipt.Offset.String()
	for {
		answer, header, err := c.do(ctx, r, http.MethodGet, id+"?view=updates&live=long-poll&offset="+after, nil)
		if err != nil {
			return "", fmt.Errorf("follow %s: %w", id, err)
		}
		var chunks []conversation.Chunk
		if len(answer) > 0 {
			if err := json.Unmarshal(answer, &chunks); err != nil {
				return "", fmt.Errorf("follow %s: answer %.500s: %w", id, answer, err)
			}
		}
		for _, k := range chunks {
			if k.Type == conversation.ChunkSettled && k.SubmissionID == receipt.SubmissionID {
				return k.Outcome, nil
			}
		}
		if next := header.Get("Stream-Next-Offset"); next != "" {
			after = next
		}
	}
}
