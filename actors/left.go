package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// leftPause is how long to wait for a bucket that is away before a delivery is read again.
const leftPause = time.Second

// delivered reads a delivery that was left to the log.
func (r *Runtime) delivered(ctx context.Context, key conversation.Key, l *conversation.Left) (conversation.Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	adm, err := follower.Admitted(ctx, r.logs, key, l)
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

// whole returns exchanges with their deliveries.
func (r *Runtime) whole(ctx context.Context, key conversation.Key, list []exchange) ([]exchange, error) {
	for i, x := range list {
		if x.left == nil {
			continue
		}
		d, err := r.delivered(ctx, key, x.left)
		if err != nil {
			return nil, err
		}
		list[i].delivery, list[i].left = d, nil
	}
	return list, nil
}
