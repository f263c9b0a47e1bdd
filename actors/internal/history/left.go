package history

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
func (s *Store) delivered(ctx context.Context, key conversation.Key, l *conversation.Left) (conversation.Delivery, error) {
	adm, err := follower.Admitted(ctx, s.Patient(), s.o.Turns, key, l)
	if err != nil {
		return conversation.Delivery{}, fmt.Errorf("read delivery of %s: %w", l.Submission, err)
	}
	return adm.Delivery, nil
}

// Complete puts a delivery in its place that may have been left to the log, for code of
// an author. It waits for a bucket that is away for as long as ctx lives.
func (s *Store) Complete(ctx context.Context, key conversation.Key, l *conversation.Left, d *conversation.Delivery) error {
	for l != nil {
		whole, err := s.delivered(ctx, key, l)
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

// Whole returns exchanges with their deliveries, or ErrTooLong if those have more than
// room bytes. The newest are read first.
func (s *Store) Whole(ctx context.Context, key conversation.Key, list []conversation.Exchange, room int) ([]conversation.Exchange, error) {
	for i, x := range slices.Backward(list) {
		if x.Left != nil {
			d, err := s.delivered(ctx, key, x.Left)
			if err != nil {
				return nil, err
			}
			list[i].Delivery, list[i].Left = d, nil
		}
		if room -= list[i].Delivery.Size(); room < 0 {
			return nil, ErrTooLong
		}
	}
	return list, nil
}

// Recent gives exchanges their deliveries, as far as room goes for all that they hold, the
// newest first, and returns how much is left of it. Of those beyond only their names stay.
func (s *Store) Recent(ctx context.Context, key conversation.Key, list []conversation.Exchange, room int) (int, error) {
	for i, x := range slices.Backward(list) {
		if room <= 0 {
			list[i] = conversation.Exchange{Submission: x.Submission}
			continue
		}
		if x.Left != nil {
			d, err := s.delivered(ctx, key, x.Left)
			if err != nil {
				return 0, err
			}
			list[i].Delivery, list[i].Left = d, nil
		}
		room -= summary.Bytes(list[i])
	}
	return room, nil
}

// Fold applies a stored batch to a state, at its turn if it is long.
func (s *Store) Fold(state *conversation.State, b storage.Batch) error {
	defer s.o.Turns.Turn(len(b.Lines))()
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		return fmt.Errorf("batch %d: %w", b.Seq, err)
	}
	return state.Apply(conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records})
}
