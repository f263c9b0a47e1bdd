package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/actors/internal/history"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/summary"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

const (
	// maxSummaryInput bounds the input of a summarizer, in bytes, even if the window of its model is
	// unknown.
	maxSummaryInput = 400 << 10
	// maxSummaryTokens bounds a summary. summaryWords is the limit in its instructions.
	maxSummaryTokens = 4096
	summaryWords     = 800
	// maxSummaryBytes bounds the stored summary.
	maxSummaryBytes = 64 << 10
	// minSummaryTokens and minSummaryInput are the lower bounds for shrinking a summary and its input
	// after a refusal. The latter is in bytes.
	minSummaryTokens = 256
	minSummaryInput  = 1 << 10
	// keptTokenBytes estimates the maximum size of a token that is kept verbatim, in bytes.
	keptTokenBytes = 8
)

// full reports whether a model's context is close to its window.
func full(c agent.Compaction, m providers.Model, u providers.Usage) bool {
	if c.Off || m.ContextWindow <= 0 {
		return false
	}
	used := u.Total
	if used == 0 {
		used = u.Input + u.CacheRead + u.CacheWrite + u.Output
	}
	return used > int64(m.ContextWindow-reserve(c, m))
}

// reserve returns the tokens to keep free, at most half of the window.
func reserve(c agent.Compaction, m providers.Model) int {
	return min(c.WithDefaults(m.MaxTokens).ReserveTokens, m.ContextWindow/2)
}

// summaryJob makes one summary outside the actor's goroutine.
type summaryJob struct {
	node         *Node
	key          conversation.Key
	agent        string
	gen          int
	author       *author
	before       *conversation.Compacted // the previous summary, or nil
	archive      *history.Archive        // nil for a subagent's view
	closed       []*history.Page
	exchanges    []conversation.Exchange
	instructions string
	refused      bool // the vendor refused the view as too long
}

// summarize starts a summary; [machine.Summarized] delivers it.
func (r *Runner) summarize(e machine.Summarize, v *view) {
	job := &summaryJob{
		node: r.node, key: r.o.Key, agent: v.created.Agent, gen: e.Gen, before: v.shown.After, exchanges: settledTurns(v.exchanges), instructions: e.Instructions,
		refused: e.Reason == conversation.CompactionOverflow,
	}
	if v.id == "" { // no work is under way
		job.author = r.agentOnly(v)
	} else {
		job.author = r.authorOf(v)
	}
	if v.child == "" {
		job.archive, job.closed = r.o.Archive, r.o.Archive.Cut()
	}
	ctx, cancel := context.WithCancel(r.o.BaseContext)
	r.mu.Lock()
	r.summaries[e.Gen] = cancel
	r.mu.Unlock()
	log := r.o.Logger.With("reason", string(e.Reason))
	live, name := r.live(v, ""), v.created.Agent
	r.spawn(func() {
		defer r.endSummary(e.Gen)
		out, err := job.within(ctx, r.node.SummaryTime())
		if ctx.Err() != nil {
			return // cancelled
		}
		if err != nil {
			log.Warn("compaction failed", "err", logged(err), "cause", r.node.cause(err, name))
			live.Log(slog.LevelWarn, "compaction failed", map[string]any{"reason": string(e.Reason)})
			out.Err = conversation.Unavailable(time.Minute, err)
		}
		out.Gen = job.gen
		r.o.Emit(out)
	})
}

// settledTurns removes turns under way, because they may be withdrawn and a view cannot begin at a
// missing turn.
func settledTurns(list []conversation.Exchange) []conversation.Exchange {
	for i := range list {
		list[i].Turns = slices.DeleteFunc(list[i].Turns, func(t conversation.Turn) bool { return t.Note == "" && !t.Completed })
	}
	return list
}

