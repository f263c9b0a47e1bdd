package actors

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// TestExpelledNodeIsLogged: during an outage of the bucket, the record of an expelled node is
// logged with the node's address, and other records are suppressed.
func TestExpelledNodeIsLogged(t *testing.T) {
	var out waiting.Log
	away := storagetest.Faulty(memoryBucket(t), storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind { return storagetest.ErrorBefore }})
	r := runtimeWithHost(t, storagetest.Exclusive(away), &fakeHost{}, &Options{Logger: slog.New(slog.NewTextHandler(&out, nil)), Address: "a.example"})
	var err error
	for range 2 {
		_, err = r.bucket.Get(t.Context(), "x")
	}
	r.edge.end = func(error) {}
	for range 3 {
		r.opts.Logger.Warn("suppressed", "err", err)
	}
	r.expelled(&MemberError{Replaced: true, Err: err})
	if n := out.Count(`level=ERROR msg="not a member any more, stopping" member=me address=a.example`); n != 1 || out.Count("") != 2 {
		t.Errorf("got\n%swant the begin of an outage, and the line of the expulsion", &out)
	}
}

func TestErrorsOfAnOutage(t *testing.T) {
	away := &storage.Error{Op: "get", Kind: storage.ErrUnavailable, Status: http.StatusServiceUnavailable}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"read without an answer":       {away, true},
		"write without an answer":      {&storage.Error{Op: "put", Kind: storage.ErrUncertain}, true},
		"joined":                       {errors.Join(context.Canceled, away), true},
		"passive node":                 {conversation.Unavailable(retryAfter, errPassive), true},
		"owner without an answer":      {conversation.Unavailable(retryAfter, errors.Join(context.DeadlineExceeded, nil)), true},
		"owner that refuses":           {conversation.Unavailable(retryAfter, nil), true},
		"admission in doubt":           {conversation.InDoubt(conversation.CodeAdmissionUnknown, retryAfter, conversation.Unavailable(retryAfter, context.DeadlineExceeded)), true},
		"no memory":                    {conversation.Unavailable(retryAfter, errors.New("memory is full")), false},
		"refused by the bucket":        {&storage.Error{Op: "put", Kind: storage.ErrRefused, Status: http.StatusForbidden}, false},
		"object that is not there":     {&storage.Error{Op: "get", Kind: storage.ErrNotFound}, false},
		"corrupt object":               {&storage.CorruptError{Key: "x"}, false},
		"fenced":                       {&storage.FencedError{}, false},
		"deadline of something else":   {context.DeadlineExceeded, false},
		"request of a client, invalid": {conversation.Errorf(conversation.CodeInvalidRequest, "x"), false},
	} {
		if got := fromOutage(c.err); got != c.want {
			t.Errorf("%s: got %t, want %t for %v", name, got, c.want, c.err)
		}
	}
}
