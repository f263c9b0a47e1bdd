package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

// makeConversation makes a conversation of a few messages and returns all its chunks.
func makeConversation(t *testing.T, s *server, id string) []conversation.Chunk {
	t.Helper()
	c := s.open(id, nil)
	for _, body := range []string{"hello there", "note buy milk", strings.Repeat("many words and ", 60)} {
		ask(t, c, client.Message{Body: body})
	}
	chunks, _ := until(t, c, conversation.Start, upToDate)
	if len(chunks) < 20 || chunks[0].Type != conversation.ChunkReset {
		t.Fatalf("the conversation has %d chunks", len(chunks))
	}
	return chunks
}

func history(t *testing.T, c *client.Conversation) *conversation.Snapshot {
	t.Helper()
	snap, err := c.History(withPatience(t))
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// reduced applies updates to a snapshot.
func reduced(t *testing.T, from *conversation.Snapshot, u ...client.Update) *conversation.Snapshot {
	t.Helper()
	tr, err := client.NewTranscript(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range u {
		if err := tr.Apply(u); err != nil {
			t.Fatal(err)
		}
	}
	return tr.Snapshot()
}

func TestObserveFromEveryOffset(t *testing.T) {
	s := newServer(t)
	want := makeConversation(t, s, "hello")
	bothModes(t, func(t *testing.T, o *client.Options) {
		c := s.open("hello", o)
		snap := history(t, c)
		for after := conversation.Start; after <= snap.Offset; after++ {
			got, next := until(t, c, after, upToDate)
			var rest []conversation.Chunk
			for _, chunk := range want {
				if chunk.Position.Batch > after {
					rest = append(rest, chunk)
				}
			}
			if diff := differ(rest, got); diff != "" || next != snap.Offset {
				t.Fatalf("from %v to %v (-want +got):\n%s", after, next, diff)
			}
		}
		whole := client.Update{Chunks: want, Next: snap.Offset}
		if diff := differ(snap, reduced(t, nil, whole)); diff != "" {
			t.Errorf("snapshot (-) and chunks (+):\n%s", diff)
		}
		// Overlapping chunks count once.
		if diff := differ(snap, reduced(t, snap, whole)); diff != "" {
			t.Errorf("snapshot (-) and the same chunks again (+):\n%s", diff)
		}
	})
}

// TestObserveLive renders a reply as it arrives.
func TestObserveLive(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		s := newServer(t)
		c := s.open("hello", o)
		receipt := send(t, c, client.Message{Body: "hold"})
		snap := history(t, c)
		var seen []client.Update
		for u, err := range c.Observe(withPatience(t), snap.Offset, nil) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, u)
			now := reduced(t, snap, seen...)
			text := ""
			for _, m := range now.Messages {
				if m.Role == conversation.RoleAssistant && len(m.Parts) > 0 {
					text = *m.Parts[0].Text
				}
			}
			if text == "one " {
				select {
				case s.model.release <- struct{}{}:
				default: // released already
				}
			}
			if len(now.Settlements) == 1 {
				if text != "one two" || now.Settlements[0].SubmissionID != receipt.SubmissionID {
					t.Errorf("got %q, %+v", text, now.Settlements)
				}
				break
			}
		}
		if diff := differ(history(t, c), reduced(t, snap, seen...)); diff != "" {
			t.Errorf("snapshot (-) and updates (+):\n%s", diff)
		}
	})
}

