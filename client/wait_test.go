package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
)

// bothModes runs a test in both modes of following a conversation.
func bothModes(t *testing.T, test func(t *testing.T, o *client.Options)) {
	for _, live := range []client.Live{client.LiveSSE, client.LiveLongPoll} {
		t.Run(string(live), func(t *testing.T) { test(t, &client.Options{Live: live}) })
	}
}

func TestWaitCompleted(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		c := newServer(t).open("hello", o)
		receipt := send(t, c, client.Message{Body: "note buy milk", IfAbsent: true})
		if receipt.SubmissionID == "" || receipt.UID == "" || receipt.Deduplicated || receipt.Key == "" || receipt.StreamURL != c.URL() {
			t.Errorf("got receipt %+v", receipt)
		}
		reply, err := c.Wait(withPatience(t), receipt)
		if err != nil {
			t.Fatal(err)
		}
		if reply.Text != "Noting.\n\nNoted." || string(reply.Metadata) != `{"by":"test"}` || reply.Submission != receipt.SubmissionID {
			t.Errorf("got reply %+v", reply)
		}
		if len(reply.Data) != 1 || len(reply.Data["note"]) != 1 || string(reply.Data["note"][0]) != `"buy milk"` {
			t.Errorf("got data %s", reply.Data)
		}
		snap, err := c.History(withPatience(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Messages) != 2 {
			t.Fatalf("%d messages", len(snap.Messages))
		}
		// The reply equals the message of the snapshot, though it was made of chunks.
		if diff := differ(&snap.Messages[1], reply.Message); diff != "" {
			t.Errorf("snapshot (-) and reply (+):\n%s", diff)
		}
		// A stored receipt works too.
		again, err := c.Wait(withPatience(t), client.Receipt{Receipt: conversation.Receipt{
			SubmissionID: receipt.SubmissionID, Offset: conversation.Start,
		}})
		if err != nil || again.Text != reply.Text {
			t.Errorf("repeated wait: got %+v, %v", again, err)
		}
	})
}

// covers: upgrade/17
func TestWaitFailed(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		c := newServer(t).open("hello", o)
		receipt := send(t, c, client.Message{Body: "fail"})
		reply, err := c.Wait(withPatience(t), receipt)
		var settled *client.SettledError
		if !errors.Is(err, client.ErrFailed) || errors.Is(err, client.ErrAborted) || !errors.As(err, &settled) {
			t.Fatalf("got error %v", err)
		}
		if settled.Submission != receipt.SubmissionID || settled.Outcome != conversation.OutcomeFailed ||
			settled.Err.Type != conversation.CodeModelFailed || settled.Err.Message == "" {
			t.Errorf("got settlement %+v, %+v", settled, settled.Err)
		}
		if !strings.Contains(err.Error(), string(receipt.SubmissionID)+": failed: model_failed: ") {
			t.Errorf("got error %v", err)
		}
		if reply == nil || reply.Text != "Oh. " {
			t.Errorf("got reply %+v", reply)
		}
	})
}

// covers: upgrade/18
func TestWaitAborted(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		c := newServer(t).open("hello", o)
		running, queued := send(t, c, client.Message{Body: "hold"}), send(t, c, client.Message{Body: "later"})
		until(t, c, running.Offset, hasText("one"))
		aborted, err := c.Abort(withPatience(t))
		if err != nil || !aborted {
			t.Fatalf("abort: %v, %v", aborted, err)
		}
		for receipt, text := range map[client.Receipt]string{running: "one ", queued: ""} {
			reply, err := c.Wait(withPatience(t), receipt)
			var settled *client.SettledError
			if !errors.Is(err, client.ErrAborted) || errors.Is(err, client.ErrFailed) || !errors.As(err, &settled) {
				t.Fatalf("got error %v", err)
			}
			if settled.Err.Type != conversation.CodeAborted || reply == nil || reply.Text != text {
				t.Errorf("got settlement %+v, reply %+v", settled.Err, reply)
			}
		}
		if aborted, err := c.Abort(withPatience(t)); err != nil || aborted {
			t.Errorf("second abort: got %v, %v", aborted, err)
		}
	})
}

// TestRestartInMidReply restarts the server over the same bucket while a reply is active.
func TestRestartInMidReply(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		s := newServer(t)
		retries := make(chan error, 100)
		o.Retrying = func(err error) {
			select {
			case retries <- err:
			default:
			}
		}
		c := s.open("hello", o)
		receipt := send(t, c, client.Message{Body: "hold"})
		type outcome struct {
			reply *client.Reply
			err   error
		}
		done := make(chan outcome, 1)
		ctx := withPatience(t)
		go func() {
			reply, err := c.Wait(ctx, receipt)
			done <- outcome{reply, err}
		}()
		until(t, c, receipt.Offset, hasText("one"))
		s.halt()
		select {
		case <-retries:
		case <-time.After(patience):
			t.Error("Retrying was not called while the server was down")
		}
		s.start()
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		if want := "one \n\nthree"; got.reply.Text != want {
			t.Errorf("got text %q, want %q", got.reply.Text, want)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	bothModes(t, func(t *testing.T, o *client.Options) {
		c := newServer(t).open("hello", o)
		receipt := send(t, c, client.Message{Body: "hold"})
		ctx, cancel := context.WithCancel(withPatience(t))
		until(t, c, receipt.Offset, func(u client.Update) bool {
			if hasText("one")(u) {
				cancel()
				return true
			}
			return false
		})
		if _, err := c.Wait(ctx, receipt); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestWaitOfAbsent(t *testing.T) {
	c := newServer(t).open("nobody", nil)
	_, err := c.Wait(withPatience(t), client.Receipt{})
	var rejected *client.Error
	if !errors.As(err, &rejected) || rejected.Status != http.StatusNotFound || rejected.Type != conversation.CodeStreamNotFound {
		t.Errorf("got error %v", err)
	}
}
