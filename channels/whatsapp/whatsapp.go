// Package whatsapp receives webhooks of WhatsApp Business at GET and POST /webhook.
//
// In addition to the guarantees of package channels, the channel responds to the platform's handshake,
// a GET with a challenge, if the verify token matches. A delivery carries X-Hub-Signature-256 over its
// bytes. It has entries of several conversations, and each message has an id of its own.
package whatsapp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/parleyrun/parley/channels"
)

// name identifies the channel in errors and instance ids.
const name = "whatsapp"

// Options configure a channel. AppSecret, VerifyToken and Webhook are required.
type Options struct {
	// AppSecret is the signing key of deliveries.
	AppSecret channels.Secret
	// VerifyToken is the token registered with the URL.
	VerifyToken channels.Secret
	// BodyLimit is the largest body in bytes. If 0, it is 1 MiB.
	BodyLimit int64
	// Deadline is the platform's response timeout, for [channels.Deliver]. Default none.
	Deadline time.Duration
	// Webhook receives every verified delivery.
	Webhook func(ctx context.Context, in Incoming) (any, error)
}

// Incoming is one verified delivery. The request body in C is consumed.
type Incoming struct {
	C *http.Request
	// Native is the delivery as received, a JSON object.
	Native json.RawMessage
}

// Message is the part of a message that most bots need. Native has the rest.
type Message struct {
	ID      string `json:"id"`
	From    string `json:"from"` // a phone number
	GroupID string `json:"group_id"`
	Type    string `json:"type"`
	// Text is the text, the caption of media, or the label of the selected button or list row.
	Text struct {
		Body string `json:"body"`
	} `json:"text"`

	// Account and PhoneNumber are ids of the business. Name is the name in the sender's profile, if
	// known.
	Account, PhoneNumber, Name string `json:"-"`
	// Native is the message as received, a JSON object.
	Native json.RawMessage `json:"-"`
}

// textFields contains the text members of other message types.
type textFields struct {
	Button struct {
		Text string `json:"text"`
	} `json:"button"`
	Interactive struct {
		Button reply `json:"button_reply"`
		List   reply `json:"list_reply"`
	} `json:"interactive"`
	Image    captioned `json:"image"`
	Video    captioned `json:"video"`
	Document captioned `json:"document"`
}

type reply struct {
	Title string `json:"title"`
}

type captioned struct {
	Caption string `json:"caption"`
}

// value is a change of an account.
type value struct {
	Metadata struct {
		PhoneNumberID string `json:"phone_number_id"`
	} `json:"metadata"`
	Contacts []struct {
		ID      string `json:"wa_id"`
		Profile struct {
			Name string `json:"name"`
		} `json:"profile"`
	} `json:"contacts"`
	Messages []json.RawMessage `json:"messages"`
}

// Messages returns the messages of all entries in order. An error means that the platform has changed
// their form.
func (in *Incoming) Messages() ([]Message, error) {
	var body struct {
		Entry []struct {
			ID      string `json:"id"`
			Changes []struct {
				Value value `json:"value"`
			} `json:"changes"`
		} `json:"entry"`
	}
	err := json.Unmarshal(in.Native, &body)
	var all []Message
	for _, e := range body.Entry {
		for _, c := range e.Changes {
			for _, native := range c.Value.Messages {
				m, unread := c.Value.message(native)
				m.Account = e.ID
				all, err = append(all, m), cmp.Or(err, unread)
			}
		}
	}
	return all, err
}

func (v *value) message(native json.RawMessage) (Message, error) {
	m := Message{PhoneNumber: v.Metadata.PhoneNumberID, Native: native}
	err := json.Unmarshal(native, &m)
	var w textFields
	if m.Text.Body == "" && json.Unmarshal(native, &w) == nil { // a member of unknown form has no text
		m.Text.Body = cmp.Or(w.Button.Text, w.Interactive.Button.Title, w.Interactive.List.Title, w.Image.Caption, w.Video.Caption, w.Document.Caption)
	}
	for _, c := range v.Contacts {
		if c.ID == m.From {
			m.Name = c.Profile.Name
		}
	}
	return m, err
}

// Ref returns the conversation of a message.
func (m *Message) Ref() Ref {
	ref := Ref{Account: m.Account, PhoneNumber: m.PhoneNumber, Type: TypePhoneNumber, ID: m.From}
	if m.GroupID != "" {
		ref.Type, ref.ID = TypeGroup, m.GroupID
	}
	return ref
}

// Channel receives webhooks. It is safe for concurrent use.
type Channel struct {
	opts Options
}

