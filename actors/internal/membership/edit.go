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
	// minRetry and maxRetry bound the pause after a lost race, which grows with each.
	minRetry = 10 * time.Millisecond
	maxRetry = 200 * time.Millisecond
)

// errAgain is what a change returns to be called again with the newest epoch.
var errAgain = errors.New("read the members again")

// edited is how the epochs stand after an edit.
type edited struct {
	epoch    storage.Epoch // Newest; number 0 if there is none.
	since    time.Time     // The requests that showed it to be the newest began after this.
	replaced []int64       // Epochs below it that may be deleted.
}

// edit creates the next epoch with what change makes of the newest, until one that
// is created is the newest, or change has nothing to change. change is called anew
// after every lost race.
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

// retryAfter draws the pause after a number of lost races.
func retryAfter(lost int) time.Duration {
	longest := min(maxRetry, time.Duration(lost)*2*minRetry)
	return minRetry + mathrand.N(longest)
}

// SetDraining sets or removes the mark of any member that it owns nothing any more
// and hands over what it has, and returns the members with it. It is for commands: the
// members see it with their next poll. Without that member it returns an
// [*AbsentError].
func SetDraining(ctx context.Context, bucket storage.Bucket, member string, on bool) (View, error) {
	done, err := setDraining(ctx, bucket, member, on)
	if err != nil {
		return View{}, fmt.Errorf("set draining of member %s: %w", member, err)
	}
	// What is not deleted disturbs nobody, and goes with the next edit.
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

// pause waits and reports whether the context still holds.
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