// within makes the summary like make, with a time limit that holds even if an author's function
// ignores its context. Otherwise the conversation could stay busy forever.
func (j *summaryJob) within(ctx context.Context, limit time.Duration) (machine.Summarized, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("wait for summary: %w", context.DeadlineExceeded))
	defer cancel()
	return detached(ctx, j.node, func() (machine.Summarized, error) { return j.make(ctx) })
}

func (j *summaryJob) make(ctx context.Context) (out machine.Summarized, err error) {
	setup, err := j.author.current(ctx)
	if err != nil {
		return out, err
	}
	rules := j.author.compaction()
	spec := setup.Model
	if rules.Model != "" {
		spec = rules.Model
	}
	model, err := j.node.o.Providers.Resolve(spec)
	if err != nil {
		return out, err
	}
	if err := j.node.affordable(j.agent, spec); err != nil {
		return out, err
	}
	keep := j.kept(rules, model, setup.Model)
	list, first, err := j.list(ctx, maxSummaryInput+keptTokenBytes*keep)
	if err != nil {
		return out, err
	}
	limit := maxSummaryInput
	if model.ContextWindow > 0 {
		limit = min(limit, max(model.ContextWindow-maxSummaryTokens, 1024)*3)
	}
	w := &writing{job: j, spec: spec, same: spec == setup.Model, rules: rules, list: list, first: first, keep: keep, limit: limit}
	if j.refused {
		w.refused = summary.BytesPerToken * summary.Tokens(list, first)
		if j.before != nil {
			w.refused += len(j.before.Summary)
		}
	}
	text, cut, done, err := w.write(ctx)
	if err != nil || text == "" {
		out.Nothing = err == nil
		return out, err
	}
	before := 0
	if j.before != nil {
		before = j.before.Before
	}
	return machine.Summarized{
		Summary: text, FirstKept: list[cut.First].Submission, FirstTurn: cut.Turn, Before: before + cut.First, After: len(list) - cut.First,
		Model: spec, Usage: conversation.Usage(done.Usage), Facts: factsOf(model, "", done),
	}, nil
}

// kept returns how many tokens stay verbatim: the limit of the rules and, for a known window, half of
// its unreserved part. writer is the model of the summary, of the model of the conversation.
func (j *summaryJob) kept(rules agent.Compaction, writer providers.Model, of string) int {
	keep := rules.WithDefaults(writer.MaxTokens).KeepRecentTokens
	if m, err := j.node.o.Providers.Resolve(of); err == nil && m.ContextWindow > 0 {
		keep = min(keep, (m.ContextWindow-reserve(rules, m))/2)
	}
	return keep
}

// writing is a summary under way. Its limits shrink with each refusal.
type writing struct {
	job   *summaryJob
	spec  string
	same  bool // the writer is the model of the conversation
	rules agent.Compaction
	list  []conversation.Exchange
	first conversation.TurnID
	// keep is how many tokens stay verbatim; limit bounds the writer's input in bytes.
	keep, limit int
	// refused is the smallest request, in bytes, that the conversation's model refused as too long, 0
	// for none.
	refused int
}

// shares returns how many tokens stay verbatim and how many the summary may have. After a refusal each
// is at most a quarter of the refused size, so that both fit.
func (w *writing) shares() (kept, most int) {
	if w.refused == 0 {
		return w.keep, maxSummaryTokens
	}
	quarter := w.refused / summary.BytesPerToken / 4
	return min(w.keep, quarter), min(maxSummaryTokens, max(quarter, minSummaryTokens))
}

