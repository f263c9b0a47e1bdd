// Package stripe receives webhooks of Stripe.
//
// In addition to the guarantees of package channels, a delivery carries v1 signatures over its
// timestamp and its bytes in Stripe-Signature. One of them must verify. The delivery is at most five
// minutes old. An unverified delivery, or an event of the other form, full or thin, is 400.
package stripe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors.
const name = "stripe"

// Tolerance is the maximum difference between a delivery's timestamp and now.
const Tolerance = 300 * time.Second

// Options configure a channel. Secret and Webhook are required.
type Options struct {
	// Secret is the secret of the endpoint.
	Secret channels.Secret
	// PreviousSecret is accepted in addition during a rotation. It may be nil.
	PreviousSecret *channels.Secret
	// Thin accepts thin events, which reference an object, instead of events that contain it.
	Thin bool
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default 10 s.
	Deadline time.Duration
	// Webhook receives every verified event.
	Webhook func(ctx context.Context, in Incoming) (any, error)
}

// Incoming is one verified event. The request body in C is consumed.
type Incoming struct {
	C *http.Request
	// ID is the same when the platform sends again.
	ID, Type string
	// Native is the event as received, a JSON object.
	Native json.RawMessage
}

// Channel receives webhooks at POST /webhook. It is safe for concurrent use.
type Channel struct {
	channels.Only
	opts    Options
	secrets []channels.Secret
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts, secrets: []channels.Secret{opts.Secret}}
	previous := c.opts.PreviousSecret
	switch {
	case c.opts.Secret == "":
		return nil, invalid("secret", "is missing or empty")
	case previous != nil && *previous == "":
		return nil, invalid("previousSecret", "is empty; omit it if there is none")
	case previous != nil:
		c.secrets = append(c.secrets, *previous)
	}
	if c.opts.Webhook == nil {
		return nil, invalid("webhook", "is missing")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	c.Only = channels.Endpoint{
		Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"},
		BodyLimit: c.opts.BodyLimit, Deadline: cmp.Or(c.opts.Deadline, 10*time.Second), Early: checkForm, Accept: c.accept,
	}.Only()
	return c, nil
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

// signed returns the timestamp and the v1 signatures of the header.
func signed(h http.Header) (stamp string, codes [][]byte) {
	timed := false
	for one := range strings.SplitSeq(channels.Header(h, "Stripe-Signature"), ",") {
		key, value, _ := strings.Cut(one, "=")
		switch strings.TrimSpace(key) {
		case "t":
			if timed {
				return "", nil // repeated header
			}
			stamp, timed = value, true
		case "v1":
			if code, ok := channels.HexCode(value, "", sha256.Size); ok {
				codes = append(codes, code)
			}
		}
	}
	return stamp, codes
}

func checkForm(h http.Header) error {
	if stamp, codes := signed(h); stamp == "" || len(codes) == 0 {
		return channels.Refuse(http.StatusBadRequest, "signature")
	}
	return nil
}

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	stamp, codes := signed(r.Header)
	proven := false
	for _, code := range codes {
		proven = channels.SignsAny(c.secrets, code, sha256.New, []byte(stamp+"."), body) || proven
	}
	if !proven || !channels.Fresh(stamp, Tolerance) {
		return nil, channels.Refuse(http.StatusBadRequest, "signature")
	}
	want := "event"
	if c.opts.Thin {
		want = "v2.core.event"
	}
	in := Incoming{C: r}
	members, err := channels.Object(body)
	object, _ := channels.String(members, "object")
	var has, typed bool
	in.ID, has = channels.String(members, "id")
	in.Type, typed = channels.String(members, "type")
	if err != nil || !has || !typed || object != want {
		return nil, channels.Refuse(http.StatusBadRequest, "not an event of this endpoint")
	}
	in.Native, _ = channels.Text(body)
	return func(ctx context.Context) (any, error) { return c.opts.Webhook(ctx, in) }, nil
}
