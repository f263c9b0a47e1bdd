package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// stagedRoot holds payloads between nodes that are too long for a message. The node that stores one
// deletes it.
const stagedRoot = "staged/"

// StagedKey returns the object key of a payload that a member stages. name is unique per member:
// letters, digits, '-' or '_'.
func StagedKey(member, name string) string { return stagedRoot + member + "/" + name }

// ReadStaged returns a staged payload, or ErrNotFound if it was deleted.
func ReadStaged(ctx context.Context, b Bucket, key string) ([]byte, error) {
	data, err := readRetried(ctx, newRetry(Retry{}), func(ctx context.Context) ([]byte, error) { return b.Get(ctx, key) })
	if err != nil {
		return nil, fmt.Errorf("read staged object: %w", err)
	}
	return data, nil
}

// DeleteStaged deletes the payloads of members that are gone. It tries all and returns the joined
// errors.
func DeleteStaged(ctx context.Context, b Bucket, gone func(member string) bool) error {
	var errs []error
	err := listAll(ctx, b, newRetry(Retry{}), ListQuery{Prefix: stagedRoot}, func(page []ListedKey) error {
		for _, k := range page {
			member, _, ok := strings.Cut(strings.TrimPrefix(k.Key, stagedRoot), "/")
			if !ok || !gone(member) {
				continue
			}
			if err := b.Delete(ctx, k.Key); err != nil {
				errs = append(errs, fmt.Errorf("delete staged object: %w", err))
			}
		}
		return nil
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("list staged objects: %w", err))
	}
	return errors.Join(errs...)
}
