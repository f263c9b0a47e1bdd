package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// minRetry and maxRetry bound the backoff after lost races.
	minRetry = 10 * time.Millisecond
	maxRetry = 200 * time.Millisecond
)

// errAgain makes edit call change again with the newest epoch.
var errAgain = errors.New("read the members again")

type edited struct {
	epoch    storage.Epoch // newest; number 0 if there is none
	since    time.Time     // the requests that showed it to be the newest began after this
	replaced []int64       // older epochs that may be deleted
}

// edit creates the next epoch with the rows returned by change, until the create succeeds or change
// reports no change. change is called again with the newest epoch after every lost race.
func edit(ctx context.Context, b storage.Bucket, change func(storage.Epoch) ([]storage.Member, bool, error)) (edited, error) {
	for lost := 0; ; {
		since := time.Now()
		newest, older, err := storage.NewestEpoch(ctx, b, 0)
		if err != nil {
			return edited{}, err
		}
		members, changed, err := change(newest)
		switch {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return edited{}, err
		case !changed:
			return edited{epoch: newest, since: since}, nil
		}
		since = time.Now()
		next := storage.Epoch{N: newest.N + 1, Nonce: storage.Nonce(rand.Text()), At: conversation.TimeOf(since), Members: members}
		won, err := storage.CreateEpoch(ctx, b, next)
		if err != nil {
			return edited{}, err
		}
		if won {
			if newest.N > 0 {
				older = append(older, newest.N)
			}
			return edited{epoch: next, since: since, replaced: older}, nil
		}
		lost++
		if !pause(ctx, retryAfter(lost)) {
			return edited{}, fmt.Errorf("after %d lost races: %w", lost, context.Cause(ctx))
		}
	}
}

// retryAfter returns a random backoff after a number of lost races.
func retryAfter(lost int) time.Duration {
	longest := min(maxRetry, time.Duration(lost)*2*minRetry)
	return minRetry + mathrand.N(longest)
}

// SetDraining sets or clears the draining mark of any member and returns the members after that. A
// draining member owns nothing and hands over its conversations. SetDraining is for commands; the
// members see the change at their next poll. It returns an [*AbsentError] if there is no such member.
func SetDraining(ctx context.Context, bucket storage.Bucket, member string, on bool) (View, error) {
	done, err := setDraining(ctx, bucket, member, on)
	if err != nil {
		return View{}, fmt.Errorf("set draining of member %s: %w", member, err)
	}
	// leftovers are harmless; the next edit deletes them
	_ = storage.DeleteEpochs(ctx, bucket, done.epoch.N, done.replaced)
	return View{Epoch: done.epoch.N, Members: done.epoch.Members}, nil
}

func setDraining(ctx context.Context, b storage.Bucket, member string, on bool) (edited, error) {
	return edit(ctx, b, func(e storage.Epoch) ([]storage.Member, bool, error) {
		rows, changed, found := drained(e.Members, member, on)
		if !found {
			return nil, false, &AbsentError{Member: member, Epoch: e.N}
		}
		return rows, changed, nil
	})
}

// pause sleeps for d and reports whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
