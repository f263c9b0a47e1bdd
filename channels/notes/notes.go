package notes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name is what the channel is called in errors.
const name = "notes"

// DefaultSignatureHeader is the header of a signature if no other is given.
const DefaultSignatureHeader = "X-Notes-Signature"

// signaturePrefix comes before the 64 hexadecimal digits of a signature.
const signaturePrefix = "sha256="

// Options are what a channel is made of. Webhook and at least one of VerificationToken and
// Verification are needed.
type Options struct {
	// VerificationToken is what the platform gave at setup, and signs with. Nil: none yet.
	VerificationToken *channels.Secret
	// BodyLimit is the largest body in bytes. 0 is 1 MiB.
	BodyLimit int64
	// Verification handles a setup request as long as no token is configured. Whoever finds
	// the URL can send one.
	Verification func(ctx context.Context, in Setup) (any, error)
	// Deadline is how long the platform waits for an answer, for [channels.Deliver]. Default none.
	Deadline time.Duration
	// Webhook receives every verified event.
	Webhook func(ctx context.Context, in Incoming) (any, error)
	// SignatureHeader is the header that has the signature. Default DefaultSignatureHeader.
	SignatureHeader string
}

// Setup is what a setup request has.
type Setup struct {
	C *http.Request
	// VerificationToken is to be kept: it is the key of all signatures to come.
	VerificationToken channels.Secret
}

// Incoming is one verified event. The body of C has been read.
type Incoming struct {
	C     *http.Request
	Event Event
}

// Channel takes webhooks, at POST /webhook. It is safe for concurrent use.
type Channel struct {
	channels.Only
	opts Options
}

// New returns a channel. An error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	switch {
	case c.opts.VerificationToken != nil && *c.opts.VerificationToken == "":
		return nil, invalid("verificationToken", "is empty: leave it out as long as there is none")
	case c.opts.VerificationToken == nil && c.opts.Verification == nil:
		return nil, invalid("verificationToken", "and verification are both missing: one is needed")
	case c.opts.Webhook == nil:
		return nil, invalid("webhook", "is missing")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	if c.opts.SignatureHeader == "" {
		c.opts.SignatureHeader = DefaultSignatureHeader
	}
	c.Only = channels.Endpoint{
		Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"},
		BodyLimit: c.opts.BodyLimit, Deadline: c.opts.Deadline, Accept: c.accept, Lasting: lasting, Silent: true,
	}.Only()
	return c, nil
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	token, signature := c.opts.VerificationToken, channels.Header(r.Header, c.opts.SignatureHeader)
	switch {
	case signature == "":
		return c.setup(r, body)
	case token == nil:
		return nil, channels.Refuse(http.StatusServiceUnavailable, "no token yet")
	}
	code, ok := channels.HexCode(signature, signaturePrefix, sha256.Size)
	if !ok || !token.Signs(code, sha256.New, body) {
		return nil, channels.Refuse(http.StatusUnauthorized, "signature")
	}
	event, err := parse(body)
	if err != nil {
		return nil, channels.Refuse(http.StatusBadRequest, "not an event")
	}
	return func(ctx context.Context) (any, error) { return c.opts.Webhook(ctx, Incoming{r, event}) }, nil
}

// setup takes what has no signature.
func (c *Channel) setup(r *http.Request, body []byte) (channels.Call, error) {
	sent, ok := setupToken(body)
	token := c.opts.VerificationToken
	switch {
	case !ok:
		return nil, channels.Refuse(http.StatusUnauthorized, "signature")
	case token == nil:
		return func(ctx context.Context) (any, error) {
			return c.opts.Verification(ctx, Setup{r, channels.Secret(sent)})
		}, nil
	case !token.Equal(sent):
		return nil, channels.Refuse(http.StatusForbidden, "token")
	}
	return func(context.Context) (any, error) { return nil, nil }, nil
}

// setupToken returns the token of a setup body: an object with this one member.
func setupToken(body []byte) (string, bool) {
	text, err := channels.Text(body)
	if err != nil {
		return "", false
	}
	// By tokens, since a map would take a member that comes twice for one.
	dec := json.NewDecoder(bytes.NewReader(text))
	var tokens []json.Token
	for len(tokens) <= 4 {
		t, err := dec.Token()
		if err != nil {
			break
		}
		tokens = append(tokens, t)
	}
	if len(tokens) != 4 || tokens[0] != json.Delim('{') || tokens[1] != "verification_token" {
		return "", false
	}
	sent, ok := tokens[2].(string)
	return sent, ok && sent != ""
}
