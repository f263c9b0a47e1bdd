package killrun_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
)

// reader follows a conversation over all servers, by SSE or long-poll.
type reader struct {
	*noderun.Reader
	site   *site
	room   int
	poll   bool
	events *counters
	fail   func(format string, args ...any)

	mu       sync.Mutex
	observed observed
}

func newReader(r *run, n int, poll bool, from conversation.Offset) *reader {
	rd := &reader{site: r.site, room: n, poll: poll, events: r.events, fail: r.Fail, observed: newObserved()}
	rd.Reader = noderun.NewReader(r.client.Client, from, rd.take)
	return rd
}

// observed is the part of responses that a user of a reader has seen.
type observed struct {
	texts   map[conversation.MessageID]string
	outputs map[conversation.CallID]string
	settled map[conversation.SubmissionID]conversation.Outcome
}

func newObserved() observed {
	return observed{map[conversation.MessageID]string{}, map[conversation.CallID]string{}, map[conversation.SubmissionID]conversation.Outcome{}}
}

func (r *reader) follow(ctx context.Context) {
	for {
		base, err := r.site.get(ctx)
		if err != nil {
			return
		}
		if r.poll {
			err = r.Poll(ctx, base+roomPath(r.room))
		} else {
			err = r.Stream(ctx, base+roomPath(r.room))
		}
		if ctx.Err() != nil {
			return
		}
		if noderun.Broken(err) || errors.Is(err, noderun.ErrSilent) { // A kill breaks the connection at once.
			r.fail("reader of %s: %v", room(r.room), err)
			return
		}
		if noderun.Pause(ctx, 5*time.Millisecond) != nil {
			return
		}
	}
}

func (r *reader) take(c noderun.Chunk) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.observed.settled[c.SubmissionID]; twice && c.Type == conversation.ChunkSettled {
		return noderun.Breach("chunk %s settles for the second time", c.Raw)
	}
	r.observed.add(&c.Chunk)
	r.events.add(atChunk)
	return nil
}

func (s *observed) add(c *conversation.Chunk) {
	switch c.Type {
	case conversation.ChunkReset:
		*s = observedIn(c.Snapshot)
	case conversation.ChunkDelta:
		if c.Kind == conversation.PartText {
			s.texts[c.MessageID] += c.Delta
		}
	case conversation.ChunkToolOutput:
		s.outputs[c.ToolCallID] = string(c.Output)
	case conversation.ChunkToolOutputError:
		s.outputs[c.ToolCallID] = "error: " + *c.ErrorText
	case conversation.ChunkSettled:
		s.settled[c.SubmissionID] = c.Outcome
	}
}

func observedIn(snap *conversation.Snapshot) observed {
	s := newObserved()
	for _, m := range snap.Messages {
		if m.Role != conversation.RoleAssistant {
			continue
		}
		for _, p := range m.Parts {
			switch {
			case p.Type == conversation.PartTypeText:
				s.texts[m.ID] += *p.Text
			case p.State == conversation.StateOutputAvailable:
				s.outputs[p.ToolCallID] = string(p.Output)
			case p.State == conversation.StateOutputError:
				s.outputs[p.ToolCallID] = "error: " + *p.ErrorText
			}
		}
	}
	for _, e := range snap.Settlements {
		s.settled[e.SubmissionID] = e.Outcome
	}
	return s
}

// lacks names a part of before that s does not have, "" if there is none.
func (s *observed) lacks(before observed) string {
	for id, text := range before.texts {
		if !strings.HasPrefix(s.texts[id], text) {
			return fmt.Sprintf("message %s: had %q, now %q", id, text, s.texts[id])
		}
	}
	for id, output := range before.outputs {
		if s.outputs[id] != output {
			return fmt.Sprintf("call %s: had %q, now %q", id, output, s.outputs[id])
		}
	}
	for id, outcome := range before.settled {
		if s.settled[id] != outcome {
			return fmt.Sprintf("submission %s: was %q, now %q", id, outcome, s.settled[id])
		}
	}
	return ""
}

// view returns a copy of the shown part.
func (r *reader) view() observed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return observed{maps.Clone(r.observed.texts), maps.Clone(r.observed.outputs), maps.Clone(r.observed.settled)}
}
