package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const formatKey = "format.json"

// stamp is the content of format.json.
type stamp struct {
	SchemaVersion int `json:"schemaVersion"`
	MinWriter     int `json:"minWriter"` // Lowest version that may write here.
}

// EnsureFormat checks that this version wrote the bucket, and stamps the bucket if it holds only
// objects of probes. It must succeed before any other access. A [*FormatError] means that the bucket
// belongs to another version or program; nothing was changed. A [*ProbeError] means that the store
// cannot create the stamp correctly. Any number of nodes may call it concurrently.
func EnsureFormat(ctx context.Context, b Bucket) error {
	r := newRetry(Retry{})
	stamped, err := readFormat(ctx, b, r)
	if stamped || err != nil {
		return err
	}
	data, err := json.Marshal(stamp{SchemaVersion: SchemaVersion, MinWriter: SchemaVersion})
	if err != nil {
		return fmt.Errorf("stamp bucket: %w", err)
	}
	o, err := newProber(b, r, "").create(ctx, formatKey, append(data, '\n'))
	var flaw *probeFlaw
	switch {
	case errors.As(err, &flaw):
		err = &ProbeError{Check: probeCreate, Found: flaw.found, Need: needCreate}
	case err == nil && o == won:
		return nil
	case err == nil:
		if err = checkFormat(ctx, b, r); !errors.Is(err, ErrNotFound) {
			return err
		}
		err = &ProbeError{Check: probeCreate, Need: needCreate, Found: fmt.Sprintf(
			"it answered a create of %s with 412, although the object does not exist", formatKey)}
	}
	return fmt.Errorf("stamp bucket: %w", err)
}

// CheckFormat is [EnsureFormat] without writes. It reports whether the bucket has the stamp of this
// version. False without an error means that the bucket holds only objects of probes.
func CheckFormat(ctx context.Context, b Bucket) (stamped bool, err error) {
	return readFormat(ctx, b, newRetry(Retry{}))
}

func readFormat(ctx context.Context, b Bucket, r *retry) (stamped bool, err error) {
	if err := checkFormat(ctx, b, r); !errors.Is(err, ErrNotFound) {
		return err == nil, err
	}
	key, err := firstData(ctx, b, r)
	if err != nil {
		return false, fmt.Errorf("check format: %w", err)
	}
	if key == "" {
		return false, nil
	}
	// Another node may have stamped the bucket and written to it since the first read.
	if err := checkFormat(ctx, b, r); !errors.Is(err, ErrNotFound) {
		return err == nil, err
	}
	return false, &FormatError{StoredVersion: 0, SupportedVersion: SchemaVersion, Reason: fmt.Sprintf(
		"it holds %q but no %s; use an empty bucket or another prefix", key, formatKey)}
}

// firstData returns a key that no probe has stored, "" if there is none. Objects of an interrupted
// probe do not make a bucket count as used.
func firstData(ctx context.Context, b Bucket, r *retry) (string, error) {
	q := ListQuery{Limit: 1} // Nearly always enough.
	for {
		page, err := readRetried(ctx, r, func(ctx context.Context) (ListPage, error) { return b.List(ctx, q) })
		if err != nil {
			return "", err
		}
		for _, k := range page.Keys {
			switch {
			case !strings.HasPrefix(k.Key, probePrefix):
				return k.Key, nil
			case k.Key <= q.After:
				return "", &ProbeError{Check: probeStartAfter, Need: needList, Found: fmt.Sprintf("a listing after %s had %s", q.After, k.Key)}
			}
		}
		if !page.More || len(page.Keys) == 0 {
			return "", nil
		}
		q = ListQuery{After: page.Keys[len(page.Keys)-1].Key}
	}
}

// checkFormat returns nil for the stamp of this version, a *FormatError for any other, and ErrNotFound
// if there is none.
func checkFormat(ctx context.Context, b Bucket, r *retry) error {
	s, err := readDecoded(ctx, r.reads(b, formatKey), decodeStamp)
	var format *FormatError
	switch {
	case errors.As(err, &format):
		return format
	case err != nil:
		return fmt.Errorf("read format: %w", err)
	case s.SchemaVersion < SchemaVersion:
		return &FormatError{s.SchemaVersion, SchemaVersion, "the bucket is older; run the version that wrote it and import its conversations by \"parley import flue\", or use an empty bucket"}
	case s.SchemaVersion > SchemaVersion, s.MinWriter > SchemaVersion:
		return &FormatError{s.SchemaVersion, SchemaVersion, fmt.Sprintf(
			"writers need version %d; upgrade this program", max(s.SchemaVersion, s.MinWriter))}
	}
	return nil
}

// decodeStamp decodes the content of format.json. An HTML page comes from a proxy and is not taken for
// the stamp.
func decodeStamp(data []byte) (s stamp, err error) {
	switch err := json.Unmarshal(data, &s); {
	case err == nil && s.SchemaVersion > 0:
		return s, nil
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")):
		return s, &Error{Op: OpGet, Key: formatKey, Kind: ErrUnavailable, Err: &AnswerError{
			Found:  fmt.Sprintf("%s is an HTML page that begins with %.40q", formatKey, data),
			Remedy: "if a proxy or login page answers, connect to the store directly; if another program stored the page, restore the object",
		}}
	}
	return s, &FormatError{StoredVersion: -1, SupportedVersion: SchemaVersion, Reason: fmt.Sprintf(
		"%s is unreadable; restore it or use an empty bucket", formatKey)}
}
