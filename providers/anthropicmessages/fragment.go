package anthropicmessages

import (
	"fmt"
	"slices"

	"github.com/parleyrun/parley/providers"
)

// fragment is a run of encoded messages, all of a request or a part of it. It does
// not change.
type fragment struct {
	// after is the fragment before this one: its calls have ids of their own.
	after *fragment
	// ids are those of the calls in the fragment, as they are sent.
	ids map[string]bool
	// first and last are the sides of the first and the last message; empty if
	// there are no messages.
	first, last string
	// asked tells that a message of the user's side is among them.
	asked bool
	// unsigned tells that thinking stands there that was never signed, if there is any.
	unsigned bool
	// text is the messages without what opens the first and closes the last, so that
	// neighbours of one side can become one message.
	text *providers.Body
}

const (
	openUser      = `{"role":"user","content":[`
	openAssistant = `{"role":"assistant","content":[`
	closeMessage  = `]}`
)

func opening(side string) string {
	if side == sideUser {
		return openUser
	}
	return openAssistant
}

// encodeMessages returns the pieces of the messages' array. The last message of
// the user's side is marked for the prompt cache, if there is a mark, so history that
// holds it is encoded with what comes after it.
func encodeMessages(m providers.Model, req providers.Request, mark *cacheControl) ([]*providers.Body, error) {
	tail, unsigned := req.Messages, m.Compat.AllowEmptySignature.Or(false)
	for n := len(req.History); ; n-- {
		var last *fragment
		fragments := make([]*fragment, 0, n+1)
		for _, b := range req.History[:n] {
			after := last
			f, err := providers.EncodeBlock(b, m,
				func(f *fragment) bool { return f.after == after && f.unsigned == unsigned },
				func(messages []providers.Message) (*fragment, int64, error) {
					return encodeBlock(after, messages, unsigned)
				})
			if err != nil {
				return nil, err
			}
			fragments, last = append(fragments, f), f
		}
		f, err := newFragment(last, tail, mark, unsigned)
		if err != nil {
			return nil, err
		}
		if mark == nil || f.asked || n == 0 {
			return join(append(fragments, f)), nil
		}
		tail = slices.Concat(providers.TransformBlock(m, req.History[n-1]), tail)
	}
}

func encodeBlock(after *fragment, messages []providers.Message, unsigned bool) (*fragment, int64, error) {
	f, err := newFragment(after, messages, nil, unsigned)
	if err != nil {
		return nil, 0, err
	}
	size := f.text.TextBytes()
	for id := range f.ids {
		size += int64(len(id))
	}
	return f, size, nil
}

// newFragment encodes messages. The last one of the user's side gets the mark, unless that
// is nil.
func newFragment(after *fragment, in []providers.Message, mark *cacheControl, unsigned bool) (*fragment, error) {
	f := &fragment{after: after, unsigned: unsigned}
	var e providers.BodyEncoder
	var out []message
	lastAsked := -1
	ids := callIDs{in: f}
	for _, msg := range in {
		side, blocks := sideUser, []block(nil)
		switch msg.Role {
		case providers.RoleUser:
			blocks = encodeContent(msg.Parts, &e)
		case providers.RoleAssistant:
			side, blocks = sideAssistant, encodeAssistant(msg.Parts, &ids, unsigned)
		case providers.RoleTool:
			blocks = encodeResults(msg.Parts, &ids, &e)
		}
		switch n := len(out); {
		case len(blocks) == 0:
			continue
		case n > 0 && out[n-1].Role == side:
			out[n-1].Content = append(out[n-1].Content, blocks...)
		default:
			out = append(out, message{Role: side, Content: blocks})
		}
		if side == sideUser {
			lastAsked = len(out) - 1
		}
	}
	f.asked = lastAsked >= 0
	if f.asked && mark != nil {
		content := out[lastAsked].Content
		content[len(content)-1].CacheControl = mark
	}
	if len(out) == 0 {
		f.text = providers.NewBody("")
		return f, nil
	}
	f.first, f.last = out[0].Role, out[len(out)-1].Role
	text, err := e.Encode(out)
	if err != nil {
		return nil, err
	}
	f.text = text.Inner(len("[")+len(opening(f.first)), len(closeMessage)+len("]\n"))
	return f, nil
}

// join makes one array of fragments.
func join(fragments []*fragment) []*providers.Body {
	out := make([]*providers.Body, 1, 2*len(fragments)+3)
	out[0] = providers.NewBody("[")
	comma, asks := providers.NewBody(","), providers.NewBody(closeMessage+","+openUser)
	side := ""
	for _, f := range fragments {
		switch {
		case f.first == "":
			continue
		case side == "":
			out = append(out, providers.NewBody(opening(f.first)))
		case side == f.first:
			out = append(out, comma)
		case f.first == sideUser:
			out = append(out, asks)
		default:
			out = append(out, providers.NewBody(closeMessage+","+openAssistant))
		}
		out, side = append(out, f.text), f.last
	}
	if side != "" {
		out = append(out, providers.NewBody(closeMessage))
	}
	return append(out, providers.NewBody("]"))
}

// callIDs makes the ids of calls differ over the whole request, which the
// vendor asks for; Transform does so within one message only.
type callIDs struct {
	in *fragment
	// latest maps the ids of the latest assistant message to those sent.
	latest map[string]string
}

func (c *callIDs) add(id string) string {
	free := providers.PlainName(id, maxCallID)
	for n := 2; c.in.used(free); n++ {
		suffix := fmt.Sprintf("_%d", n)
		free = providers.PlainName(id, maxCallID-len(suffix)) + suffix
	}
	if c.in.ids == nil {
		c.in.ids = map[string]bool{}
	}
	c.in.ids[free] = true
	if c.latest == nil {
		c.latest = map[string]string{}
	}
	c.latest[id] = free
	return free
}

// used reports whether a call of the fragment, or one before it, has the id.
func (f *fragment) used(id string) bool {
	for ; f != nil; f = f.after {
		if f.ids[id] {
			return true
		}
	}
	return false
}
