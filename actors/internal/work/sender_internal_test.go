package work

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

func TestDepthOfSenders(t *testing.T) {
	away := conversation.Unavailable(0, nil)
	for _, c := range []struct {
		name    string
		depth   int64
		senders []error // from the nearest: nil for an unsettled sender, errSettled, or a read error
		want    error
		count   int64 // of the remaining senders
		reads   int
	}{
		{"below the bound nothing is read", 2, []error{nil, errSettled}, nil, 2, 0},
		{"all are unsettled", 3, []error{nil, nil, nil, errSettled}, agent.ErrDispatchLimit, 3, 3},
		{"the nearest is settled", 3, []error{errSettled, nil, nil}, nil, 0, 1},
		{"one further up is settled", 3, []error{nil, errSettled, nil}, nil, 1, 2},
		{"an older record names no sender", 3, []error{nil}, agent.ErrDispatchLimit, 3, 1},
		{"one is corrupt", 3, []error{nil, errors.New("corrupt"), nil}, agent.ErrDispatchLimit, 3, 2},
		{"the bucket does not answer", 3, []error{away}, away, 3, 1},
		{"more than the bound of an agent with a lower one", 5, []error{nil, nil, nil, nil, nil}, agent.ErrDispatchLimit, 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := func(i int) *conversation.Sender {
				if i >= len(c.senders) {
					return nil
				}
				return &conversation.Sender{Submission: conversation.SubmissionID(rune('a' + i))}
			}
			reads := 0
			pending := func(_ context.Context, of conversation.Sender) (*conversation.Sender, bool, error) {
				reads++
				i := slices.IndexFunc([]rune("abcdef"), func(r rune) bool { return of == *id(int(r - 'a')) })
				if err := c.senders[i]; err != nil && err != errSettled {
					return nil, false, err
				}
				return id(i + 1), c.senders[i] == nil, nil
			}
			s := &sender{node: &Node{o: NodeOptions{Pending: pending}}, by: id(0), limits: agent.Limits{DispatchDepth: 3}}
			s.depth.Store(c.depth)
			err := s.checkDepth(t.Context())
			if !errors.Is(err, c.want) || s.depth.Load() != c.count || reads != c.reads {
				t.Errorf("depth %d of senders %v: got %v, depth %d after %d reads; want %v, %d, %d",
					c.depth, c.senders, err, s.depth.Load(), reads, c.want, c.count, c.reads)
			}
		})
	}
}

var errSettled = errors.New("settled")
