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

// name identifies the channel in errors.
const name = "notes"

// DefaultSignatureHeader is the default header of the signature.
const DefaultSignatureHeader = "X-Notes-Signature"

// signaturePrefix precedes the 64 hexadecimal digits of a signature.
const signaturePrefix = "sha256="

// Options configure a channel. Webhook and at least one of VerificationToken and Verification are
// required.
type Options struct {
	// VerificationToken is the platform's setup token, which is the signing key. It is nil until
	// setup.
	VerificationToken *channels.Secret
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Verification handles a setup request while no token is configured. Any client that knows the URL
	// can send one.
	Verification func(ctx context.Context, in Setup) (any, error)
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default none.
	Deadline time.Duration
	// Webhook receives every verified event.
	Webhook func(ctx context.Context, in Incoming) (any, error)
	// SignatureHeader is the header of the signature. Default DefaultSignatureHeader.
	SignatureHeader string
}

// Setup is a setup request.
type Setup struct {
	C *http.Request
	// VerificationToken is the key of all later signatures. The application must store it.
	VerificationToken channels.Secret
}

// Incoming is one verified event. The request body in C is consumed.
type Incoming struct {
	C     *http.Request
	Event Event
}

// Channel receives webhooks at POST /webhook. It is safe for concurrent use.
type Channel struct {
	channels.Only
	opts Options
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	switch {
	case c.opts.VerificationToken != nil && *c.opts.VerificationToken == "":
		return nil, invalid("verificationToken", "is empty; omit it until setup")
	case c.opts.VerificationToken == nil && c.opts.Verification == nil:
		return nil, invalid("verificationToken", "and verification are both missing; set one")
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

// setup handles unsigned requests.
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

// setupToken returns the token of a setup body, an object with this member only.
func setupToken(body []byte) (string, bool) {
	text, err := channels.Text(body)
	if err != nil {
		return "", false
	}
	// Decode by tokens, since a map would hide a repeated member.
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
