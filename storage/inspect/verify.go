package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// Verify checks all objects of a scope and calls report with each finding, sequentially. It checks a
// conversation twice if the first check has findings, and reports only those that remain, because a
// node may be running. It returns the bucket's error or [ErrNoConversation]; findings are not errors.
func Verify(ctx context.Context, b storage.Bucket, scope Scope, opts *Options, report func(Finding)) (Summary, error) {
	v := newVerifier(b, opts, report)
	if scope.Conv != "" {
		err := v.conversation(ctx, scope.Conv)
		return v.sum, err
	}
	err := v.everything(ctx)
	return v.sum, err
}

// verifier checks a bucket.
type verifier struct {
	bucket storage.Bucket
	logs   *storage.Logs
	opts   Options
	each   func(ctx context.Context, l *inspection) error // processes a checked conversation

	mu     sync.Mutex
	sum    Summary
	report func(Finding)
}

func newVerifier(b storage.Bucket, opts *Options, report func(Finding)) *verifier {
	o := opts.filled()
	v := &verifier{
		bucket: storage.Retried(b, storage.Retry{}), opts: o, report: report,
		logs: storage.NewLogs(b, &storage.LogOptions{MaxBatchBytes: o.MaxBatchBytes, Prefetch: o.Prefetch}),
	}
	v.each = func(_ context.Context, l *inspection) error { v.emit(l.findings...); return nil }
	return v
}

// emit reports findings.
func (v *verifier) emit(findings ...Finding) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range findings {
		v.sum.count(f)
		v.report(f)
	}
}

// find reports a finding that concerns no conversation.
func (v *verifier) find(severity Severity, kind Kind, key, text string) {
	v.emit(Finding{Severity: severity, Kind: kind, Key: key, Seq: -1, Text: text})
}

// conversation checks one conversation.
func (v *verifier) conversation(ctx context.Context, conv conversation.Key) error {
	if err := storage.CheckConv(conv); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	l, err := v.inspection(ctx, conv)
	if err != nil {
		return fmt.Errorf("verify conversation %s: %w", conv, err)
	}
	v.mu.Lock()
	v.sum.add(&l.sum)
	v.mu.Unlock()
	return v.each(ctx, l)
}

// inspection checks a conversation, and again if it has findings.
func (v *verifier) inspection(ctx context.Context, conv conversation.Key) (*inspection, error) {
	first := v.newInspection(conv)
	if err := first.check(ctx); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(first.findings, passing) {
		return first, nil
	}
	seen := map[identity]bool{}
	for _, f := range first.findings {
		seen[f.identity()] = true
	}
	again := v.newInspection(conv)
	if err := again.check(ctx); err != nil {
		return nil, err
	}
	var remaining []Finding
	for _, f := range again.findings {
		if !passing(f) || seen[f.identity()] {
			remaining = append(remaining, f)
		}
	}
	again.findings = remaining
	return again, nil
}

// passing reports whether a finding may be a transient state of a writer.
func passing(f Finding) bool { return f.Severity != Note || f.Leftover() }

func (v *verifier) newInspection(conv conversation.Key) *inspection {
	return &inspection{bucket: v.bucket, logs: v.logs, opts: v.opts, conv: conv}
}

// everything checks the whole bucket.
func (v *verifier) everything(ctx context.Context) error {
	ok, err := v.format(ctx)
	if err != nil || !ok {
		return err
	}
	var folders []string
	checks := map[storage.ObjectKind]func(context.Context) error{
		storage.KindJournal: v.journals, storage.KindExport: v.exports, storage.KindTimer: v.timers, storage.KindEpoch: v.epochs,
		storage.KindHeartbeat: v.heartbeats, storage.KindIndex: v.index, storage.KindQuarantine: v.quarantine,
		storage.KindDeadLetter: v.deadLetters,
	}
	var found []string
	err = eachEntry(ctx, v.bucket, "", func(entry string) error {
		switch {
		case isFolder(entry):
			folders = append(folders, entry)
		case storage.KindOf(entry) == "":
			v.foreign(entry)
		case checks[storage.KindOf(entry)] != nil:
			found = append(found, entry)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := v.conversations(ctx, folders); err != nil {
		return err
	}
	for _, entry := range found {
		if err := checks[storage.KindOf(entry)](ctx); err != nil {
			return fmt.Errorf("verify %s: %w", entry, err)
		}
	}
	return nil
}

func (v *verifier) foreign(key string) {
	v.find(Note, KindForeignKey, key, "unknown key; Parley neither reads nor deletes it")
}

// isFolder reports whether a folder holds conversations.
func isFolder(entry string) bool {
	const digits = "0123456789abcdef"
	if len(entry) != 3 || entry[2] != '/' {
		return false
	}
	for _, c := range entry[:2] {
		ok := false
		for _, d := range digits {
			ok = ok || c == d
		}
		if !ok {
			return false
		}
	}
	return true
}

// format checks the stamp and reports whether the rest can be checked.
func (v *verifier) format(ctx context.Context) (bool, error) {
	_, err := storage.CheckFormat(ctx, v.bucket)
	var flaw *storage.FormatError
	if !errors.As(err, &flaw) {
		return err == nil, err
	}
	v.find(Corruption, KindFormat, "format.json", flaw.Error())
	return flaw.StoredVersion <= 0, nil // Without a stamp the objects may still be ours.
}

// conversations checks all conversations, several concurrently.
func (v *verifier) conversations(ctx context.Context, folders []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, v.opts.Parallel)
	for _, folder := range folders {
		err := eachEntry(ctx, v.bucket, folder, func(entry string) error {
			conv, ok := convOf(folder, entry)
			if !ok {
				v.foreign(entry)
				return nil
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			wg.Go(func() {
				defer func() { <-slots }()
				// A listed conversation may have been deleted since.
				if err := v.conversation(ctx, conv); err != nil && !errors.Is(err, ErrNoConversation) {
					cancel(err)
				}
			})
			return nil
		})
		if err != nil {
			cancel(err)
			break
		}
	}
	wg.Wait()
	return context.Cause(ctx)
}

// convOf returns the conversation of an entry in a folder.
func convOf(folder, entry string) (conversation.Key, bool) {
	if len(entry) <= len(folder) || entry[len(entry)-1] != '/' {
		return "", false
	}
	// Any conversation may have a head.
	name, err := storage.ParseKey(entry + "head")
	return name.Conv, err == nil
}
