package googlegenerativeai_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/providers/googlegenerativeai"
)

// endpoint grants tokens that last an hour, each after a second.
type endpoint struct {
	asked atomic.Int32
	fails atomic.Bool
}

var errDown = errors.New("the endpoint is down")

func (e *endpoint) fetch(ctx context.Context) (string, time.Duration, error) {
	n := e.asked.Add(1)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return "", 0, ctx.Err()
	}
	if e.fails.Load() {
		return "", 0, errDown
	}
	return fmt.Sprintf("token %d", n), time.Hour, nil
}

// hundred requests a token in 100 concurrent calls and counts the results.
func hundred(t *testing.T, tokens *googlegenerativeai.Tokens) map[string]int {
	t.Helper()
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			token, err := tokens.Get(t.Context())
			if err != nil {
				token = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			got[token]++
		})
	}
	wg.Wait()
	return got
}

// TestTokenIsRefreshedOnce: a hundred concurrent calls make one request without a token, before
// expiry, and after expiry.
// covers: providers/137
func TestTokenIsRefreshedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		tokens := googlegenerativeai.NewTokens(e.fetch)
		defer tokens.Close()
		for _, step := range []struct {
			wait, took time.Duration
			want       string
			asked      int32
		}{
			{0, time.Second, "token 1", 1},
			{54 * time.Minute, 0, "token 1", 1},
			{2 * time.Minute, 0, "token 1", 2},         // about to expire: refreshed in the background
			{time.Minute, 0, "token 2", 2},             // refreshed before
			{2 * time.Hour, time.Second, "token 3", 3}, // expired: callers wait
		} {
			time.Sleep(step.wait)
			begin := time.Now()
			got := hundred(t, tokens)
			if took := time.Since(begin); got[step.want] != 100 || took != step.took {
				t.Errorf("after %v: got %v in %v, want %s in %v", step.wait, got, took, step.want, step.took)
			}
			synctest.Wait()
			if n := e.asked.Load(); n != step.asked {
				t.Errorf("after %v: got %d token requests, want %d", step.wait, n, step.asked)
			}
		}
	})
}

// TestTokenEndpointFailure: calls use the last token while it is valid, then share one error. They
// get a token once the endpoint recovers.
// covers: providers/137
func TestTokenEndpointFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		tokens := googlegenerativeai.NewTokens(e.fetch)
		defer tokens.Close()
		hundred(t, tokens)
		e.fails.Store(true)
		time.Sleep(56 * time.Minute)
		for range 3 {
			if got := hundred(t, tokens); got["token 1"] != 100 {
				t.Errorf("before its end: got %v", got)
			}
			time.Sleep(time.Minute)
		}
		if n := e.asked.Load(); n != 4 {
			t.Errorf("got %d token requests, want 1 per hundred calls", n)
		}
		time.Sleep(time.Minute)
		if got := hundred(t, tokens); got[errDown.Error()] != 100 || e.asked.Load() != 5 {
			t.Errorf("after its end: got %v, asked %d times", got, e.asked.Load())
		}
		e.fails.Store(false)
		if got := hundred(t, tokens); got["token 6"] != 100 {
			t.Errorf("once it is back: got %v", got)
		}
	})
}

// TestTokenIsNotBoundToACall: a caller that leaves does not cancel the request.
// covers: providers/137
func TestTokenIsNotBoundToACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		tokens := googlegenerativeai.NewTokens(e.fetch)
		defer tokens.Close()
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(gone) })
		if _, err := tokens.Get(ctx); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		if token, err := tokens.Get(t.Context()); token != "token 1" || err != nil {
			t.Errorf("got %q, %v", token, err)
		}
	})
}

// TestTokenRequestsEnd: requests time out after 30 seconds and end on Close.
// covers: providers/137
func TestTokenRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := googlegenerativeai.NewTokens(func(ctx context.Context) (string, time.Duration, error) {
			<-ctx.Done()
			return "", 0, ctx.Err()
		})
		begin := time.Now()
		if _, err := tokens.Get(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 30*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := tokens.Get(t.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		tokens.Close()
		wg.Wait()
	})
}
