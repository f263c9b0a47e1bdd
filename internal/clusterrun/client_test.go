package clusterrun_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

// answerWithin is the timeout of a request before the client tries another node.
const answerWithin = 8 * time.Second

// sent is one message, over all its tries.
type sent struct {
	Key     string
	Body    []byte
	Tries   int
	Call    time.Time
	Back    time.Time
	Receipt *conversation.Receipt // nil until a 202 was read
}

// newSent makes a message from a key and a script for the model.
func newSent(key, script string) *sent {
	return &sent{Key: key, Body: noderun.Message(key, secret+key+" "+script)}
}

func keyIn(text string) string {
	if m := regexp.MustCompile(regexp.QuoteMeta(secret) + `(\S+)`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

type client struct{ *cluster }

// any returns a random node, which may be down.
func (c *client) any(r *rand.Rand) *node { return c.nodes[r.IntN(len(c.nodes))] }

// send sends a message to one node after the other until it is answered or ctx ends.
func (c *client) send(ctx context.Context, r *rand.Rand, id string, m *sent) error {
	return c.sendTo(ctx, r, c.nodes, id, m)
}

// sendTo is send restricted to some nodes.
func (c *client) sendTo(ctx context.Context, r *rand.Rand, nodes []*node, id string, m *sent) error {
	m.Call = time.Now()
	answer, header, err := c.Client.Insist(ctx, r, http.MethodPost, func() string {
		m.Tries++
		return nodes[r.IntN(len(nodes))].url(id)
	}, m.Body)
	if err != nil {
		return fmt.Errorf("message %s after %d tries: %w", m.Key, m.Tries, err)
	}
	m.Back = time.Now()
	receipt, err := noderun.ReadReceipt(answer, header)
	if err != nil {
		return err
	}
	m.Receipt = &receipt
	return nil
}

// observation is the result of one read of a conversation at a node, with its times.
type observation struct {
	Node       int
	Call, Back time.Time
	At         bool                // the read named After
	After      conversation.Offset // offset of a batch
	Next       conversation.Offset // Start if the conversation did not exist
	Whole      bool                // Keys covers all messages
	UpToDate   bool
	Keys       []string // of the messages read, in order
}

// snapshot reads a whole conversation.
func (c *client) snapshot(ctx context.Context, n *node, id string) (observation, error) {
	l := observation{Node: n.Number, Call: time.Now(), After: conversation.Start, Next: conversation.Start, Whole: true, UpToDate: true}
	answer, header, err := c.Client.Do(ctx, http.MethodGet, n.url(id), nil)
	l.Back = time.Now()
	if noderun.Missing(err) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	s, err := noderun.ReadSnapshot(answer, header)
	if err != nil {
		return l, err
	}
	l.Next, l.Keys = s.Offset, keysOf(s)
	return l, nil
}

// updates reads the records after an offset, one page.
func (c *client) updates(ctx context.Context, n *node, id string, after conversation.Offset) (observation, []noderun.Chunk, error) {
	l := observation{Node: n.Number, Call: time.Now(), At: after != conversation.Start, After: after}
	answer, header, err := c.Client.Do(ctx, http.MethodGet, n.url(id)+"?view=updates&offset="+after.String(), nil)
	l.Back = time.Now()
	if noderun.Missing(err) && !l.At {
		l.Next, l.Whole, l.UpToDate = conversation.Start, true, true
		return l, nil, nil
	}
	if err != nil {
		return l, nil, err
	}
	seen, err := noderun.ReadChunks(answer, after)
	if err != nil {
		return l, nil, err
	}
	if l.Next, err = conversation.ParseOffset(header.Get("Stream-Next-Offset")); err != nil {
		return l, nil, noderun.Breach("%v", err)
	}
	l.UpToDate = header.Get("Stream-Up-To-Date") == "true"
	for _, s := range seen {
		switch s.Type {
		case conversation.ChunkReset:
			l.Whole, l.Keys = true, keysOf(s.Snapshot)
		case conversation.ChunkAppended:
			if key := keyIn(textOf(s.Message)); key != "" {
				l.Keys = append(l.Keys, key)
			}
		}
	}
	return l, seen, nil
}

func textOf(m *conversation.Message) (text string) {
	for _, p := range m.Parts {
		if p.Text != nil {
			text += *p.Text
		}
	}
	return text
}

// keysOf returns the keys of the user messages in a snapshot.
func keysOf(s *conversation.Snapshot) (keys []string) {
	for _, m := range s.Messages {
		if m.Role != conversation.RoleUser {
			continue
		}
		if key := keyIn(textOf(&m)); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
