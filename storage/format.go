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

// EnsureFormat checks that the bucket was written by this version, and stamps it
// if it holds nothing but what probes left. It must succeed before anything else
// touches the bucket. A [*FormatError] says the bucket belongs to another version,
// or to something else; nothing was changed. A [*ProbeError] says the store cannot
// even create the stamp as it should. Any number of nodes may call it at once.
func EnsureFormat(ctx context.Context, b Bucket) error {
	r := newRetry(Retry{})
	stamped, err := lookFormat(ctx, b, r)
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
			"it refused to create %s, as if it were there, and has no such object", formatKey)}
	}
	return fmt.Errorf("stamp bucket: %w", err)
}

// CheckFormat is EnsureFormat without the stamp: it changes nothing, and reports
// whether the bucket has this version's. Without one and without an error the
// bucket holds nothing but what probes left.
func CheckFormat(ctx context.Context, b Bucket) (stamped bool, err error) {
	return lookFormat(ctx, b, newRetry(Retry{}))
}

func lookFormat(ctx context.Context, b Bucket, r *retry) (stamped bool, err error) {
	if err := checkFormat(ctx, b, r); !errors.Is(err, ErrNotFound) {
		return err == nil, err
	}
	key, err := firstData(ctx, b, r)
	if err != nil {
		return false, fmt.Errorf("look into bucket: %w", err)
	}
	if key == "" {
		return false, nil
	}
	// Another node may have stamped it, and written, since the first look.
	if err := checkFormat(ctx, b, r); !errors.Is(err, ErrNotFound) {
		return err == nil, err
	}
	return false, &FormatError{StoredVersion: 0, SupportedVersion: SchemaVersion, Reason: fmt.Sprintf(
		"it holds %q and no %s; use an empty bucket, or a prefix of its own", key, formatKey)}
}

// firstData returns a key that no probe has stored, "" if there is none. A probe
// that was interrupted must not make an empty bucket look like somebody's.
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

// checkFormat returns nil if the stamp is this version's, a *FormatError if it is
// not, and ErrNotFound if there is none.
func checkFormat(ctx context.Context, b Bucket, r *retry) error {
	s, err := readDecoded(ctx, r.reads(b, formatKey), decodeStamp)
	var format *FormatError
	switch {
	case errors.As(err, &format):
		return format
	case err != nil:
		return fmt.Errorf("read format: %w", err)
	case s.SchemaVersion < SchemaVersion:
		return &FormatError{s.SchemaVersion, SchemaVersion, "it is older; run the version that wrote it and bring its conversations over by \"parley import flue\", or use an empty bucket"}
	case s.SchemaVersion > SchemaVersion, s.MinWriter > SchemaVersion:
		return &FormatError{s.SchemaVersion, SchemaVersion, fmt.Sprintf(
			"it needs version %d to write; upgrade this program", max(s.SchemaVersion, s.MinWriter))}
	}
	return nil
}

// decodeStamp decodes the content of format.json. A page is what a proxy answers with, and
// says nothing about the bucket.
func decodeStamp(data []byte) (s stamp, err error) {
	switch err := json.Unmarshal(data, &s); {
	case err == nil && s.SchemaVersion > 0:
		return s, nil
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")):
		return s, &Error{Op: OpGet, Key: formatKey, Kind: ErrUnavailable, Err: &AnswerError{
			Found:  fmt.Sprintf("%s is a page that begins with %.40q", formatKey, data),
			Remedy: "if a proxy or a login page answers in the place of the store, connect to the store itself; if another program stored the page, restore the object",
		}}
	}
	return s, &FormatError{StoredVersion: -1, SupportedVersion: SchemaVersion, Reason: fmt.Sprintf(
		"%s is not readable; restore it, or use an empty bucket", formatKey)}
}