// write returns the summary and the cut, or "" if there is nothing to omit. If the writer refuses its
// request as too long, it is called again with the newest half of the input.
func (w *writing) write(ctx context.Context) (string, summary.Point, providers.Done, error) {
	var usage conversation.Usage
	for {
		kept, most := w.shares()
		cut, ok := summary.Plan(w.list, w.first, kept)
		if !ok {
			return "", cut, providers.Done{}, nil
		}
		shown := summary.Text(w.list, w.first, cut, w.limit)
		instructions := fmt.Sprintf(textSummarize, most*summaryWords/maxSummaryTokens)
		req := providers.Request{
			System:   strings.Join(nonEmpty(instructions, w.rules.Instructions, w.job.instructions), "\n\n"),
			Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: w.job.prompt(shown)}}}},
		}
		text, done, err := w.job.ask(ctx, w.spec, req, most)
		usage.Add(conversation.Usage(done.Usage))
		done.Usage = providers.Usage(usage)
		var vendor *providers.Error
		if !errors.As(err, &vendor) || vendor.Kind != providers.KindContextOverflow || len(shown) < 2*minSummaryInput {
			return text, cut, done, err
		}
		w.limit = len(shown) / 2
		if asked := len(req.System) + providers.TextBytes(req.Messages); w.same && (w.refused == 0 || asked < w.refused) {
			w.refused = asked
		}
	}
}

// list returns the exchanges of the model's view, oldest first, and its first turn. Exchanges beyond
// the newest room bytes have only their ids.
func (j *summaryJob) list(ctx context.Context, room int) ([]conversation.Exchange, conversation.TurnID, error) {
	var list []conversation.Exchange
	at := -1
	if j.before != nil {
		at = slices.IndexFunc(j.exchanges, func(x conversation.Exchange) bool { return x.Submission == j.before.FirstKept })
	}
	open := slices.Clone(j.exchanges[max(at, 0):])
	room, err := j.node.o.History.Recent(ctx, j.key, open, room)
	if err != nil {
		return nil, "", err
	}
	if at < 0 && j.archive != nil {
		var next conversation.SubmissionID
		if len(j.exchanges) > 0 {
			next = j.exchanges[0].Submission
		}
		if list, err = j.archive.Exchanges(ctx, j.closed, j.before, next, room); err != nil {
			return nil, "", err
		}
	}
	list = append(list, open...)
	if j.before == nil {
		return list, "", nil
	}
	return list, j.before.FirstTurn, nil
}

func (j *summaryJob) prompt(text string) string {
	if j.before == nil {
		return text
	}
	return strings.Join([]string{textSummaryBefore, j.before.Summary, textSummaryThen, text}, "\n\n")
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// ask calls the summarizer's model and retries once after a transient failure.
func (j *summaryJob) ask(ctx context.Context, spec string, req providers.Request, most int) (string, providers.Done, error) {
	var usage conversation.Usage
	for attempt := 0; ; attempt++ {
		text, done, err := j.once(ctx, spec, req, most)
		usage.Add(conversation.Usage(done.Usage))
		done.Usage = providers.Usage(usage)
		var vendor *providers.Error
		if err == nil || attempt > 0 || !errors.As(err, &vendor) || !vendor.Retryable() {
			return text, done, err
		}
		pause := time.NewTimer(max(j.node.o.RetryPause, min(vendor.RetryAfter, time.Minute)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return "", done, ctx.Err()
		}
	}
}

func (j *summaryJob) once(ctx context.Context, spec string, req providers.Request, most int) (string, providers.Done, error) {
	watched, watch := j.node.watch(ctx, spec)
	defer watch.end()
	var text strings.Builder
	var end providers.Done
	done := false
	for e, err := range j.node.o.Providers.Stream(watched, spec, req, providers.Options{
		MaxTokens: most, ThinkingLevel: providers.ThinkingOff, Odd: func(o providers.Oddity) { j.node.odd(spec, o) },
	}) {
		if err != nil {
			return "", end, watch.cause(ctx, err)
		}
		switch e := e.(type) {
		case providers.TextDelta:
			text.WriteString(e.Text)
		case providers.Done:
			end, done = e, true
		}
		watch.reset()
		if text.Len() > maxSummaryBytes {
			return "", end, fmt.Errorf("summary is longer than %d bytes", maxSummaryBytes)
		}
	}
	if !done || strings.TrimSpace(text.String()) == "" {
		return "", end, errors.New("model wrote no summary")
	}
	return text.String(), end, nil
}
