// Package discord receives interactions of Discord at POST /interactions.
//
// In addition to the guarantees of package channels, a request has an Ed25519 signature over its
// timestamp and its bytes. It is at most five minutes old. The channel responds to pings itself. Any
// other interaction needs a response, so a nil result of the callback is an error.
package discord

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors and instance ids.
const name = "discord"

// Tolerance is the maximum difference between a request's timestamp and now.
const Tolerance = 300 * time.Second

// ping is the type of a liveness interaction, and of its response.
const ping = 1

// Options configure a channel. PublicKey and Interactions are required.
type Options struct {
	// PublicKey is the application's public key, 64 hexadecimal digits.
	PublicKey string
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default 3 s.
	Deadline time.Duration
	// Interactions handles verified interactions other than pings. Its result is the response.
	Interactions func(ctx context.Context, in Interaction) (any, error)
}

// Interaction is one verified interaction. Its token, in Native, is a capability: keep it out of model
// input and logs.
type Interaction struct {
	C    *http.Request
	ID   string
	Type int
	// GuildID is empty in direct messages. ChannelID may be empty.
	GuildID, ChannelID string
	// Native is the interaction as received, a JSON object.
	Native json.RawMessage
}

// Channel receives webhooks at POST /interactions. It is safe for concurrent use.
type Channel struct {
	channels.Only
	opts Options
	key  ed25519.PublicKey
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	key, ok := channels.HexCode(c.opts.PublicKey, "", ed25519.PublicKeySize)
	switch {
	case !ok:
		return nil, invalid("publicKey", "must be 64 hexadecimal digits")
	case c.opts.Interactions == nil:
		return nil, invalid("interactions", "is missing")
	}
	if err := channels.CheckBodyLimit(name, c.opts.BodyLimit); err != nil {
		return nil, err
	}
	c.key = key
	c.Only = channels.Endpoint{
		Method: http.MethodPost, Path: "/interactions", MediaTypes: []string{"application/json"},
		BodyLimit: c.opts.BodyLimit, Deadline: cmp.Or(c.opts.Deadline, 3*time.Second), Early: checkForm, Accept: c.accept,
	}.Only()
	return c, nil
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

func signature(h http.Header) ([]byte, bool) {
	return channels.HexCode(channels.Header(h, "X-Signature-Ed25519"), "", ed25519.SignatureSize)
}

func checkForm(h http.Header) error {
	if _, ok := signature(h); !ok || channels.Header(h, "X-Signature-Timestamp") == "" {
		return channels.Refuse(http.StatusUnauthorized, "signature")
	}
	return nil
}

var errNothing = errors.New("result of callback is nil, but an interaction needs a response")

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	stamp := channels.Header(r.Header, "X-Signature-Timestamp")
	sent, ok := signature(r.Header)
	if !ok || !channels.Fresh(stamp, Tolerance) || !ed25519.Verify(c.key, append([]byte(stamp), body...), sent) {
		return nil, channels.Refuse(http.StatusUnauthorized, "signature")
	}
	in := Interaction{C: r}
	members, err := channels.Object(body)
	if err == nil {
		err = json.Unmarshal(members["type"], &in.Type)
	}
	if err != nil || in.Type < ping {
		return nil, channels.Refuse(http.StatusBadRequest, "not an interaction")
	}
	if in.Type == ping {
		return func(context.Context) (any, error) { return map[string]int{"type": ping}, nil }, nil
	}
	in.ID, _ = channels.String(members, "id")
	in.GuildID, _ = channels.String(members, "guild_id")
	in.ChannelID, _ = channels.String(members, "channel_id")
	in.Native, _ = channels.Text(body)
	return func(ctx context.Context) (any, error) { return answered(c.opts.Interactions(ctx, in)) }, nil
}

// answered returns an error for a nil result, also of a [channels.Later].
func answered(result any, err error) (any, error) {
	if later, ok := result.(channels.Later); ok && err == nil {
		return channels.Later(func(ctx context.Context) (any, error) { return answered(later(ctx)) }), nil
	}
	if err == nil && result == nil {
		err = errNothing
	}
	return result, err
}

// Ref identifies a channel of a guild, a direct message, or a private channel.
type Ref struct {
	Type    Type
	Guild   string // only for TypeGuild
	Channel string
}

// Type is the type of a channel.
type Type string

// Types of channels.
const (
	TypeGuild   Type = "guild"
	TypeDM      Type = "dm"
	TypePrivate Type = "private"
)

// InstanceID returns the conversation id of a channel. It is deterministic. An error is a
// [*channels.InputError].
func InstanceID(ref Ref) (string, error) {
	parts := []string{name, "v1", string(ref.Type)}
	switch {
	case ref.Type != TypeGuild && ref.Type != TypeDM && ref.Type != TypePrivate:
		return "", invalid("conversation.type", `must be "guild", "dm" or "private"`)
	case ref.Type == TypeGuild && ref.Guild == "":
		return "", invalid("conversation.guild", "is empty")
	case ref.Channel == "":
		return "", invalid("conversation.channel", "is empty")
	case ref.Type == TypeGuild:
		parts = append(parts, ref.Guild)
	}
	id, ok := channels.JoinID(append(parts, ref.Channel)...)
	if !ok {
		return "", invalid("conversation", "must be UTF-8")
	}
	return id, nil
}

// ParseInstanceID is the inverse of InstanceID. For any other text it returns a
// [*channels.InstanceIDError].
func ParseInstanceID(id string) (Ref, error) {
	var ref Ref
	switch p := channels.SplitID(id, name, "v1"); len(p) {
	case 2:
		ref = Ref{Type: Type(p[0]), Channel: p[1]}
	case 3:
		ref = Ref{Type: Type(p[0]), Guild: p[1], Channel: p[2]}
	}
	if again, err := InstanceID(ref); err != nil || again != id {
		return Ref{}, &channels.InstanceIDError{Channel: name}
	}
	return ref, nil
}