func TestObserveAbsent(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		s := newServer(t)
		var retries atomic.Int32
		o.Retrying = func(error) { retries.Add(1) }
		c := s.open("later", o)
		n := 0
		for u, err := range c.Observe(withPatience(t), conversation.Start, nil) {
			var rejected *client.Error
			if n++; !errors.As(err, &rejected) || rejected.Type != conversation.CodeStreamNotFound || len(u.Chunks) > 0 {
				t.Errorf("got %+v, %v", u, err)
			}
		}
		if n != 1 {
			t.Errorf("%d iterations", n)
		}
		asked := make(chan struct{}, 100)
		s.watch(func(*http.Request) {
			select {
			case asked <- struct{}{}:
			default:
			}
		})
		created := make(chan error, 1)
		ctx := withPatience(t)
		go func() {
			<-asked
			<-asked
			_, err := s.open("later", nil).Send(ctx, client.Message{Body: "hello"})
			created <- err
		}()
		for u, err := range c.Observe(ctx, conversation.Start, &client.ObserveOptions{AwaitCreation: true}) {
			if err != nil || len(u.Chunks) == 0 || u.Chunks[0].Type != conversation.ChunkReset {
				t.Errorf("got %+v, %v", u, err)
			}
			break
		}
		if err := <-created; err != nil {
			t.Error(err)
		}
		if retries.Load() != 0 {
			t.Errorf("missing conversation: got %d Retrying calls", retries.Load())
		}
	})
}

func TestObserveBeyondTheHead(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		c := newServer(t).open("hello", o)
		ask(t, c, client.Message{Body: "hello"})
		for _, err := range c.Observe(withPatience(t), history(t, c).Offset+5, nil) {
			var rejected *client.Error
			if !errors.As(err, &rejected) || rejected.Type != conversation.CodeStreamStoreFailure {
				t.Errorf("got error %v", err)
			}
		}
	})
}

// TestBreakClosesTheConnection checks that a break or the end of the context closes the connection at
// once.
func TestBreakClosesTheConnection(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		s := newServer(t)
		ask(t, s.open("hello", nil), client.Message{Body: "hello"})
		left := make(chan struct{}, 10)
		s.watch(func(r *http.Request) {
			context.AfterFunc(r.Context(), func() { left <- struct{}{} })
		})
		c := s.open("hello", o)
		for name, end := range map[string]func(context.CancelFunc) bool{
			"break":  func(context.CancelFunc) bool { return true },
			"cancel": func(cancel context.CancelFunc) bool { cancel(); return false },
		} {
			ctx, cancel := context.WithCancel(withPatience(t))
			for _, err := range c.Observe(ctx, conversation.Start, nil) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					continue
				}
				if end(cancel) {
					break
				}
			}
			select {
			case <-left:
			case <-time.After(patience):
				t.Errorf("%s: connection stays open", name)
			}
			cancel()
		}
	})
}

// cutter forwards connections to a server. It cuts the n-th one after budget(n) bytes of responses.
type cutter struct {
	net.Listener
	t      *testing.T
	target string
	budget func(n int) int64
	cuts   atomic.Int32
	open   sync.WaitGroup
}

func newCutter(t *testing.T, target string, budget func(n int) int64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{Listener: l, t: t, target: target, budget: budget}
	p.open.Go(p.accept)
	t.Cleanup(func() { l.Close(); p.open.Wait() })
	return p
}

func (p *cutter) accept() {
	for n := 0; ; n++ {
		in, err := p.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.open.Go(func() {
			_, _ = io.Copy(out, in)
			out.Close()
		})
		p.open.Go(func() {
			if k, _ := io.CopyN(in, out, p.budget(n)); k == p.budget(n) {
				p.cuts.Add(1)
			}
			in.Close()
			out.Close()
		})
	}
}

// TestCutConnections cuts connections at every position: there must be no gap and no duplicate.
func TestCutConnections(t *testing.T) {
	s := newServer(t)
	want := makeConversation(t, s, "hello")
	bothModes(t, func(t *testing.T, o *client.Options) {
		cuts := int32(0)
		for n := int64(1); n < 12_000; n += 541 {
			p := newCutter(t, strings.TrimPrefix(s.web.URL, "http://"), func(k int) int64 { return n + int64(k)*397 })
			transport := &http.Transport{}
			o.HTTPClient = &http.Client{Transport: transport}
			c := open(t, "http://"+p.Addr().String()+"/agents/chat/hello", o)
			got, _ := until(t, c, conversation.Start, upToDate)
			transport.CloseIdleConnections()
			if diff := differ(want, got); diff != "" {
				t.Fatalf("cut after %d bytes (-want +got):\n%s", n, diff)
			}
			cuts += p.cuts.Load()
		}
		if cuts < 40 {
			t.Errorf("only %d connections were cut", cuts)
		}
	})
}
