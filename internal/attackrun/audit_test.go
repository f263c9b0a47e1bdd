package attackrun_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// audit reads the logs of the well-behaved clients after all nodes have ended. It checks that every
// acknowledged message is there once and was settled once. It returns the number of checked
// submissions.
func (b *wellBehaved) audit(ctx context.Context) (checked int, err error) {
	bucket, closeBucket, err := b.site.place.Open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	logs := storage.NewLogs(bucket, nil)
	for id, acked := range b.acked {
		s := noderun.NewLogView("worker", id)
		if err := s.Read(ctx, logs); err != nil {
			return checked, fmt.Errorf("%s: %w", id, err)
		}
		admitted := map[string][]*noderun.Admitted{}
		for _, a := range s.Order {
			admitted[a.Key] = append(admitted[a.Key], a)
		}
		for key, receipt := range acked {
			checked++
			got := admitted[key]
			switch {
			case len(got) != 1 || got[0].Submission != receipt.SubmissionID || got[0].Offset != receipt.Offset:
				b.site.Fail("%s: %s has receipt %+v, but the log has %+v", id, key, receipt, got)
			case !got[0].Completed():
				b.site.Fail("%s: %s is settled as %q, want once as completed", id, key, got[0].Settled)
			}
		}
	}
	return checked, nil
}

// verify runs the program's check over the whole bucket after all nodes have ended.
func (s *site) verify(ctx context.Context) {
	flaws, _ := noderun.Verify(ctx, s.program, s.nodes[0].Config, s.env)
	for _, f := range flaws {
		s.Fail("%s", f)
	}
}
