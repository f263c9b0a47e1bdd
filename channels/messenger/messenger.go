package messenger

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors and instance ids.
const name = "messenger"

// DefaultSecretHeader is the default header of the secret token.
const DefaultSecretHeader = "X-Messenger-Bot-Api-Secret-Token"

// InvalidInputError reports an invalid Field: an option, or a member of a [ConversationRef] such as
// "conversation.chatId".
type InvalidInputError = channels.InputError

// Options configure a channel. SecretToken and Webhook are required.
type Options struct {
	// SecretToken is the token given when the webhook was registered: 1 to 256 of A-Z, a-z, 0-9, _ and
	// -.
	SecretToken channels.Secret
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default none.
	Deadline time.Duration
	// Webhook receives every verified update.
	Webhook func(ctx context.Context, in Incoming) (any, error)
	// SecretHeader is the header of the secret token. Default DefaultSecretHeader.
	SecretHeader string
}

// Incoming is one verified update. The request body in C is consumed.
type Incoming struct {
	C      *http.Request
	Update Update
}

// Channel receives webhooks at POST /webhook. It is safe for concurrent use.
type Channel struct {
	channels.Only
	opts Options
}

var secretToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// New returns a channel. Its error is an [*InvalidInputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	switch {
	case !secretToken.MatchString(c.opts.SecretToken.Reveal()):
		return nil, invalid("secretToken", "must be 1 to 256 of A-Z, a-z, 0-9, _ and -")
	case c.opts.Webhook == nil:
		return nil, invalid("webhook", "is missing")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	if c.opts.SecretHeader == "" {
		c.opts.SecretHeader = DefaultSecretHeader
	}
	c.Only = channels.Endpoint{
		Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"}, BodyLimit: c.opts.BodyLimit, Deadline: c.opts.Deadline,
		Early: c.checkSecret, SizeLast: true, MalformedLength: http.StatusUnsupportedMediaType, Accept: c.accept,
	}.Only()
	return c, nil
}

func invalid(field, problem string) error {
	return &InvalidInputError{Channel: name, Field: field, Problem: problem}
}

func (c *Channel) checkSecret(h http.Header) error {
	if !c.opts.SecretToken.Equal(channels.Header(h, c.opts.SecretHeader)) {
		return channels.Refuse(http.StatusUnauthorized, "secret")
	}
	return nil
}

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	update, err := parse(body)
	if err != nil {
		return nil, channels.Refuse(http.StatusBadRequest, "not an update")
	}
	return func(ctx context.Context) (any, error) { return c.opts.Webhook(ctx, Incoming{r, update}) }, nil
}

// parse validates the envelope.
func parse(body []byte) (Update, error) {
	members, err := channels.Object(body)
	if err != nil {
		return Update{}, err
	}
	id, ok := channels.Whole(members, "update_id")
	if !ok {
		return Update{}, errors.New("update has no update_id")
	}
	text, err := channels.Text(body)
	return Update{ID: id, Native: text, members: members}, err
}
