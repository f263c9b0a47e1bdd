package http_test

import (
	"bytes"
	"context"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
)

// stream returns the events of a conversation, and whether the stream is closed. f.mu is held.
func (c *fakeConversation) stream() (out [][]byte, closed bool, err error) {
	p := new(feed.Projector)
	for _, b := range c.batches {
		if err == nil {
			err = p.Apply(b.Records, func(e feed.Event) { out = append(out, e.JSON) })
		}
	}
	return out, p.Closed(), err
}

// EventTail implements conversation.EventReader.
func (f *fakeRuntime) EventTail(ctx context.Context, at conversation.Address) (conversation.EventPage, error) {
	c, err := f.open(ctx, "EventTail", at)
	if err != nil {
		return conversation.EventPage{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	events, closed, err := c.stream()
	return conversation.EventPage{
		JSON: []byte("[]"), Next: int64(len(events)) - 1, UpToDate: true, Closed: closed || f.closed, Through: c.state.Head(),
	}, err
}

// Events implements conversation.EventReader.
func (f *fakeRuntime) Events(ctx context.Context, at conversation.Address, after int64, limit int) (conversation.EventPage, error) {
	c, err := f.open(ctx, "Events", at)
	if err != nil {
		return conversation.EventPage{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all, closed, err := c.stream()
	if err != nil {
		return conversation.EventPage{}, err
	}
	page := conversation.EventPage{JSON: []byte("[]"), Next: after, UpToDate: true, Closed: closed || f.closed, Through: c.state.Head()}
	if rest := all[min(after+1, int64(len(all))):]; len(rest) > 0 {
		n := min(len(rest), limit)
		page.JSON = append(append([]byte{'['}, bytes.Join(rest[:n], []byte{','})...), ']')
		page.Next, page.UpToDate = after+int64(n), n == len(rest)
	}
	return page, nil
}
