package bedrockconverse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/parleyrun/parley/providers"
)

// fragment is a run of encoded messages, all of a request or a part of it. It does
// not change.
type fragment struct {
	// after is the fragment before this one: its calls have ids of their own.
	after *fragment
	// ids are those of the calls in the fragment, as they are sent, and names their tools.
	ids, names map[string]bool
	// first and last are the sides of the first and the last message; empty if
	// there are no messages.
	first, last string
	// asked tells that a message of the user's side is among them.
	asked bool
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

// encodeMessages returns the pieces of the messages' array, and the names of all tools that
// were called. With mark, the last message of the user's side is marked for the prompt
// cache, so history that holds it is encoded with what comes after it.
func encodeMessages(m providers.Model, req providers.Request, mark bool) ([]*providers.Body, map[string]bool, error) {
	tail := req.Messages
	for n := len(req.History); ; n-- {
		var last *fragment
		fragments := make([]*fragment, 0, n+1)
		for _, b := range req.History[:n] {
			after := last
			f, err := providers.EncodeBlock(b, m,
				func(f *fragment) bool { return f.after == after },
				func(messages []providers.Message) (*fragment, int64, error) { return encodeBlock(m, after, messages) })
			if err != nil {
				return nil, nil, err
			}
			fragments, last = append(fragments, f), f
		}
		f, err := newFragment(m, last, tail, mark)
		if err != nil {
			return nil, nil, err
		}
		if f.asked || n == 0 || !mark {
			pieces, used := join(append(fragments, f))
			return pieces, used, nil
		}
		tail = slices.Concat(providers.TransformBlock(m, req.History[n-1]), tail)
	}
}

func encodeBlock(m providers.Model, after *fragment, messages []providers.Message) (*fragment, int64, error) {
	f, err := newFragment(m, after, messages, false)
	if err != nil {
		return nil, 0, err
	}
	size := f.text.TextBytes()
	for _, set := range []map[string]bool{f.ids, f.names} {
		for s := range set {
			size += int64(len(s))
		}
	}
	return f, size, nil
}

// newFragment encodes messages. mark says that the last one of the user's side is
// marked for the prompt cache.
func newFragment(m providers.Model, after *fragment, in []providers.Message, mark bool) (*fragment, error) {
	f := &fragment{after: after}
	_, isClaude := claudeOf(m)
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
			side, blocks = sideAssistant, encodeAssistant(msg.Parts, isClaude, &ids)
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
	if f.asked && mark {
		out[lastAsked].Content = append(out[lastAsked].Content, cacheMark(m))
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

// join makes one array of fragments, and one set of their tools.
func join(fragments []*fragment) (pieces []*providers.Body, used map[string]bool) {
	pieces, used = make([]*providers.Body, 1, 2*len(fragments)+3), map[string]bool{}
	pieces[0] = providers.NewBody("[")
	comma, asks := providers.NewBody(","), providers.NewBody(closeMessage+","+openUser)
	side := ""
	for _, f := range fragments {
		maps.Copy(used, f.names)
		switch {
		case f.first == "":
			continue
		case side == "":
			pieces = append(pieces, providers.NewBody(opening(f.first)))
		case side == f.first:
			pieces = append(pieces, comma)
		case f.first == sideUser:
			pieces = append(pieces, asks)
		default:
			pieces = append(pieces, providers.NewBody(closeMessage+","+openAssistant))
		}
		pieces, side = append(pieces, f.text), f.last
	}
	if side != "" {
		pieces = append(pieces, providers.NewBody(closeMessage))
	}
	return append(pieces, providers.NewBody("]")), used
}

// use notes that a tool was called.
func (f *fragment) use(name string) {
	if f.names == nil {
		f.names = map[string]bool{}
	}
	f.names[name] = true
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

// callIDs makes the ids of calls what the vendor takes, and differ over the whole request;
// Transform does so within one message only.
type callIDs struct {
	in *fragment
	// latest maps the ids of the latest assistant message to those sent.
	latest map[string]string
}

func (c *callIDs) add(id string) string {
	free := callID(id, 1)
	for n := 2; c.in.used(free); n++ {
		free = callID(id, n)
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

// maxName is the longest name and id that the vendor takes, in bytes.
const maxName = 64

// callID returns the id of the n-th call that has an id: itself if the vendor takes it, else
// its beginning and a hash.
func callID(id string, n int) string {
	if n == 1 && id != "" && plain(id) == id {
		return id
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", n, id))
	suffix := "_" + hex.EncodeToString(sum[:8])
	begin := plain(id)
	return begin[:min(len(begin), maxName-len(suffix))] + suffix
}

// plain is a name or an id as the vendor takes it.
func plain(s string) string { return providers.PlainName(s, maxName) }
