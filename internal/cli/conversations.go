package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// EachConversation visits the keys of all conversations in a bucket.
func EachConversation(ctx context.Context, b storage.Bucket, visit func(conversation.Key) error) error {
	return eachFolder(ctx, b, "", func(shard string) error {
		if len(shard) != len("ab/") {
			return nil // Other prefixes hold no conversations.
		}
		return eachFolder(ctx, b, shard, func(folder string) error {
			key := conversation.Key(strings.TrimSuffix(strings.TrimPrefix(folder, shard), "/"))
			if storage.CheckConv(key) != nil || storage.FolderOf(key) != folder {
				return nil
			}
			return visit(key)
		})
	})
}

// eachFolder visits the folders directly below a prefix, in order.
func eachFolder(ctx context.Context, b storage.Bucket, prefix string, visit func(folder string) error) error {
	q := storage.ListQuery{Prefix: prefix, Delimiter: "/"}
	for {
		page, err := b.List(ctx, q)
		if err != nil {
			return fmt.Errorf("list %q: %w", q.Prefix, err)
		}
		for _, folder := range page.Prefixes {
			if err := visit(folder); err != nil {
				return err
			}
		}
		last := ""
		if n := len(page.Keys); n > 0 {
			last = page.Keys[n-1].Key
		}
		if n := len(page.Prefixes); n > 0 {
			// Every key of the folder sorts before this one.
			last = max(last, strings.TrimSuffix(page.Prefixes[n-1], "/")+"0")
		}
		if !page.More {
			return nil
		}
		if last <= q.After {
			return errors.New("list conversations: an incomplete page has no continuation")
		}
		q.After = last
	}
}
