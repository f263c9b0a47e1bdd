package http

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/http/beta"
)

func parseRead(q url.Values) (beta.Read, error) { return beta.ParseRead(q) }

// eventLine serves event streams.
type eventLine struct {
	*Handler
	events conversation.EventReader
}

// streamName returns the name of an event stream in its ETags.
func streamName(at conversation.Address) string {
	if _, run := conversation.WorkflowOf(at.Agent); run {
		return "runs/" + at.ID
	}
	return "agents/" + at.Agent + "/" + at.ID
}

// get reads an event stream. An invalid query takes precedence over a missing stream.
func (b *eventLine) get(w *response, r *http.Request, at conversation.Address) error {
	q, err := parseRead(parseQuery(r.URL.RawQuery))
	if err != nil {
		return err
	}
	var end conversation.EventPage
	if q.Now || q.Tail > 0 {
		if end, err = b.events.EventTail(r.Context(), at); err != nil {
			return err
		}
	}
	from := q.From(end.Next)
	switch q.Live {
	case beta.LongPoll:
		return b.longPoll(w, r, at, q, from)
	case beta.SSE:
		return b.Handler.stream(w, r, at, &betaStream{b: b, at: at}, conversation.Offset(from))
	}
	page := end
	if !q.Now {
		if page, err = b.events.Events(r.Context(), at, from, beta.PageEvents); err != nil {
			return err
		}
		tag := beta.ETag(streamName(at), from, page.Next, page.UpToDate && page.Closed)
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			secure(w.Header())
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return b.answer(w, r, page)
}

// answer writes a page of events. The caller has set the page's own headers.
func (b *eventLine) answer(w *response, r *http.Request, page conversation.EventPage) error {
	if page.UpToDate && page.Closed {
		w.Header().Set(beta.HeaderClosed, "true")
	}
	err := b.writePage(w, r, conversation.Page{JSON: page.JSON, Next: conversation.Offset(page.Next), UpToDate: page.UpToDate})
	if err != nil {
		for _, name := range []string{beta.HeaderClosed, beta.HeaderCursor, "ETag"} {
			w.Header().Del(name)
		}
	}
	return err
}

// head answers with the end of the stream. It ignores the query.
func (b *eventLine) head(w *response, r *http.Request, at conversation.Address) error {
	end, err := b.events.EventTail(r.Context(), at)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", beta.ETag(streamName(at), -1, end.Next, end.Closed))
	if end.Closed {
		w.Header().Set(beta.HeaderClosed, "true")
	}
	readHeaders(w.Header(), conversation.Offset(end.Next), true)
	w.WriteHeader(http.StatusOK)
	return nil
}

// longPoll answers when there is an event, or with none at the end of the window or stream.
func (b *eventLine) longPoll(w *response, r *http.Request, at conversation.Address, q beta.Read, from int64) error {
	l := &betaStream{b: b, at: at}
	if _, answered, err := b.held(w, r, l, conversation.Offset(from)); answered || err != nil {
		return err
	}
	page := l.last
	w.Header().Set(beta.HeaderCursor, beta.Cursor(time.Now(), q.Cursor, 1+rand.Int64N(180)))
	if page.Next == from {
		b.noEvents(w, page)
		return nil
	}
	if !q.Now {
		w.Header().Set("ETag", beta.ETag(streamName(at), from, page.Next, page.UpToDate && page.Closed))
	}
	return b.answer(w, r, page)
}

// noEvents answers a long-poll without events.
func (b *eventLine) noEvents(w *response, page conversation.EventPage) {
	if page.Closed {
		w.Header().Set(beta.HeaderClosed, "true")
	}
	secure(w.Header())
	coordinate(w.Header(), conversation.Offset(page.Next), true)
	w.WriteHeader(http.StatusNoContent)
}

// betaStream is an event stream as a [line]. A batch without visible events does not end a wait.
type betaStream struct {
	b    *eventLine
	at   conversation.Address
	last conversation.EventPage // latest page
	next *conversation.EventPage
}

func (s *betaStream) read(ctx context.Context, after conversation.Offset) (conversation.Page, error) {
	if n := s.next; n != nil {
		s.next, s.last = nil, *n
	} else {
		page, err := s.b.events.Events(ctx, s.at, int64(after), beta.PageEvents)
		if err != nil {
			return conversation.Page{}, err
		}
		s.last = page
	}
	return conversation.Page{JSON: s.last.JSON, Next: conversation.Offset(s.last.Next), UpToDate: s.last.UpToDate}, nil
}

func (s *betaStream) wait(ctx context.Context, after conversation.Offset) error {
	for through := s.last.Through; ; {
		if err := s.b.reader.Wait(ctx, s.at, through); err != nil {
			return err
		}
		page, err := s.b.events.Events(ctx, s.at, int64(after), beta.PageEvents)
		if err != nil {
			return err
		}
		if through = page.Through; page.Next != int64(after) || page.Closed {
			s.next = &page
			return nil
		}
	}
}

func (s *betaStream) control(dst []byte, p *conversation.Page) []byte {
	return beta.AppendControl(dst, int64(p.Next), p.UpToDate, s.last.Closed, beta.Cursor(time.Now(), "", 0))
}

func (s *betaStream) ended(p *conversation.Page) bool { return p.UpToDate && s.last.Closed }
