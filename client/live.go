package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// errNoStream is a response to live=sse that is not an event stream.
var errNoStream = errors.New("the answer is not an event stream")

// live is the request of a live read.
func (f *follow[T]) live(mode Live) request {
	q := url.Values{"offset": {f.next.String()}, "live": {string(mode)}}
	maps.Copy(q, f.flow.query)
	return request{method: http.MethodGet, url: f.c.view(q), accept: "application/json", silence: f.c.opts.Quiet}
}

// stream reads one event stream to its end and reports whether it was one. Items before a control
// event are held until it arrives: they are one read.
func (f *follow[T]) stream(ctx context.Context) (opened bool, err error) {
	r := f.live(LiveSSE)
	r.accept = "text/event-stream"
	r.silence, r.then = f.c.opts.Quiet/2, f.c.opts.Quiet
	a, err := f.c.do(ctx, r)
	if err != nil {
		return false, err
	}
	defer a.Close()
	if a.mediaType() != "text/event-stream" {
		return false, errNoStream
	}
	limit := f.c.opts.MaxAnswerBytes
	read := newEvents(a, limit)
	var held []T
	size := 0
	for {
		name, data, err := read.next()
		switch {
		case errors.Is(err, io.EOF):
			return true, errEnded
		case err != nil:
			return true, fmt.Errorf("read event stream: %w", err)
		}
		switch name {
		case "data":
			if size += len(data); size > limit {
				return true, &tooLargeError{limit}
			}
			if held, err = f.flow.decode(held, data); err != nil {
				return true, err
			}
		case "control":
			var control struct {
				Next     *conversation.Offset `json:"streamNextOffset"`
				UpToDate bool                 `json:"upToDate"`
				Closed   bool                 `json:"streamClosed"`
			}
			if err := json.Unmarshal(data, &control); err != nil {
				return true, badAnswer("decode control event: %w", err)
			}
			if control.Next == nil {
				return true, badAnswer("a control event has no streamNextOffset")
			}
			if err := f.take(found[T]{held, *control.Next, control.UpToDate, control.Closed}); err != nil {
				return true, err
			}
			held, size = nil, 0
		}
	}
}

// poll reads once and reports whether an immediate repetition would be useless.
func (f *follow[T]) poll(ctx context.Context) (pause bool, err error) {
	began, before := time.Now(), f.next
	a, err := f.c.do(ctx, f.live(LiveLongPoll))
	if err != nil {
		return true, err
	}
	next, err := a.next()
	if err != nil {
		a.Close()
		return true, err
	}
	got := found[T]{next: next, upToDate: a.Header.Get(headerUpToDate) == "true", closed: a.Header.Get(headerClosed) == "true"}
	body, err := a.read(f.c.opts.MaxAnswerBytes)
	if err == nil && a.StatusCode != http.StatusNoContent {
		got.items, err = f.flow.decode(nil, body)
	}
	if err != nil {
		return true, err
	}
	if err := f.take(got); err != nil {
		return true, err
	}
	// A poll that returns at once indicates a stopping server or a cache.
	return next == before && time.Since(began) < shortTime, nil
}
