package inspect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleyrun/parley/storage"
)

// Outcome is the result of a repair for a finding.
type Outcome string

// The four outcomes.
const (
	Planned Outcome = "planned" // It would be fixed.
	Done    Outcome = "done"    // It was fixed.
	Refused Outcome = "refused" // It cannot be fixed, or its conversation has corruption and is not touched.
	Left    Outcome = "left"    // No action is needed.
)

// Action is the result of a repair for one finding.
type Action struct {
	Finding
	Outcome Outcome  `json:"outcome"`
	Steps   []string `json:"steps,omitempty"` // The requests, for people.
}

// RepairOptions configure Repair. The zero value works, and changes nothing.
type RepairOptions struct {
	Options
	// Write makes the changes; otherwise they are only reported.
	Write bool
	// Watch is how long heartbeats are observed before a write. 0 is 2 s.
	Watch time.Duration
}

const defaultWatch = 2 * time.Second

// ServedError reports that a node serves the bucket, so that nothing was repaired.
type ServedError struct{ Member storage.Member }

// Error implements error.
func (e *ServedError) Error() string {
	where := ""
	if e.Member.Address != "" {
		where = " at " + e.Member.Address
	}
	return fmt.Sprintf("member %s%s serves the bucket: stop every node, then repair", e.Member.ID, where)
}

// Repair checks a scope as [Verify] does and fixes repairable findings, one conversation at a time. It
// does not touch a conversation that has corruption. After a write it checks the conversation again and
// returns an error if a fixed finding remains. A [*ServedError] or a [*storage.FormatError] means that
// nothing was changed.
//
// Nothing else may use the bucket concurrently. Heartbeats enforce that only in part: a hung node is
// not detected. Nodes of a bucket in a folder hold its lock.
func Repair(ctx context.Context, b storage.Bucket, scope Scope, opts *RepairOptions, report func(Action)) (Summary, error) {
	r := repairer{bucket: b, report: report}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Watch <= 0 {
		r.opts.Watch = defaultWatch
	}
	if _, err := storage.CheckFormat(ctx, b); err != nil {
		return Summary{}, fmt.Errorf("repair: %w", err)
	}
	if r.opts.Write {
		if err := served(ctx, b, r.opts.Watch); err != nil {
			return Summary{}, fmt.Errorf("repair: %w", err)
		}
	}
	v := newVerifier(b, &r.opts.Options, func(f Finding) { r.emit(f, Left) })
	v.each = func(ctx context.Context, l *inspection) error { return r.conversation(ctx, v, l) }
	r.verifier = v
	var err error
	if scope.Conv != "" {
		err = v.conversation(ctx, scope.Conv)
	} else {
		err = v.everything(ctx)
	}
	v.sum.Planned, v.sum.Repaired = r.planned, r.repaired
	return v.sum, err
}

// repairer fixes the findings of a verifier.
type repairer struct {
	bucket   storage.Bucket
	opts     RepairOptions
	verifier *verifier

	mu                sync.Mutex
	planned, repaired int64
	report            func(Action)
}

func (r *repairer) emit(f Finding, o Outcome) {
	if f.Severity == Corruption {
		o = Refused
	}
	a := Action{Finding: f, Outcome: o}
	for _, s := range f.steps {
		a.Steps = append(a.Steps, s.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o {
	case Planned:
		r.planned++
	case Done:
		r.repaired++
	}
	r.report(a)
}

// conversation repairs one conversation.
func (r *repairer) conversation(ctx context.Context, v *verifier, l *inspection) error {
	v.mu.Lock()
	for _, f := range l.findings {
		v.sum.count(f)
	}
	v.mu.Unlock()
	refused := l.has(Corruption)
	repaired := false
	for _, f := range l.findings {
		switch {
		case f.Severity == Note && !f.Leftover():
			r.emit(f, Left)
		case refused:
			r.emit(f, Refused)
		case !r.opts.Write:
			r.emit(f, Planned)
		default:
			for _, s := range f.steps {
				if err := r.apply(ctx, l, s); err != nil {
					return fmt.Errorf("repair conversation %s: %s: %w", l.conv, s, err)
				}
			}
			repaired = repaired || f.Severity != Note
			r.emit(f, Done)
		}
	}
	if !repaired {
		return nil
	}
	again := v.newInspection(l.conv)
	if err := again.check(ctx); err != nil && !errors.Is(err, ErrNoConversation) {
		return fmt.Errorf("verify conversation %s after repair: %w", l.conv, err)
	}
	for _, f := range again.findings {
		if f.Severity != Note && !l.dropped {
			return fmt.Errorf("repair conversation %s: %s remains: %s: %s", l.conv, f.Kind, f.Key, f.Text)
		}
	}
	return nil
}

// apply sends one request.
func (r *repairer) apply(ctx context.Context, l *inspection, s step) error {
	switch {
	case s.head != nil:
		return r.bucket.Put(ctx, s.key, storage.Bytes(s.head))
	case s.batch != nil:
		return r.rewrite(ctx, l, s)
	}
	name, err := storage.ParseKey(s.key)
	if err != nil {
		return err
	}
	if name.Kind == storage.KindBatch {
		last, err := l.logs.Tail(ctx, l.conv, name.First)
		if err != nil {
			return err
		}
		if last == name.First {
			return errors.New("it is the highest of the log and must not be deleted")
		}
	}
	return r.bucket.Delete(ctx, s.key)
}

// rewrite stores a batch of a segment under its own key again. Nothing else ever replaces a batch, but
// here it is safe: the hash proves that it is the same batch.
func (r *repairer) rewrite(ctx context.Context, l *inspection, s step) error {
	batches, err := l.logs.Range(ctx, l.conv, s.batch.Seq, s.batch.Seq)
	if err != nil {
		return err
	}
	b := batches[0]
	if b.Position() != *s.batch {
		return fmt.Errorf("segment hash is %s, want %s", b.Hash, s.batch.Hash)
	}
	data, hash, err := storage.EncodeBatch(b.Header, b.Lines)
	if err == nil && hash != s.batch.Hash {
		err = fmt.Errorf("hash is %s, want %s", hash, s.batch.Hash)
	}
	if err != nil {
		return err
	}
	return r.bucket.Put(ctx, s.key, storage.Bytes(data))
}

// served returns a *ServedError if the heartbeat of a member changes within watch.
func served(ctx context.Context, b storage.Bucket, watch time.Duration) error {
	epoch, _, err := storage.NewestEpoch(ctx, b, 0)
	if err != nil || len(epoch.Members) == 0 {
		return err
	}
	const polls = 8
	before := make(map[string]int64, len(epoch.Members))
	for n := range polls + 1 {
		for _, m := range epoch.Members {
			beat, err := storage.ReadHeartbeat(ctx, b, m.ID)
			if err != nil && away(err) {
				return err
			}
			if n > 0 && beat.Count != before[m.ID] {
				return &ServedError{m}
			}
			before[m.ID] = beat.Count
		}
		if n == polls {
			return nil
		}
		t := time.NewTimer(watch / polls)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}
