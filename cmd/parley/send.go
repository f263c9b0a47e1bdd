package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/conversation"
)

// Exit codes of "send" and "run": the submission's outcome.
const (
	exitFailed  = 2
	exitAborted = 3
)

// sendTries bounds how often a message is posted whose admission is in doubt.
const sendTries = 8

type sendConfig struct {
	key      string
	tokenEnv string
	noWait   bool
	json     bool
}

func sendCommand() *cobra.Command {
	cfg := sendConfig{}
	cmd := &cobra.Command{
		Use:   "send <conversation URL> <message>",
		Short: "Send a message to a conversation and print the reply as it comes",
		Long: "send posts a message and follows the conversation until the message is settled.\n" +
			"It survives restarts of the server.\n\n" +
			"Exit code: 0 completed, 2 failed, 3 aborted, 130 interrupted, 1 anything else.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return errors.New("send takes a conversation URL and one message; put the message in quotes: parley send http://127.0.0.1:5173" + mountPath + "/hello 'long 100'")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return send(cmd.Context(), cfg, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.key, "key", "", "idempotency key, by default a fresh one; a message sent again under its key is not repeated")
	cmd.Flags().BoolVar(&cfg.noWait, "no-wait", false, "print the receipt as JSON and do not wait for the reply")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print chunks as JSON lines")
	tokenFlag(cmd, &cfg.tokenEnv)
	return cmd
}

// receipt is the body of a 202.
type receipt struct {
	StreamURL    string                    `json:"streamUrl"`
	Offset       conversation.Offset       `json:"offset"`
	SubmissionID conversation.SubmissionID `json:"submissionId"`
	UID          conversation.UID          `json:"uid"`
	Deduplicated bool                      `json:"deduplicated,omitempty"`
}

func send(ctx context.Context, cfg sendConfig, rawURL, text string, out, errOut io.Writer) error {
	at, err := conversationURL(rawURL)
	if err != nil {
		return err
	}
	c, err := newClient(cfg.tokenEnv)
	if err != nil {
		return err
	}
	if cfg.key == "" {
		cfg.key = newKey()
	}
	warn := warner(errOut, at)
	rcpt, err := c.post(ctx, at, cfg.key, text, warn)
	if err != nil && ctx.Err() != nil {
		return &exitError{code: exitInterrupted, err: fmt.Errorf("interrupted; the message may be accepted or not: send it again with --key %s and it is not repeated", cfg.key)}
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if cfg.noWait {
		return json.NewEncoder(out).Encode(rcpt)
	}
	var outcome conversation.Outcome
	show, end := shower(out, cfg.json)
	defer end()
	err = c.follow(ctx, at, rcpt.Offset, warn, func(chunk conversation.Chunk) error {
		if settled, ok := settlementOf(chunk, rcpt.SubmissionID); ok {
			outcome = settled
		}
		show(chunk)
		if outcome != "" {
			return errEnough
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return &exitError{code: exitInterrupted, err: fmt.Errorf("interrupted; the server goes on with the message, and parley tail %s shows it", at.Redacted())}
	}
	if err != nil {
		return fmt.Errorf("follow the reply: %w", err)
	}
	return exitOf(outcome)
}

// exitOf is the exit code of an outcome, as an error unless it is 0.
func exitOf(outcome conversation.Outcome) error {
	switch outcome {
	case conversation.OutcomeFailed:
		return &exitError{code: exitFailed}
	case conversation.OutcomeAborted:
		return &exitError{code: exitAborted}
	}
	return nil
}

// settlementOf finds the outcome of a submission in a chunk; a reset may carry it.
func settlementOf(c conversation.Chunk, id conversation.SubmissionID) (conversation.Outcome, bool) {
	if c.Type == conversation.ChunkSettled && c.SubmissionID == id {
		return c.Outcome, true
	}
	if c.Type == conversation.ChunkReset {
		for _, s := range c.Snapshot.Settlements {
			if s.SubmissionID == id {
				return s.Outcome, true
			}
		}
	}
	return "", false
}

// shower prints chunks for a person or for a program. After the last one, end ends
// the line of a text that was cut off.
func shower(out io.Writer, asJSON bool) (show func(conversation.Chunk), end func()) {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return func(c conversation.Chunk) { _ = enc.Encode(c) }, func() {}
	}
	p := &printer{out: out}
	return p.chunk, p.end
}

// post admits the message, again under the same key while the outcome is in doubt.
func (c client) post(ctx context.Context, at *url.URL, key, text string, warn func(error)) (receipt, error) {
	body, err := json.Marshal(map[string]string{"kind": "user", "body": text, "idempotencyKey": key})
	if err != nil {
		return receipt{}, err
	}
	pause := firstPause
	for try := 1; ; try++ {
		rcpt, again, err := c.postOnce(ctx, at, body)
		if err == nil || !again || try == sendTries {
			return rcpt, err
		}
		warn(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return rcpt, ctx.Err()
		}
		pause = min(2*pause, lastPause)
	}
}

func (c client) postOnce(ctx context.Context, at *url.URL, body []byte) (rcpt receipt, again bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, quietAfter, errQuiet)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return rcpt, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.do(req)
	if err != nil {
		return rcpt, true, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return rcpt, resp.StatusCode >= 500, failed(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(&rcpt); err != nil {
		return rcpt, true, fmt.Errorf("decode receipt: %w", err)
	}
	return rcpt, false, nil
}
