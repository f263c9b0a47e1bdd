// Package standardwebhooks receives webhooks of platforms that sign by the Standard Webhooks
// specification, and of those that send the headers of Svix.
//
// In addition to the guarantees of package channels, a delivery carries signatures over its id, its
// timestamp and its bytes. One of them must verify. The delivery is at most five minutes old.
package standardwebhooks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors.
const name = "standardwebhooks"

// Tolerance is the maximum difference between a delivery's timestamp and now.
const Tolerance = 300 * time.Second

// Options configure a channel. Secret and Webhook are required.
type Options struct {
	// Secret is base64, with or without the prefix "whsec_".
	Secret channels.Secret
	// PreviousSecret is accepted in addition during a rotation. It may be nil.
	PreviousSecret *channels.Secret
	// Prefix is the prefix of the headers -Id, -Timestamp and -Signature. Default "Webhook"; some
	// platforms use "Svix".
	Prefix string
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default 15 s.
	Deadline time.Duration
	// Webhook receives every verified delivery.
	Webhook func(ctx context.Context, in Incoming) (any, error)
}

// Incoming is one verified delivery. The request body in C is consumed.
type Incoming struct {
	C *http.Request
	// ID is the same when the platform sends again.
	ID string
	// Type is the member "type", or "".
	Type string
	// Native is the body as received, a JSON object.
	Native json.RawMessage
}

// Channel receives webhooks at POST /webhook. It is safe for concurrent use.
type Channel struct {
	channels.Only
	opts Options
	keys []channels.Secret
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	if err := c.addKey("secret", c.opts.Secret); err != nil {
		return nil, err
	}
	if c.opts.PreviousSecret != nil {
		if err := c.addKey("previousSecret", *c.opts.PreviousSecret); err != nil {
			return nil, err
		}
	}
	if c.opts.Webhook == nil {
		return nil, invalid("webhook", "is missing")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	c.opts.Prefix = cmp.Or(c.opts.Prefix, "Webhook")
	c.Only = channels.Endpoint{
		Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"},
		BodyLimit: c.opts.BodyLimit, Deadline: cmp.Or(c.opts.Deadline, 15*time.Second), Early: c.checkForm, Accept: c.accept,
	}.Only()
	return c, nil
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

func (c *Channel) addKey(field string, s channels.Secret) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), "whsec_"))
	if err != nil || len(key) == 0 {
		return invalid(field, "must be non-empty base64, with or without the prefix whsec_")
	}
	c.keys = append(c.keys, channels.Secret(key))
	return nil
}

// codes returns the signatures of version 1 in the header.
func (c *Channel) codes(h http.Header) (codes [][]byte) {
	for one := range strings.SplitSeq(channels.Header(h, c.opts.Prefix+"-Signature"), " ") {
		version, text, _ := strings.Cut(one, ",")
		if strings.Contains(text, ",") {
			return nil // repeated header
		}
		if version == "v1" {
			if code, ok := channels.Base64Code(text); ok {
				codes = append(codes, code)
			}
		}
	}
	return codes
}

func (c *Channel) checkForm(h http.Header) error {
	if len(c.codes(h)) == 0 || channels.Header(h, c.opts.Prefix+"-Id") == "" {
		return channels.Refuse(http.StatusUnauthorized, "signature")
	}
	return nil
}

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	in := Incoming{C: r, ID: channels.Header(r.Header, c.opts.Prefix+"-Id")}
	stamp := channels.Header(r.Header, c.opts.Prefix+"-Timestamp")
	proven := false
	for _, code := range c.codes(r.Header) {
		proven = channels.SignsAny(c.keys, code, sha256.New, []byte(in.ID+"."+stamp+"."), body) || proven
	}
	if !proven || !channels.Fresh(stamp, Tolerance) {
		return nil, channels.Refuse(http.StatusUnauthorized, "signature")
	}
	members, err := channels.Object(body)
	if err != nil {
		return nil, channels.Refuse(http.StatusBadRequest, "not an object")
	}
	in.Type, _ = channels.String(members, "type")
	in.Native, _ = channels.Text(body)
	return func(ctx context.Context) (any, error) { return c.opts.Webhook(ctx, in) }, nil
}
