package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/actors/internal/summary"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// leftPause is how long to wait for a bucket that is away before a delivery is read again.
const leftPause = time.Second

// delivered reads a delivery that was left to the log.
func (r *Runtime) delivered(ctx context.Context, key conversation.Key, l *conversation.Left) (conversation.Delivery, error) {
	adm, err := follower.Admitted(ctx, r.patientLogs(), r.accounts.conversations, key, l)
	if err != nil {
		return conversation.Delivery{}, fmt.Errorf("read delivery of %s: %w", l.Submission, err)
	}
	return adm.Delivery, nil
}

// complete puts a delivery in its place that may have been left to the log, for code of
// an author. It waits for a bucket that is away for as long as ctx lives.
func (r *Runtime) complete(ctx context.Context, key conversation.Key, l *conversation.Left, d *conversation.Delivery) error {
	for l != nil {
		whole, err := r.delivered(ctx, key, l)
		if err == nil {
			*d = whole
			return nil
		}
		if !errors.Is(err, storage.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(leftPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// whole returns exchanges with their deliveries, or errViewTooLong if those have more than
// room bytes. The newest are read first.
func (r *Runtime) whole(ctx context.Context, key conversation.Key, list []exchange, room int) ([]exchange, error) {
	for i, x := range slices.Backward(list) {
		if x.left != nil {
			d, err := r.delivered(ctx, key, x.left)
			if err != nil {
				return nil, err
			}
			list[i].delivery, list[i].left = d, nil
		}
		if room -= list[i].delivery.Size(); room < 0 {
			return nil, errViewTooLong
		}
	}
	return list, nil
}

// recent gives exchanges their deliveries, as far as room goes for all that they hold, the
// newest first, and returns how much is left of it. Of those beyond only their names stay.
func (r *Runtime) recent(ctx context.Context, key conversation.Key, list []conversation.Exchange, room int) (int, error) {
	for i, x := range slices.Backward(list) {
		if room <= 0 {
			list[i] = conversation.Exchange{Submission: x.Submission}
			continue
		}
		if x.Left != nil {
			d, err := r.delivered(ctx, key, x.Left)
			if err != nil {
				return 0, err
			}
			list[i].Delivery, list[i].Left = d, nil
		}
		room -= summary.Bytes(list[i])
	}
	return room, nil
}
