package sides

import (
	"maps"
	"slices"

	"github.com/parleyrun/parley/providers"
)

// Format encodes parts for a wire format. B is the block type of the format; it distinguishes cached
// encodings.
type Format[B any] struct {
	// Content, Reply and Results return the blocks of user content, of a reply, and of tool results;
	// none omits the message.
	Content func([]providers.Part, *providers.BodyEncoder) []B
	Reply   func([]providers.Part, *Calls) []B
	Results func([]providers.Part, *Calls, *providers.BodyEncoder) []B
	// ID returns the id in the request of the n-th call with an id, from 1 on.
	ID func(id string, n int) string
	// Mark adds a cache marker to the end of a message; nil for no markers.
	Mark func([]B) []B
	// Variant is an input of the encoding in addition to the model.
	Variant bool
}

// Encode returns the pieces of the messages array, and the called tools. The last message of the
// user's side gets the marker, so a history block with that message is encoded together with the
// following messages.
func (f Format[B]) Encode(m providers.Model, req providers.Request) (pieces []*providers.Body, used map[string]bool, err error) {
	tail := req.Messages
	for n := len(req.History); ; n-- {
		var before *Calls
		fragments := make([]*fragment[B], 0, n+1)
		for _, b := range req.History[:n] {
			last := before
			one, err := providers.EncodeBlock(b, m,
				func(was *fragment[B]) bool { return was.calls.before == last && was.variant == f.Variant },
				func(messages []providers.Message) (*fragment[B], int64, error) { return f.block(last, messages) })
			if err != nil {
				return nil, nil, err
			}
			fragments, before = append(fragments, one), one.calls
		}
		rest, err := f.fragment(before, tail, f.Mark)
		if err != nil {
			return nil, nil, err
		}
		if f.Mark == nil || rest.asked || n == 0 {
			pieces, used = join(append(fragments, rest))
			return pieces, used, nil
		}
		tail = slices.Concat(providers.TransformBlock(m, req.History[n-1]), tail)
	}
}

// Names of the sides.
const (
	user      = "user"
	assistant = "assistant"
)

type message[B any] struct {
	Role    string `json:"role"`
	Content []B    `json:"content"`
}

// fragment is an immutable run of encoded messages.
type fragment[B any] struct {
	calls   *Calls
	variant bool
	// first and last are the sides of the first and the last message; empty if there are no messages.
	first, last string
	// asked is set if there is a message of the user's side.
	asked bool
	// text is the messages without the opening of the first and the closing of the last.
	text *providers.Body
}

func (f Format[B]) block(before *Calls, messages []providers.Message) (*fragment[B], int64, error) {
	out, err := f.fragment(before, messages, nil)
	if err != nil {
		return nil, 0, err
	}
	return out, out.text.TextBytes() + out.calls.size(), nil
}

// fragment encodes messages. The last one of the user's side gets the mark unless it is nil.
func (f Format[B]) fragment(before *Calls, in []providers.Message, mark func([]B) []B) (*fragment[B], error) {
	var e providers.BodyEncoder
	out := &fragment[B]{calls: &Calls{before: before, id: f.ID}, variant: f.Variant, text: providers.NewBody("")}
	messages, lastAsked := f.messages(in, out.calls, &e)
	if out.asked = lastAsked >= 0; out.asked && mark != nil {
		messages[lastAsked].Content = mark(messages[lastAsked].Content)
	}
	if len(messages) == 0 {
		return out, nil
	}
	out.first, out.last = messages[0].Role, messages[len(messages)-1].Role
	text, err := e.Encode(messages)
	if err != nil {
		return nil, err
	}
	out.text = text.Inner(len("[")+len(opening(out.first)), len(closing)+len("]\n"))
	return out, nil
}

// messages returns the encoded messages and the index of the last one of the user's side, or -1.
func (f Format[B]) messages(in []providers.Message, calls *Calls, e *providers.BodyEncoder) (out []message[B], lastAsked int) {
	lastAsked = -1
	for _, msg := range in {
		side, blocks := user, []B(nil)
		switch msg.Role {
		case providers.RoleUser:
			blocks = f.Content(msg.Parts, e)
		case providers.RoleAssistant:
			calls.latest = nil
			side, blocks = assistant, f.Reply(msg.Parts, calls)
		case providers.RoleTool:
			blocks = f.Results(msg.Parts, calls, e)
		}
		switch n := len(out); {
		case len(blocks) == 0:
			continue
		case n > 0 && out[n-1].Role == side:
			out[n-1].Content = append(out[n-1].Content, blocks...)
		default:
			out = append(out, message[B]{Role: side, Content: blocks})
		}
		if side == user {
			lastAsked = len(out) - 1
		}
	}
	calls.latest = nil
	return out, lastAsked
}

// closing ends a message.
const closing = `]}`

func opening(side string) string { return `{"role":"` + side + `","content":[` }

// join concatenates fragments to one array, and merges their tools.
func join[B any](fragments []*fragment[B]) (pieces []*providers.Body, used map[string]bool) {
	pieces, used = make([]*providers.Body, 1, 2*len(fragments)+3), map[string]bool{}
	pieces[0] = providers.NewBody("[")
	comma, next := providers.NewBody(","), map[string]*providers.Body{}
	for _, side := range []string{user, assistant} {
		next[side] = providers.NewBody(closing + "," + opening(side))
	}
	side := ""
	for _, f := range fragments {
		maps.Copy(used, f.calls.used)
		switch {
		case f.first == "":
			continue
		case side == "":
			pieces = append(pieces, providers.NewBody(opening(f.first)))
		case side == f.first:
			pieces = append(pieces, comma)
		default:
			pieces = append(pieces, next[f.first])
		}
		pieces, side = append(pieces, f.text), f.last
	}
	if side != "" {
		pieces = append(pieces, providers.NewBody(closing))
	}
	return append(pieces, providers.NewBody("]")), used
}
