package commerce

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors.
const name = "commerce"

// Options configure a channel. ClientSecret and Webhook are required.
type Options struct {
	// ClientSecret is the app's current secret, the key of signatures.
	ClientSecret channels.Secret
	// PreviousClientSecret is accepted in addition during a rotation. It may be nil.
	PreviousClientSecret *channels.Secret
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default 5 s.
	Deadline time.Duration
	// Webhook receives every verified delivery.
	Webhook func(ctx context.Context, in Incoming) (any, error)
	// Headers are the names of the platform's headers.
	Headers Headers
}

// Headers are the header names. Each defaults to the prefix, a dash and a suffix.
type Headers struct {
	Prefix                                                                   string // X-Commerce
	HMAC                                                                     string // X-Commerce-Hmac-Sha256
	Topic, ShopDomain, APIVersion, WebhookID, EventID, TriggeredAt, SubTopic string
}

func (h *Headers) defaults() {
	h.Prefix = cmp.Or(h.Prefix, "X-Commerce")
	for _, d := range []struct {
		name  *string
		value string
	}{
		{&h.HMAC, "Hmac-Sha256"}, {&h.Topic, "Topic"}, {&h.ShopDomain, "Shop-Domain"}, {&h.APIVersion, "Api-Version"},
		{&h.WebhookID, "Webhook-Id"}, {&h.EventID, "Event-Id"}, {&h.TriggeredAt, "Triggered-At"}, {&h.SubTopic, "Sub-Topic"},
	} {
		if *d.name == "" {
			*d.name = h.Prefix + "-" + d.value
		}
	}
}

// Incoming is one verified delivery. The request body in C is consumed.
type Incoming struct {
	C *http.Request
	// Payload is the body as parsed by [channels.ParseLossless]. An id is a json.Number or, beyond
	// ±(2^53-1), a string. [Text] converts either to text.
	Payload any
	// RawBody is the signed body.
	RawBody string
}

// Metadata contains the headers of a delivery. They are not signed: use them for routing only. Each
// may be empty.
type Metadata struct {
	Topic       string // such as orders/create; new values may appear
	ShopDomain  string
	APIVersion  string
	WebhookID   string // the same when the platform sends again
	EventID     string // the same for all deliveries of one action of a merchant
	TriggeredAt string
	SubTopic    string
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
	c := &Channel{opts: *opts, secrets: []channels.Secret{opts.ClientSecret}}
	previous := c.opts.PreviousClientSecret
	switch {
	case c.opts.ClientSecret == "":
		return nil, invalid("clientSecret", "is missing or empty")
	case previous != nil && *previous == "":
		return nil, invalid("previousClientSecret", "is empty; omit it if there is none")
	case c.opts.Webhook == nil:
		return nil, invalid("webhook", "is missing")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	if previous != nil {
		c.secrets = append(c.secrets, *previous)
	}
	c.opts.Deadline = cmp.Or(c.opts.Deadline, 5*time.Second)
	c.opts.Headers.defaults()
	c.Only = channels.Endpoint{
		Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"},
		BodyLimit: c.opts.BodyLimit, Deadline: c.opts.Deadline, Early: c.checkForm, Accept: c.accept,
	}.Only()
	return c, nil
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

// Metadata returns the headers of a delivery.
func (c *Channel) Metadata(r *http.Request) Metadata {
	h, names := r.Header, &c.opts.Headers
	return Metadata{
		Topic: h.Get(names.Topic), ShopDomain: h.Get(names.ShopDomain), APIVersion: h.Get(names.APIVersion),
		WebhookID: h.Get(names.WebhookID), EventID: h.Get(names.EventID), TriggeredAt: h.Get(names.TriggeredAt),
		SubTopic: h.Get(names.SubTopic),
	}
}

var errSignature = channels.Refuse(http.StatusUnauthorized, "signature")

func (c *Channel) code(h http.Header) ([]byte, bool) {
	return channels.Base64Code(channels.Header(h, c.opts.Headers.HMAC))
}

func (c *Channel) checkForm(h http.Header) error {
	if _, ok := c.code(h); !ok {
		return errSignature
	}
	return nil
}

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	code, ok := c.code(r.Header)
	if !ok || !channels.SignsAny(c.secrets, code, sha256.New, body) {
		return nil, errSignature
	}
	if !utf8.Valid(body) {
		return nil, channels.Refuse(http.StatusBadRequest, "not UTF-8")
	}
	payload, err := channels.ParseLossless(body)
	if err != nil {
		return nil, channels.Refuse(http.StatusBadRequest, "not JSON")
	}
	return func(ctx context.Context) (any, error) {
		return c.opts.Webhook(ctx, Incoming{r, payload, string(body)})
	}, nil
}
