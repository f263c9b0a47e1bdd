package attackrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/storage"
)

// audit reads the logs of the clients that behave, of which no node is left, and checks
// that everything acknowledged is there once and was settled once. It returns how many
// submissions it has looked at.
func (b *beside) audit(ctx context.Context) (looked int, err error) {
	bucket, closeBucket, err := b.site.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	logs := storage.NewLogs(bucket, nil)
	for id, acked := range b.acked {
		admitted := map[string][]conversation.Receipt{}
		outcomes := map[conversation.SubmissionID][]conversation.Outcome{}
		for batch, err := range logs.Batches(ctx, conversation.Address{Agent: "worker", ID: id}.Key(), storage.Start()) {
			if err != nil {
				return looked, fmt.Errorf("%s: %w", id, err)
			}
			records, err := conversation.DecodeRecords(batch.Lines)
			if err != nil {
				return looked, fmt.Errorf("%s: %w", id, err)
			}
			for _, r := range records {
				switch r := r.(type) {
				case *conversation.SubmissionAdmitted:
					admitted[r.Key] = append(admitted[r.Key], conversation.Receipt{SubmissionID: r.Submission, Offset: conversation.Offset(batch.Seq)})
				case *conversation.SubmissionSettled:
					outcomes[r.Submission] = append(outcomes[r.Submission], r.Outcome)
				}
			}
		}
		for key, receipt := range acked {
			looked++
			got := admitted[key]
			if len(got) != 1 || got[0].SubmissionID != receipt.SubmissionID || got[0].Offset != receipt.Offset {
				b.site.fail("%s: %s was answered with %+v, the log has %+v", id, key, receipt, got)
			}
			if o := outcomes[receipt.SubmissionID]; !slices.Equal(o, []conversation.Outcome{conversation.OutcomeCompleted}) {
				b.site.fail("%s: %s is settled as %q, want once as completed", id, key, o)
			}
		}
	}
	return looked, nil
}

// verify lets the program look at the whole bucket, of which no node is left.
func (s *site) verify(ctx context.Context) {
	cmd := exec.CommandContext(ctx, s.program, "log", "verify", "--json", "--config", s.nodes[0].config)
	cmd.Env = append(os.Environ(), s.env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.fail("parley log verify: %v", err)
		return
	}
	for _, f := range noderun.Verified(out, cmd.ProcessState.ExitCode()) {
		s.fail("%s", f)
	}
	if exit != nil && len(exit.Stderr) > 0 {
		s.fail("parley log verify: %s", exit.Stderr)
	}
}
