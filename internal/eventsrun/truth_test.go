package eventsrun_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

// readers is the number of logs read concurrently.
const readers = 8

// truth holds the events and settlements of the logs.
type truth struct {
	mu          sync.Mutex
	ids         []string                      // of durable events, sorted at the end
	settlements map[conversation.Key]int      // of all conversations
	shown       map[conversation.Key][]string // the events of some, as JSON
}

// readTruth reads the logs of all conversations of a bucket. It keeps the events of those in shown.
func readTruth(ctx context.Context, bucket storage.Bucket, shown []conversation.Key) (*truth, error) {
	t := &truth{settlements: map[conversation.Key]int{}, shown: map[conversation.Key][]string{}}
	for _, key := range shown {
		t.shown[key] = nil
	}
	keys, err := conversations(ctx, bucket)
	if err != nil {
		return nil, err
	}
	logs := storage.NewLogs(bucket, nil)
	next, errs := make(chan conversation.Key), make([]error, readers)
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			for key := range next {
				if err := t.read(ctx, logs, key); err != nil {
					errs[i] = errors.Join(errs[i], fmt.Errorf("read the log of %s: %w", key, err))
				}
			}
		})
	}
	for _, key := range keys {
		next <- key
	}
	close(next)
	wg.Wait()
	slices.Sort(t.ids)
	return t, errors.Join(errs...)
}

// read projects the events of a log.
func (t *truth) read(ctx context.Context, logs *storage.Logs, key conversation.Key) error {
	src := observability.Source{Key: key}
	t.mu.Lock()
	_, show := t.shown[key]
	t.mu.Unlock()
	var ids, shown []string
	settlements := 0
	for stored, err := range logs.Batches(ctx, key, storage.Start()) {
		if err != nil {
			return err
		}
		b := conversation.Batch{Offset: conversation.Offset(stored.Seq)}
		if b.Records, err = conversation.DecodeRecords(stored.Lines); err != nil {
			return err
		}
		for _, r := range b.Records {
			if _, ok := r.(*conversation.SubmissionSettled); ok {
				settlements++
			}
		}
		src = src.After(b)
		for _, e := range observability.Project(src, b, &observability.ProjectOptions{Content: src.Agent == agentName}) {
			ids = append(ids, e.ID)
			if !show {
				continue
			}
			line, err := e.AppendJSON(nil)
			if err != nil {
				return err
			}
			shown = append(shown, string(line))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids = append(t.ids, ids...)
	t.settlements[key] = settlements
	if show {
		t.shown[key] = shown
	}
	return nil
}

func conversations(ctx context.Context, b storage.Bucket) (keys []conversation.Key, err error) {
	shards, err := folders(ctx, b, "")
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		if len(shard) != len("ab/") {
			continue // another kind of folder
		}
		found, err := folders(ctx, b, shard)
		if err != nil {
			return nil, err
		}
		for _, folder := range found {
			keys = append(keys, conversation.Key(strings.TrimSuffix(strings.TrimPrefix(folder, shard), "/")))
		}
	}
	return keys, nil
}

// folders lists the folders directly below a prefix.
func folders(ctx context.Context, b storage.Bucket, prefix string) (all []string, err error) {
	q := storage.ListQuery{Prefix: prefix, Delimiter: "/"}
	for {
		page, err := b.List(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Prefixes...)
		if !page.More {
			return all, nil
		}
		if len(page.Prefixes) == 0 {
			return nil, fmt.Errorf("list %q: page without prefixes", prefix)
		}
		// Everything below a folder sorts before this.
		q.After = strings.TrimSuffix(page.Prefixes[len(page.Prefixes)-1], "/") + "0"
	}
}
