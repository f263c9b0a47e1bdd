package server

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/observability"
)

// maxUnderWay bounds the submissions whose model calls are counted.
const maxUnderWay = 1 << 10

// startLog is the writer of a server's start banner if its log is in JSON. Each line becomes a log
// record, so that a collector can parse it.
type startLog struct{ log *slog.Logger }

// Write implements io.Writer. Each call must hold whole lines.
func (s startLog) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line = strings.TrimSpace(line); line != "" {
			s.log.Info("server started", "line", line)
		}
	}
	return len(p), nil
}

// outcomeLines prints a line for each settled message: its conversation, outcome, duration, tokens and
// cost.
func outcomeLines(out io.Writer) observability.Sink {
	spent := map[conversation.SubmissionID]*observability.Usage{}
	return &observability.Callbacks{
		Turn: func(e *observability.Envelope, t *observability.Turn) {
			u := spent[e.Submission]
			if u == nil {
				if len(spent) >= maxUnderWay {
					clear(spent)
				}
				u = &observability.Usage{}
				spent[e.Submission] = u
			}
			if used := t.Response.Usage; used != nil {
				u.Input += used.Input + used.CacheRead + used.CacheWrite
				u.Output += used.Output
				u.Cost.Total += used.Cost.Total
			}
		},
		SubmissionSettled: func(e *observability.Envelope, s *observability.SubmissionSettled) {
			if s.Attempt == 0 && s.Outcome == string(conversation.OutcomeCompleted) {
				return // A signal for a wait has no attempt.
			}
			fmt.Fprintln(out, outcomeLine(e, s, spent[e.Submission]))
			delete(spent, e.Submission)
		},
	}
}

func outcomeLine(e *observability.Envelope, s *observability.SubmissionSettled, u *observability.Usage) string {
	at := time.UnixMilli(int64(e.At)).Format(time.TimeOnly)
	parts := []string{fmt.Sprintf("%s in %s", s.Outcome, cli.Took(s.TotalMs))}
	if u != nil && u.Input+u.Output > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens in, %s out", cli.Number(u.Input), cli.Number(u.Output)))
	}
	if u != nil && u.Cost.Total > 0 {
		parts = append(parts, cli.Dollars(u.Cost.Total))
	}
	if s.Error != nil && s.Outcome != string(conversation.OutcomeAborted) { // aborted needs no reason
		parts = append(parts, cli.OneLine(s.Error.Message, 200))
	}
	return fmt.Sprintf("%s  %s/%s  %s", at, e.Agent, cli.OneLine(e.Instance, 60), strings.Join(parts, ", "))
}
