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

const leftPause = time.Second

func (s *Store) delivered(ctx context.Context, key conversation.Key, l *conversation.Left) (conversation.Delivery, error) {
	adm, err := follower.Admitted(ctx, s.Patient(), s.o.Turns, key, l)
	if err != nil {
		return conversation.Delivery{}, fmt.Errorf("read delivery of %s: %w", l.Submission, err)
	}
	return adm.Delivery, nil
}

// Complete loads a delivery that was left to the log, for an author's code. It retries an unavailable
// bucket until ctx ends.
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

// Whole loads the deliveries of exchanges, newest first. It returns ErrTooLong if they exceed room
// bytes.
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

// Recent loads the deliveries of the newest exchanges that fit into room bytes, and returns the rest
// of room. The other exchanges keep only their ids.
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

// Fold applies a stored batch to a state. Long batches take turns.
func (s *Store) Fold(state *conversation.State, b storage.Batch) error {
	defer s.o.Turns.Turn(len(b.Lines))()
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		return fmt.Errorf("batch %d: %w", b.Seq, err)
	}
	return state.Apply(conversation.Batch{Offset: conversation.Offset(b.Seq), Records: records})
}
