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

// answerWithin is how long a client waits for an answer before it asks another node.
const answerWithin = 8 * time.Second

// sent is one message, however often it is sent.
type sent struct {
	Key     string
	Body    []byte
	Tries   int
	Call    time.Time
	Back    time.Time
	Receipt *conversation.Receipt // Nil as long as no 202 was read.
}

// newSent makes a message of a key and what the model is to do.
func newSent(key, script string) *sent {
	return &sent{Key: key, Body: noderun.Message(key, secret+key+" "+script)}
}

// keyIn finds the key of a message in what it says.
func keyIn(text string) string {
	if m := regexp.MustCompile(regexp.QuoteMeta(secret) + `(\S+)`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// client sends requests to any node.
type client struct{ *cluster }

// any returns a node at random, also one that does not run.
func (c *client) any(r *rand.Rand) *node { return c.nodes[r.IntN(len(c.nodes))] }

// send sends a message to one node after the other until it is answered or ctx ends.
func (c *client) send(ctx context.Context, r *rand.Rand, id string, m *sent) error {
	return c.sendTo(ctx, r, c.nodes, id, m)
}

// sendTo is send to some of the nodes.
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

// look is what one read of a conversation at a node has shown, and when.
type look struct {
	Node       int
	Call, Back time.Time
	At         bool                // It named an offset of a batch,
	After      conversation.Offset // which was this.
	Next       conversation.Offset // Start for a conversation that did not exist.
	Whole      bool                // The keys are those of all messages.
	UpToDate   bool
	Keys       []string // Of the messages in it, in order.
}

// snapshot reads a whole conversation.
func (c *client) snapshot(ctx context.Context, n *node, id string) (look, error) {
	l := look{Node: n.Number, Call: time.Now(), After: conversation.Start, Next: conversation.Start, Whole: true, UpToDate: true}
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

// updates reads what was recorded after an offset, as far as one answer goes.
func (c *client) updates(ctx context.Context, n *node, id string, after conversation.Offset) (look, []noderun.Chunk, error) {
	l := look{Node: n.Number, Call: time.Now(), At: after != conversation.Start, After: after}
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

// textOf is the text of a message.
func textOf(m *conversation.Message) (text string) {
	for _, p := range m.Parts {
		if p.Text != nil {
			text += *p.Text
		}
	}
	return text
}

// keysOf are the keys of the messages of users in a snapshot.
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
