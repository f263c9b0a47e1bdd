package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/parleyrun/parley/conversation"
)

// Receipt is the receipt of an admitted message.
type Receipt struct {
	// StreamURL is the server's URL of the conversation.
	StreamURL string `json:"streamUrl"`
	conversation.Receipt
	// Key is the idempotency key of the message. The server does not repeat it, so it is not part of
	// the JSON form.
	Key string `json:"-"`
}

// Send admits a message: when it returns without an error, the message is durable and its submission
// will be settled once. The message is posted again, under the same key, while its outcome is
// uncertain; Receipt.Deduplicated is set if an earlier attempt, or an earlier Send under the key, was
// admitted.
//
// A refusal is an [*Error]. If an attempt may have been admitted and no later one got a conclusive
// response, the error is an [*UncertainError] with the key. A response admission_unknown is such an
// attempt; one without a connection, an [*UnsentError], is not.
func (c *Conversation) Send(ctx context.Context, m Message) (Receipt, error) {
	key := m.Key
	if key == "" {
		key = rand.Text()
	}
	body, err := m.encode(key)
	if err != nil {
		return Receipt{}, fmt.Errorf("send message: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return Receipt{}, fmt.Errorf("send message: %w", err)
	}
	receipt := Receipt{Key: key}
	err = c.deliver(ctx, key, func() error { return c.post(ctx, body, m.Notify, &receipt) })
	if err != nil {
		return Receipt{}, fmt.Errorf("send message to %s: %w", c.name(), err)
	}
	return receipt, nil
}

// deliver posts under a key until a conclusive response. Without one the error is an
// [*UncertainError].
func (c *Conversation) deliver(ctx context.Context, key string, post func() error) error {
	doubt := false
	err := c.repeat(ctx, func() error {
		err := post()
		doubt = doubt || err != nil && temporary(err) && !unsent(err) // the end of ctx is temporary too
		return err
	})
	if err != nil && doubt && !refused(err) {
		err = &UncertainError{Key: key, Err: err}
	}
	return err
}

// Signal resolves a present or future wait of a tool of the conversation with a value, see agent.Wait.
// When it returns, the signal was used or is stored for the wait. The type of an [*Error] is
// invalid_request for a value that does not fit. It is already_decided for a value that follows
// another or comes after the wait. It is too_many_signals if the conversation holds the maximum of
// stored signals. Otherwise it is [Conversation.Send] of [SignalFor].
func (c *Conversation) Signal(ctx context.Context, name string, value any) (Receipt, error) {
	m, err := SignalFor(name, value)
	if err != nil {
		return Receipt{}, fmt.Errorf("signal %q: %w", name, err)
	}
	return c.Send(ctx, m)
}

// refused reports whether the server itself refused a message. It would have recognized the key of an
// admitted one.
func refused(err error) bool {
	var answered *Error
	return errors.As(err, &answered) && answered.Type != "" && !answered.temporary()
}

// post is one attempt.
func (c *Conversation) post(ctx context.Context, body *payload, notify string, receipt *Receipt) error {
	a, err := c.do(ctx, request{
		method: http.MethodPost, url: c.at.String(), accept: "application/json", body: body, notify: notify, silence: c.opts.AnswerWithin,
	})
	if err != nil {
		return err
	}
	var got Receipt
	if err := a.decode(&got, c.opts.MaxAnswerBytes); err != nil {
		return err
	}
	if got.SubmissionID == "" {
		return &answerError{errors.New("the receipt names no submission")}
	}
	got.Key = receipt.Key
	*receipt = got
	return nil
}