// New returns a channel. Its error is a [*channels.InputError].
func New(opts *Options) (*Channel, error) {
	if opts == nil {
		return nil, invalid("options", "are missing")
	}
	c := &Channel{opts: *opts}
	switch {
	case c.opts.AppSecret == "":
		return nil, invalid("appSecret", "is missing or empty")
	case c.opts.VerifyToken == "":
		return nil, invalid("verifyToken", "is missing or empty")
	case c.opts.Webhook == nil:
		return nil, invalid("webhook", "is missing")
	}
	return c, channels.CheckBodyLimit(name, c.opts.BodyLimit)
}

func invalid(field, problem string) error {
	return &channels.InputError{Channel: name, Field: field, Problem: problem}
}

// Routes implements [channels.Channel].
func (c *Channel) Routes() []channels.Route {
	return []channels.Route{
		channels.Endpoint{Method: http.MethodGet, Path: "/webhook", Accept: c.handshake}.Route(),
		channels.Endpoint{
			Method: http.MethodPost, Path: "/webhook", MediaTypes: []string{"application/json"},
			BodyLimit: c.opts.BodyLimit, Deadline: c.opts.Deadline, Early: channels.CheckHubForm, Accept: c.accept,
		}.Route(),
	}
}

// handshake handles the platform's verification of the URL.
func (c *Channel) handshake(r *http.Request, _ []byte) (channels.Call, error) {
	query := r.URL.Query()
	mode, token, challenge := query["hub.mode"], query["hub.verify_token"], query["hub.challenge"]
	switch {
	case len(mode) != 1 || mode[0] != "subscribe" || len(token) != 1 || len(challenge) != 1 || challenge[0] == "":
		return nil, channels.Refuse(http.StatusBadRequest, "not a handshake")
	case !c.opts.VerifyToken.Equal(token[0]):
		return nil, channels.Refuse(http.StatusForbidden, "verify token")
	}
	return func(context.Context) (any, error) {
		res := channels.Respond(http.StatusOK, "text/plain", challenge[0])
		res.Header.Set("X-Content-Type-Options", "nosniff")
		return res, nil
	}, nil
}

func (c *Channel) accept(r *http.Request, body []byte) (channels.Call, error) {
	if !c.opts.AppSecret.SignsHub(r.Header, body) {
		return nil, channels.Refuse(http.StatusUnauthorized, "signature")
	}
	members, err := channels.Object(body)
	object, _ := channels.String(members, "object")
	var entries []json.RawMessage
	if err != nil || object != "whatsapp_business_account" || json.Unmarshal(members["entry"], &entries) != nil || entries == nil {
		return nil, channels.Refuse(http.StatusBadRequest, "not of a business account")
	}
	in := Incoming{C: r}
	in.Native, _ = channels.Text(body)
	return func(ctx context.Context) (any, error) { return c.opts.Webhook(ctx, in) }, nil
}

// Type is the type of a conversation.
type Type string

// Types of conversations.
const (
	TypeGroup       Type = "group"
	TypePhoneNumber Type = "phone-number"
	TypeUserID      Type = "user-id"
)

// Ref identifies a conversation of a business phone number with a group or a person.
type Ref struct {
	Account, PhoneNumber string // ids of the business
	Type                 Type
	ID                   string // id of the group or person
}

// InstanceID returns the conversation id of a reference. It is deterministic. An error is a
// [*channels.InputError].
func InstanceID(ref Ref) (string, error) {
	begin := []string{name, "v1", "business-account", ref.Account, "phone-number", ref.PhoneNumber}
	switch {
	case ref.Account == "":
		return "", invalid("conversation.account", "is empty")
	case ref.PhoneNumber == "":
		return "", invalid("conversation.phoneNumber", "is empty")
	case ref.ID == "":
		return "", invalid("conversation.id", "is empty")
	case ref.Type == TypePhoneNumber || ref.Type == TypeUserID:
		begin = append(begin, "individual")
	case ref.Type != TypeGroup:
		return "", invalid("conversation.type", `must be "group", "phone-number" or "user-id"`)
	}
	id, ok := channels.JoinID(append(begin, string(ref.Type), ref.ID)...)
	if !ok {
		return "", invalid("conversation", "must be UTF-8")
	}
	return id, nil
}

// ParseInstanceID is the inverse of InstanceID. For any other text it returns a
// [*channels.InstanceIDError].
func ParseInstanceID(id string) (Ref, error) {
	p := channels.SplitID(id, name, "v1", "business-account")
	if n := len(p); n == 5 || n == 6 {
		ref := Ref{Account: p[0], PhoneNumber: p[2], Type: Type(p[n-2]), ID: p[n-1]}
		if again, err := InstanceID(ref); err == nil && again == id {
			return ref, nil
		}
	}
	return Ref{}, &channels.InstanceIDError{Channel: name}
}
