package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

const formatKey = "format.json"

// stamp is the content of format.json.
type stamp struct {
	SchemaVersion int `json:"schemaVersion"`
	MinWriter     int `json:"minWriter"` // Lowest version that may write here.
}

// EnsureFormat checks that the bucket was written by this version, and stamps it
// if it holds nothing at all. It must succeed before anything else touches the
// bucket. A [*FormatError] says the bucket belongs to another version, or to
// something else; nothing was changed. Any number of nodes may call it at once.
func EnsureFormat(ctx context.Context, b Bucket) error {
	r := newRetry(Retry{})
	err := checkFormat(ctx, b, r)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	page, err := readRetried(ctx, r, func(ctx context.Context) (ListPage, error) {
		return b.List(ctx, ListQuery{Limit: 1})
	})
	if err != nil {
		return fmt.Errorf("look into bucket: %w", err)
	}
	if len(page.Keys) > 0 {
		// Another node may have stamped it, and written, since the first look.
		if err = checkFormat(ctx, b, r); !errors.Is(err, ErrNotFound) {
			return err
		}
		return &FormatError{StoredVersion: 0, SupportedVersion: SchemaVersion, Reason: fmt.Sprintf(
			"it holds %q and no %s; use an empty bucket, or a prefix of its own", page.Keys[0].Key, formatKey)}
	}
	data, err := json.Marshal(stamp{SchemaVersion: SchemaVersion, MinWriter: SchemaVersion})
	if err != nil {
		return fmt.Errorf("stamp bucket: %w", err)
	}
	err = createResolved(ctx, b, r, formatKey, func() Body { return Bytes(append(data, '\n')) })
	switch {
	case errors.Is(err, ErrExists):
		return checkFormat(ctx, b, r)
	case err != nil:
		return fmt.Errorf("stamp bucket: %w", err)
	}
	return nil
}

// checkFormat returns nil if the stamp is this version's, a *FormatError if it is
// not, and ErrNotFound if there is none.
func checkFormat(ctx context.Context, b Bucket, r *retry) error {
	data, err := readRetried(ctx, r, func(ctx context.Context) ([]byte, error) { return b.Get(ctx, formatKey) })
	if err != nil {
		return fmt.Errorf("read format: %w", err)
	}
	var s stamp
	if err := json.Unmarshal(data, &s); err != nil || s.SchemaVersion <= 0 {
		return &FormatError{StoredVersion: -1, SupportedVersion: SchemaVersion, Reason: fmt.Sprintf(
			"%s is not readable; restore it, or use an empty bucket", formatKey)}
	}
	switch {
	case s.SchemaVersion < SchemaVersion:
		return &FormatError{s.SchemaVersion, SchemaVersion, "it is older; run the version that wrote it, or use an empty bucket"}
	case s.SchemaVersion > SchemaVersion, s.MinWriter > SchemaVersion:
		return &FormatError{s.SchemaVersion, SchemaVersion, fmt.Sprintf(
			"it needs version %d to write; upgrade this program", max(s.SchemaVersion, s.MinWriter))}
	}
	return nil
}
